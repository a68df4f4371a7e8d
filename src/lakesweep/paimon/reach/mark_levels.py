"""Mark what Paimon tables reference, level by level.

Tables lead to the snapshots, tags and changelogs of all branches, these to manifest lists and
index manifests, lists to manifests, and manifests name files. A pointer's location is the
encoded layout that file paths are made from. Its `entries` are null if no owner needs the
file: then it may be missing, and so may everything it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, MissingError
from lakesweep.marks.columns import RootFacts
from lakesweep.marks.file_level import FileLevel, LevelSpec, MarkCollector
from lakesweep.marks.pointers import Pointer, children_of, numbers_of
from lakesweep.paimon.manifests.entries import (
    ADD,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from lakesweep.paimon.manifests.named_files import (
    Sidecar,
    check_external_paths,
    files_of,
    find_sidecars,
    index_paths,
    read_packs,
)
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.layout_codec import EncodedLayout, changelog_layout, parse_layout
from lakesweep.paimon.model.snapshots import PaimonSnapshot, parse_snapshot, parse_tag
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.owners import (
    ListRole,
    OwnerFile,
    check_empty_branches,
    list_names,
    list_settled,
    lists_of,
    needs_state,
    read_owners,
)
from lakesweep.paimon.reach.root_files import file_version, root_files
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import parse
from lakesweep.storage.file_batches import batch_of, file_batch

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

_LONG, _TEXT = pa.int64(), pa.string()


@dataclass(frozen=True)
class ListedTable:
    """What listing its folders tells of a table: its owners, each with the text of its layout."""

    facts: RootFacts
    owners: Sequence[tuple[OwnerFile, str]]
    files: Sequence[pa.RecordBatch]


@dataclass(frozen=True)
class PaimonTableLevel(FileLevel[ListedTable]):
    """Tables, by their newest schemas; the location of a pointer is the folder of the table."""

    def read(self, pointer: Pointer) -> ListedTable:
        table = PaimonTable(self.keyring.open(pointer.access), parse(pointer.location or ""))
        owners: list[tuple[OwnerFile, str]] = []
        texts: dict[str, None] = {}
        for branch in table.branches():
            text = EncodedLayout.of(branch).write()
            texts[text] = None
            owners += [(file, text) for file in list_settled(branch)]
        found = [file for file, _ in owners]
        check_empty_branches(found, table, lambda: list_names(read_owners(found)))
        files = [batch for batch in root_files(table, ()) if batch.num_rows]
        return ListedTable(_facts(table, owners, tuple(texts)), owners, files)

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: ListedTable) -> Iterator[None]:
        outbox.state(pointer.source, found.facts)
        for files in found.files:
            outbox.add(pointer.source, files)
        for kind in (PaimonKind.SNAPSHOT, PaimonKind.TAG, PaimonKind.CHANGELOG_META):
            for text in found.facts.layouts:
                chosen = [file for file, of in found.owners if file.kind is kind and of == text]
                outbox.lead(_owner_children(pointer, kind, chosen, text))
        outbox.close(pointer, len(found.owners))
        yield


@dataclass(frozen=True)
class PaimonOwnerLevel(FileLevel[PaimonSnapshot]):
    """Snapshots, tags and changelogs.

    One that is not there any more is a problem: others may have come since they were listed, and
    the status of the table is decided elsewhere.
    """

    def read(self, pointer: Pointer) -> PaimonSnapshot:
        data = _read(self.keyring.open(pointer.access), pointer.path)
        if pointer.kind == PaimonKind.TAG:
            return parse_tag(pointer.path, data, "", None).snapshot
        snapshot = parse_snapshot(pointer.path, data)
        if not pointer.path.endswith(f"-{snapshot.id}"):
            raise DamagedError(pointer.path, f"says that it is number {snapshot.id}")
        return snapshot

    def mark(
        self, outbox: MarkCollector, pointer: Pointer, found: PaimonSnapshot
    ) -> Iterator[None]:
        kind = PaimonKind(pointer.kind)
        layout = _layout(pointer)
        for each in lists_of(kind, found):
            text = _text_for(pointer, each.role)
            paths = pa.array([layout.manifest(each.name)])
            sizes = pa.array([each.size_bytes], _LONG)
            needed = pa.array([each.least if each.needed else None], _LONG)
            outbox.lead(children_of(pointer, PaimonKind.MANIFEST_LIST, paths, sizes, needed, text))
        if found.index_manifest:
            paths = pa.array([layout.manifest(found.index_manifest)])
            least = layout.least_indexes(found.total_record_count)
            needed = pa.array([least if needs_state(kind) else None], _LONG)
            unknown = pa.nulls(1, _LONG)
            children = children_of(
                pointer, PaimonKind.INDEX_MANIFEST, paths, unknown, needed, pointer.location
            )
            outbox.lead(children)
        if found.statistics:
            of = PaimonKind.STATISTICS if needs_state(kind) else PaimonKind.FORMER
            outbox.add(
                pointer.source, file_batch(of, [(layout.statistics(found.statistics), None)])
            )
        outbox.close(pointer, 1)
        yield


@dataclass(frozen=True)
class _MetaLevel(FileLevel[bytes | None]):
    """Files of the folder of manifests; none of a folder that does not exist and is not needed."""

    def read(self, pointer: Pointer) -> bytes | None:
        try:
            return _read(self.keyring.open(pointer.access), pointer.path)
        except MissingError:
            if pointer.entries is None:
                return None
            raise


@dataclass(frozen=True)
class PaimonListLevel(_MetaLevel):
    """Manifest lists."""

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes | None) -> Iterator[None]:
        if found is None:
            return
        named = read_manifest_list(
            pointer.path, found, size_bytes=pointer.size_bytes, least=pointer.entries or 0
        )
        manifests = named.combine_chunks()
        folder = f"{_layout(pointer).root}manifest/"
        paths = pc.binary_join_element_wise(folder, _column(manifests, "name"), "")
        entries = pc.add(_column(manifests, "added"), _column(manifests, "deleted"))
        if pointer.entries is None:
            entries = pa.nulls(len(paths), _LONG)
        sizes = _column(manifests, "size_bytes")
        outbox.lead(
            children_of(pointer, PaimonKind.MANIFEST, paths, sizes, entries, pointer.location)
        )
        extra = pc.list_flatten(_column(manifests, "extra_files"))
        beside = pc.binary_join_element_wise(folder, extra, "")
        outbox.add(pointer.source, batch_of(PaimonKind.EXTRA, beside))
        outbox.close(pointer._replace(size_bytes=len(found)), manifests.num_rows)
        yield


@dataclass(frozen=True)
class PaimonManifestLevel(_MetaLevel):
    """Manifests. Their pointers have the size and the entries that a list counts."""

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes | None) -> Iterator[None]:
        if found is None:
            return
        layout, is_of_changes = parse_layout(pointer.location or "")
        kind = PaimonKind.CHANGELOG if is_of_changes else PaimonKind.DATA
        sidecars: dict[Sidecar, None] = {}
        seen = 0
        for batch in read_manifest(
            pointer.path, found, size_bytes=pointer.size_bytes, entries=pointer.entries
        ):
            seen += batch.num_rows
            check_external_paths(pointer.path, batch["external_path"], layout)
            named = files_of(layout, batch)
            is_added = pc.equal(batch["kind"], ADD)
            if pointer.entries is None:
                is_added = pa.repeat(pa.scalar(False), batch.num_rows)
            own, extra = named.paths[: batch.num_rows], named.paths[batch.num_rows :]
            beside = named.rows[batch.num_rows :]
            outbox.add(pointer.source, _named(own, kind, is_added, batch["size_bytes"]))
            outbox.add(
                pointer.source, _named(extra, PaimonKind.EXTRA, is_added.take(pa.array(beside)))
            )
            sidecars |= dict.fromkeys(find_sidecars(extra, own, beside))
            yield
        for packs in self._packs(pointer, sidecars):
            outbox.add(
                pointer.source, file_batch(PaimonKind.EXTRA, ((path, None) for path in packs))
            )
            yield
        size = len(found) if pointer.size_bytes is None else pointer.size_bytes
        outbox.close(pointer._replace(size_bytes=size), seen)

    def _packs(self, pointer: Pointer, sidecars: dict[Sidecar, None]) -> Iterator[list[str]]:
        """The packs of each sidecar. They belong to the manifest."""
        if not sidecars:
            return
        stores = self.keyring.open(pointer.access)
        table = PaimonTable(stores, parse(_layout(pointer).root))
        yield from map_ordered(lambda each: read_packs(table, each), sidecars, workers=self.workers)


@dataclass(frozen=True)
class PaimonIndexLevel(_MetaLevel):
    """Index manifests."""

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes | None) -> Iterator[None]:
        if found is None:
            return
        named = read_index_manifest(pointer.path, found, least=pointer.entries or 0)
        entries = named.combine_chunks()
        kind = PaimonKind.FORMER if pointer.entries is None else PaimonKind.INDEX
        layout, external = _layout(pointer), _column(entries, "external_path")
        check_external_paths(pointer.path, external, layout, of_buckets=False)
        paths = index_paths(layout, entries)
        outbox.add(pointer.source, batch_of(kind, paths, _column(entries, "size_bytes")))
        outbox.close(pointer._replace(size_bytes=len(found)), entries.num_rows)
        yield


#: From the root's own file down.
PAIMON_LEVELS = (
    LevelSpec(PaimonKind.SCHEMA, PaimonTableLevel),
    LevelSpec(PaimonKind.SNAPSHOT, PaimonOwnerLevel),
    LevelSpec(PaimonKind.TAG, PaimonOwnerLevel),
    LevelSpec(PaimonKind.CHANGELOG_META, PaimonOwnerLevel),
    LevelSpec(PaimonKind.MANIFEST_LIST, PaimonListLevel),
    LevelSpec(PaimonKind.MANIFEST, PaimonManifestLevel, immutable=True),
    LevelSpec(PaimonKind.INDEX_MANIFEST, PaimonIndexLevel),
)


def owner_numbers(files: Sequence[OwnerFile]) -> list[int]:
    """The numbers by which owners are known in marks; another commit has another number."""
    paths = pa.array([file.path for file in files], _TEXT)
    return list(numbers_of(paths, _versions(files)).to_pylist())


def _owner_children(
    parent: Pointer, kind: PaimonKind, files: Sequence[OwnerFile], text: str
) -> pa.RecordBatch:
    paths = pa.array([file.path for file in files], _TEXT)
    sizes = pa.array([file.info.size_bytes for file in files], _LONG)
    entries = pa.repeat(pa.scalar(0, _LONG), len(files))
    return children_of(parent, kind, paths, sizes, entries, text, versions=_versions(files))


def _versions(files: Sequence[OwnerFile]) -> pa.Array:
    return pa.array([file_version(file.info) for file in files], _TEXT)


def _facts(
    table: PaimonTable, owners: Sequence[tuple[OwnerFile, str]], texts: tuple[str, ...]
) -> RootFacts:
    moments = [file.info.modified for file, _ in owners if file.info.modified is not None]
    return RootFacts(
        location=table.address.path,
        write_paths=table.external_roots,
        oldest_snapshot_ms=int(1000 * min(moments).timestamp()) if moments else None,
        layouts=texts,
    )


def _layout(pointer: Pointer) -> Layout:
    return parse_layout(pointer.location or "")[0]


def _text_for(pointer: Pointer, role: ListRole) -> str | None:
    """The location for a list: one of changes names files of another kind."""
    if role is not ListRole.CHANGELOG:
        return pointer.location
    return changelog_layout(pointer.location or "")


def _named(
    paths: pa.Array, kind: PaimonKind, is_added: pa.Array, sizes: pa.Array | None = None
) -> pa.RecordBatch:
    """Files that entries name; those that they delete are former ones."""
    files = batch_of(kind, paths, sizes)
    kinds = pc.if_else(is_added, kind.value, PaimonKind.FORMER.value)
    return files.set_column(1, files.schema.field(1), kinds)


def _column(table: pa.Table, name: str) -> pa.Array:
    return table[name].combine_chunks()


def _read(stores: Stores, path: str) -> bytes:
    address = parse(path)
    return stores.open(address).read(address.key)
