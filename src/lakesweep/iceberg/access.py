"""How a catalog's client reaches files: PyIceberg's property names, as our own options."""

from __future__ import annotations

from collections.abc import Mapping

from lakesweep.storage.options import StorageOptions


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
