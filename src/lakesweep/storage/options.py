"""Connection settings, delete rates and limits of one store."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeleteRate:
    """How many files and requests may be deleted a second, and how many files a request deletes.

    None is no limit.
    """

    files_per_second: float | None = None
    batches_per_second: float | None = None
    batch_size: int | None = None

    @property
    def is_limited(self) -> bool:
        return self.files_per_second is not None or self.batches_per_second is not None

    @property
    def largest_batch(self) -> int | None:
        """How many files one request may delete; never more than those of one second.

        Otherwise deletes would come in bursts with long pauses between them.
        """
        if self.files_per_second is None:
            return self.batch_size
        of_second = max(1, int(self.files_per_second))
        return of_second if self.batch_size is None else min(of_second, self.batch_size)

    def split(self, tasks: int) -> DeleteRate:
        """The rate of one of several tasks that run at the same time."""
        return DeleteRate(
            _divide(self.files_per_second, tasks),
            _divide(self.batches_per_second, tasks),
            self.batch_size,
        )


#: No limit at all.
UNLIMITED = DeleteRate()


def _divide(rate: float | None, tasks: int) -> float | None:
    return None if rate is None else rate / max(1, tasks)


#: Connections of each process to a store without a limit.
_USUAL_CONNECTIONS = 32


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """How much a run may ask of a store, with all its processes together; None is no limit."""

    requests_per_second: float | None = None
    bytes_per_second: float | None = None
    max_connections: int | None = None

    @property
    def are_set(self) -> bool:
        return self != LoadLimits()


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The settings of one bucket; None means the default of the store's own SDK."""

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    anonymous: bool = False
    #: `path` (endpoint/bucket/key), `virtual` (bucket.endpoint/key), or None to follow the
    #: endpoint.
    addressing: str | None = None
    service_account: str | None = None
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    files_per_second: float | None = None
    batches_per_second: float | None = None
    delete_batch: int | None = None
    requests_per_second: float | None = None
    bytes_per_second: float | None = None
    max_connections: int | None = None
    timeout_seconds: float = 60.0
    retries: int = 8

    @property
    def delete_rate(self) -> DeleteRate:
        return DeleteRate(self.files_per_second, self.batches_per_second)

    @property
    def load_limits(self) -> LoadLimits:
        return LoadLimits(self.requests_per_second, self.bytes_per_second, self.max_connections)

    @property
    def pool_size(self) -> int:
        """How many connections one process keeps open at most."""
        return self.max_connections or _USUAL_CONNECTIONS
