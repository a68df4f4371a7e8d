"""A repository read from its bucket alone, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError, NotFoundError
from lakesweep.lakefs.addresses import METADATA, StorageNamespace
from lakesweep.lakefs.ranges.reader import RangeFiles, Trees
from lakesweep.lakefs.refs.commit_graph import Refs
from lakesweep.lakefs.refs.dumps import parse_manifest, read_dump
from lakesweep.lakefs.repository.interface import DumpAge, StagingUnknownError
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores

MANIFEST = "refs_manifest.json"
_ID = r"/[0-9a-f]{64}$"


class StoredFiles:
    """The files of a repository, read from its store. Can be pickled."""

    def __init__(self, stores: Stores, namespace: StorageNamespace) -> None:
        self._stores = stores
        self._namespace = namespace

    def read(self, id_: str, *, meta: bool) -> bytes:
        """Read a file; ranges and metaranges are stored side by side."""
        del meta
        address = parse(self._namespace.table(id_))
        return self._stores.open(address).read(address.key)

    def dump_age(self) -> DumpAge:
        """When the manifest of the refs was written, by the store's clock, and what came since."""
        manifest = parse(self._namespace.table(MANIFEST))
        dumped = self._stores.open(manifest).head(manifest.key).modified
        return DumpAge(dumped, 0 if dumped is None else self._count_since(dumped))

    def _count_since(self, moment: datetime) -> int:
        younger = pc.field("modified") > moment
        return sum(
            page.filter(pc.match_substring_regex(page["key"], _ID)).filter(younger).num_rows
            for page in self._pages()
        )

    def _pages(self) -> Iterator[pa.RecordBatch]:
        folder = parse(self._namespace.address(METADATA))
        cursor: object | None = None
        while True:
            page = self._stores.open(folder).list(folder.key, one_level=True, cursor=cursor)
            yield page.entries
            if page.next is None:
                return
            cursor = page.next


class StoredRepository:
    """A repository by the address of its namespace, with the refs of its last dump.

    Changes since that dump, and staged entries, are unknown.
    """

    def __init__(self, stores: Stores, location: str, aliases: tuple[str, ...] = ()) -> None:
        self.name = location
        self.namespace = StorageNamespace(location, aliases)
        self._files = StoredFiles(stores, self.namespace)

    @property
    def files(self) -> RangeFiles:
        """The files of ranges and metaranges."""
        return self._files

    @property
    def editor(self) -> None:
        """None: only a server can commit."""
        return None

    def read_refs(self) -> Refs:
        """The refs of the dump; NotFoundError if there is none."""
        with self._telling_no_dump():
            manifest = self._files.read(MANIFEST, meta=True)
        path = self.namespace.table(MANIFEST)
        return read_dump(Trees(self._files, self.namespace), parse_manifest(path, manifest))

    @contextmanager
    def _telling_no_dump(self) -> Iterator[None]:
        try:
            yield
        except MissingError as error:
            path = self.namespace.table(MANIFEST)
            raise NotFoundError(
                f"{self.name} holds no refs dump: there is no {path}",
                hint="let the server write one with lakesweep lifecycle refs NAME",
            ) from error

    def dump_age(self) -> DumpAge:
        """How old its last dump is; NotFoundError if there is none."""
        with self._telling_no_dump():
            return self._files.dump_age()

    def staged(self) -> Iterator[pa.RecordBatch]:
        """Always StagingUnknownError: only a server knows."""
        raise StagingUnknownError(
            f"what is staged on the branches of {self.name} is not in its bucket",
            hint="give the name of the repository and configure its server",
        )
