"""Connection settings and limits of one store."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The settings of one bucket; what is None comes from the variables of the store's own SDK."""

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    anonymous: bool = False
    #: `path` (endpoint/bucket/key), `virtual` (bucket.endpoint/key), or None: by the endpoint.
    addressing: str | None = None
    service_account: str | None = None
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    files_per_second: float | None = None
    batches_per_second: float | None = None
    delete_batch: int | None = None
    max_connections: int = 32
    timeout_seconds: float = 60.0
    retries: int = 8
