"""Commit a snapshot so that exactly one of two concurrent commits of a number wins.

A file system links a finished file to its name; an object store writes conditionally. If
neither is possible, nothing is committed. A write with an unknown outcome is looked up until
the outcome is known; until then nothing it may have committed is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, Self

from lakesweep.errors import (
    ExistsError,
    IncompleteError,
    LakesweepError,
    MissingError,
    RefusedError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UnreadableError,
    UnsupportedError,
)
from lakesweep.marks.unreadable import ReadFailure
from lakesweep.paimon.commit.manifest_rows import ManifestWriter
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.snapshots import PaimonSnapshot, encode_snapshot, parse_snapshot
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.paimon.reach.owners import list_settled
from lakesweep.storage.address import parse

CATALOG_LOCK = "catalog-lock"

_HINT_ATTEMPTS = 3
_LOOKS = 5
_LOCKING_METASTORES = frozenset({"hive", "jdbc", "rest"})


@dataclass(frozen=True, slots=True)
class CommitRetries:
    """How often a commit is tried again when others come first, and how long it waits."""

    most: int = 10
    least_wait: timedelta = timedelta(milliseconds=10)
    longest_wait: timedelta = timedelta(seconds=10)

    @classmethod
    def of(cls, options: Options) -> Self:
        """What the table's options say."""
        usual = cls()
        least = options.duration("commit.min-retry-wait", usual.least_wait)
        longest = options.duration("commit.max-retry-wait", usual.longest_wait)
        assert least is not None
        assert longest is not None
        return cls(options.integer("commit.max-retries", usual.most), least, longest)

    def seconds(self, attempt: int, random: Random) -> float:
        """How long to wait before an attempt, the first being 0: twice as long each time."""
        longest = min(self.least_wait * 2 ** min(attempt, 30), self.longest_wait)
        seconds: float = longest.total_seconds() * random.uniform(0.5, 1.5)
        return seconds


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """A snapshot that is ready, and the files that it names."""

    document: Mapping[str, Any]
    files: ManifestWriter


#: Prepares the commit that follows a snapshot; None where there is nothing to commit.
Prepare = Callable[[PaimonSnapshot], PreparedCommit | None]


def check_exclusive(branch: PaimonBranch) -> None:
    """Refuse a table whose other writers lock it in a catalog, which we cannot."""
    options = branch.layout.options
    locked = options.flag("lock.enabled", False) or options.text("lock.type") is not None
    metastore = (options.text("metastore") or "").lower()
    if locked or metastore in _LOCKING_METASTORES:
        held = f"the {metastore} metastore" if metastore else "a catalog"
        raise RefusedError(
            CATALOG_LOCK,
            f"commits to {branch.table.address.path} are locked by {held}",
            hint="use the engine that writes it; alone with it, --override catalog-lock goes on",
        )


def commit_snapshot(
    branch: PaimonBranch, prepare: Prepare, random: Random | None = None
) -> PaimonSnapshot | None:
    """Commit what `prepare` makes of the newest snapshot, again whenever another came first.

    None where it makes nothing of it. IncompleteError where others came first too often; then
    nothing was committed.
    """
    retries = CommitRetries.of(branch.layout.options)
    chance = random or Random()  # noqa: S311 - it only spreads writers over time
    for attempt in range(retries.most + 1):
        if attempt:
            branch.table.clock.sleep(retries.seconds(attempt - 1, chance))
        with suppress(_LostError):
            return _try(branch, prepare)
    raise IncompleteError(
        f"{branch.table.address.path}: other commits came first {retries.most + 1} times",
        hint="nothing was changed; run the same command again when fewer writers are at work",
    )


class _LostError(Exception):
    """Another commit came first."""


def _try(branch: PaimonBranch, prepare: Prepare) -> PaimonSnapshot | None:
    list_settled(branch)  # a commit in the place of one that was lost would bury it
    newest = _newest(branch)
    prepared = None if newest is None else _prepare(branch, newest, prepare)
    if prepared is None:
        return None
    if not _create(branch, prepared):
        prepared.files.remove()
        raise _LostError
    _write_hint(branch, prepared.document["id"])
    return _parse(branch, prepared.document)


