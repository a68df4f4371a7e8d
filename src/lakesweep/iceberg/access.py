"""How a catalog's client reaches files: PyIceberg's property names, as our own options."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakesweep.storage.options import StorageOptions

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

_KINDS = ("s3://", "abfss://")


def storage_options(properties: Mapping[str, str]) -> StorageOptions | None:
    """The options that a catalog's or a table's properties stand for, None if they say nothing."""

    def first(*names: str) -> str | None:
        return next((properties[name] for name in names if properties.get(name)), None)

    def is_set(name: str) -> bool:
        return properties.get(name, "").lower() == "true"

    options = StorageOptions(
        endpoint=first("s3.endpoint"),
        region=first("s3.region", "client.region"),
        profile=first("s3.profile-name", "client.profile-name"),
        access_key_id=first("s3.access-key-id", "client.access-key-id"),
        secret_access_key=first("s3.secret-access-key", "client.secret-access-key"),
        session_token=first("s3.session-token", "client.session-token"),
        anonymous=is_set("s3.anonymous"),
        addressing="virtual" if is_set("s3.force-virtual-addressing") else None,
        account_key=first("adls.account-key"),
        sas_token=first("adls.sas-token"),
    )
    return None if options == StorageOptions() else options


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
