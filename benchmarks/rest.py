"""Requests to an Iceberg REST catalog, ours beside Iceberg's own test server (`--peer`).

Each operation is sent by some clients for some seconds: loads, checks for existence, lists, creates
and commits. Printed are requests a second, the 99th percentile, and the CPU and memory of the
server. `--store` is `sqlite` or `postgresql`; both servers get a database of their own in it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from tests.database_servers import PASSWORD, USER, DatabaseServer, postgresql_server
from tests.processes import free_port, running

_SUITE = Path(__file__).parents[1] / ".iceberg-clients" / "suite"
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": f"column_{number}", "type": "long", "required": False}
        for number in range(1, 31)
    ],
}
_TABLES = 20
_NUMBERS = count()
_TICKS = os.sysconf("SC_CLK_TCK")
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Contender:
    """A server, by its process; `prefix` comes after `/v1`."""

    name: str
    pid: int
    url: str
    prefix: str = ""

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self) -> float:
        """The most memory that it ever had."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024


class Client:
    """One connection, kept open."""

    def __init__(self, server: Contender) -> None:
        where = urlsplit(server.url)
        assert where.hostname
        self._connection = HTTPConnection(where.hostname, where.port or 80, timeout=60)
        self._root = f"{where.path}/v1{server.prefix}"

    def send(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, self._root + path, data, _JSON)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def load(client: Client, number: int) -> int:
    return client.send("GET", f"/namespaces/n/tables/t{number % _TABLES}?snapshots=all")[0]


def exists(client: Client, number: int) -> int:
    return client.send("HEAD", f"/namespaces/n/tables/t{number % _TABLES}")[0]


def list_tables(client: Client, _: int) -> int:
    return client.send("GET", "/namespaces/n/tables")[0]


def create(client: Client, _: int) -> int:
    body = {"name": f"new_{next(_NUMBERS)}", "schema": _SCHEMA}
    return client.send("POST", "/namespaces/made/tables", body)[0]


def commit(client: Client, number: int) -> int:
    update = {"action": "set-properties", "updates": {"n": str(next(_NUMBERS))}}
    path = f"/namespaces/n/tables/t{number % _TABLES}"
    return client.send("POST", path, {"requirements": [], "updates": [update]})[0]


OPERATIONS: dict[str, Callable[[Client, int], int]] = {
    "load": load,
    "exists": exists,
    "list": list_tables,
    "create": create,
    "commit": commit,
}


def prepare(server: Contender) -> None:
    """Two namespaces, and tables in the first."""
    client = Client(server)
    for name in ("n", "made"):
        assert client.send("POST", "/namespaces", {"namespace": [name]})[0] == 200
    for number in range(_TABLES):
        body = {"name": f"t{number}", "schema": _SCHEMA}
        status, text = client.send("POST", "/namespaces/n/tables", body)
        assert status == 200, text


def measure(server: Contender, name: str, clients: int, seconds: float) -> None:
    """Send one operation again and again, and print a line."""
    operation, times = OPERATIONS[name], [list[float]() for _ in range(clients)]
    failures, began = [0] * clients, time.perf_counter()
    cpu = server.cpu_seconds()

    def work(client: int) -> None:
        connection = Client(server)
        number = client
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            failures[client] += operation(connection, number) not in (200, 204)
            times[client].append(time.perf_counter() - start)
            number += clients

    threads = [threading.Thread(target=work, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, every = time.perf_counter() - began, sorted(each for some in times for each in some)
    used = (server.cpu_seconds() - cpu) / len(every)
    print(
        f"{server.name:12}{name:8}{clients:>3} clients {len(every) / took:>8,.0f}/s"
        f"  p50 {every[len(every) // 2] * 1000:>6.1f} ms"
        f"  p99 {every[int(len(every) * 0.99)] * 1000:>7.1f} ms"
        f"  CPU {used * 1000:>6.2f} ms  {sum(failures)} failed",
        flush=True,
    )


@contextmanager
def ours(folder: Path, database: str) -> Iterator[Contender]:
    """Our server."""
    config = folder / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "{database}"\n')
    base = [sys.executable, "-m", "lakesweep", "--config", str(config), "--quiet"]
    location = f"file://{folder}/lake"
    for words in (["store", "init"], ["catalog", "create", "shop", "--location", location]):
        subprocess.run([*base, *words], check=True)
    command = [arg for arg in base if arg != "--quiet"] + ["serve", "--port", "0"]
    with _started(command, folder / "ours.log", r"listening on (\S+)") as (pid, url):
        yield Contender("lakesweep", pid, f"{url}/iceberg", "/shop")


@contextmanager
def peer(folder: Path, database: str, user: str, password: str) -> Iterator[Contender]:
    """Iceberg's own server for tests, over a JDBC catalog."""
    port = free_port()
    warehouse = f"file://{folder}/peer"
    settings = {
        "CATALOG_URI": database,
        "CATALOG_JDBC_USER": user,
        "CATALOG_JDBC_PASSWORD": password,
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_IO__IMPL": "org.apache.iceberg.hadoop.HadoopFileIO",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_REST_PORT": str(port),
    }
    os.environ.update(settings)
    command = ["java", "-cp", f"{_SUITE}/jars/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    with _started(command, folder / "peer.log", "") as (pid, _):
        url = f"http://127.0.0.1:{port}"
        _await(url)
        yield Contender("iceberg", pid, url)


@contextmanager
def _started(command: Sequence[str], log: Path, ready: str) -> Iterator[tuple[int, str]]:
    before = _children()
    with running(command, log, ready or r"", stop=signal.SIGTERM) as found:
        (pid,) = _children() - before
        yield pid, found[1] if found.groups() else ""


def _children() -> set[int]:
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in found.split()}


def _await(url: str) -> None:
    """Wait until a server answers."""
    server, end = Contender("", 0, url), time.monotonic() + 60
    while time.monotonic() < end:
        try:
            Client(server).send("GET", "/config")
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(url)


def run(server: Contender, given: argparse.Namespace) -> None:
    """All operations, with each number of clients, after a time to get warm."""
    prepare(server)
    for name in given.operations:
        client, end = Client(server), time.monotonic() + given.warm_up
        for number in count():
            OPERATIONS[name](client, number)
            if time.monotonic() > end:
                break
        for number in given.clients:
            measure(server, name, number, given.seconds)
    print(f"{server.name:12}memory {server.memory_mb():,.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--peer", action="store_true", help="measure Iceberg's test server, too")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warm-up", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--operations", nargs="+", choices=tuple(OPERATIONS), default=[*OPERATIONS])
    given = parser.parse_args()
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rest-")))
        database: DatabaseServer | None = None
        if given.store == "postgresql":
            database = stack.enter_context(postgresql_server())
        url = f"sqlite:///{folder}/store.db" if database is None else database.new_database()
        with ours(folder, url) as server:
            run(server, given)
        if not given.peer:
            return
        jdbc = f"jdbc:sqlite:{folder}/peer.db"
        if database is not None:
            name = database.new_database().rpartition("/")[2]
            jdbc = f"jdbc:postgresql://127.0.0.1:{database.port}/{name}"
        with peer(folder, jdbc, USER, PASSWORD) as server:
            run(server, given)


if __name__ == "__main__":
    main()
