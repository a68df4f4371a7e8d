"""Tables without a catalog: folders with a version hint, and single metadata files.

In a folder, version N+1 is committed by creating its file, which only one writer can do. The hint
is written afterwards; readers count up from it, so a stale one does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import uuid4

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import (
    CommitConflictError,
    ExistsError,
    LakesweepError,
    MissingError,
    RefusedError,
    UnavailableError,
)
from lakesweep.iceberg.commits.pointer_commit import (
    changed_document,
    read_table,
    write_metadata,
)
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    CommitStatus,
    LoadedTable,
    MetadataChange,
)
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.file_names import (
    encode_file,
    metadata_codec,
    write_metadata_name,
)
from lakesweep.iceberg.table_identifier import find_version, metadata_path, version_of
from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class FolderTable:
    """A table in a folder, whose files are numbered `v1.metadata.json` and so on.

    Engines check that a number is free and then rename. On an object store that is a copy that
    replaces whatever is there, so our own care is not enough: only with `sole_writer`, the word of
    the user that nothing else writes the table, is such a folder changed.
    """

    folder: str
    stores: Stores
    sole_writer: bool = False
    clock: Clock = field(default_factory=SystemClock)

    @property
    def name(self) -> str:
        return self.folder

    def load(self) -> LoadedTable:
        return read_table(self.folder, metadata_path(self.stores, self.folder), self.stores)

    def expired_by(self, _: LoadedTable) -> str | None:
        return None

    def commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        self._check_store()
        try:
            document = changed_document(base, change, self.clock)
        except CommitConflictError as error:
            return CommitOutcome(CommitStatus.CONFLICT, reason=error.message)
        if document is base.document:
            return CommitOutcome(CommitStatus.UNCHANGED, base)
        path = self._next_path(base, document)
        after = replace(base, location=path, document=RawDocument(path, document.fields))
        if not self._create(after):
            return CommitOutcome(CommitStatus.CONFLICT, reason=f"{path} was written meanwhile")
        with suppress(LakesweepError):  # a stale hint does no harm, and the commit is done
            self._hint(version_of(path))
        return CommitOutcome(CommitStatus.COMMITTED, after, base=base)

    def _check_store(self) -> None:
        if self.sole_writer or parse(self.folder).kind is StoreKind.FILE:
            return
        raise RefusedError(
            "no-catalog",
            f"{self.folder} has no catalog, and engines that write it could replace this commit",
            hint="register the table in a catalog, or make sure that nothing else writes it",
        )

    def _next_path(self, base: LoadedTable, document: RawDocument) -> str:
        extension = ".gz" if metadata_codec(document.properties()) == "gzip" else ""
        number = version_of(base.location) + 1
        return f"{self.folder.rstrip('/')}/metadata/v{number}{extension}.metadata.json"

    def _create(self, after: LoadedTable) -> bool:
        """Create the file of the next version; False if there is one, compressed or not."""
        number = str(version_of(after.location))
        if find_version(self.stores, f"{self.folder.rstrip('/')}/metadata/", number) is not None:
            return False
        address, data = parse(after.location), encode_file(after.document, after.location)
        store = self.stores.open(address)
        try:
            store.write_new(address.key, data)
        except ExistsError:
            # The store repeats a write without an answer, and may then find its own file.
            return store.read(address.key) == data
        except UnavailableError:
            with_answer = self._read(after.location)
            if with_answer is None:
                raise
            return with_answer == data
        return True

    def _read(self, path: str) -> bytes | None:
        address = parse(path)
        try:
            return self.stores.open(address).read(address.key)
        except MissingError:
            return None

    def _hint(self, number: int) -> None:
        address = parse(f"{self.folder.rstrip('/')}/metadata/version-hint.text")
        self.stores.open(address).write(address.key, str(number).encode())


@dataclass(frozen=True)
class MetadataFile:
    """A metadata file that no catalog points to; its successor is written where the user says."""

    path: str
    stores: Stores
    output: str | None = None
    clock: Clock = field(default_factory=SystemClock)
    new_uuid: Callable[[], object] = uuid4

    @property
    def name(self) -> str:
        return self.path

    def load(self) -> LoadedTable:
        return read_table(self.path, self.path, self.stores)

    def expired_by(self, _: LoadedTable) -> str | None:
        return None

    def commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        document = changed_document(base, change, self.clock)
        if document is base.document:
            return CommitOutcome(CommitStatus.UNCHANGED, base)
        path = self.output or write_metadata_name(document, base.location, str(self.new_uuid()))
        after = replace(base, location=path, document=RawDocument(path, document.fields))
        try:
            write_metadata(after)
        except ExistsError as error:
            raise RefusedError(
                "output", f"{path} exists already", hint="name a file that does not exist yet"
            ) from error
        return CommitOutcome(CommitStatus.COMMITTED, after, base=base)
