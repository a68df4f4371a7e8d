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

#: What a page of a listing holds: the exact key and what the store says of the object.
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
    """What a store says of one object; None where it does not say."""

    key: str
    size_bytes: int
    modified: datetime | None
    etag: str | None


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One answer of a listing.

    `entries` has ENTRY_SCHEMA. `folders` are the key prefixes one level down, each ending in
    `/`; always empty unless the listing was asked for one level. `next` continues the listing
    where this page ends, and is None on the last page; it is opaque, and belongs to the store
    and the arguments that it came from.
    """

    entries: pa.RecordBatch
    folders: tuple[str, ...] = ()
    next: object | None = None


class Outcome(StrEnum):
    """What became of one delete, or of one step of a delete that can be undone.

    What is CHANGED was left as it is. What is OCCUPIED stays in quarantine, because another object
    has its key by now, what is REFERENCED, because something needs it. What is HELD stays in its
    bucket, as a version below a delete marker.
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


@dataclass(frozen=True, slots=True)
class Deletion:
    """The outcome of deleting one key; `reason` says why where it was not deleted."""

    key: str
    outcome: Outcome
    reason: str | None = None
    may_retry: bool = False


@dataclass(frozen=True, slots=True)
class StorageCapabilities:
    """How one store differs from another. Computed once, when the store is opened.

    `delete_batch` is the most keys that one call of `delete` takes. `parallel_deletes` says how
    many such calls are worth having under way at once. `ordered` promises that a listing comes in
    ascending order of the keys' UTF-8 bytes, so that `after` may split it into key ranges.
    `reports_absent` says whether a delete tells a missing object from a deleted one (S3 does not).
    `verified_deletes` says whether a delete compares objects with what was expected of them.
    `renames` says that a move is one step, whatever the size of the object.
    """

    delete_batch: int
    parallel_deletes: int = 8
    ordered: bool = False
    reports_absent: bool = False
    write_new: bool = True
    verified_deletes: bool = False
    renames: bool = False


class ObjectStore(Protocol):
    """One bucket, container or file system. Safe to share between threads.

    Keys are exact: no implementation decodes, joins, collapses or changes the case of a key, and
    the key of a delete names that object or none. A store that cannot keep this promise for a key
    raises InexactKeyError rather than answer for another one.

    Errors are those of `lakesweep.errors`: MissingError, DeniedError, LockedError, ThrottledError,
    UnavailableError, UnsupportedError, InexactKeyError, and StorageError for the rest. Errors name
    the full address, which is `base + key`.

    Where a call says what it expects of an object, nothing is done to one that is no longer what
    was listed. Stores compare what they know: the etag, or else the size and the time.
    """

    @property
    def base(self) -> str:
        """What stands before a key in a full address, such as `s3://bucket/` or `file:///`."""
        ...

    @property
    def capabilities(self) -> StorageCapabilities: ...

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        """One page of the objects whose keys begin with `prefix`, which is empty or ends in `/`.

        With `one_level`, keys that have a further `/` behind the prefix are folded into `folders`.
        With `after`, only keys greater than it come (in the order of UTF-8 bytes). Each object that
        exists throughout the whole listing comes exactly once; a page that could not be read
        completely raises, it is never shortened. A prefix that holds nothing gives an empty page,
        except where the store has real folders: there a missing folder raises MissingError.
        """
        ...

    def head(self, key: str) -> ObjectInfo:
        """What the store says of the object, or MissingError."""
        ...

    def read(self, key: str) -> bytes:
        """The whole object. An answer cut short raises UnavailableError."""
        ...

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer only where the object ends before."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """Create or replace the object; a reader sees the old or the new whole."""
        ...

    def write_new(self, key: str, data: bytes) -> None:
        """Create the object if it is absent, atomically; ExistsError where it is there.

        UnsupportedError where the store has no conditional write. After UnavailableError it is
        unknown whether the object was created.
        """
        ...

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        """Delete up to `capabilities.delete_batch` distinct keys; one outcome each, in that order.

        With `expected`, one for each key, what is no longer what was listed stays and is CHANGED. A
        store whose capabilities have no `verified_deletes` compares nothing.

        Never raises for what the store says of single keys, and never calls an unknown outcome
        deleted. Raises ThrottledError, UnavailableError or DeniedError where the request as a whole
        got no answer: then nothing is known of any key, and the same call may be repeated.
        """
        ...

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, replacing the target."""
        ...

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        """Give an object another key; ExistsError where that key is taken, which stays as it is.

        The target is complete before the source goes. After an error, or a crash, the object is at
        its old key, at the new one, or at both. ChangedError where the source is no longer what was
        listed; if it changed at the very end, the target holds what it was before.
        """
        ...

    def keeps_versions(self) -> bool:
        """Whether a deleted object can be had back by `undelete`.

        False where the store will not say.
        """
        ...

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        """Have the newest version of a deleted object back.

        MissingError where the object is not deleted, or has no version left. ChangedError where
        the version is not the one that was listed. UnsupportedError where no versions are kept.
        """
        ...


class StoreOpener(Protocol):
    """Gives the store that an address lies in."""

    def open(self, address: Address) -> ObjectStore:
        """The store of the address; the same one for all addresses of one store."""
        ...


def check_keys(keys: Sequence[str], delete_batch: int) -> None:
    """Refuse a call of `delete` that breaks its contract: too many keys, or one of them twice."""
    if len(keys) > delete_batch:
        raise ValueError(f"{len(keys)} keys in one delete, at most {delete_batch} are allowed")
    if len(set(keys)) != len(keys):
        raise ValueError("the same key twice in one delete")


def check_expected(keys: Sequence[str], expected: Sequence[Expected | None] | None) -> None:
    """Refuse a call of `delete` that does not say of each key what is expected."""
    if expected is not None and len(expected) != len(keys):
        raise ValueError(f"{len(keys)} keys to delete, and {len(expected)} expectations")


#: Why an object was left alone.
CHANGED = "is no longer what was listed"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Expected(NamedTuple):
    """An object as it was listed; None where the listing did not say.

    `modified_micros` are microseconds since 1970.
    """

    size_bytes: int | None = None
    modified_micros: int | None = None
    etag: str | None = None


def is_expected(info: ObjectInfo, expected: Expected | None) -> bool:
    """Whether an object is still what was listed, as far as both are known.

    Etags say more than times, of which stores give whole seconds here and fractions there.
    """
    if expected is None:
        return True
    if expected.size_bytes not in (None, info.size_bytes):
        return False
    if expected.etag is not None and info.etag is not None:
        return expected.etag == info.etag
    if expected.modified_micros is None or info.modified is None:
        return True
    return expected.modified_micros == micros_of(info.modified)


def check_is_expected(path: str, info: ObjectInfo, expected: Expected | None) -> None:
    """ChangedError unless an object is still what was listed."""
    if not is_expected(info, expected):
        raise ChangedError(path, CHANGED)


def expected_of(info: ObjectInfo) -> Expected:
    """An object as it was when the store was asked."""
    micros = None if info.modified is None else micros_of(info.modified)
    return Expected(info.size_bytes, micros, info.etag)


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND
