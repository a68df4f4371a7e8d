"""How a catalog's client reaches files: PyIceberg's property names, as our own options."""

from __future__ import annotations

from collections.abc import Mapping

from lakesweep.storage.options import StorageOptions

_NAMES = {
    "endpoint": ("s3.endpoint",),
    "region": ("s3.region", "client.region"),
    "profile": ("s3.profile-name", "client.profile-name"),
    "access_key_id": ("s3.access-key-id", "client.access-key-id"),
    "secret_access_key": ("s3.secret-access-key", "client.secret-access-key"),
    "session_token": ("s3.session-token", "client.session-token"),
    "account_key": ("adls.account-key",),
    "sas_token": ("adls.sas-token",),
}


def storage_options(properties: Mapping[str, str]) -> StorageOptions | None:
    """The options that a catalog's or a table's properties stand for, None if they say nothing."""
    found: dict[str, str] = {}
    for option, names in _NAMES.items():
        value = next((properties[name] for name in names if properties.get(name)), None)
        if value is not None:
            found[option] = value
    if properties.get("s3.force-virtual-addressing", "").lower() == "true":
        found["addressing"] = "virtual"
    anonymous = properties.get("s3.anonymous", "").lower() == "true"
    return StorageOptions(anonymous=anonymous, **found) if found or anonymous else None
