"""Open the Spark session: the only place that makes one.

An archive of the Java classes that Spark loads halves its start-up time. Java writes the archive on
exit, which takes some seconds, so only `doctor` makes one. Java itself checks whether an archive
fits, and ignores one that does not.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pyspark

from lakesweep.errors import SparkLostError, SparkSetupError
from lakesweep.private_folders import cache_home, make_private
from lakesweep.spark.java import find_java
from lakesweep.spark.settings import driver_settings, is_local, session_settings, ship_package

if TYPE_CHECKING:
    from lakesweep.config import SparkSection


#: Java would map the archive at a random address, and rewrite all of it for that. A Java that does
#: not know the option ignores it, because Spark tells it to.
_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


try:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from lakesweep.spark.driver import running_driver
    from lakesweep.spark.error_translation import translate, translating
except ImportError as error:
    raise SparkSetupError(
        "sweeps over whole lakes need the package pyspark", hint="pip install 'lakesweep[spark]'"
    ) from error


_NOTHING: Mapping[str, str] = MappingProxyType({})
_PATIENCE_SECONDS = 10.0
_CONNECT_PORT = 15002
_MASTER_PORT = 7077
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"


@contextmanager
def open_session(
    section: SparkSection,
    *,
    given: SparkSession | None = None,
    verbose: bool = False,
    is_rehearsal: bool = False,
) -> Iterator[SparkSession]:
    """A session as configured, which ends with the block.

    A session that is passed in is used unchanged and not stopped. Failures inside Spark leave the
    block as our errors. Unless `verbose`, Spark writes nothing to the terminal. A rehearsal takes
    longer to end, and makes later sessions start faster.
    """
    if not verbose:
        # It would log every failed query again, as JSON.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    if given is not None:
        with translating():
            yield given
        return
    with (
        TemporaryDirectory(prefix="lakesweep-spark-") as scratch,
        _started(section, _Start(Path(scratch), verbose, is_rehearsal)) as session,
        translating(),
    ):
        yield session


@dataclass(frozen=True, slots=True)
class _Start:
    """How a session is started: its scratch folder and its purpose."""

    scratch: Path
    verbose: bool
    is_rehearsal: bool


def _started(section: SparkSection, start: _Start) -> AbstractContextManager[SparkSession]:
    if section.remote is None:
        return _classic(section, start)
    if section.remote.startswith("sc://"):
        return _connected(section, section.remote, start.scratch)
    return _served(section, section.remote, start)


@contextmanager
def _classic(section: SparkSection, start: _Start) -> Iterator[SparkSession]:
    _check_master(section.master)
    with _driver(section, section.master, start) as session:
        if not is_local(section.master):
            ship_package(session, start.scratch)
        yield session


@contextmanager
def _served(section: SparkSection, master: str, start: _Start) -> Iterator[SparkSession]:
    """A Spark Connect session on a server that is started for it."""
    port, token = _free_port(), secrets.token_hex(16)
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    variables = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    url = f"sc://localhost:{port}/;token={token}"
    with (
        _driver(section, master, start, settings, variables),
        _connected(section, url, start.scratch) as session,
    ):
        yield session


@contextmanager
def _driver(
    section: SparkSection,
    master: str,
    start: _Start,
    more: Mapping[str, str] = _NOTHING,
    variables: Mapping[str, str] = _NOTHING,
) -> Iterator[SparkSession]:
    """A driver in this process, with its session."""
    java, _ = find_java()
    archive = find_archive(java)
    try:
        options = archive.writing if start.is_rehearsal else archive.reading
        with running_driver(
            {**more, **driver_settings(section, master, start.scratch, options)},
            start.scratch,
            verbose=start.verbose,
            variables=_local_address(master) | dict(variables),
            when_ended=archive.keep,
        ) as session:
            yield session
    finally:
        archive.forget()


@contextmanager
def _connected(section: SparkSection, url: str, scratch: Path) -> Iterator[SparkSession]:
    """A Spark Connect session on a running server."""
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
    """Detect an unreachable cluster now; Spark would retry for a minute."""
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


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for one Java and one Spark, in a folder that only we can write.

    It is written under a temporary name, because an unfinished one must not be read.
    """

    path: Path
    unfinished: Path

    @property
    def reading(self) -> list[str]:
        """The options that make Java use the archive, if it exists."""
        is_there = make_private(self.path.parent) and self.path.is_file()
        return [f"-XX:SharedArchiveFile={self.path}", *_IN_PLACE] if is_there else []

    @property
    def writing(self) -> list[str]:
        """The options that make Java write the archive on exit, or use it if it exists."""
        if not make_private(self.path.parent):
            return []
        return self.reading or [f"-XX:ArchiveClassesAtExit={self.unfinished}"]

    def keep(self) -> None:
        """Rename what Java wrote, once that Java has exited cleanly."""
        with suppress(FileNotFoundError):
            self.unfinished.rename(self.path)

    def forget(self) -> None:
        """Remove an archive that was not kept."""
        with suppress(OSError):
            self.unfinished.unlink()


def find_archive(java: str) -> ClassArchive:
    """The archive for this Java and the installed Spark, which may not exist yet."""
    home = Path(java).resolve().parents[1]
    parts = (pyspark.__version__, str(Path(pyspark.__file__).parent), str(home), _release(home))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    path = cache_home() / "spark" / f"classes-{digest}.jsa"
    return ClassArchive(path, path.with_suffix(f".{secrets.token_hex(4)}"))


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""
