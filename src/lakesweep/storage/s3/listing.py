"""List a bucket page by page. A page is complete and exact, or an error."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import InexactKeyError, MissingError, UnavailableError, UnsupportedError
from lakesweep.storage.cursor import PageToken, next_page
from lakesweep.storage.object_store import ENTRY_SCHEMA, ListingPage
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.endpoint import DIRECTORY_BUCKET_SUFFIX, S3Request
from lakesweep.storage.s3.errors import Operation
from lakesweep.storage.s3.keys import Encoding, KeyDecoder
from lakesweep.storage.s3.xml_bodies import ListBucketResult, parse_page


@dataclass(frozen=True, slots=True)
class _Question:
    """The request for one page."""

    prefix: str
    one_level: bool
    after: str
    cursor: PageToken | None

    @property
    def query(self) -> dict[str, str]:
        query = {"list-type": "2", "max-keys": "1000"}
        if self.prefix:
            query["prefix"] = self.prefix
        if self.one_level:
            query["delimiter"] = "/"
        if self.cursor:
            query["continuation-token"] = self.cursor.token
        elif self.after:
            query["start-after"] = self.after
        return query

    @property
    def bound(self) -> str:
        """The key that all keys of the page must exceed in an ordered listing."""
        return max(self.after, self.cursor.last if self.cursor else "", key=str.encode)


class Lister:
    """Lists one bucket, and remembers what its pages reveal about the server."""

    def __init__(self, client: S3Client) -> None:
        self._client = client
        self._decoder = KeyDecoder(client.base, Encoding.FORM if client.is_amazon else None)
        #: Whether keys come in the order of their UTF-8 bytes, judging by the pages so far.
        self.ordered = not client.bucket.endswith(DIRECTORY_BUCKET_SUFFIX)

    def page(
        self, prefix: str, *, one_level: bool, after: str, cursor: object | None
    ) -> ListingPage:
        """One page, as the ObjectStore protocol describes it."""
        assert cursor is None or isinstance(cursor, PageToken)
        question = _Question(prefix, one_level, after, cursor)
        if after and not self.ordered:
            raise self._out_of_order(prefix)
        listed = self._ask(question, encoded=True)
        names = self._names(question, listed)
        keys = pa.array(names[: len(listed.keys)], pa.string())
        # Nothing is returned before all checks: a page with one misread key would make live files
        # look
        # unlisted, or name the wrong ones.
        self._check_names(prefix, names)
        self._check_order(question, keys)
        return ListingPage(
            entries=pa.RecordBatch.from_arrays([keys, *listed.columns], schema=ENTRY_SCHEMA),
            folders=tuple(names[len(listed.keys) :]),
            next=self._next(prefix, listed, names, cursor),
        )

    def _next(
        self, prefix: str, listed: ListBucketResult, names: list[str], cursor: PageToken | None
    ) -> PageToken | None:
        if listed.token is None:
            return None
        last = names[len(listed.keys) - 1] if listed.keys else cursor.last if cursor else ""
        return next_page(self._client.base + prefix, cursor, listed.token, names, last)

    def _ask(self, question: _Question, *, encoded: bool) -> ListBucketResult:
        query = question.query | ({"encoding-type": "url"} if encoded else {})
        request = S3Request("GET", self._client.base + question.prefix, query=query)
        return self._client.ask_xml(Operation.LIST, request, parse_page)

    def _names(self, question: _Question, listed: ListBucketResult) -> list[str]:
        """The decoded keys, then the decoded folders."""
        names = listed.keys + listed.folders
        if listed.encoded:
            return self._decoder.decode(names, _StoreProbe(self, question))
        if listed.doubtful_breaks and any("\n" in name for name in names):
            raise InexactKeyError(
                self._client.base + next(name for name in names if "\n" in name),
                "the store lists this key with a line break that may stand for a different one",
            )
        return names

    def _check_names(self, prefix: str, names: list[str]) -> None:
        for name in names:
            if not name.startswith(prefix):
                raise InexactKeyError(
                    self._client.base + name, f"was listed but does not start with {prefix!r}"
                )

    def _check_order(self, question: _Question, keys: pa.Array) -> None:
        if not self.ordered or len(keys) == 0 or _is_ascending(question.bound, keys):
            return
        if pc.count_distinct(keys).as_py() < len(keys):
            raise InexactKeyError(
                self._client.base + question.prefix, "one page of the listing names a key twice"
            )
        # Without order, key ranges could lose keys. From here on this bucket is listed
        # sequentially.
        self.ordered = False
        if question.after:
            raise self._out_of_order(question.prefix)

    def _out_of_order(self, prefix: str) -> UnsupportedError:
        return UnsupportedError(
            self._client.base + prefix,
            "this store does not list keys in order, so a listing cannot start after a key",
        )

    def exists(self, key: str) -> bool:
        """Whether an object with this key exists."""
        try:
            self._client.ask(Operation.READ, S3Request("HEAD", self._client.base + key, key))
        except MissingError:
            return False
        return True

    def unencoded_names(self, question: _Question) -> list[str] | None:
        """The names of a page as the store lists them without encoding."""
        try:
            listed = self._ask(question, encoded=False)
        except UnavailableError:
            return None
        if listed.encoded or listed.doubtful_breaks:
            return None
        return listed.keys + listed.folders


@dataclass(frozen=True, slots=True)
class _StoreProbe:
    """Asks the store itself how to decode one of its pages."""

    lister: Lister
    question: _Question

    def unencoded_names(self) -> list[str] | None:
        return self.lister.unencoded_names(self.question)

    def exists(self, key: str) -> bool:
        return self.lister.exists(key)


def _is_ascending(bound: str, keys: pa.Array) -> bool:
    pairs = pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))
    first: str = keys[0].as_py()
    return first.encode() > bound.encode() and pc.all(pairs).as_py() is not False
