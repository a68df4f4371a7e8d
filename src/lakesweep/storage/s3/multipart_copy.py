"""Copy objects that are too large for one request, in parts, completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from lakesweep.errors import InexactKeyError, LakesweepError
from lakesweep.storage.http_transport import HttpResponse
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.endpoint import S3Request
from lakesweep.storage.s3.errors import Operation
from lakesweep.storage.s3.keys import encode
from lakesweep.storage.s3.xml_bodies import complete_body, parse_text

PART_BYTES = 1 << 30
_KEPT_HEADERS = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
        "x-amz-storage-class",
    }
)


@dataclass(frozen=True, slots=True)
class MultipartCopy:
    """A copy of the object `source`, which `head` describes, to `target`."""

    client: S3Client
    source: str
    target: str
    head: HttpResponse
    part_bytes: int = PART_BYTES
    #: Conditions under which the target may be created.
    conditions: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Copy all parts; the target appears complete or stays unchanged."""
        upload = self._start()
        try:
            etags = [self._copy_part(upload, *part) for part in enumerate(self._spans(), start=1)]
            # Only this makes the target visible; until then readers see the old object or none.
            self._complete(upload, etags)
        except BaseException:
            self._abort(upload)
            raise

    def _start(self) -> str:
        headers = {
            name: value
            for name, value in self.head.headers.items()
            if name.lower() in _KEPT_HEADERS or name.lower().startswith("x-amz-meta-")
        }
        return self._ask("POST", {"uploads": ""}, headers, "InitiateMultipartUploadResult/UploadId")

    def _spans(self) -> list[str]:
        size = int(self.head.headers["content-length"])
        starts = range(0, size, self.part_bytes)
        return [f"bytes={start}-{min(start + self.part_bytes, size) - 1}" for start in starts]

    def _copy_part(self, upload: str, number: int, span: str) -> str:
        headers = {
            "x-amz-copy-source": copy_source(self.client.bucket, self.source),
            "x-amz-copy-source-range": span,
            # All parts must come from the same state of the source.
            "x-amz-copy-source-if-match": self.head.headers["etag"],
        }
        query = {"partNumber": str(number), "uploadId": upload}
        return self._ask("PUT", query, headers, "CopyPartResult/ETag")

    def _complete(self, upload: str, etags: list[str]) -> None:
        result = "CompleteMultipartUploadResult/ETag"
        query = {"uploadId": upload}
        self._ask("POST", query, self.conditions, result, complete_body(etags))

    def _abort(self, upload: str) -> None:
        request = S3Request("DELETE", self._path, self.target, {"uploadId": upload})
        try:
            self.client.ask(Operation.COPY, request)
        except LakesweepError:
            # The original error matters more. A lifecycle rule of the bucket can clean up the
            # parts.
            return

    def _ask(
        self,
        method: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        wanted: str,
        body: bytes = b"",
    ) -> str:
        request = S3Request(method, self._path, self.target, query, headers, body)
        return self.client.ask_xml(Operation.COPY, request, partial(parse_text, wanted=wanted))

    @property
    def _path(self) -> str:
        return self.client.base + self.target


def copy_source(bucket: str, key: str) -> str:
    """The header value that names the source of a copy."""
    if key == "":
        raise InexactKeyError(f"s3://{bucket}/", "an empty key names no object")
    try:
        return encode(f"/{bucket}/{key}")
    except UnicodeEncodeError:
        raise InexactKeyError(f"s3://{bucket}/{key}", "the key is not valid Unicode") from None
