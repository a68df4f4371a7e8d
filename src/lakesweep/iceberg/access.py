"""How a catalog's client reaches files: PyIceberg's property names, as our own options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Keyring:
    """The stores as each catalog lets its client reach them, by number.

    Rows on their way through a cluster carry numbers, so no secret is ever part of them. Number 0
    is access as configured. Can be pickled: each process opens its own stores.
    """

    stores: Stores
    options: tuple[StorageOptions, ...] = field(default=(), repr=False)
    _opened: dict[int, Stores] = field(default_factory=dict, repr=False, compare=False)

    def open(self, access: int) -> Stores:
        """The stores of a number."""
        found = self._opened.get(access)
        if found is None:
            options = self.options[access - 1] if access else None
            found = self._opened.setdefault(access, with_access(self.stores, options))
        return found
