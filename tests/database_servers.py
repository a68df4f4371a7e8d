"""Real PostgreSQL and MariaDB servers for tests, in folders of their own on free ports."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pymysql
from sqlalchemy import URL, make_url

from tests.processes import free_port, is_root, running, scratch_folder

USER = "lake"
# Everything in it must be written with a percent sign in a URL.
PASSWORD = "p@ss/w:rd %1?#"
# PostgreSQL refuses to run as root.
_UNPRIVILEGED = "nobody"
_DEBIAN = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class DatabaseServer:
    """Where a server listens; each of its databases belongs to whoever made it."""

    scheme: str
    port: int
    first_database: str
    _numbers: Iterator[int] = field(default_factory=count)

    def url(self, database: str, **changes: Any) -> str:
        """How a user of the server names one of its databases."""
        url = URL.create(self.scheme, USER, PASSWORD, "127.0.0.1", self.port, database)
        return url.set(**changes).render_as_string(hide_password=False).replace(" ", "%20")

    def new_database(self) -> str:
        """The URL of a database that is empty."""
        name = f"test_{next(self._numbers)}"
        with connect(self.url(self.first_database)) as connection:
            connection.cursor().execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def paused(url: str) -> Iterator[None]:
    """Stop the whole server of a database: its machine still takes what it is sent."""
    file = {
        "postgresql": "SELECT current_setting('data_directory') || '/postmaster.pid'",
        "mariadb": "SELECT @@pid_file",
    }
    with connect(url) as connection:
        cursor = connection.cursor()
        cursor.execute(file[make_url(url).drivername])
        first = int(Path(cursor.fetchall()[0][0]).read_text().split()[0])
    # While the first is stopped, no other one comes or goes.
    os.kill(first, signal.SIGSTOP)
    children = map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())
    processes = [*children, first]
    try:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        while not all(map(_is_stopped, processes)):
            time.sleep(0.01)
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def _is_stopped(process: int) -> bool:
    """Whether each of its threads is, or has ended."""
    states = [file.read_text().rpartition(") ")[2][0] for file in _threads(process)]
    return not set(states) - set("TZ")


def _threads(process: int) -> Iterator[Path]:
    return Path(f"/proc/{process}/task").glob("*/stat")


@contextmanager
def postgresql_server(*options: str, folder: Path | None = None) -> Iterator[DatabaseServer]:
    """PostgreSQL, as Debian has it; options are `name=value`."""
    with scratch_folder("postgresql") if folder is None else _given(folder) as scratch:
        data, port = scratch / "data", free_port()
        user = _give_away(scratch)
        _create_cluster(data, scratch, user)
        settings = ["max_connections=200", "dynamic_shared_memory_type=mmap", *options]
        command = [
            *(_postgresql_program("postgres"), "-D", str(data)),
            *("-h", "127.0.0.1", "-p", str(port), "-k", str(scratch)),
            *(word for setting in settings for word in ("-c", setting)),
        ]
        ready = "ready to accept connections"
        # The server hands an interrupt on to all its sessions; a termination waits for them.
        with running(command, scratch / "log", ready, user=user, stop=signal.SIGINT):
            yield DatabaseServer("postgresql", port, "postgres")


@contextmanager
def mariadb_server(*options: str, folder: Path | None = None) -> Iterator[DatabaseServer]:
    """MariaDB, as Debian has it; options are `--name=value`."""
    with scratch_folder("mariadb") if folder is None else _given(folder) as scratch:
        data, port = scratch / "data", free_port()
        user = ["--user=root"] if is_root() else []
        _create_mariadb(data, user)
        accounts = scratch / "accounts.sql"
        accounts.write_text(
            f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO {USER}@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        command = [
            *(_program("mariadbd", "/usr/sbin"), "--no-defaults", f"--datadir={data}", *user),
            *("--bind-address=127.0.0.1", f"--port={port}", f"--socket={scratch / 'socket'}"),
            *(f"--pid-file={scratch / 'pid'}", f"--init-file={accounts}", "--skip-name-resolve"),
            *options,
        ]
        ready = r"ready for connections"
        with running(command, scratch / "log", ready, stop=signal.SIGTERM):
            yield DatabaseServer("mariadb", port, "mysql")


@contextmanager
def _given(folder: Path) -> Iterator[Path]:
    yield folder


def _give_away(folder: Path) -> str | None:
    """Make the folder that of an unprivileged user, if that is needed; who it is."""
    if not is_root():
        return None
    shutil.chown(folder, _UNPRIVILEGED)
    return _UNPRIVILEGED


def _create_cluster(data: Path, scratch: Path, user: str | None) -> None:
    secret = scratch / "password"
    secret.write_text(PASSWORD)
    command = [_postgresql_program("initdb"), "-D", str(data), "-U", USER, "--no-sync"]
    command += ["-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C"]
    _run(command, cwd=scratch, user=user, extra_groups=None if user is None else [])


def _create_mariadb(data: Path, user: Sequence[str]) -> None:
    command = [_program("mariadb-install-db", "/usr/bin"), "--no-defaults", f"--datadir={data}"]
    _run([*command, "--auth-root-authentication-method=normal", "--skip-test-db", *user])


def _run(command: Sequence[str], **how: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    if done.returncode:
        raise RuntimeError(f"{command!r} failed:\n{done.stdout}{done.stderr}")


def connect(url: str) -> Any:
    """A connection of the driver itself, in which each statement stands alone."""
    parts = make_url(url)
    words: dict[str, Any] = {
        "host": parts.host,
        "port": parts.port,
        "user": parts.username,
        "password": parts.password,
        "autocommit": True,
    }
    if parts.drivername == "postgresql":
        return psycopg.connect(**words, dbname=parts.database)
    return pymysql.connect(**words, database=parts.database)


def _postgresql_program(name: str) -> str:
    """Debian keeps the servers outside of the path, one folder a version."""
    versions = sorted(_DEBIAN.glob("[0-9]*"), key=lambda folder: int(folder.name), reverse=True)
    return _program(name, *(str(version / "bin") for version in versions))


def _program(name: str, *folders: str) -> str:
    for path in (*folders, None):
        if found := shutil.which(name, path=path):
            return found
    raise RuntimeError(f"there is no {name} on this machine; make setup installs it")


def main() -> None:
    """Run one server by hand: `python -m tests.database_servers postgresql` (or `mariadb`)."""
    start = {"postgresql": postgresql_server, "mariadb": mariadb_server}[sys.argv[1]]
    with start() as server:
        sys.stdout.write(f"{server.new_database()}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
