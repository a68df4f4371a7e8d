"""Move objects in stores that cannot rename: copy, verify the copy, then delete the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakesweep.errors import (
    ChangedError,
    DeniedError,
    ExistsError,
    LakesweepError,
    LockedError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ObjectInfo,
    ObjectStore,
    Outcome,
    check_is_expected,
    is_expected,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE_BYTES = 8 << 20


def move_by_copy(
    store: ObjectStore,
    source: ObjectInfo,
    target: str,
    expected: Expected | None,
    *,
    copy: Callable[[], None],
    remove: Callable[[], Deletion],
) -> None:
    """Move an object in steps; a crash between any two of them loses nothing.

    `copy` creates the target and `remove` deletes the source, each as safely as the store allows.
    """
    # Check, copy, verify, and only then delete. After a crash the object exists at the source, or
    # at both keys, and `finish_move` can complete the move.
    check_is_expected(store.base + source.key, source, expected)
    if object_exists(store, target):
        raise ExistsError(store.base + target, "already exists")
    copy()
    _check_copy(store, source, target)
    _check_removed(store.base + source.key, remove())


def finish_move(
    store: ObjectStore, source: str, target: str, expected: Expected | None = None
) -> bool:
    """Delete the source of an interrupted move, if the target is a complete copy of it.

    Returns False and does nothing if the source is gone or changed, or if the target differs.
    """
    try:
        info = store.head(source)
        is_copied = is_expected(info, expected) and is_same(store, info, store.head(target))
    except MissingError:
        return False
    if is_copied:
        # The condition repeats what was compared: the source may be overwritten after the check
        # above.
        (deletion,) = store.delete(
            [source], [expected or Expected(info.size_bytes, etag=info.etag)]
        )
        _check_removed(store.base + source, deletion)
    return is_copied


def object_exists(store: ObjectStore, key: str) -> bool:
    """Whether an object has this key."""
    try:
        store.head(key)
    except MissingError:
        return False
    return True


def is_same(store: ObjectStore, one: ObjectInfo, other: ObjectInfo) -> bool:
    """Whether two objects hold the same bytes. Reads both if their etags do not decide it."""
    if one.size_bytes != other.size_bytes:
        return False
    if one.etag is not None and one.etag == other.etag:
        return True
    pieces = zip(_pieces(store, one), _pieces(store, other), strict=True)
    return all(left == right for left, right in pieces)


def _pieces(store: ObjectStore, info: ObjectInfo) -> Iterator[bytes]:
    for start in range(0, info.size_bytes, _PIECE_BYTES):
        yield store.read_range(info.key, start, _PIECE_BYTES)


def _check_copy(store: ObjectStore, source: ObjectInfo, target: str) -> None:
    path = store.base + target
    try:
        copied = store.head(target)
    except MissingError as error:
        # Not MissingError: the caller would conclude that the source is missing.
        raise UnavailableError(path, "does not exist after the copy") from error
    if copied.size_bytes != source.size_bytes:
        reason = f"has {copied.size_bytes} bytes after the copy, not {source.size_bytes}"
        raise StorageError(path, reason)


def _check_removed(path: str, deletion: Deletion) -> None:
    if deletion.outcome not in (Outcome.DELETED, Outcome.ABSENT):
        raise _error_of(path, deletion)


def _error_of(path: str, deletion: Deletion) -> LakesweepError:
    reason = f"was copied but could not be deleted: {deletion.reason or deletion.outcome}"
    match deletion.outcome:
        case Outcome.CHANGED:
            return ChangedError(path, CHANGED)
        case Outcome.DENIED:
            return DeniedError(path, reason)
        case Outcome.LOCKED:
            return LockedError(path, reason)
        case Outcome.THROTTLED:
            return ThrottledError(path, reason)
        case _ if deletion.may_retry:
            return UnavailableError(path, reason)
        case _:
            return StorageError(path, reason)
