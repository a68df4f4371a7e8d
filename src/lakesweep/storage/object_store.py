"""The ObjectStore protocol, its contract in prose, and the values that pass through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakesweep.errors import ChangedError
from lakesweep.storage.address import Address

#: One page of a listing: the exact key and what the store reports about the object.
ENTRY_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified", pa.timestamp("us", tz="UTC")),
        pa.field("etag", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store reports about one object; None if it does not report it."""

    key: str
    size_bytes: int
    modified: datetime | None
    etag: str | None


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One page of a listing.

    `entries` has ENTRY_SCHEMA. `folders` are the key prefixes one level down, each ending in
    `/`; always empty unless the listing was asked for one level. `next` continues the listing
    where this page ends, and is None on the last page; it is opaque, and valid only for the store
    and the arguments that it came from.
    """

    entries: pa.RecordBatch
    folders: tuple[str, ...] = ()
    next: object | None = None


class Outcome(StrEnum):
    """The result of one delete, or of one step of a delete that can be undone.

    CHANGED objects were left in place. OCCUPIED ones stay in quarantine because another object now
    has their key, REFERENCED ones because something needs them. HELD ones stay in their bucket as a
    version below a delete marker. UNSENT ones were not requested: the run lost its lease, or had to
    stop.
    """

    DELETED = "deleted"
    ABSENT = "absent"
    CHANGED = "changed"
    DENIED = "denied"
    LOCKED = "locked"
    THROTTLED = "throttled"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    RESTORED = "restored"
    OCCUPIED = "occupied"
    HELD = "held"
    REFERENCED = "referenced"
    UNSENT = "unsent"


@dataclass(frozen=True, slots=True)
class Deletion:
    """The outcome of deleting one key; `reason` says why it was not deleted."""

    key: str
    outcome: Outcome
    reason: str | None = None
    may_retry: bool = False


@dataclass(frozen=True, slots=True)
class StorageCapabilities:
    """What a store can do. Computed once, when the store is opened.

    `delete_batch` is the largest number of keys in one call of `delete`. `parallel_deletes` is how
    many such calls are worth running at once. `ordered` promises that a listing comes in ascending
    order of the keys' UTF-8 bytes, so that `after` may split it into key ranges. `reports_absent`
    says whether a delete distinguishes a missing object from a deleted one (S3 does not).
    `verified_deletes` says whether a delete compares objects with what was expected of them, and
    `detects_rewrites` that it also notices an object that was written again with the same content.
    `renames` says that a move is one step, whatever the size of the object.
    """

    delete_batch: int
    parallel_deletes: int = 8
    ordered: bool = False
    reports_absent: bool = False
    write_new: bool = True
    verified_deletes: bool = False
    detects_rewrites: bool = False
    renames: bool = False


class ObjectStore(Protocol):
    """One bucket, container or file system. Safe to share between threads.

    Keys are exact: no implementation decodes, joins, collapses or changes the case of a key, and
    a delete affects the object with exactly that key or none. If a store cannot keep this promise
    for a key, it raises InexactKeyError rather than act on another one.

    Errors are those of `lakesweep.errors`: MissingError, DeniedError, LockedError, ThrottledError,
    UnavailableError, UnsupportedError, InexactKeyError, and StorageError for the rest. Errors name
    the full address, which is `base + key`.

    If a call states what it expects of an object, and the object has changed since it was listed,
    nothing is done to it. Stores compare what they know: the etag, or else the size and the time.
    """

    @property
    def base(self) -> str:
        """What precedes a key in a full address, such as `s3://bucket/` or `file:///`."""
        ...

    @property
    def capabilities(self) -> StorageCapabilities: ...

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        """One page of the objects whose keys begin with `prefix`, which is empty or ends in `/`.

        With `one_level`, keys with a further `/` after the prefix are folded into `folders`. With
        `after`, only keys greater than it are returned (in the order of UTF-8 bytes). Each object
        that exists throughout the listing is returned exactly once; a page that could not be read
        completely raises and is never shortened. A prefix without objects gives an empty page,
        except on stores with real folders, where a missing folder raises MissingError.
        """
        ...

    def head(self, key: str) -> ObjectInfo:
        """What the store reports about the object, or MissingError."""
        ...

    def read(self, key: str) -> bytes:
        """The whole object. A truncated response raises UnavailableError."""
        ...

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer only if the object ends earlier."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """Create or replace the object; readers see either the old or the new object, whole."""
        ...

    def write_new(self, key: str, data: bytes) -> None:
        """Create the object if it is absent, atomically; ExistsError if it exists.

        UnsupportedError if the store has no conditional write. After UnavailableError it is unknown
        whether the object was created.
        """
        ...

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        """Delete up to `capabilities.delete_batch` distinct keys; one outcome each, in that order.

        With `expected`, one for each key, an object that changed since it was listed is kept, with
        the outcome CHANGED. A store without the capability `verified_deletes` compares nothing.

        Never raises for errors of single keys, and never reports an unknown outcome as deleted.
        Raises ThrottledError, UnavailableError or DeniedError if the request as a whole got no
        response: then the state of every key is unknown, and the same call may be repeated.
        """
        ...

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, replacing the target."""
        ...

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        """Give an object another key; ExistsError if that key is taken, and nothing is replaced.

        The target is complete before the source is deleted. After an error or a crash the object is
        at its old key, at the new one, or at both. ChangedError if the source changed since it was
        listed; if it changed at the last moment, the target holds its earlier content.
        """
        ...

    def keeps_versions(self) -> bool:
        """Whether `undelete` can restore a deleted object; False if the store does not say."""
        ...

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        """Restore the newest version of a deleted object.

        MissingError if the object is not deleted, or has no version left. ChangedError if the
        version is not the one that was listed. UnsupportedError if the store keeps no versions.
        """
        ...


