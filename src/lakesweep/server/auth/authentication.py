"""Who makes a request: by a token of the store, by one of an OIDC issuer, or anyone.

Anyone may do anything if the service listens on the loopback address only, no token was ever made
and no issuer is configured. The first token closes it, for all services over the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

import msgspec

from lakesweep.app import App
from lakesweep.catalog.access.access_control import AccessControl
from lakesweep.catalog.access.service_tokens import PREFIX, ServiceRole, TokenRecord
from lakesweep.catalog.entities import Principal
from lakesweep.catalog.grants import Privilege
from lakesweep.clock import moment
from lakesweep.errors import ConfigError, EntityMissingError
from lakesweep.operations.catalogs.views import find_principal, open_catalogs
from lakesweep.server.auth.oidc import InvalidTokenError, OidcVerifier, SignInAttempt
from lakesweep.server.auth.throttle import LoginThrottle
from lakesweep.server.http.origins import is_loopback
from lakesweep.server.http.problems import HttpError

#: How long a principal may work before it has to log in again.
SESSION = timedelta(hours=1)
#: How long a browser may be used that was signed in with a token.
BROWSER_SESSION = timedelta(hours=8)
_CHALLENGE = {"www-authenticate": 'Bearer realm="lakesweep"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, as records name them.

    A principal without a role may use what it was granted in catalogs, and nothing else.
    """

    name: str
    role: ServiceRole | None
    principal: Principal | None = None

    def covers(self, needed: ServiceRole) -> bool:
        """Whether the caller may do what a role may."""
        return self.role is not None and self.role.covers(needed)