def _newest(branch: PaimonBranch) -> int | None:
    """By listing: a hint that is old may lead to a gap, and a commit into it would be lost."""
    return max(branch.snapshot_ids(), default=None)


def _prepare(branch: PaimonBranch, newest: int, prepare: Prepare) -> PreparedCommit | None:
    try:
        return prepare(branch.snapshot(newest))
    except MissingError as error:
        if _newest(branch) != newest:  # the table went on, and old files with it
            raise _LostError from error
        raise UnreadableError(error.path, ReadFailure.MISSING, error.reason) from error


def _create(branch: PaimonBranch, prepared: PreparedCommit) -> bool:
    """Write the snapshot; False where another one has its number, or has taken it meanwhile."""
    number = prepared.document["id"]
    if not _is_next(branch, prepared):
        return False
    for look in range(_LOOKS):
        branch.table.clock.sleep(look)
        # Once others went on, or back, the same write would put an old state above or below theirs.
        if look and _newest(branch) != number - 1:
            return _is_ours(branch, prepared)
        try:
            return _write_new(branch, prepared)
        except (ThrottledError, UnavailableError):
            continue  # the same write again: it is done once, whichever of them is
    raise _unknown(branch, prepared)


def _is_next(branch: PaimonBranch, prepared: PreparedCommit) -> bool:
    """Whether nobody has committed meanwhile, or rolled back to an older snapshot."""
    try:
        return _newest(branch) == int(prepared.document["id"]) - 1
    except LakesweepError:
        prepared.files.remove()
        raise


def _write_new(branch: PaimonBranch, prepared: PreparedCommit) -> bool:
    address = parse(branch.layout.snapshot(prepared.document["id"]))
    data = encode_snapshot(prepared.document)
    try:
        branch.table.stores.open(address).write_new(address.key, data)
    except ExistsError:
        return _is_ours(branch, prepared)
    except UnsupportedError as error:
        prepared.files.remove()
        raise _refusal(address.path, error) from error
    except (ThrottledError, UnavailableError):
        raise
    except StorageError:
        # A file system may fail when all is done, as when it puts a folder on the disk.
        if branch.table.exists(address.path):
            return _is_ours(branch, prepared)
        prepared.files.remove()
        raise
    return True


def _is_ours(branch: PaimonBranch, prepared: PreparedCommit) -> bool:
    """Whether the snapshot that is there is this one, written by a request that got no answer."""
    path, ours = branch.layout.snapshot(prepared.document["id"]), prepared.document
    try:
        found = parse_snapshot(path, branch.table.read(path))
    except MissingError as error:
        raise _unknown(branch, prepared) from error
    return (found.commit_user, found.commit_identifier, found.commit_kind) == (
        ours["commitUser"],
        ours["commitIdentifier"],
        ours["commitKind"],
    )


def _unknown(branch: PaimonBranch, prepared: PreparedCommit) -> UnavailableError:
    document = prepared.document
    return UnavailableError(
        branch.layout.snapshot(document["id"]),
        "no answer tells whether the commit was made",
        hint=f"look whether it says {document['commitUser']}; then run the command again",
    )


def _refusal(path: str, error: UnsupportedError) -> UnsupportedError:
    return UnsupportedError(
        path,
        f"no commit is possible here: {error.reason}",
        hint="two writers could overwrite each other; use the engine that writes this table",
    )


def _write_hint(branch: PaimonBranch, number: int) -> None:
    """Tell readers where to look first. They verify it, so nothing depends on its success."""
    address = parse(branch.layout.hint("snapshot", "LATEST"))
    for _ in range(_HINT_ATTEMPTS):
        with suppress(LakesweepError):
            branch.table.stores.open(address).write(address.key, str(number).encode())
            return


def _parse(branch: PaimonBranch, document: Mapping[str, Any]) -> PaimonSnapshot:
    path = branch.layout.snapshot(document["id"])
    return replace(parse_snapshot(path, encode_snapshot(document)), raw=dict(document))
