"""The configuration as typed values: the sections of `lakesweep.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from lakesweep.errors import UsageError
from lakesweep.redaction import masked, masked_settings
from lakesweep.units import parse_duration, parse_size
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits

_ADDRESS = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


class Section(BaseModel):
    """One table of the file: immutable, strictly typed, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: object) -> object:
        # Before pydantic's own check, so that the error can name the valid keys.
        if isinstance(values, Mapping):
            for key in values:
                if key not in cls.model_fields:
                    raise _unknown_key(str(key), list(cls.model_fields))
        return values

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """What `repr` shows: everything but secrets, also those inside of URLs."""
        shown = {str(name): value for name, value in super().__repr_args__()}
        texts = {name: value for name, value in shown.items() if isinstance(value, str)}
        return {**shown, **masked_settings(texts)}.items()


def _unknown_key(key: str, valid: Sequence[str]) -> PydanticCustomError:
    context = {"key": key, "valid": ", ".join(valid)}
    return PydanticCustomError("unknown_key", "unknown key", context)


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("duration", "must be a duration such as 7d")
    try:
        return parse_duration(value)
    except UsageError:
        raise PydanticCustomError("duration", "must be a duration such as 90s, 6h, 7d") from None


def _size(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except UsageError:
        raise PydanticCustomError("size", "must be a size such as 500GB, 5TiB") from None


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _as_texts(value: object) -> object:
    """Convert numbers and booleans in a table of properties to text."""
    if not isinstance(value, dict):
        return value
    return {key: _as_text(item) for key, item in value.items()}


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _address(value: str) -> str:
    """Require an absolute address: a relative one would depend on the current folder."""
    if not _ADDRESS.match(value):
        raise PydanticCustomError("address", "must be an address such as s3://lake/a or /srv/a")
    return value


Address = Annotated[str, AfterValidator(_address)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Properties = Annotated[dict[str, str], BeforeValidator(_as_texts)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=1e-9, le=1)]


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


class IcebergCatalogRoot(Section):
    """All tables and views of a catalog that PyIceberg can load."""

    type: Literal["iceberg-catalog"]
    name: str
    properties: Properties = Field(default_factory=dict, repr=False)
    catalog_requests_per_second: Positive | None = None


class IcebergMetadataRoot(Section):
    """Tables and views that no catalog lists, by their metadata files."""

    type: Literal["iceberg-metadata"]
    files: Texts


class IcebergScanRoot(Section):
    """Tables and views that no catalog lists any more, found by their metadata files below a path.

    They are reported and kept; with `keep = false` they are only reported.
    """

    type: Literal["iceberg-scan"]
    path: str
    keep: bool = True


class LakesweepRoot(Section):
    """All or some catalogs in a realm of Lakesweep's own store, with their tables and views.

    `realm` and `url` default to those of the section `store`.
    """

    type: Literal["lakesweep"]
    realm: str | None = None
    url: str | None = Field(None, repr=False)
    catalogs: Texts = ()


class PaimonWarehouseRoot(Section):
    """All tables of a Paimon warehouse."""

    type: Literal["paimon-warehouse"]
    path: str


class LakefsRoot(Section):
    """Repositories of a lakeFS server, by name, and others by the addresses of their namespaces.

    `local_root` is where the server keeps `local://` namespaces. A namespace does not show what is
    staged, so it keeps everything, unless `without_staging` states that nothing is staged.
    """

    type: Literal["lakefs"]
    endpoint: str | None = None
    repositories: Texts = ()
    namespaces: Texts = ()
    local_root: str | None = None
    without_staging: bool = False
    catalog_requests_per_second: Positive | None = None

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if not self.repositories and not self.namespaces:
            raise PydanticCustomError("missing_key", "must name repositories or namespaces")
        if self.repositories and self.endpoint is None:
            raise PydanticCustomError("missing_key", "names repositories but no endpoint")
        return self

    @property
    def called(self) -> str:
        """Its name in reports."""
        return masked(self.endpoint) if self.endpoint else ", ".join(self.namespaces)


class PinnedRoot(Section):
    """A file that lists addresses and prefixes to keep."""

    type: Literal["pinned"]
    file: str


Root = Annotated[
    IcebergCatalogRoot
    | IcebergMetadataRoot
    | IcebergScanRoot
    | LakesweepRoot
    | PaimonWarehouseRoot
    | LakefsRoot
    | PinnedRoot,
    Field(discriminator="type"),
]


def _calls(root: Root) -> str | None:
    """What distinguishes a root from others of its type; None if several count as one."""
    match root:
        case IcebergCatalogRoot():
            return f"catalog {root.name}"
        case IcebergScanRoot():
            return f"scan of {root.path}"
        case LakesweepRoot():
            return f"realm {root.realm or 'of the store'}"
        case LakefsRoot():
            return f"lakeFS server {root.called}"
        case _:
            return None


def _contradiction(roots: Iterable[Root]) -> str | None:
    """The first root that appears twice with different settings."""
    known: dict[str, Root] = {}
    named = ((_calls(root), root) for root in roots)
    return next(
        (name for name, root in named if name and known.setdefault(name, root) != root), None
    )


def _end_date(value: object) -> object:
    """A day, as TOML writes it or as text."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise PydanticCustomError("date", "must be a day such as 2027-01-31") from None


class AcceptSection(Section):
    """A standing decision: what a guard withholds of a table or a root is deleted all the same.

    It ends after the day `until`. A root that cannot be read keeps its files even so; accepting it
    only means that runs are not incomplete because of it.
    """

    guard: Literal["missing", "roots-gone", "share", "incomplete", "unlisted-table"]
    table: Annotated[str, Field(min_length=1)] | None = None
    root: Annotated[str, Field(min_length=1)] | None = None
    until: Annotated[date, BeforeValidator(_end_date)]
    reason: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.table is None) == (self.root is None):
            raise PydanticCustomError("missing_key", "must name either a table or a root")
        return self

    @property
    def subject(self) -> str:
        """The table or root that it is about."""
        return self.table or self.root or ""

    @property
    def ends(self) -> datetime:
        """The first moment at which it does not count any more."""
        return datetime.combine(self.until, time(), UTC) + timedelta(days=1)


class UnattendedSection(Section):
    """What an unattended sweep may delete without approval.

    `max_share` is a share of the files of the lake, `max_table_share` of those of a table. Files
    stay in quarantine for `quarantine`; with `0d` they are deleted at once. With `guards = "wait"`
    a guard about a table or a root makes the whole plan wait, like every other guard; with
    `withhold` it withholds the files that it is about.
    """

    apply: Literal["within-limits", "after-approval", "never"] = "within-limits"
    max_files: Annotated[int, Field(ge=0)] = 100_000
    max_bytes: Annotated[int, BeforeValidator(_size), Field(ge=0)] = 5 * 2**40
    max_share: Share = 0.2
    max_table_share: Share = 0.5
    quarantine: Duration = timedelta(days=7)
    guards: Literal["wait", "withhold"] = "wait"


AtLeastOne = Annotated[int, Field(ge=1)]


class UpkeepValues(Section):
    """What upkeep does to tables. What is not set comes from the next source."""

    expire: bool | None = None
    max_snapshot_age: Duration | None = None
    min_snapshots: AtLeastOne | None = None
    max_ref_age: Duration | None = None
    clean_expired_metadata: bool | None = None
    rewrite_manifests: bool | None = None
    remove_orphans: bool | None = None
    orphan_age: Duration | None = None


class UpkeepRule(UpkeepValues):
    """The same for the tables whose names match one of the patterns."""

    tables: Annotated[Texts, Field(min_length=1)]


class UpkeepSection(UpkeepValues):
    """The defaults of a lake, and its floors.

    Snapshots younger than `min_age`, and the newest `min_keep` of each branch, always stay.
    """

    min_age: Duration | None = None
    min_keep: AtLeastOne | None = None


class LakeSection(Section):
    """The locations to keep clean, and the roots that keep files in them alive.

    The roots of a `closed` lake reference nothing outside its locations, as its owner states.
    """

    locations: Annotated[tuple[Address, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    grace: Duration = timedelta(days=7)
    exclude: Texts = ()
    unknown: Literal["keep", "delete"] = "keep"
    plans: Address | None = None
    quarantine: Address | None = None
    keep_plans: Duration = timedelta(days=30)
    filter_bytes: Annotated[int, Field(gt=0)] = 2**34
    closed: bool = False
    roots: Annotated[tuple[Root, ...], BeforeValidator(_as_tuple)] = ()
    accept: Annotated[tuple[AcceptSection, ...], BeforeValidator(_as_tuple)] = ()
    # Without a word about limits, an unattended sweep asks before it deletes.
    limits: UnattendedSection = UnattendedSection(apply="after-approval")
    upkeep: UpkeepSection = UpkeepSection()
    rules: Annotated[tuple[UpkeepRule, ...], BeforeValidator(_as_tuple)] = ()

    @model_validator(mode="after")
    def _exclude_below(self) -> Self:
        """Refuse an address as a pattern: it would match nothing, and so protect nothing."""
        folders = tuple(f"{location.rstrip('/')}/" for location in self.locations)
        for pattern in self.exclude:
            if ":/" in pattern or f"{pattern}/".startswith(folders):
                raise PydanticCustomError(
                    "address",
                    "exclude has the address {pattern}; patterns apply to paths below a"
                    " location, such as /folder/** or **/name/**",
                    {"pattern": pattern},
                )
        return self


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


class ScheduleSection(Section):
    """A job that the service runs by itself, when cron or every says so.

    With `every = "auto"` it runs more often when plans find much, and less often when they find
    little, between `shortest` and `longest`.
    """

    job: Literal[
        "sweep",
        "check",
        "maintain",
        "paimon-orphans",
        "paimon-expire",
        "quarantine-empty",
        "lifecycle",
        "iceberg-expire",
        "policy",
    ]
    lake: str | None = None
    target: str | None = None
    options: Properties = Field(default_factory=dict)
    cron: str | None = None
    zone: str = "UTC"
    every: Literal["auto"] | Duration | None = None
    shortest: Duration = timedelta(hours=1)
    longest: Duration = timedelta(days=7)
    jitter: Duration = timedelta()
    timeout: Duration | None = None
    catch_up: Literal["once", "none"] = "once"

    @model_validator(mode="after")
    def _is_due_some_time(self) -> Self:
        if self.job == "policy":
            raise PydanticCustomError(
                "missing_command", "the job {job} has no command yet", {"job": self.job}
            )
        if (self.cron is None) == (self.every is None):
            raise PydanticCustomError("missing_key", "must have either cron or every")
        return self


class LifecycleSection(Section):
    """Unattended lifecycles of repositories: every plan waits for approval unless limits say so."""

    limits: UnattendedSection = UnattendedSection(apply="after-approval")


WebhookEvent = Literal[
    "run.done",
    "run.failed",
    "approval.needed",
    "limit.reached",
    "root.unreadable",
    "files.missing",
]


class WebhookSection(Section):
    """An address that is told what happens. Requests are signed with `secret`."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$", repr=False)]
    secret: Annotated[str, Field(min_length=8, repr=False)]
    events: Annotated[tuple[WebhookEvent, ...], BeforeValidator(_as_tuple)] = (
        "run.failed",
        "approval.needed",
        "limit.reached",
        "root.unreadable",
        "files.missing",
    )


