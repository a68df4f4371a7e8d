"""Repositories as their bucket alone tells of them, without a server."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakesweep.errors import MissingError, NotFoundError
from lakesweep.lakefs.addresses import Namespace
from lakesweep.lakefs.dumps import parse_manifest, read_dump
from lakesweep.lakefs.reading import Trees
from lakesweep.lakefs.refs import Refs
from lakesweep.lakefs.repository import RangeFiles, StagingUnknownError
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores

MANIFEST = "refs_manifest.json"


class StoredFiles:
    """The files of a repository, from the store that they lie in. Can be pickled."""

    def __init__(self, stores: Stores, namespace: Namespace) -> None:
        self._stores = stores
        self._namespace = namespace

    def read(self, id_: str, *, meta: bool) -> bytes:
        """The file; ranges and metaranges lie side by side."""
        del meta
        address = parse(self._namespace.table(id_))
        return self._stores.open(address).read(address.key)


class StoredRepository:
    """A repository by the address of its namespace, with the refs of its last dump.

    What happened since that dump is not known, nor what is staged.
    """

    def __init__(self, stores: Stores, location: str, aliases: tuple[str, ...] = ()) -> None:
        self.name = location
        self.namespace = Namespace(location, aliases)
        self._files = StoredFiles(stores, self.namespace)

    @property
    def files(self) -> RangeFiles:
        """The files of ranges and metaranges."""
        return self._files

    def read_refs(self) -> Refs:
        """The refs of the dump; NotFoundError where there is none."""
        path = self.namespace.table(MANIFEST)
        try:
            manifest = self._files.read(MANIFEST, meta=True)
        except MissingError as error:
            raise NotFoundError(
                f"{self.name} holds no dump of a repository's refs: there is no {path}",
                hint="lakectl refs-dump lakefs://REPOSITORY writes one",
            ) from error
        return read_dump(Trees(self._files, self.namespace), parse_manifest(path, manifest))

    def staged(self) -> Iterator[pa.RecordBatch]:
        """Never known: only a server can say."""
        raise StagingUnknownError(
            f"what is staged on the branches of {self.name} is not in its bucket",
            hint="name the repository and its server instead of the address",
        )
