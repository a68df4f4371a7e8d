"""The one place that makes a Spark session."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from lakesweep.errors import SparkLostError, SparkSetupError

try:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from lakesweep.spark.driver import running_driver
    from lakesweep.spark.errors import translate, translating
except ImportError as error:
    raise SparkSetupError(
        "sweeps over whole lakes need the package pyspark", hint="pip install 'lakesweep[spark]'"
    ) from error

from lakesweep.spark.java import find_java
from lakesweep.spark.settings import driver_settings, is_local, session_settings
from lakesweep.spark.shipping import ship_package

if TYPE_CHECKING:
    from lakesweep.config import SparkSection

_PATIENCE_SECONDS = 10.0
_CONNECT_PORT = 15002
_MASTER_PORT = 7077
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"


@contextmanager
def open_session(
    section: SparkSection, *, given: SparkSession | None = None, verbose: bool = False
) -> Iterator[SparkSession]:
    """A session as it is configured, which ends with the block.

    A session that is given is used as it is, and left alone. What fails inside Spark leaves the
    block as an error of ours. Unless `verbose`, Spark writes nothing to the terminal.
    """
    if not verbose:
        # It tells every failure of a query a second time, as JSON.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    if given is not None:
        with translating():
            yield given
        return
    with (
        TemporaryDirectory(prefix="lakesweep-spark-") as scratch,
        _started(section, Path(scratch), verbose=verbose) as session,
        translating(),
    ):
        yield session


def _started(
    section: SparkSection, scratch: Path, *, verbose: bool
) -> AbstractContextManager[SparkSession]:
    if section.remote is None:
        return _classic(section, scratch, verbose=verbose)
    if section.remote.startswith("sc://"):
        return _connected(section, section.remote, scratch)
    return _served(section, section.remote, scratch, verbose=verbose)


@contextmanager
def _classic(section: SparkSection, scratch: Path, *, verbose: bool) -> Iterator[SparkSession]:
    find_java()
    _check_master(section.master)
    settings = driver_settings(section, section.master, scratch)
    variables = _local_address(section.master)
    with running_driver(settings, scratch, verbose=verbose, variables=variables) as session:
        if not is_local(section.master):
            ship_package(session, scratch)
        yield session


@contextmanager
def _served(
    section: SparkSection, master: str, scratch: Path, *, verbose: bool
) -> Iterator[SparkSession]:
    """A session over Spark Connect, on a server that is started for it."""
    find_java()
    port, token = _free_port(), secrets.token_hex(16)
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **driver_settings(section, master, scratch),
    }
    variables = _local_address(master) | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    url = f"sc://localhost:{port}/;token={token}"
    with (
        running_driver(settings, scratch, verbose=verbose, variables=variables),
        _connected(section, url, scratch) as session,
    ):
        yield session


@contextmanager
def _connected(section: SparkSection, url: str, scratch: Path) -> Iterator[SparkSession]:
    """A session over Spark Connect, on a server that runs."""
    _check_reachable(urlsplit(url).hostname or "", urlsplit(url).port or _CONNECT_PORT)
    os.environ[_CONNECT_MODE] = "1"  # the functions of pyspark look there
    try:
        session = _connect(section, url)
        try:
            ship_package(session, scratch)
            yield session
        finally:
            with suppress(PySparkException):
                session.stop()
    finally:
        os.environ.pop(_CONNECT_MODE, None)


def _connect(section: SparkSection, url: str) -> SparkSession:
    try:
        from pyspark.sql.connect.session import SparkSession as RemoteSession
    except ImportError as error:
        raise SparkSetupError(
            "Spark Connect needs the package grpcio", hint="pip install 'lakesweep[spark]'"
        ) from error
    conf = section.conf if section.remote == url else {}
    settings: dict[str, Any] = session_settings(conf)
    try:
        session = RemoteSession.builder.remote(url).config(map=settings).getOrCreate()
    except PySparkException as error:
        raise SparkLostError(f"Spark Connect: {translate(error).message}") from error
    return cast("SparkSession", session)


def _check_master(master: str) -> None:
    """A cluster that nobody can reach is found out now; Spark would try for a minute."""
    if not master.startswith("spark://"):
        return
    failure = None
    for part in master.removeprefix("spark://").split(","):
        one = urlsplit(f"//{part}")
        try:
            _check_reachable(one.hostname or "", one.port or _MASTER_PORT)
        except SparkLostError as error:
            failure = failure or error
        else:
            return
    if failure is not None:
        raise failure


def _check_reachable(host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=_PATIENCE_SECONDS).close()
    except OSError as error:
        raise SparkLostError(
            f"nothing answers at {host}:{port}: {error.strerror or error}",
            hint="check [spark] in the configuration, and that Spark runs there",
        ) from error


def _local_address(master: str) -> dict[str, str]:
    return {"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(master) else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
