"""What handlers of Iceberg's protocol receive and return, and how a path is told apart.

A path is split before it is decoded, since names may hold `/`. The parts of a namespace are joined
by 0x1F, which no name can hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes
from uuid import UUID

import msgspec

from lakesweep.app import App
from lakesweep.catalog.access.access_control import AccessControl
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.commits import Remember
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.warehouse.metadata_files import MetadataFiles
from lakesweep.catalog.warehouse.problems import (
    Path,
    ProblemType,
    WarehouseError,
    bad_request,
    dotted,
)
from lakesweep.catalog.warehouse.warehouse import (
    MOST_NAMES,
    CommitTurns,
    IcebergWarehouse,
    LoadedEntity,
)
from lakesweep.decoding import typed_json
from lakesweep.errors import EntityMissingError, LakesweepError
from lakesweep.operations.catalogs.views import open_catalogs
from lakesweep.server.auth.authentication import Authenticator, Caller
from lakesweep.server.http.problems import HttpError
from lakesweep.untrusted.documents import JSON_ERRORS, parse_long

SEPARATOR = "\x1f"
_READS = frozenset({Privilege.LIST, Privilege.READ_METADATA, Privilege.READ_DATA})
_JAVA = "Apache Iceberg"
_SORTED_UUID = 7
_PYICEBERG = "PyIceberg/"
#: What a path calls the entity that it is about.
_NAMED = frozenset({"table", "view", "generic-table", "policy-name"})

Body = TypeVar("Body", bound=msgspec.Struct)


class Target(StrEnum):
    """What a privilege is needed on."""

    CATALOG = "catalog"
    NAMESPACE = "namespace"
    ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class IcebergSurroundings:
    """What all calls share."""

    app: App
    authenticator: Authenticator
    files: MetadataFiles
    endpoints: Sequence[str]
    turns: CommitTurns = field(default_factory=CommitTurns)


@dataclass(frozen=True)
class IcebergCall:
    """One call: who makes it, its path in parts that are still encoded, its query and its body."""

    around: IcebergSurroundings
    caller: Caller
    parts: Mapping[str, bytes]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    address: str = ""
    #: The method and the path as they were sent.
    target: bytes = b""

    @cached_property
    def catalogs(self) -> Catalogs:
        """The catalogs of the configured realm."""
        return open_catalogs(self.around.app, None)

    @cached_property
    def warehouse(self) -> IcebergWarehouse:
        """The catalog that the path is about."""
        catalog = find_catalog(self.catalogs, self.name("prefix"))
        around = self.around
        return IcebergWarehouse(
            catalog, around.files, around.app.clock, self.caller.name, around.turns, self.request
        )

    @cached_property
    def request(self) -> Remember | None:
        """What the client calls this request, so that it can send it again."""
        given = self.headers.get("idempotency-key")
        if given is None:
            return None
        try:
            key = UUID(given)
        except ValueError:
            key = None
        # Its time comes first in it, by which old ones are found again to forget them.
        if key is None or key.version != _SORTED_UUID:
            raise bad_request("Idempotency-Key is a UUID of version 7")
        parts = (self.caller.name.encode(), self.target, self.body)
        asked = hashlib.sha256(b"\0".join(parts)).digest()
        return Remember(key.bytes, asked)

    @cached_property
    def namespace(self) -> Path:
        """The namespace in the path."""
        return tuple(self.name("namespace").split(SEPARATOR))

    @cached_property
    def path(self) -> Path:
        """The table or view in the path."""
        return (*self.namespace, self.name("name"))

    def path_of(self, loaded: LoadedEntity) -> Path:
        """Where a table is that this call is about; a new one has its name in the body."""
        if "name" in self.parts or loaded.entity is None:
            return self.path if "name" in self.parts else self.namespace
        return (*self.namespace, loaded.entity.name)

    def relative_path(self, path: Path) -> str:
        """The path of a table, from the address of the service on, as clients put it together."""
        namespace, name = quote(SEPARATOR.join(path[:-1]), safe=""), quote(path[-1], safe="")
        return f"v1/{self.warehouse.catalog.id}/namespaces/{namespace}/tables/{name}"

    def name(self, part: str) -> str:
        """One step of the path. Iceberg's own client writes a space as `+`, others mean a plus."""
        raw = self.parts[part]
        if self.headers.get("x-client-version", "").startswith(_JAVA):
            raw = raw.replace(b"+", b" ")
        try:
            return unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            raise bad_request("a name in the path is not UTF-8") from None

    def sent_name(self, name: str) -> str:
        """A name of a view in a body. PyIceberg sends it as it stands in paths."""
        is_quoted = self.headers.get("user-agent", "").startswith(_PYICEBERG)
        return unquote(name) if is_quoted else name

    def decode(self, kind: type[Body]) -> Body:
        """The body; WarehouseError if it is not what it should be."""
        try:
            return typed_json(self.body, kind)
        except JSON_ERRORS as error:
            raise bad_request(f"Malformed request: {error}") from None

    def flag(self, name: str) -> bool:
        """A switch in the query, which clients spell in several ways."""
        return self.query.get(name, "").lower() == "true"

    def page(self) -> tuple[str | None, int | None]:
        """Which page of a listing is asked for: its token, and how many names it may have."""
        size = self.query.get("pageSize")
        if size is None:
            return self.query.get("pageToken"), None
        number = parse_long(size)
        if number is None or number < 1:
            raise bad_request("pageSize is a number above 0")
        return self.query.get("pageToken"), min(number, MOST_NAMES)

    def check(self, privilege: Privilege, path: Path = ()) -> None:
        """WarehouseError (403) unless the caller may do this.

        For what does not exist, the right to the nearest thing above it counts, so that names can
        be probed only by those who may see them.
        """
        if not self.may(privilege, path):
            on = dotted(path) or self.warehouse.catalog.name
            raise WarehouseError(
                ProblemType.FORBIDDEN, f"{self.caller.name} needs {privilege} on {on}"
            )

    def may(self, privilege: Privilege, path: Path) -> bool:
        """Whether the caller has a privilege on something, or on what is above it."""
        caller = self.caller
        if caller.principal is None:
            needed = ServiceRole.VIEWER if privilege in _READS else ServiceRole.OPERATOR
            return caller.covers(needed)
        catalog = self.warehouse.catalog
        entries = catalog.snapshot(fresh=True).entries
        depth = len(path)
        while depth and entries.find(path[:depth]) is None:
            depth -= 1
        access = AccessControl(self.catalogs)
        return access.may(caller.principal, privilege, catalog, path[:depth] or None)


