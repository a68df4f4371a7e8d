"""The whole of `lakesweep.toml`, and its smaller sections."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from lakesweep.config.fields import Duration, Positive, Properties, Rate, Section, as_tuple
from lakesweep.config.lakes import LakeSection, UnattendedSection
from lakesweep.config.roots import contradiction
from lakesweep.config.service import ScheduleSection, ServerSection, WebhookSection
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits


class StoreSection(Section):
    """Where Lakesweep keeps its own state."""

    url: str = Field("sqlite:///.lakesweep/store.db", repr=False)
    realm: str = "default"


class SparkSection(Section):
    """How to reach Spark: a master to start a session on, or a Spark Connect server."""

    master: str = "local[*]"
    remote: str | None = None
    conf: Properties = Field(default_factory=dict, repr=False)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.remote is not None and "master" in self.model_fields_set:
            raise PydanticCustomError("contradiction", "has both master and remote; keep one")
        return self


class StorageSection(Section):
    """How to reach one bucket, and its limits."""

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = Field(None, repr=False)
    session_token: str | None = Field(None, repr=False)
    anonymous: bool = False
    addressing: Literal["path", "virtual"] | None = None
    service_account: str | None = None
    account_key: str | None = Field(None, repr=False)
    sas_token: str | None = Field(None, repr=False)
    files_per_second: Positive | None = None
    batches_per_second: Positive | None = None
    delete_batch: Annotated[int, Field(gt=0)] | None = None
    requests_per_second: Positive | None = None
    bytes_per_second: Positive | None = None
    max_connections: Annotated[int, Field(gt=0)] | None = None
    timeout_seconds: Positive = 60.0
    retries: Annotated[int, Field(ge=0)] = 8


class HistorySection(Section):
    """How much of the log of some references is kept."""

    commits: Annotated[int, Field(ge=1)] | None = None
    age: Duration | None = None


class MaintenanceSection(Section):
    """What to keep in the store's own database, and the limits of maintenance."""

    expected_reference_count: Annotated[int, Field(ge=100)] = 100
    expected_obj_count: Annotated[int, Field(ge=100_000)] = 100_000
    count_from_last_run_multiplier: Annotated[float, Field(gt=1)] = 1.1
    filter_initialized_fpp: Rate = 0.00001
    max_acceptable_filter_fpp: Rate = 0.00005
    filter_bytes: Annotated[int, Field(gt=0)] = 2**30
    retained_runs: Annotated[int, Field(ge=2)] = 50
    created_at_grace_time: Duration = timedelta(hours=3)
    object_scan_rate_limit_per_second: Annotated[float, Field(ge=0)] | None = None
    reference_scan_rate_limit_per_second: Annotated[float, Field(ge=0)] | None = None
    delete_batch_size: Annotated[int, Field(gt=0)] = 1_000
    scan_workers: Annotated[int, Field(gt=0)] = 2
    keep_commits: Annotated[int, Field(ge=1)] = 21
    keep_age: Duration = timedelta(days=7)
    history: dict[str, HistorySection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _filters_can_serve(self) -> Self:
        if self.filter_initialized_fpp >= self.max_acceptable_filter_fpp:
            raise PydanticCustomError(
                "contradiction",
                "has a filter_initialized_fpp that is not less than max_acceptable_filter_fpp;"
                " nothing would ever be deleted",
            )
        return self


class LimitsSection(Section):
    """The most that reading one foreign file may take, such as a table's metadata."""

    file_bytes: Annotated[int, Field(gt=0)] = DEFAULT_LIMITS.file_bytes
    inflated_bytes: Annotated[int, Field(gt=0)] = DEFAULT_LIMITS.inflated_bytes
    block_bytes: Annotated[int, Field(gt=0, lt=2**31)] = DEFAULT_LIMITS.block_bytes

    @property
    def read_limits(self) -> ReadLimits:
        """The limits as readers take them."""
        return ReadLimits(self.file_bytes, self.inflated_bytes, self.block_bytes)


class LifecycleSection(Section):
    """Unattended lifecycles of repositories: every plan waits for approval unless limits say so."""

    limits: UnattendedSection = UnattendedSection(apply="after-approval")


class Config(Section):
    """The whole file. `engine` is where sweeps run unless a command says otherwise."""

    engine: Literal["local", "spark"] | None = None
    store: StoreSection = StoreSection()
    spark: SparkSection = SparkSection()
    storage: dict[str, StorageSection] = Field(default_factory=dict)
    lakes: dict[str, LakeSection] = Field(default_factory=dict)
    maintenance: MaintenanceSection = MaintenanceSection()
    limits: LimitsSection = LimitsSection()
    lifecycle: LifecycleSection = LifecycleSection()
    schedules: dict[str, ScheduleSection] = Field(default_factory=dict)
    server: ServerSection = ServerSection()
    webhooks: Annotated[tuple[WebhookSection, ...], BeforeValidator(as_tuple)] = ()

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        """Roots are identified by name: of two with one name, one would be lost."""
        twice = contradiction(root for lake in self.lakes.values() for root in lake.roots)
        if twice is not None:
            raise PydanticCustomError(
                "contradiction", "{name} appears twice, with different settings", {"name": twice}
            )
        return self
