from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesweep.app import App
from lakesweep.config.file import config_from_values
from lakesweep.errors import ConfigError
from lakesweep.server.service import ServeRequest, serve


def _app(folder: Path, **server: Any) -> App:
    values = {"store": {"url": "memory:"}, "server": server}
    return App(config_from_values(values), folder=folder)


def _refused(app: App, host: str, port: int, heard: Callable[[str], object] = print) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        serve(app, ServeRequest(host, port, 1), heard)
    return refused.value


def test_a_port_that_is_taken_is_named_with_the_next_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = _refused(_app(tmp_path), "127.0.0.1", port)
    assert error.message == f"port {port} of 127.0.0.1 is taken by another process"
    assert error.hint == f"lakesweep serve --port {port + 1}"


def test_a_host_that_does_not_exist_or_is_not_ours_is_told(tmp_path: Path) -> None:
    app = _app(tmp_path, oidc={"issuer": "http://127.0.0.1:1", "audience": "a"})
    for host in ("no.such.host.invalid", "192.0.2.1"):
        error = _refused(app, host, 0)
        assert host in error.message
        assert error.hint


def test_a_certificate_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    app = _app(tmp_path, certificate="none.pem", key="none.pem")
    assert "certificate" in _refused(app, "127.0.0.1", 0).message


def test_it_says_that_everyone_on_this_machine_may_use_it(tmp_path: Path) -> None:
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        _refused(_app(tmp_path), "127.0.0.1", taken.getsockname()[1], heard.append)
    assert "everyone on this machine" in heard[0]