class OidcSection(Section):
    """Whose tokens the service accepts: `roles` leads from values of a claim to our roles.

    With a `client_id`, people sign in to the console at the issuer; it must know the client as a
    public one, with the address of the console and `/sign-in/callback` behind it.
    """

    issuer: str
    audience: str
    client_id: str | None = None
    roles_claim: str = "roles"
    roles: dict[str, Literal["viewer", "operator", "approver", "admin"]] = Field(
        default_factory=dict
    )


class ServerSection(Section):
    """The service: where it listens, how many jobs it starts at once, and who may use it.

    Headers about the client are believed only of `trusted_proxies`.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    workers: Annotated[int, Field(ge=1)] = 2
    certificate: str | None = None
    key: str | None = None
    trusted_proxies: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    log: Literal["lines", "json"] = "lines"
    oidc: OidcSection | None = None

    @model_validator(mode="after")
    def _certificate_has_a_key(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise PydanticCustomError("missing_key", "must have both certificate and key, or none")
        return self


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
    webhooks: Annotated[tuple[WebhookSection, ...], BeforeValidator(_as_tuple)] = ()

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        """Roots are identified by name: of two with one name, one would be lost."""
        twice = _contradiction(root for lake in self.lakes.values() for root in lake.roots)
        if twice is not None:
            raise PydanticCustomError(
                "contradiction", "{name} appears twice, with different settings", {"name": twice}
            )
        return self
