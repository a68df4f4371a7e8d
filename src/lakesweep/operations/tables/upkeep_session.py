"""What the tables of one run share: the engine, and the roots as they were last read.

For previews, each catalog lists its tables once in a run. Right before deletes everything is asked
again, whatever is remembered. Manifests that an earlier look has read are not read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import count
from tempfile import TemporaryDirectory
from typing import Self
from uuid import uuid4

from lakesweep.app import App
from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.operations.interaction import SILENT_IO, EngineName, Interaction
from lakesweep.operations.tables.delete_runs import plans_of_table
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.stores import Keyring
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.mark.earlier_marks import newest_marks
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.references import ListedRoots
from lakesweep.upkeep.engine_manifests import EngineManifests
from lakesweep.upkeep.file_index import FileIndex
from lakesweep.upkeep.history import SnapshotHistory


class UpkeepSession:
    """Opens engines for tables, and remembers what roots referenced. Ends with its context.

    With `large_only`, tables that are not large are read in this process, whatever the engine.
    """

    def __init__(
        self,
        app: App,
        engine: EngineName = EngineName.LOCAL,
        io: Interaction = SILENT_IO,
        *,
        large_only: bool = False,
    ) -> None:
        self._app = app
        self._engine = engine
        self._io = io
        self._large_only = large_only
        self._stack = ExitStack()
        self._numbers = count(1)
        self._place: str | None = None
        self._kept: str | None = None
        self._known: Marks | None = None
        #: What sources of roots listed last, by their names.
        self.listed: ListedRoots = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def engine(self, history: SnapshotHistory | None = None) -> SweepEngine:
        """The engine for a table, or for work whose size is not known."""
        is_small = history is None or not history.is_large
        if self._engine is EngineName.LOCAL or (self._large_only and is_small):
            return LocalSweepEngine(self._app.stores)
        return self._spark

    @cached_property
    def _spark(self) -> SweepEngine:
        engine = self._app.engine(self._engine.value, verbose=self._io.verbose)
        return self._stack.enter_context(engine)

    def index(self, base: LoadedTable, history: SnapshotHistory) -> FileIndex:
        """An index of the files of a table, read on its engine."""
        engine = self.engine(history)
        if isinstance(engine, LocalSweepEngine):
            return FileIndex(base.stores, progress=self._io.progress)
        address = f"{self._folder(base)}/{next(self._numbers)}-manifests"
        source = EngineManifests(engine, self._app.stores, Keyring(base.stores), address)
        return FileIndex(base.stores, progress=self._io.progress, source=source)

    @property
    def known(self) -> Marks | None:
        """The newest marks: those of the last look, or of the last plan of a lake."""
        if self._known is None and not self._app.is_new_store:
            found = newest_marks(self._app.stores, self._app.runs)
            self._known = next(iter(found), None)
        return self._known

    @contextmanager
    def look_folder(self) -> Iterator[str]:
        """A folder for looks at the roots; it stays while the newest marks are in it."""
        folder = f"{self._folder()}/{next(self._numbers)}-looks"
        try:
            yield folder
        finally:
            if self._kept != folder:
                remove_folder(self._app.stores, folder)

    def remember(self, marks: Marks, folder: str) -> None:
        """Keep marks for the next look, in place of those before."""
        self._known = marks
        if self._kept not in (None, folder):
            remove_folder(self._app.stores, self._kept)
        self._kept = folder

    def _folder(self, base: LoadedTable | None = None) -> str:
        """Where work in progress is: with Spark, executors must reach it."""
        if self._place is None:
            self._place = self._new_folder(base)
        return self._place

    def _new_folder(self, base: LoadedTable | None) -> str:
        if self._engine is EngineName.LOCAL:
            return self._stack.enter_context(TemporaryDirectory(prefix="lakesweep-"))
        location = None if base is None else base.document.get("location", str | None)
        plans = self._app.plans if location is None else plans_of_table(self._app, location)
        folder = f"{plans}/work-{uuid4().hex}"
        self._stack.callback(remove_folder, self._app.stores, folder)
        return folder
