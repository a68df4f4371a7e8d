"""Where a lakeFS server is, and the credentials to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lakesweep.errors import ConfigError
from lakesweep.storage.wrappers.run_load import Pace, no_pace


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """Where a server is, and with which credentials to use it; `pace` waits before each request."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    pace: Pace = field(default=no_pace, repr=False, compare=False)

    @property
    def url(self) -> str:
        """The base URL of its API."""
        bare = self.endpoint.rstrip("/")
        return bare if bare.endswith(_API) else bare + _API


def access_from(environment: Mapping[str, str], endpoint: str | None = None) -> ServerAccess:
    """Take missing settings from the variables of lakeFS' own tools; ConfigError if unset."""
    endpoint = endpoint or environment.get("LAKECTL_SERVER_ENDPOINT_URL")
    if not endpoint:
        raise ConfigError(
            "no lakeFS server is configured",
            hint="set LAKECTL_SERVER_ENDPOINT_URL, or give the address of a storage namespace",
        )
    if urlsplit(endpoint).scheme not in {"http", "https"}:
        bare = endpoint.rpartition("://")[2]
        raise ConfigError(
            f"the endpoint {endpoint!r} is not an http or https address",
            hint=f"write it as https://{bare}, or as http://{bare} if it has no certificate",
        )
    missing = [name for name in CREDENTIAL_VARIABLES if not environment.get(name)]
    if missing:
        raise ConfigError(
            f"the lakeFS server {endpoint} needs credentials",
            hint=f"set {' and '.join(missing)}",
        )
    key, secret = (environment[name] for name in CREDENTIAL_VARIABLES)
    return ServerAccess(endpoint, key, secret)


_API = "/api/v1"
CREDENTIAL_VARIABLES = (
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
)


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """A configured server, and the repositories configured for it."""

    endpoint: str
    repositories: tuple[str, ...] = ()
    local_root: str | None = None
    pace: Pace = field(default=no_pace, repr=False, compare=False)
