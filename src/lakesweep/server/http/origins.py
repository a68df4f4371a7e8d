"""Where a request comes from: its address behind proxies, its host, and other web sites.

A service that is open on the loopback address can be reached by every page in a browser on the same
machine. So the host must be a name of this machine, which defeats DNS rebinding, and a page of
another site may change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from lakesweep.errors import ConfigError
from lakesweep.server.http.problems import HttpError

_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_HOPS = 20


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address to listen on."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(headers: Mapping[str, str], host: str) -> None:
    """HttpError unless the request names this machine, or the address listened on."""
    told = _host_name(headers.get("host", ""))
    if told not in _OWN_NAMES and told != host.strip("[]").lower():
        raise HttpError(
            HTTPStatus.FORBIDDEN,
            "this service is open to this machine only, and the request names another host",
            hint="use http://127.0.0.1, or create a token: lakesweep token create NAME",
        )


def check_same_site(method: str, headers: Mapping[str, str]) -> None:
    """HttpError if a page of another site wants to change something."""
    if method in _READS:
        return
    origin = headers.get("origin")
    is_own = origin is None or _netloc(origin) == headers.get("host", "").lower()
    if not is_own or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise HttpError(HTTPStatus.FORBIDDEN, "a page of another site may change nothing here")


def _netloc(origin: str) -> str | None:
    """The host and the port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """A host header without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


@dataclass(frozen=True)
class TrustedProxies:
    """Proxies whose word about the client is believed: addresses and networks."""

    names: Sequence[str]

    @cached_property
    def _networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        try:
            return tuple(ip_network(name) for name in self.names)
        except ValueError as error:
            raise ConfigError(
                f"[server] trusted_proxies: {error}", hint='trusted_proxies = ["10.0.0.0/8"]'
            ) from None

    def check(self) -> None:
        """ConfigError if one is not an address or a network."""
        _ = self._networks

    def client(self, peer: str, forwarded: Sequence[str]) -> str:
        """The address of the client: the last one that no trusted proxy has.

        `forwarded` are all headers of that name. Some proxies add one of their own rather than
        to the one that the client sent, and only what the last proxy said can be believed.
        """
        hops = [*",".join(forwarded).split(",")[-_MOST_HOPS:], peer]
        for hop in reversed(hops):
            address = hop.strip()
            if not self._is_trusted(address):
                return address or peer
        return peer

    def _is_trusted(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)
