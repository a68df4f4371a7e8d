"""The table of store implementations: open the store of an address, once, with its options."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import ConfigError
from lakesweep.storage.address import Address, StoreKind, folder_identity, parse
from lakesweep.storage.local.folders import LocalFolders
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.wrappers.base import BoundedReads
from lakesweep.storage.wrappers.load_limit import LoadLimited
from lakesweep.storage.wrappers.rate_limit import RateLimited
from lakesweep.storage.wrappers.retry import Retrying, RetryPolicy
from lakesweep.storage.wrappers.run_load import RunLoad
from lakesweep.storage.wrappers.used_load import CountedClock
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _open_s3(address: Address, options: StorageOptions) -> ObjectStore:
    from lakesweep.storage.s3.store import S3Store

    return S3Store(address.bucket, options)


def _open_gcs(address: Address, options: StorageOptions) -> ObjectStore:
    from lakesweep.storage.google.store import GoogleStore

    return GoogleStore(address.bucket, options)


def _open_azure(address: Address, options: StorageOptions) -> ObjectStore:
    from lakesweep.storage.azure.store import AzureStore

    return AzureStore(address.bucket, options)


def _open_memory(address: Address, _: StorageOptions) -> ObjectStore:
    from lakesweep.storage.memory import open_memory

    return open_memory(address.bucket)


#: How each kind of bucket is opened. Client libraries are imported only when used.
OPENERS: Mapping[StoreKind, Callable[[Address, StorageOptions], ObjectStore]] = {
    StoreKind.S3: _open_s3,
    StoreKind.GCS: _open_gcs,
    StoreKind.AZURE: _open_azure,
    StoreKind.MEMORY: _open_memory,
}


class Stores:
    """Opens the store of an address, once for all its spellings, with retries and rate limits.

    `options` are looked up by the longest configured address that contains the store: a bucket such
    as `s3://lake`, or a whole kind such as `s3://`. `replace` substitutes ready-made stores, by
    address. `folders` are the local folders that a user named. `limits` bound what readers of
    foreign files take, and `load` all stores together; they travel with the stores, so that
    executors have them too. Picklable: each process opens its own stores.
    """

    def __init__(
        self,
        options: Mapping[str, StorageOptions] = _NOTHING,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        replace: Mapping[str, ObjectStore] = _NOTHING,
        limits: ReadLimits = DEFAULT_LIMITS,
        folders: LocalFolders | None = None,
        load: RunLoad | None = None,
    ) -> None:
        self.limits = limits
        self.load = load or RunLoad(clock)
        self._options = {_whole_store(path): option for path, option in options.items()}
        self._clock = clock or SystemClock()
        self._random = random or Random()  # noqa: S311
        self._replaced = {parse(path).store_id: store for path, store in replace.items()}
        self._folders = folders or LocalFolders()
        self._opened = dict(self._replaced)
        self._lock = threading.Lock()
        self.load.opener = self.load.opener or self

    def __getstate__(self) -> dict[str, object]:
        kept = ("limits", "load", "_options", "_clock", "_random", "_replaced", "_folders")
        return {name: value for name, value in vars(self).items() if name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._opened = dict(self._replaced)
        self._lock = threading.Lock()
        self.load.opener = self.load.opener or self

    def open(self, address: Address | str) -> ObjectStore:
        """The store that holds this address."""
        address = parse(address) if isinstance(address, str) else address
        with self._lock:
            store = self._opened.get(address.store_id)
            if store is None:
                # Opened under the lock: two threads must not open two connection pools, or two rate
                # limits, for one store.
                store = self._opened[address.store_id] = self._open(address)
        return store

    def with_defaults(self, options: Mapping[str, StorageOptions]) -> Stores:
        """The same stores, with these options where nothing is configured."""
        return Stores(
            {**options, **self._options},
            clock=self._clock,
            random=self._random,
            replace=self._replaced,
            limits=self.limits,
            folders=self._folders,
            load=self.load,
        )

    def within(self, *locations: str, private: Iterable[str] = ()) -> Stores:
        """The same stores, which now know these locations and private folders.

        Only local ones matter: links below a location are not followed. Buckets stay open.
        """
        folders = self._folders.adding(_local_folders(locations), _local_folders(private))
        if folders == self._folders:
            return self
        known = copy(self)
        vars(known).update(_folders=folders)
        with self._lock:
            opened = {root: store for root, store in self._opened.items() if root != "/"}
            vars(known).update(_opened=opened | self._replaced)
        # Reports lie beside plans, whose folders only these stores know to be private.
        self.load.opener = known
        return known

    def options(self, address: Address) -> StorageOptions:
        """The options of the store that holds this address."""
        fitting = (path for path in self._options if address.store_id.startswith(path))
        path = max(fitting, key=len, default=None)
        return StorageOptions() if path is None else self._options[path]

    @property
    def most_tasks(self) -> int | None:
        """How many tasks may run at once, so that each has a connection to every store.

        One is left for the driver. None is no limit.
        """
        most = [options.max_connections for options in self._options.values()]
        return min((max(1, limit - 1) for limit in most if limit is not None), default=None)

    def _open(self, address: Address) -> ObjectStore:
        options = self.options(address)
        store: ObjectStore = BoundedReads(self._load_limited(address, options), self.limits)
        if options.delete_rate.is_limited:
            limiter = self.load.deletes(address.store_id, options.delete_rate)
            store = RateLimited(store, limiter)
        policy = RetryPolicy(attempts=options.retries + 1)
        clock = CountedClock(self._clock, self.load.counter)
        return Retrying(store, clock, self._random, policy)

    def _load_limited(self, address: Address, options: StorageOptions) -> ObjectStore:
        store = self._open_plain(address, self._of_process(options))
        if address.kind is StoreKind.FILE and not options.load_limits.are_set:
            return store  # calls to a local disk are no requests
        return LoadLimited(store, self.load.store(address.store_id, options.load_limits))

    def _of_process(self, options: StorageOptions) -> StorageOptions:
        """The same options with the connections of this process."""
        if options.max_connections is None:
            return options
        part = max(1, options.max_connections // self.load.divisor())
        return dataclasses.replace(options, max_connections=part)

    def _open_plain(self, address: Address, options: StorageOptions) -> ObjectStore:
        if address.kind is StoreKind.FILE:
            return LocalStore(folders=self._folders)
        return OPENERS[address.kind](address, options)


def _local_folders(paths: Iterable[str]) -> list[str]:
    found = map(parse, paths)
    return [address.folder for address in found if address.kind is StoreKind.FILE]


def _whole_store(path: str) -> str:
    """The identity that options are looked up by; ConfigError if it is not a whole store."""
    found = folder_identity(path)
    _, scheme_end, rest = found.rpartition("://")
    if rest.count("/") > 1 or (not scheme_end and rest != "/"):
        raise ConfigError(
            f"the storage options of {path!r} apply to only a part of a store",
            hint="set them for the whole bucket, such as s3://bucket",
        )
    return found


_KINDS = ("s3://", "abfss://")


def with_access(stores: Stores, options: StorageOptions | None) -> Stores:
    """The same stores, with a catalog's access options where nothing is configured."""
    return stores if options is None else stores.with_defaults(dict.fromkeys(_KINDS, options))


class Keyring:
    """The stores as each catalog grants access to them, by number.

    Rows that travel through a cluster carry these numbers, so no secret is ever part of a row.
    Number 0 is access as configured. Only the most recently used ones stay open, since a catalog
    may grant separate access for every table. Picklable: each process opens its own stores.
    """

    def __init__(
        self, stores: Stores, options: Sequence[StorageOptions] = (), *, most_open: int = 64
    ) -> None:
        self._stores = stores
        self._options = tuple(options)
        self._most_open = most_open
        self._open: OrderedDict[int, Stores] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def limits(self) -> ReadLimits:
        """What readers of foreign files may take, whatever their access."""
        return self._stores.limits

    def __reduce__(self) -> tuple[Callable[..., Keyring], tuple[object, ...]]:
        return partial(Keyring, most_open=self._most_open), (self._stores, self._options)

    def open(self, access: int) -> Stores:
        """The stores for an access number."""
        if not access:
            return self._stores
        with self._lock:
            found = self._open.pop(access, None)
            if found is None:
                found = with_access(self._stores, self._options[access - 1])
            self._open[access] = found
            if len(self._open) > self._most_open:
                # Dropped stores are only forgotten, not closed: another thread may still be using
                # them.
                self._open.popitem(last=False)
        return found
