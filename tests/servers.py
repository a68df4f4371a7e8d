"""Real S3 servers for tests: moto's and rclone's, each a process of its own on a free port."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
from botocore.config import Config

from lakesweep.storage.options import StorageOptions
from tests.processes import running, scratch_folder

_SCRIPTS = Path(sysconfig.get_path("scripts"))


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where a server listens and who may use it.

    `folder` is where rclone keeps one folder a bucket; moto keeps all in memory and has none.
    """

    endpoint: str
    folder: Path | None = None
    access_key_id: str = "test-access-key"
    secret_access_key: str = field(default="test-secret-key", repr=False)
    region: str = "us-east-1"

    def options(self, **changes: Any) -> StorageOptions:
        """The storage options that reach this server."""
        options = StorageOptions(
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
        )
        return replace(options, **changes)

    def environment(self) -> dict[str, str]:
        """The same as variables of the AWS SDKs, for a process that is to use this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        }

    def boto3(self) -> Any:
        """Another client of the same server, to prepare and to check with."""
        return _boto3_client(self)

    def make_bucket(self, name: str) -> str:
        """Create a bucket; gives its name back."""
        self.boto3().create_bucket(Bucket=name)
        return name


@cache
def _boto3_client(server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=server.region,
        aws_access_key_id=server.access_key_id,
        aws_secret_access_key=server.secret_access_key,
        config=Config(
            request_checksum_calculation="when_required",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
        ),
    )


@contextmanager
def moto_server() -> Iterator[S3Server]:
    """An S3 server that keeps every key exactly, in memory, and has conditional writes."""
    command = [sys.executable, str(Path(__file__).with_name("moto_in_turn.py"))]
    with TemporaryDirectory(prefix="moto-") as scratch:
        log = Path(scratch) / "log"
        with running(command, log, r"Running on (http://[\d.]+:\d+)") as found:
            yield S3Server(found[1])


@contextmanager
def rclone_server(folder: Path | None = None, *, cached: bool = False) -> Iterator[S3Server]:
    """An S3 server over files in `folder`, one folder a bucket; a temporary one by default.

    It has no conditional writes, and cannot hold `a//b`, or `x` beside `x/y`. What is put into
    the folder behind its back is seen at once, unless `cached`, which is faster.
    """
    # It waits for the disk after each write; memory has none to wait for.
    with scratch_folder("rclone") as scratch:
        server = S3Server("", folder or scratch / "buckets")
        assert server.folder is not None
        server.folder.mkdir(exist_ok=True)
        command = _rclone_command(server, server.folder, scratch)
        # With no time at all it never stops to look at its folders, and hardly answers any more.
        command += [] if cached else ["--dir-cache-time", "1ms"]
        with running(command, scratch / "log", r"\[(http://[\d.]+:\d+)/\]") as found:
            yield replace(server, endpoint=found[1])


def _rclone_command(server: S3Server, folder: Path, scratch: Path) -> list[str]:
    return [
        str(_SCRIPTS / "rclone"),
        *("serve", "s3"),
        *("--config", str(scratch / "rclone.conf")),
        *("--cache-dir", str(scratch / "cache")),
        *("--addr", "127.0.0.1:0"),
        *("--auth-key", f"{server.access_key_id},{server.secret_access_key}"),
        str(folder),
    ]


def main() -> None:
    """Run one server by hand: `python -m tests.servers moto` (or `rclone`)."""
    start = {"moto": moto_server, "rclone": rclone_server}[sys.argv[1]]
    with start() as server:
        for name, value in server.environment().items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
