"""A server that answers like S3 and is fast enough to show the speed of its clients.

It holds sorted keys in memory and knows ListObjectsV2, DeleteObjects, and GetObject for the files
of a folder, nothing else. Each answer waits for the latency first, as one from a real store does.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.servers import S3Server

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_RANGE = re.compile(r"bytes=(\d+)-(\d*)$")
_KEY = re.compile(rb"<Key>(.*?)</Key>")


class Bucket:
    """Sorted keys, each with its part of a page ready."""

    def __init__(self, layout: str, count: int) -> None:
        folders = 1 if layout == "flat" else 100
        names = (f"t/p={i % folders:02}/part-{i:07}-{i * 7919:032x}.parquet" for i in range(count))
        self.keys = sorted(names)
        self._contents = [_contents(key) for key in self.keys]

    def page(self, query: dict[str, list[str]]) -> str:
        """One answer to ListObjectsV2."""
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        start = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
        end = bisect_left(self.keys, prefix + "\U0010ffff")
        if "delimiter" in query:
            return _answer(*self._level(prefix, start, end))
        stop = max(start, min(start + 1000, end))
        token = self.keys[stop - 1] if stop < end else ""
        return _answer("".join(self._contents[start:stop]), stop - start, token)

    def delete(self, body: bytes) -> str:
        """The answer to DeleteObjects."""
        keys = _KEY.findall(body)
        deleted = "".join(f"<Deleted><Key>{key.decode()}</Key></Deleted>" for key in keys)
        return f"{_HEAD}<DeleteResult {_SPACE}>{deleted}</DeleteResult>"

    def _level(self, prefix: str, start: int, end: int) -> tuple[str, int, str]:
        parts: list[str] = []
        while start < end and len(parts) < 1000:
            name, slash, _ = self.keys[start][len(prefix) :].partition("/")
            if slash:
                folder = f"{prefix}{name}/"
                parts.append(_folder(folder))
                start = bisect_left(self.keys, folder + "\U0010ffff")
            else:
                parts.append(self._contents[start])
                start += 1
        return "".join(parts), len(parts), self.keys[start - 1] if start < end else ""


def _contents(key: str) -> str:
    return (
        f"<Contents><Key>{quote(key)}</Key><LastModified>2026-05-06T07:08:09.000Z</LastModified>"
        f"<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>1048576</Size>"
        f"<StorageClass>STANDARD</StorageClass></Contents>"
    )


def _folder(name: str) -> str:
    return f"<CommonPrefixes><Prefix>{quote(name)}</Prefix></CommonPrefixes>"


def _answer(content: str, count: int, token: str) -> str:
    rest = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (
        f"{_HEAD}<ListBucketResult {_SPACE}><Name>bucket</Name><KeyCount>{count}</KeyCount>"
        f"<MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType>"
        f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{rest}{content}"
        f"</ListBucketResult>"
    )


def _part(data: bytes, asked: str) -> tuple[bytes, str | None]:
    """The bytes of a range, and where they are; everything without one."""
    found = _RANGE.match(asked)
    if found is None:
        return data, None
    start = int(found[1])
    part = data[start : int(found[2]) + 1 if found[2] else None]
    return part, f"bytes {start}-{start + len(part) - 1}/{len(data)}"


def _handler(
    buckets: dict[str, Bucket], latency: float, folder: Path | None = None
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            bucket_name, _, key = unquote(parts.path).strip("/").partition("/")
            if key and folder is not None:
                data, place = _part((folder / key).read_bytes(), self.headers.get("Range", ""))
                self._send(data, "application/octet-stream", place)
                return
            bucket = buckets[bucket_name]
            query = parse_qs(parts.query)
            # Plain pages would have to be built anew: they are asked for once, and have no +.
            text = bucket.page(query)
            if "encoding-type" not in query:
                text = text.replace("%3D", "=").replace("<EncodingType>url</EncodingType>", "")
            self._reply(text)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._reply(buckets[urlsplit(self.path).path.strip("/")].delete(body))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

        def _reply(self, text: str) -> None:
            self._send(text.encode(), "application/xml")

        def _send(self, data: bytes, kind: str, place: str | None = None) -> None:
            time.sleep(latency)
            self.send_response(200 if place is None else 206)
            if place is not None:
                self.send_header("Content-Range", place)
            self.send_header("Content-Type", kind)
            self.send_header("ETag", '"d41d8cd98f00b204e9800998ecf8427e"')
            self.send_header("Last-Modified", "Wed, 06 May 2026 07:08:09 GMT")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

    return Handler


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


@contextmanager
def model_server(keys: int, latency_ms: float, folder: Path | None = None) -> Iterator[S3Server]:
    """Run the server in a process of its own, with the buckets `nested` and `flat`.

    Objects of all buckets are the files of `folder`.
    """
    command = [sys.executable, "-m", "benchmarks.model_s3", str(keys), str(latency_ms)]
    command += [] if folder is None else ["--folder", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield S3Server(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int)
    parser.add_argument("latency_ms", type=float)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    buckets = {layout: Bucket(layout, arguments.keys) for layout in ("nested", "flat")}
    server = _Server(
        ("127.0.0.1", 0), _handler(buckets, arguments.latency_ms / 1000, arguments.folder)
    )
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
