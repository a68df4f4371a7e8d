"""Stores as different catalogs let their clients reach them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores

_KINDS = ("s3://", "abfss://")


def with_access(stores: Stores, options: StorageOptions | None) -> Stores:
    """The same stores, where what is not configured is reached as a catalog says."""
    return stores if options is None else stores.with_defaults(dict.fromkeys(_KINDS, options))


class Keyring:
    """The stores as each catalog lets its client reach them, by number.

    Rows on their way through a cluster carry numbers, so no secret is ever part of them. Number 0
    is access as configured. Some stay open, those that were used last: a catalog may hand out
    another access for every table. Can be pickled: each process opens its own stores.
    """

    def __init__(
        self, stores: Stores, options: Sequence[StorageOptions] = (), *, most_open: int = 64
    ) -> None:
        self._stores = stores
        self._options = tuple(options)
        self._most_open = most_open
        self._open: OrderedDict[int, Stores] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[..., Keyring], tuple[object, ...]]:
        return partial(Keyring, most_open=self._most_open), (self._stores, self._options)

    def open(self, access: int) -> Stores:
        """The stores of a number."""
        if not access:
            return self._stores
        with self._lock:
            found = self._open.pop(access, None)
            if found is None:
                found = with_access(self._stores, self._options[access - 1])
            self._open[access] = found
            if len(self._open) > self._most_open:
                self._open.popitem(last=False)
        return found