@dataclass(frozen=True, slots=True)
class IcebergReply:
    """An answer. Without a body it has the status 204, unless another is given."""

    body: bytes | None = None
    status: HTTPStatus | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IcebergRoute:
    """A row of the table of routes. Handlers check what `privilege` does not say."""

    method: str
    template: str
    handler: Callable[[IcebergCall], IcebergReply]
    privilege: Privilege | None = None
    target: Target = Target.CATALOG
    is_commit: bool = False
    #: Answers a request that was carried out before, if its answer was not kept.
    replay: Callable[[IcebergCall], IcebergReply] | None = None

    def respond(self, call: IcebergCall) -> IcebergReply:
        """Carry out a call that may be made; at most once, if its client can send it again."""
        self.authorize(call)
        request = call.request if self.method in ("POST", "PUT", "DELETE") else None
        if request is None:
            return self.handler(call)
        found = self._again(call, request)
        if found is not None:
            return found
        try:
            return self.handler(call)
        except LakesweepError:
            # It may have failed only because it was carried out meanwhile.
            found = self._again(call, request)
            if found is None:
                raise
            return found

    def _again(self, call: IcebergCall, request: Remember) -> IcebergReply | None:
        if "prefix" not in call.parts:
            return None
        done = call.warehouse.answered(request)
        if done is None:
            return None
        if done.asked != request.asked:
            raise WarehouseError(
                ProblemType.UNPROCESSABLE, "this Idempotency-Key was used for another request"
            )
        if done.answer:
            return IcebergReply(done.answer)
        return IcebergReply() if self.replay is None else self.replay(call)

    def authorize(self, call: IcebergCall) -> None:
        """WarehouseError unless the caller may make this call."""
        if self.privilege is None:
            return
        match self.target:
            case Target.CATALOG:
                call.check(self.privilege)
            case Target.NAMESPACE:
                call.check(self.privilege, call.namespace)
            case Target.ENTITY:
                call.check(self.privilege, call.path)


class IcebergRouter:
    """Finds the route of a path as it was sent, below `/iceberg`."""

    def __init__(self, routes: Sequence[IcebergRoute]) -> None:
        self._routes = [(route, route.template.encode().split(b"/")) for route in routes]

    def find(self, method: str, path: bytes) -> tuple[IcebergRoute, Mapping[str, bytes]]:
        """The route and the parts of its path. HttpError (404, 405) if there is none."""
        steps = path.split(b"/")
        allowed = set()
        for route, template in self._routes:
            parts = _match(template, steps)
            if parts is None:
                continue
            if route.method == method:
                return route, parts
            allowed.add(route.method)
        if allowed:
            methods = ", ".join(sorted(allowed))
            raise HttpError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{method} is not allowed here; allowed are {methods}",
                headers={"allow": methods},
            )
        raise HttpError(HTTPStatus.NOT_FOUND, "there is no such endpoint")


def _match(template: Sequence[bytes], steps: Sequence[bytes]) -> Mapping[str, bytes] | None:
    if len(template) != len(steps):
        return None
    parts: dict[str, bytes] = {}
    for expected, step in zip(template, steps, strict=True):
        if not expected.startswith(b"{"):
            if expected != step:
                return None
        elif not step:
            return None
        else:
            name = expected.strip(b"{}").decode()
            parts["name" if name in _NAMED else name] = step
    return parts


def parse_parameters(text: bytes) -> Mapping[str, str]:
    """The query of a request; clients may add parameters that nobody knows."""
    try:
        return dict(parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict"))
    except ValueError:
        raise bad_request("the query is not UTF-8") from None


def find_catalog(catalogs: Catalogs, name: str) -> Catalog:
    """A catalog by its id or its name. WarehouseError if there is none in use."""
    try:
        number = parse_long(name)
        if number is not None and number > 0:
            catalog = catalogs.open_id(number, fresh=True)
            if catalog.is_active:
                return catalog
    except EntityMissingError:
        pass
    try:
        catalogs.snapshot(fresh=True)
        return catalogs.open(name)
    except EntityMissingError:
        raise WarehouseError(
            ProblemType.NO_SUCH_WAREHOUSE, f"Warehouse does not exist: {name}"
        ) from None


def encoded(value: object) -> IcebergReply:
    """An answer with a JSON body."""
    return IcebergReply(msgspec.json.encode(value))
