"""Commit a snapshot so that exactly one of two concurrent commits of a number wins.

A file system links a finished file to its name; an object store writes conditionally. If
neither is possible, nothing is committed. After a write with an unknown outcome the snapshot
is read until the outcome is known; until then nothing that it may name is touched.
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
_ATTEMPTS = 5
_LOCKING_METASTORES = frozenset({"hive", "jdbc", "rest"})


@dataclass(frozen=True, slots=True)
class CommitRetries:
    """How often a conflicting commit is retried, and how long it waits."""

    most: int = 10
    least_wait: timedelta = timedelta(milliseconds=10)
    longest_wait: timedelta = timedelta(seconds=10)

    @classmethod
    def of(cls, options: Options) -> Self:
        """The retries of the table's options."""
        usual = cls()
        least = options.duration("commit.min-retry-wait", usual.least_wait)
        longest = options.duration("commit.max-retry-wait", usual.longest_wait)
        assert least is not None
        assert longest is not None
        return cls(options.integer("commit.max-retries", usual.most), least, longest)

    def seconds(self, attempt: int, random: Random) -> float:
        """How long to wait before an attempt, counted from 0: twice as long each time."""
        longest = min(self.least_wait * 2 ** min(attempt, 30), self.longest_wait)
        seconds: float = longest.total_seconds() * random.uniform(0.5, 1.5)
        return seconds


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """A snapshot that is ready to be written, and the files that it names."""

    document: Mapping[str, Any]
    files: ManifestWriter


#: Prepares the commit that follows a snapshot; None if there is nothing to commit.
Prepare = Callable[[PaimonSnapshot], PreparedCommit | None]


def check_exclusive(branch: PaimonBranch) -> None:
    """Refuse a table whose other writers take a catalog lock, which Lakesweep cannot."""
    options = branch.layout.options
    locked = options.flag("lock.enabled", False) or options.text("lock.type") is not None
    metastore = (options.text("metastore") or "").lower()
    if locked or metastore in _LOCKING_METASTORES:
        held = f"the {metastore} metastore" if metastore else "a catalog"
        raise RefusedError(
            CATALOG_LOCK,
            f"commits to {branch.table.address.path} are locked by {held}",
            hint="use the engine that writes it; if no writer is active, --override catalog-lock",
        )


def commit_snapshot(
    branch: PaimonBranch, prepare: Prepare, random: Random | None = None
) -> PaimonSnapshot | None:
    """Commit what `prepare` returns for the newest snapshot; retry on every conflict.

    None if it returns nothing. IncompleteError after too many conflicts; then nothing was
    committed.
    """
    retries = CommitRetries.of(branch.layout.options)
    chance = random or Random()  # noqa: S311 - it only spreads writers over time
    for attempt in range(retries.most + 1):
        if attempt:
            branch.table.clock.sleep(retries.seconds(attempt - 1, chance))
        with suppress(_LostError):
            return _try(branch, prepare)
    raise IncompleteError(
        f"{branch.table.address.path}: {retries.most + 1} attempts conflicted with other commits",
        hint="nothing was changed; run the command again when fewer writers are active",
    )


class _LostError(Exception):
    """Another commit won."""


def _try(branch: PaimonBranch, prepare: Prepare) -> PaimonSnapshot | None:
    list_settled(branch)  # a commit in place of a lost one would hide it for good
    newest = _newest(branch)
    prepared = None if newest is None else _prepare(branch, newest, prepare)
    if prepared is None:
        return None
    # The manifests are only removed after the conflict is certain: in doubt they may be referenced.
    if not _create(branch, prepared):
        prepared.files.remove()
        raise _LostError
    # After the commit, and allowed to fail: a hint is never ahead of the snapshot that it names.
    _write_hint(branch, prepared.document["id"])
    return _parse(branch, prepared.document)


def _newest(branch: PaimonBranch) -> int | None:
    """By listing: a stale hint may lead to a gap, and a commit into it would be lost."""
    return max(branch.snapshot_ids(), default=None)


def _prepare(branch: PaimonBranch, newest: int, prepare: Prepare) -> PreparedCommit | None:
    try:
        return prepare(branch.snapshot(newest))
    except MissingError as error:
        if _newest(branch) != newest:  # another commit won, and old files have expired
            raise _LostError from error
        raise UnreadableError(error.path, ReadFailure.MISSING, error.reason) from error


def _create(branch: PaimonBranch, prepared: PreparedCommit) -> bool:
    """Write the snapshot; False if another one has its number."""
    number = prepared.document["id"]
    if not _is_next(branch, prepared):
        return False
    for attempt in range(_ATTEMPTS):
        branch.table.clock.sleep(attempt)
        # Once others committed or rolled back, the same write would put a stale state over theirs.
        if attempt and _newest(branch) != number - 1:
            return _is_ours(branch, prepared)
        try:
            return _write_new(branch, prepared)
        except (ThrottledError, UnavailableError):
            continue  # write the same again: only one of the writes can succeed
    raise _unknown(branch, prepared)


def _is_next(branch: PaimonBranch, prepared: PreparedCommit) -> bool:
    """Whether no other writer has committed, or rolled back to an older snapshot."""
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
        # A file system may fail after the write succeeded, such as when it syncs the folder.
        if branch.table.exists(address.path):
            return _is_ours(branch, prepared)
        prepared.files.remove()
        raise
    return True


def _is_ours(branch: PaimonBranch, prepared: PreparedCommit) -> bool:
    """Whether the stored snapshot is this one, written by a request that got no response."""
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
        "it is unknown whether the commit succeeded",
        hint=f"check whether it contains {document['commitUser']}, then run the command again",
    )


def _refusal(path: str, error: UnsupportedError) -> UnsupportedError:
    return UnsupportedError(
        path,
        f"commits are not possible here: {error.reason}",
        hint="two writers could overwrite each other; use the engine that writes this table",
    )


def _write_hint(branch: PaimonBranch, number: int) -> None:
    """Point readers to the snapshot. They verify the hint, so it may fail."""
    address = parse(branch.layout.hint("snapshot", "LATEST"))
    for _ in range(_HINT_ATTEMPTS):
        with suppress(LakesweepError):
            branch.table.stores.open(address).write(address.key, str(number).encode())
            return


def _parse(branch: PaimonBranch, document: Mapping[str, Any]) -> PaimonSnapshot:
    path = branch.layout.snapshot(document["id"])
    return replace(parse_snapshot(path, encode_snapshot(document)), raw=dict(document))