#: Nobody in particular, on the machine that the service runs on.
ANYONE = Caller("anyone on this machine", ServiceRole.ADMIN)


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a principal, as OAuth 2 describes it."""

    access_token: str
    token_type: str = "bearer"  # noqa: S105 - the name of a kind
    expires_in: int


@dataclass
class Authenticator:
    """Knows all ways to authenticate. `host` is what the service listens on."""

    app: App
    host: str
    oidc: OidcVerifier | None
    throttle: LoginThrottle

    @classmethod
    def of(cls, app: App, host: str) -> Authenticator:
        """As the configuration says."""
        section = app.config.server.oidc
        oidc = None if section is None else OidcVerifier(section, app.clock)
        return cls(app, host, oidc, LoginThrottle(app.clock))

    @property
    def is_open(self) -> bool:
        """Whether anyone may do anything."""
        return self.oidc is None and is_loopback(self.host) and self.app.tokens.is_empty

    def check_closed(self) -> None:
        """ConfigError if the service would be open to other machines."""
        if not is_loopback(self.host) and self.oidc is None and self.app.tokens.is_empty:
            raise ConfigError(
                f"the service would be open to everyone who reaches {self.host}",
                hint="lakesweep token create NAME --role admin, then start it again;"
                " or configure [server.oidc]",
            )

    def authenticate(self, headers: Mapping[str, str], address: str) -> Caller:
        """The caller. HttpError (401) if the token is missing or not valid."""
        given = headers.get("authorization")
        if given is None:
            if self.is_open:
                return ANYONE
            raise _refused("this service needs a token")
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _refused("the header Authorization is not a bearer token")
        caller = self._caller(token.strip())
        if caller is not None:
            return caller
        if self.is_open:
            return ANYONE  # clients send tokens even if nobody asks for them
        self.throttle.check(address)
        self.throttle.failed(address)
        raise _refused("the token is not valid, or has ended")

    def _caller(self, token: str) -> Caller | None:
        if token.startswith(PREFIX):
            found = self.app.tokens.find(token)
            return None if found is None else self._holder(found)
        if self.oidc is None or token.count(".") != 2:
            return None
        try:
            name, role = self.oidc.verify(token)
        except InvalidTokenError:
            return None
        if role is None:
            raise _roleless()
        return Caller(name, role)

    def _holder(self, token: TokenRecord) -> Caller | None:
        """Who holds a token; what a principal may do is looked up each time."""
        if token.principal is None:
            return Caller(token.name if token.parent is None else token.created_by, token.role)
        try:
            principal = find_principal(open_catalogs(self.app, None), token.principal)
        except EntityMissingError:
            return None
        if principal.created_at > token.created_at:
            return None  # another one took the name
        if token.salt is not None and token.salt not in {each.salt for each in principal.secrets}:
            return None  # the secret was revoked
        return Caller(principal.name, self._role_of(principal), principal)

    def caller_of(self, token: str) -> Caller | None:
        """Who holds a token; None if it is not valid, or gives no role."""
        caller = self._caller(token)
        return None if caller is None or caller.role is None else caller

    def begin_session(self, token: str, address: str) -> AccessToken:
        """A session for whoever shows a token; it ends with that token at the latest."""
        self.throttle.check(address)
        now = self.app.clock.now()
        found = self.app.tokens.find(token) if token.startswith(PREFIX) else None
        caller = None if found is None else self._holder(found)
        if found is None or caller is None or caller.role is None or found.is_session:
            self.throttle.failed(address)
            raise _refused("the token is not valid, or has ended")
        self.throttle.succeeded(address)
        ends = min(now + BROWSER_SESSION, moment(found.expires_at))
        name = f"browser of {found.name}"
        _, text = self.app.tokens.create(name, found.role, ends, found.name, parent=found.token)
        return AccessToken(access_token=text, expires_in=int((ends - now).total_seconds()))

    def begin_oidc_session(
        self, attempt: SignInAttempt, code: str, redirect: str, address: str
    ) -> AccessToken:
        """A session for whoever signed in at the issuer; it ends by itself or by signing out."""
        self.throttle.check(address)
        if self.oidc is None:
            raise _refused("no issuer is configured")
        try:
            name, role = self.oidc.finish_sign_in(attempt, code, redirect)
        except InvalidTokenError as error:
            self.throttle.failed(address)
            raise _refused(f"the issuer did not confirm who you are: {error}") from None
        if role is None:
            raise _roleless()
        self.throttle.succeeded(address)
        ends = self.app.clock.now() + BROWSER_SESSION
        _, text = self.app.tokens.create(f"browser of {name}", role, ends, name, is_own_parent=True)
        return AccessToken(access_token=text, expires_in=int(BROWSER_SESSION.total_seconds()))

    def end_session(self, token: str, by: str) -> None:
        """End a session, if it has not ended already."""
        found = self.app.tokens.find(token)
        if found is not None and found.is_session:
            self.app.tokens.revoke(found.token, by)

    def log_in(
        self, client_id: str, secret: str, address: str, *, needs_role: bool = True
    ) -> AccessToken:
        """A session for a principal that knows its secret."""
        self.throttle.check(address)
        try:
            principal, salt = open_catalogs(self.app, None).principals.verify(client_id, secret)
        except EntityMissingError:
            self.throttle.failed(address)
            raise _refused("no principal has this client id and this secret") from None
        role = self._role_of(principal)
        if role is None and needs_role:
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                f"principal {principal.name} has no role for the service",
                hint=f"lakesweep catalog role create {ServiceRole.VIEWER}, then grant its use to"
                f" principal:{principal.name}",
            )
        self.throttle.succeeded(address)
        _, text = self.app.tokens.create(
            f"session of {principal.name}",
            role or ServiceRole.VIEWER,  # what it may do is looked up each time
            self.app.clock.now() + SESSION,
            principal.name,
            principal.name,
            salt=salt,
        )
        return AccessToken(access_token=text, expires_in=int(SESSION.total_seconds()))

    def _role_of(self, principal: Principal) -> ServiceRole | None:
        """The highest role whose namesake among the principal roles it may use.

        Whoever may manage the realm is an admin.
        """
        access = AccessControl(open_catalogs(self.app, None))
        if access.may(principal, Privilege.MANAGE_REALM):
            return ServiceRole.ADMIN
        names = {role.name for role in access.principal_roles(principal)}
        held = [role for role in ServiceRole if role.value in names]
        return held[-1] if held else None


def check_role(caller: Caller, needed: ServiceRole) -> None:
    """HttpError (403) unless a caller may do what a role may."""
    if not caller.covers(needed):
        held = "no role" if caller.role is None else f"the role {caller.role}"
        raise HttpError(
            HTTPStatus.FORBIDDEN,
            f"this needs the role {needed}, and {caller.name} has {held}",
            hint=f"lakesweep token create NAME --role {needed}",
        )


def _roleless() -> HttpError:
    return HttpError(
        HTTPStatus.FORBIDDEN,
        "the token gives no role here",
        hint="[server.oidc] roles says which values of its claim give one",
    )


def _refused(detail: str) -> HttpError:
    return HttpError(
        HTTPStatus.UNAUTHORIZED,
        detail,
        hint="send Authorization: Bearer TOKEN; lakesweep token create makes one",
        headers=_CHALLENGE,
    )
