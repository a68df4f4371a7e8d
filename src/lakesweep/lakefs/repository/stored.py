"""A repository read from its bucket alone, without a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError, NotFoundError
from lakesweep.lakefs.addresses import METADATA, StorageNamespace
from lakesweep.lakefs.ranges.reader import RangeFiles, Trees
from lakesweep.lakefs.refs.commit_graph import Refs
from lakesweep.lakefs.refs.dumps import RefsDump, files_of_dump, parse_manifest, read_dump
from lakesweep.lakefs.repository.interface import DumpAge, StagingUnknownError
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores

MANIFEST = "refs_manifest.json"
_ID = re.compile(r"[0-9a-f]{64}")


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

    def written_since(self) -> tuple[datetime | None, frozenset[str]]:
        """When the manifest of the refs was written, and the ids that were not written before.

        Both times come from listings: those of other requests may lack fractions of a second, so
        that the files of a dump would look younger than its own manifest.
        """
        manifest = parse(self._namespace.table(MANIFEST))
        dumped = self._stores.open(manifest).head(manifest.key).modified
        if dumped is None:
            return None, frozenset()
        since = pc.field("modified") >= dumped.replace(microsecond=0)
        rows = [row for page in self._pages() for row in page.filter(since).to_pylist()]
        listed = [row["modified"] for row in rows if row["key"] == manifest.key]
        dumped = max(listed, default=dumped)
        names = (row["key"].rpartition("/")[2] for row in rows if row["modified"] > dumped)
        return dumped, frozenset(name for name in names if _ID.fullmatch(name))

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
        return read_dump(self._trees, self._read_manifest())

    @property
    def _trees(self) -> Trees:
        return Trees(self._files, self.namespace)

    def _read_manifest(self) -> RefsDump:
        with self._telling_no_dump():
            manifest = self._files.read(MANIFEST, meta=True)
        return parse_manifest(self.namespace.table(MANIFEST), manifest)

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
            dumped, younger = self._files.written_since()
        # Stores may be slow to write what is small: files of the dump itself are never news.
        own = files_of_dump(self._trees, self._read_manifest()) if younger else frozenset()
        return DumpAge(dumped, len(younger - own))

    def staged(self) -> Iterator[pa.RecordBatch]:
        """Always StagingUnknownError: only a server knows."""
        raise StagingUnknownError(
            f"what is staged on the branches of {self.name} is not in its bucket",
            hint="give the name of the repository and configure its server",
        )
