from __future__ import annotations

import pytest

from lakesweep.errors import ConfigError
from lakesweep.server.http.origins import TrustedProxies, check_same_site, is_loopback
from lakesweep.server.http.problems import HttpError


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"])
def test_this_machine_only(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "", "localhost.evil"])
def test_other_machines_too(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),  # not a proxy of ours: it may lie
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.66, 198.51.100.1"], "198.51.100.1"),  # the first was made up
        ("10.0.0.1", ["192.0.2.66", "198.51.100.1"], "198.51.100.1"),  # so was this one
        ("10.0.0.1", ["198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.2"], "10.0.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_no_trusted_proxy_has(
    peer: str, forwarded: list[str], client: str
) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).client(peer, forwarded) == client


def test_a_proxy_is_an_address_or_a_network() -> None:
    with pytest.raises(ConfigError, match="trusted_proxies"):
        TrustedProxies(["load-balancer"]).check()


@pytest.mark.parametrize("origin", ["http://evil", "null", "http://[", "http://host:1"])
def test_a_page_of_another_site_changes_nothing(origin: str) -> None:
    with pytest.raises(HttpError, match="another site"):
        check_same_site("POST", {"host": "host", "origin": origin})
