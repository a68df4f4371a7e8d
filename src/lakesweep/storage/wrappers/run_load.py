"""The limits of a run, which all its processes share, and what they used together.

A limit of the configuration is one for the whole run. While tasks run, it is divided equally
among them and the driver, so that no process has to ask another one, and together they never
exceed it. Without tasks the driver has all of it. Tasks that follow one another in a process
share its part. What they use, they report in small files that the driver adds up.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from uuid import uuid4

import msgspec

from lakesweep.clock import Clock, SystemClock
from lakesweep.decoding import typed_json
from lakesweep.errors import LakesweepError
from lakesweep.storage.address import parse
from lakesweep.storage.object_store import ListingPage, StoreOpener
from lakesweep.storage.options import DeleteRate, LoadLimits
from lakesweep.storage.wrappers.load_limit import StoreLoad
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter, TokenBucket
from lakesweep.storage.wrappers.used_load import CountedClock, LoadCounter, UsedLoad

_NO_RATES: Mapping[str, float] = MappingProxyType({})
_ENDING = ".load"
#: How many runs a process of a cluster remembers at once.
_MOST_RUNS = 4


class RunLoad:
    """The limits and counts of one process, or of its part in a run.

    `catalog_rates` are requests a second, by the name of a catalog or the endpoint of a server.
    Pickled, it becomes that of a task: with its part of each limit, and one for each process.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        catalog_rates: Mapping[str, float] = _NO_RATES,
        *,
        tasks: int = 0,
        name: str | None = None,
        is_task: bool = False,
    ) -> None:
        self.name = name or uuid4().hex
        #: Opens the store that reports lie in.
        self.opener: StoreOpener | None = None
        self.clock = clock or SystemClock()
        self.counter = LoadCounter()
        #: How many tasks run at once, where tasks run.
        self.tasks = tasks
        #: Where tasks report what they used.
        self.folder: str | None = None
        self._catalog_rates = catalog_rates
        self._is_divided = is_task
        self._stores: dict[str, StoreLoad] = {}
        self._deletes: dict[str, DeleteLimiter] = {}
        self._catalogs: dict[str, TokenBucket] = {}
        self._lock = threading.RLock()
        self._reported = UsedLoad()
        # Not one for the process: Spark forks its workers from one that has loaded this module.
        self._file = f"{uuid4().hex}{_ENDING}"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        rates = dict(self._catalog_rates)
        return _of_task, (self.name, self.clock, rates, self.tasks, self.folder)

    def divisor(self) -> int:
        """How many processes share each limit at this moment."""
        return self.tasks + 1 if self._is_divided else 1

    @contextmanager
    def divided(self) -> Iterator[None]:
        """Share the limits with tasks while the block runs."""
        before, self._is_divided = self._is_divided, True
        try:
            yield
        finally:
            self._is_divided = before

    def store(self, store_id: str, limits: LoadLimits) -> StoreLoad:
        """The limits and counts of a store, however often it is opened."""
        with self._lock:
            if store_id not in self._stores:
                self._stores[store_id] = StoreLoad(self.clock, limits, self.counter, self.divisor)
            return self._stores[store_id]

    def deletes(self, store_id: str, rate: DeleteRate) -> DeleteLimiter:
        """The delete rate of a store, however often it is opened."""
        with self._lock:
            if store_id not in self._deletes:
                clock = CountedClock(self.clock, self.counter)
                self._deletes[store_id] = DeleteLimiter(clock, rate, self.divisor)
            return self._deletes[store_id]

    def catalog(self, name: str) -> CatalogPace:
        """What holds the requests to a catalog to its rate, and counts them."""
        return CatalogPace(self, name)

    def ask_catalog(self, name: str) -> None:
        """Wait until a catalog may be asked, and count the request."""
        rate = self._catalog_rates.get(name)
        if rate is not None:
            with self._lock:
                clock = CountedClock(self.clock, self.counter)
                bucket = self._catalogs.setdefault(name, TokenBucket(clock, rate, self.divisor))
            bucket.take(1)
        self.counter.add_catalog_request()

    def report(self) -> None:
        """Write what this process has used for a run so far. Nothing depends on it."""
        used = self.counter.used()
        if self.folder is None or self.opener is None or used == self._reported:
            return
        place = parse(f"{self.folder}/{self._file}")
        with suppress(LakesweepError):
            self.opener.open(place).write(place.key, msgspec.json.encode(used))
            self._reported = self.counter.used()

    def used(self) -> UsedLoad:
        """What this process and its tasks have used so far, as far as they reported."""
        used = self.counter.used()
        with suppress(LakesweepError, msgspec.DecodeError):
            for each in self._reports():
                used = used.plus(each)
        return used

    def _reports(self) -> Iterator[UsedLoad]:
        if self.folder is None or self.opener is None or not self.tasks:
            return
        place = parse(f"{self.folder}/")
        store = self.opener.open(place)
        page: ListingPage | None = None
        while page is None or page.next is not None:
            page = store.list(place.key, cursor=None if page is None else page.next)
            for key in page.entries["key"].to_pylist():
                if key.endswith(_ENDING):
                    yield typed_json(store.read(key), UsedLoad)


@dataclass(frozen=True)
class CatalogPace:
    """Call it before each request to one catalog. Can be pickled."""

    load: RunLoad
    name: str

    def __call__(self) -> None:
        self.load.ask_catalog(self.name)


#: Is called before each request to a catalog, and may wait.
Pace = Callable[[], None]


def no_pace() -> None:
    """For a catalog without a limit, whose requests are not counted."""


#: The parts of this process in runs of others, by name.
_of_runs: OrderedDict[str, RunLoad] = OrderedDict()
_guard = threading.Lock()


def _of_task(
    name: str, clock: Clock, rates: Mapping[str, float], tasks: int, folder: str | None
) -> RunLoad:
    """The part of this process in a run; the same one for all its tasks."""
    with _guard:
        load = _of_runs.pop(name, None)
        if load is None:
            load = RunLoad(clock, rates, tasks=tasks, name=name, is_task=True)
        load.tasks, load.folder = tasks, folder
        _of_runs[name] = load
        if len(_of_runs) > _MOST_RUNS:
            _of_runs.popitem(last=False)
    return load


def report_loads() -> None:
    """Report what this process has used for each run that it works for, after a task."""
    with _guard:
        loads = list(_of_runs.values())
    for load in loads:
        load.report()