class StoreOpener(Protocol):
    """Opens the store that holds an address."""

    def open(self, address: Address) -> ObjectStore:
        """The store of the address; always the same one for one store."""
        ...


def check_keys(keys: Sequence[str], delete_batch: int) -> None:
    """Check the contract of `delete`: not too many keys, and none of them twice."""
    if len(keys) > delete_batch:
        raise ValueError(f"{len(keys)} keys in one delete, at most {delete_batch} are allowed")
    if len(set(keys)) != len(keys):
        raise ValueError("one delete names the same key twice")


def check_expected(keys: Sequence[str], expected: Sequence[Expected | None] | None) -> None:
    """Check the contract of `delete`: one expectation for each key."""
    if expected is not None and len(expected) != len(keys):
        raise ValueError(f"{len(keys)} keys to delete but {len(expected)} expectations")


#: Why an object was not deleted or moved.
CHANGED = "has changed since it was listed"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Expected(NamedTuple):
    """An object as it was listed; None if the listing did not report it.

    `modified_micros` are microseconds since 1970.
    """

    size_bytes: int | None = None
    modified_micros: int | None = None
    etag: str | None = None


#: Times of one object may differ by this in what a store reports of it.
_ROUNDED = 2_000_000


def is_expected(info: ObjectInfo, expected: Expected | None) -> bool:
    """Whether an object is still as it was listed, as far as both sides are known.

    Etags decide first: some stores report times in whole seconds, others in fractions. But an
    object that was written again with the same content may have the same etag, and is not the same.
    """
    if expected is None:
        return True
    if expected.size_bytes not in (None, info.size_bytes):
        return False
    if expected.etag is not None and info.etag is not None and expected.etag != info.etag:
        return False
    if expected.modified_micros is None or info.modified is None:
        return True
    apart = abs(expected.modified_micros - micros_of(info.modified))
    return apart < _ROUNDED if expected.etag is not None and info.etag is not None else not apart


def check_is_expected(path: str, info: ObjectInfo, expected: Expected | None) -> None:
    """ChangedError unless the object is still as it was listed."""
    if not is_expected(info, expected):
        raise ChangedError(path, CHANGED)


def expected_of(info: ObjectInfo) -> Expected:
    """The object as the store just reported it."""
    micros = None if info.modified is None else micros_of(info.modified)
    return Expected(info.size_bytes, micros, info.etag)


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND
