"""The result of the mark phase: datasets of everything referenced, and the state of each root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, MissingError
from lakesweep.iceberg.file_kinds import IcebergKind, snapshot_ids
from lakesweep.marks.columns import RootFacts
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.sweep.roots.root import RootKind
from lakesweep.untrusted.documents import JSON_ERRORS

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

DOCUMENT = "marks.json"
VERSION = 1

#: The datasets that are kept; each is the folder of that name.
KEPT = ("content", "sources", "edges", "problems", "usage", "roots")

#: One row per root: `root` is a RootMark document, the rest is for joins.
ROOTS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("source", pa.int64()),
        pa.field("root", pa.string(), nullable=False),
    ]
)


class RootState(StrEnum):
    """The final state of a root."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    ABSENT = "absent"


class UsedFiles(msgspec.Struct, frozen=True):
    """The files of one kind that a root names; a file named twice counts twice."""

    files: int
    bytes: int


class RootMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one root.

    `source` is the number of its own file. `folders` are all folders that it is known to use: where
    it declares that it keeps files, and where its files are. If nothing else is known, they are a
    guess by the usual layout. `reasons` say what could not be read.
    """

    name: str
    kind: RootKind
    pointer: str
    origin: str
    state: RootState
    reasons: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    is_guess: bool = False
    source: int | None = None
    facts: RootFacts | None = None
    used: dict[str, UsedFiles] = {}


class UnreadableSource(msgspec.Struct, frozen=True):
    """A root source that could not be read, so what it keeps is unknown."""

    origin: str
    reason: str


class EmptyCatalog(msgspec.Struct, frozen=True):
    """A catalog that lists no table at all, and what may be wrong with it."""

    origin: str
    reason: str


class UncatalogedTable(msgspec.Struct, frozen=True):
    """A table that no catalog knows, and that is not kept either."""

    origin: str
    pointer: str
    folders: tuple[str, ...]


class MarkFigures(msgspec.Struct, frozen=True):
    """How much was read and reused, and why nothing was reused despite earlier marks.

    `unread_roots` have not moved since they were last read, and cannot matter here.
    """

    manifests: int = 0
    reused: int = 0
    cache_problem: str | None = None
    unread_roots: int = 0


@dataclass(frozen=True)
class Marks:
    """The result of marking. The datasets are immutable; `address` is their common folder."""

    address: str
    datasets: dict[str, Dataset]
    roots: tuple[RootMark, ...]
    unknown: tuple[UnreadableSource, ...] = ()
    found: tuple[UncatalogedTable, ...] = ()
    figures: MarkFigures = field(default_factory=MarkFigures)
    empty: tuple[EmptyCatalog, ...] = ()

    @property
    def content(self) -> Dataset:
        """Every referenced file, as LIVE; repeated if several sources name it."""
        return self.datasets["content"]

    def in_state(self, state: RootState) -> Iterator[RootMark]:
        """The roots in this state."""
        return (root for root in self.roots if root.state is state)

    @property
    def opted_out(self) -> Iterator[RootMark]:
        """The roots that say `gc.enabled=false`."""
        return (root for root in self.roots if root.facts and not root.facts.gc_enabled)


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """What is in no dataset. It is written last: without it there are no marks."""

    version: int = VERSION
    datasets: dict[str, str]
    unknown: tuple[UnreadableSource, ...]
    found: tuple[UncatalogedTable, ...]
    figures: MarkFigures
    empty: tuple[EmptyCatalog, ...] = ()


def save_marks(stores: StoreOpener, marks: Marks) -> Marks:
    """Write the roots and the document of marks whose other datasets are committed."""
    address = dataset_address(marks.address, "roots")
    roots = write_dataset(stores, address, ROOTS, [_root_batch(marks.roots)])
    marks = replace(marks, datasets={**marks.datasets, "roots": roots})
    document = _Document(
        datasets={name: dataset.sha256 for name, dataset in marks.datasets.items()},
        unknown=marks.unknown,
        found=marks.found,
        figures=marks.figures,
        empty=marks.empty,
    )
    place = parse(_document_path(marks.address))
    # Last: a crash before this leaves folders without a document, which count as no marks at all.
    stores.open(place).write(place.key, msgspec.json.encode(document))
    return marks


def load_marks(stores: StoreOpener, address: str) -> Marks:
    """The marks at an address; MissingError if none were ever finished there."""
    path = _document_path(address)
    place = parse(path)
    data = stores.open(place).read(place.key)
    try:
        document = typed_json(data, _Document)
    except JSON_ERRORS as error:
        raise DamagedError(path, f"is no document of marks: {error}") from error
    datasets = {name: _load(stores, address, name, document) for name in KEPT}
    return Marks(
        address,
        datasets,
        tuple(_read_roots(stores, datasets["roots"])),
        document.unknown,
        document.found,
        document.figures,
        document.empty,
    )


def named_snapshots(stores: StoreOpener, marks: Marks) -> Iterator[str]:
    """The ids of snapshots that roots name, as far as manifest list names reveal them."""
    is_list = pc.field("kind") == IcebergKind.MANIFEST_LIST.value
    for batch in read_dataset(stores, marks.datasets["sources"], ["path"], is_list, verify=False):
        yield from snapshot_ids(batch["path"])


def dataset_address(address: str, name: str) -> str:
    """The address of a dataset of marks."""
    return f"{address.rstrip('/')}/{name}"


def _load(stores: StoreOpener, address: str, name: str, document: _Document) -> Dataset:
    place = dataset_address(address, name)
    try:
        dataset = load_dataset(stores, place)
    except MissingError as error:
        raise DamagedError(place, "this part of the marks is missing") from error
    # Marks of two runs must not be mixed: each part must be the one that the document was written
    # for.
    if dataset.sha256 != document.datasets.get(name):
        raise DamagedError(place, "is not what it was when the marks were made")
    return dataset


def _document_path(address: str) -> str:
    return f"{address.rstrip('/')}/{DOCUMENT}"


def _root_batch(roots: Iterable[RootMark]) -> pa.RecordBatch:
    rows: list[Mapping[str, object]] = [
        {
            "name": root.name,
            "state": root.state.value,
            "source": root.source,
            "root": msgspec.json.encode(root, order="sorted").decode(),
        }
        for root in roots
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROOTS)


def _read_roots(stores: StoreOpener, dataset: Dataset) -> Iterator[RootMark]:
    for batch in read_dataset(stores, dataset, ["root"]):
        for text in batch["root"].to_pylist():
            yield typed_json(text, RootMark)
