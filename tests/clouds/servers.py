"""Servers of object stores that `scripts/setup-clouds` fetches; each listens on 127.0.0.1 only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from lakesweep.storage.azure.store import AzureStore
from lakesweep.storage.google.store import GoogleStore
from lakesweep.storage.http_transport import HttpConnections, HttpRequest
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.store import S3Store
from tests.processes import free_port, running, scratch_folder
from tests.servers import S3Server

_CLOUDS = Path(__file__).parents[2] / ".clouds"
_AZURITE = "azurite/node_modules/azurite/dist/src/blob/main.js"
#: The account and key that Azurite documents for all to use.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_NUMBERS = count()


@dataclass(frozen=True)
class Cloud:
    """A server, and how a bucket is made and opened on it.

    `base` makes the address of a bucket from its name.
    """

    options: StorageOptions
    base: Callable[[str], str]
    create: Callable[[str], None]
    open: Callable[[str, StorageOptions], ObjectStore]

    def make_bucket(self) -> str:
        """Create an empty bucket; gives its address."""
        name = f"test-{next(_NUMBERS)}"
        self.create(name)
        return self.base(name)

    def store(self, address: str) -> ObjectStore:
        """The store of a bucket, without retries and limits."""
        return self.open(address.split("/")[2], self.options)

    def section(self, address: str) -> str:
        """The section of a configuration that reaches the bucket."""
        names = ("endpoint", "region", "access_key_id", "secret_access_key", "account_key")
        pairs = {name: getattr(self.options, name) for name in names}
        lines = [f'{name} = "{value}"' for name, value in pairs.items() if value]
        anonymous = ["anonymous = true"] if self.options.anonymous else []
        return "\n".join([f'[storage."{address.rstrip("/")}"]', *lines, *anonymous])


@contextmanager
def azurite() -> Iterator[Cloud]:
    """Microsoft's emulator of Azure, in memory."""
    port = free_port()
    command = [
        *("node", str(_fetched(_AZURITE))),
        *("--inMemoryPersistence", "--disableTelemetry", "--silent"),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port)),
    ]
    options = StorageOptions(endpoint=f"http://127.0.0.1:{port}/{_ACCOUNT}", account_key=_KEY)
    host = f"{_ACCOUNT}.dfs.core.windows.net"
    with _serving("azurite", command, r"successfully listens on http"):
        yield Cloud(
            options,
            lambda name: f"abfss://{name}@{host}/",
            lambda name: _create_container(AzureStore(f"{name}@{host}", options), name),
            AzureStore,
        )


def _create_container(store: AzureStore, name: str) -> None:
    request = HttpRequest("PUT", f"/{_ACCOUNT}/{name}?restype=container", store.base)
    assert store._http.send(store._signed(request)).status == 201


@contextmanager
def fake_gcs() -> Iterator[Cloud]:
    """fake-gcs-server, in memory."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [
        *(str(_fetched("bin/fake-gcs-server")), "-backend", "memory", "-scheme", "http"),
        *("-host", "127.0.0.1", "-port", str(port), "-external-url", endpoint),
    ]
    options = StorageOptions(endpoint=endpoint, anonymous=True)
    with _serving("fake-gcs", command, r"server started at http"):
        yield Cloud(
            options,
            lambda name: f"gs://{name}/",
            lambda name: _post(options, name),
            GoogleStore,
        )


def _post(options: StorageOptions, name: str) -> None:
    body = b'{"name": "%s"}' % name.encode()
    headers = {"Content-Type": "application/json"}
    request = HttpRequest("POST", "/storage/v1/b?project=test", name, headers, body)
    assert HttpConnections(options.endpoint or "", options).send(request).is_success


@contextmanager
def minio() -> Iterator[Cloud]:
    """MinIO, over a folder of its own."""
    server = S3Server(f"http://127.0.0.1:{free_port()}")
    with scratch_folder("minio") as folder:
        command = [
            *("env", *_variables(server, "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD")),
            *(f"HOME={folder}", "MINIO_BROWSER=off", "MINIO_UPDATE=off"),
            *(str(_fetched("bin/minio")), "server", "--address", server.endpoint[7:]),
            str(folder / "data"),
        ]
        with running(command, folder / "log", r"API: (http://[\d.:]+)"):
            yield _s3(server)


@contextmanager
def versitygw() -> Iterator[Cloud]:
    """Versity's gateway, over a folder of its own."""
    server = S3Server(f"http://127.0.0.1:{free_port()}")
    with scratch_folder("versitygw") as folder:
        for name in ("data", "sidecar"):
            (folder / name).mkdir()
        command = [
            *("env", *_variables(server, "ROOT_ACCESS_KEY", "ROOT_SECRET_KEY")),
            *(str(_fetched("bin/versitygw")), "--port", server.endpoint[7:]),
            *("posix", "--sidecar", str(folder / "sidecar"), str(folder / "data")),
        ]
        with running(command, folder / "log", r"127\.0\.0\.1:\d+"):
            yield _s3(server)


def _variables(server: S3Server, *names: str) -> list[str]:
    secrets = (server.access_key_id, server.secret_access_key)
    return [f"{name}={value}" for name, value in zip(names, secrets, strict=True)]


def _s3(server: S3Server) -> Cloud:
    return Cloud(
        server.options(),
        lambda name: f"s3://{name}/",
        lambda name: server.boto3().create_bucket(Bucket=name),
        S3Store,
    )


@contextmanager
def _serving(name: str, command: Sequence[str], announcement: str) -> Iterator[None]:
    with scratch_folder(name) as folder, running(command, folder / "log", announcement):
        yield


def _fetched(name: str) -> Path:
    path = _CLOUDS / name
    assert path.exists(), f"{path.name} is missing: run scripts/setup-clouds"
    return path


#: Every server by its name.
SERVERS: Mapping[str, Callable[[], AbstractContextManager[Cloud]]] = {
    "azurite": azurite,
    "fake-gcs-server": fake_gcs,
    "minio": minio,
    "versitygw": versitygw,
}


def is_set_up() -> bool:
    """Whether `scripts/setup-clouds` was run."""
    return all((_CLOUDS / name).exists() for name in (_AZURITE, "bin/fake-gcs-server", "bin/minio"))
