"""Files of Paimon tables that stay because something else than the tables needs them.

Another table can reference a file anywhere: an Iceberg table takes it up with `add_files`, a list
pins it, a Paimon table names a folder of another one as its external path. So all configured roots
are asked about all files, right before the first delete, as by every other command that deletes.
Only the tables themselves are not: the caller has read them.

A table names its external folders itself, and everyone who can write to it can make it name any
folder. So files there are deleted only inside a location of a configured lake, or with the
caller's explicit consent (`--override outside`) in a bucket or file system that the table or a
lake is in. Lakesweep's own files and the folders of other tables always stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.app import App
from lakesweep.config import PaimonWarehouseRoot, Root
from lakesweep.errors import RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.hashing import HashSet
from lakesweep.operations.interaction import Interaction
from lakesweep.paimon.model.external_paths import real_folder
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import identities
from lakesweep.storage.deleting.bulk_delete import Deleter
from lakesweep.storage.file_identity import resolve_aliases
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.operations.tables.purge_check import PurgeCheck
    from lakesweep.sweep.references import ReferencedFiles, UnreferencedDeletion


@dataclass(frozen=True)
class TablesInQuestion:
    """The tables of one request, which the caller has read itself.

    Those that are `left_out` could not be read, as the caller reports: they lose nothing, and do
    not hold up the others.
    """

    tables: Sequence[PaimonTable]
    left_out: Sequence[str] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """All folders that files of the tables may be in."""
        external = (root for table in self.tables for root in table.external_roots)
        return (*(table.address.path for table in self.tables), *external)

    @property
    def known(self) -> frozenset[str]:
        """The folders of tables that are not asked (identities without links)."""
        paths = (*(table.address.path for table in self.tables), *self.left_out)
        return frozenset(map(real_folder, paths))


class ProtectedFiles:
    """Says which files of one request stay, by all roots and by the configuration."""

    def __init__(
        self, check: PurgeCheck, table: str, overrides: Collection[str], io: Interaction
    ) -> None:
        self._check = check
        self._table = table
        self._overrides = overrides
        first = self.look()
        #: The hashes of the files that stay.
        self.kept: HashSet = first.kept
        for reason, files in first.reasons().items():
            io.notify(
                f"warning: {format_count(files, 'file')} of {table} that the table no longer needs"
                f" are kept ({reason.value}), such as {first.example(reason)}"
            )

    def look(self) -> ReferencedFiles:
        """Ask all roots as they are now. RefusedError if a file is in a place not configured."""
        from lakesweep.operations.tables.purge_check import guard_outside

        seen = self._check.look()
        guard_outside(seen, self._table, f"lakesweep paimon files {self._table}", self._overrides)
        return seen

    def deletion(self, delete: Deleter) -> UnreferencedDeletion:
        """A deleter that leaves what stays, by a look right before the first delete."""
        return self._check.deletion(delete, self.look)


@contextmanager
def protected_files(
    app: App,
    question: TablesInQuestion,
    batches: Iterable[pa.RecordBatch],
    overrides: Collection[str],
    io: Interaction,
) -> Iterator[ProtectedFiles | None]:
    """What stays of some files that the tables let go; None if that is clear without a look."""
    roots = roots_to_ask(app, question, overrides)
    if not roots:
        batches = _beyond_own_folders(app, question.tables, batches)
    found = (batch for batch in batches if batch.num_rows)
    first = next(found, None)
    if first is None:
        yield None
        return
    # Most configurations of a few tables need none of this, and it takes longer to load than they.
    from lakesweep.operations.tables.purge_check import PurgeScope, purge_check
    from lakesweep.sweep.references import TablesRead

    scope = PurgeScope(
        allowed_locations(app, question.tables, overrides),
        roots=roots or None,
        read_tables=TablesRead(question.known, question.places),
    )
    with purge_check(app, scope, _chain(first, found), progress=io.progress) as check:
        yield ProtectedFiles(check, question.tables[0].address.path, overrides, io)


def roots_to_ask(
    app: App, question: TablesInQuestion, overrides: Collection[str]
) -> tuple[Root, ...]:
    """The roots that may need files in the folders of tables."""
    if GuardName.REFERENCED in overrides:
        return ()
    roots = app.lakes.roots_reaching(question.places)
    return tuple(root for root in roots if not _is_one_of(root, question))


def _is_one_of(root: Root, question: TablesInQuestion) -> bool:
    return isinstance(root, PaimonWarehouseRoot) and real_folder(root.path) in question.known


def allowed_locations(
    app: App, tables: Sequence[PaimonTable], overrides: Collection[str]
) -> tuple[str, ...]:
    """Where tables may have files: in their own folders and in the locations of lakes."""
    lakes = (location for lake in app.config.lakes.values() for location in lake.locations)
    locations = (*(table.address.path for table in tables), *lakes)
    if GuardName.OUTSIDE not in overrides:
        return locations
    from lakesweep.operations.tables.purge_check import whole_stores

    return whole_stores(locations)


def guard_external_roots(
    app: App, tables: Sequence[PaimonTable], overrides: Collection[str]
) -> None:
    """Refuse tables with an external folder in a place that is not configured."""
    allowed = [real_folder(each) for each in allowed_locations(app, tables, overrides)]
    for table in tables:
        for root in table.external_roots:
            if not real_folder(root).startswith(tuple(allowed)):
                raise RefusedError(
                    GuardName.OUTSIDE,
                    f"{table.address.path} names the external folder {root}, which is neither in"
                    " its own folder nor in the locations of a lake",
                    hint=_HINTS[GuardName.OUTSIDE in overrides],
                )


#: Without and with the override.
_HINTS = (
    "if the table owns that folder, add it to the locations of a lake, or add --override outside",
    "that bucket is not in the configuration: add the folder to the locations of a lake",
)


def _beyond_own_folders(
    app: App, tables: Sequence[PaimonTable], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Those of some files that are in none of the tables' own folders, or are Lakesweep's own."""
    folders = [real_folder(table.address.path) for table in tables]
    ours = [real_folder(each) for each in app.own_files]
    ours = [each for each in ours if each.startswith(tuple(folders))]
    for batch in batches:
        names = resolve_aliases(identities(batch["path"]))
        as_folders = pc.binary_join_element_wise(names, "", "/") if ours else names
        yield batch.filter(pc.or_(_is_in(as_folders, ours), pc.invert(_is_in(names, folders))))


def _is_in(names: pa.Array, folders: Iterable[str]) -> pa.Array:
    found = pa.repeat(pa.scalar(False), len(names))
    for folder in folders:
        found = pc.or_(found, pc.starts_with(names, folder))
    return found


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
