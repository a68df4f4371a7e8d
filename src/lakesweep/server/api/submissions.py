"""Long work: it is queued as a job, answered with 202, and carried out as a process of its own.

Names are looked up before a job is queued, so that a wrong one is refused at once, and nothing that
a caller sends can be taken for an option of a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.errors import UsageError
from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.lakes.plan_view import find_plan, plan_kind
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.operations.schedules.submitted_jobs import JobRequest, submit_job
from lakesweep.runs.schedules import JobKind
from lakesweep.server.api.call import Call, Reply
from lakesweep.server.auth.authentication import check_role
from lakesweep.sweep.holdings import find_holding
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.units import format_moment, parse_duration

_Guards = tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)], ...]
#: Inventories that are not on the machine of the service.
_REMOTE = ("s3://", "gs://", "abfss://", "az://")
_Rate = Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]
_Batch = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_PolicyName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]


class PlanBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A lake to plan; what is left out is as the lake is configured."""

    lake: str
    grace: str | None = None
    mode: Literal["auto", "exact", "bloom"] = "auto"
    inventory: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    inventory_time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    engine: EngineName | None = None
    override: _Guards = ()


class _Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rate limits of deletes."""

    files_per_second: _Rate | None = None
    batches_per_second: _Rate | None = None
    batch_size: _Batch | None = None


class ApplyBody(_Rates, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to apply a plan: into quarantine, unless that is declined."""

    kind: PlanKind | None = None
    quarantine: bool = True
    hold: str | None = None
    bytes_at_once: bool = False
    engine: EngineName | None = None
    override: _Guards = ()
    dry_run: bool = False


class SweepBody(_Rates, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to sweep a lake."""

    engine: EngineName | None = None
    dry_run: bool = False


class PolicyBody(_Rates, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to carry out the upkeep rules of a lake's tables. Both values come before the rules."""

    max_snapshot_age: str | None = None
    min_snapshots: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    override: _Guards = ()
    dry_run: bool = False


class RestoreBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files to restore, by their addresses or their paths in the lake; none means all.

    `prefix` is a folder, and `table` a table of the plan.
    """

    paths: tuple[Annotated[str, msgspec.Meta(min_length=1)], ...] = ()
    prefix: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    table: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a quarantine is emptied."""

    engine: EngineName | None = None
    override: _Guards = ()
    dry_run: bool = False


class CheckBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A lake to check, or a plan whose listing and marks are used; `files` lists all missing."""

    lake: str | None = None
    plan: str | None = None
    files: bool = False
    engine: EngineName | None = None


class MaintainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to maintain the store. Without any realm, the state of each one decides."""

    supersede: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    engine: EngineName = EngineName.LOCAL
    realms: tuple[str, ...] = ()
    purge_realms: tuple[str, ...] = ()
    system_realm: bool = True
    dry_run: bool = False


class LifecycleBody(_Rates, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A policy for a repository. The name of `policy_file` says whether it is JSON, YAML or TOML.

    `dry_run` and the rate limits are for sweeps.
    """

    policy: str
    policy_file: _PolicyName = "policy.json"
    mode: Selection = Selection.FULL
    floor: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 7
    branch_grace: str = "7d"
    place: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    tags_protect_history: bool = False
    as_proposed: bool = False
    engine: EngineName | None = None
    override: _Guards = ()
    dry_run: bool = False


class RemoveRealmBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether a purge deletes `now`, or leaves that to maintenance."""

    now: bool = False
    dry_run: bool = False


def plan_lake(call: Call[PlanBody]) -> Reply:
    """Plan a lake."""
    given = call.given
    modes = {"auto": (), "exact": ("--exact",), "bloom": ("--bloom",)}
    if given.inventory is not None and not given.inventory.startswith(_REMOTE):
        check_role(call.caller, ServiceRole.ADMIN)  # it would read files of this machine
    taken = None if given.inventory_time is None else format_moment(given.inventory_time)
    words = (
        *_duration("grace", given.grace),
        *modes[given.mode],
        *_option("inventory", given.inventory),
        *_option("inventory-time", taken),
        *_common(given.engine, given.override),
    )
    return _submit(call, JobKind.PLAN, call.app.lake(given.lake).name, words)


def apply_plan(call: Call[ApplyBody]) -> Reply:
    """Apply a plan of a lake or a repository."""
    app, given, name = call.app, call.given, call.names["plan"]
    kind = given.kind or plan_kind(app, name)
    plan = find_plan(app, name, kind).record.plan
    words = (
        *_flag("quarantine", given.quarantine),
        *_hold(given, kind),
        *_flag("bytes-at-once", given.bytes_at_once and kind is PlanKind.LIFECYCLE),
        *_rates(given),
        *_common(given.engine, given.override, dry_run=given.dry_run),
    )
    job = JobKind.LIFECYCLE_APPLY if kind is PlanKind.LIFECYCLE else JobKind.APPLY
    return _submit(call, job, plan, words)


def _hold(given: ApplyBody, kind: PlanKind) -> tuple[str, ...]:
    if given.hold is None:
        return ()
    if not given.quarantine:
        raise UsageError("only files in quarantine are held", hint="set quarantine, or no hold")
    if kind is PlanKind.LIFECYCLE:
        raise UsageError("objects of a repository are held until a person decides", hint="no hold")
    return _duration("hold", given.hold)


def sweep_lake(call: Call[SweepBody]) -> Reply:
    """Plan a lake, and apply the plan within its limits."""
    given = call.given
    words = (*_rates(given), *_common(given.engine, (), dry_run=given.dry_run))
    return _submit(call, JobKind.SWEEP, call.app.lake(call.names["lake"]).name, words)


def run_policies(call: Call[PolicyBody]) -> Reply:
    """Do to each table of a lake what its rules say."""
    given = call.given
    words = (
        *_duration("max-snapshot-age", given.max_snapshot_age),
        *_option("min-snapshots", given.min_snapshots),
        *_rates(given),
        *_common(None, given.override, dry_run=given.dry_run),
    )
    return _submit(call, JobKind.POLICY, call.app.lake(call.names["lake"]).name, words)


def check_lake(call: Call[CheckBody]) -> Reply:
    """Look for missing files."""
    app, given = call.app, call.given
    if (given.lake is None) == (given.plan is None):
        raise UsageError("name a lake, or a plan after --plan", hint="lakesweep check --help")
    words = (*_flag("files", given.files), *_common(given.engine))
    if given.plan is not None:
        plan = find_plan(app, given.plan).record.plan
        return _submit(call, JobKind.CHECK, "", (*words, f"--plan={plan}"))
    return _submit(call, JobKind.CHECK, app.lake(given.lake or "").name, words)


def maintain_store(call: Call[MaintainBody]) -> Reply:
    """Delete what the store no longer needs."""
    given = call.given
    words = (
        *_option("supersede", given.supersede),
        *(f"--realm={name}" for name in given.realms),
        *(f"--purge-realm={name}" for name in given.purge_realms),
        *_flag("no-system-realm", not given.system_realm),
        *_common(given.engine, dry_run=given.dry_run),
    )
    return _submit(call, JobKind.MAINTAIN, "", words)


def restore(call: Call[RestoreBody]) -> Reply:
    """Restore files from quarantine."""
    plan = find_holding(call.app.known_runs, call.names["plan"]).plan
    words = (
        *(f"--path={path}" for path in call.given.paths),
        *_option("prefix", call.given.prefix),
        *_option("table", call.given.table),
    )
    return _submit(call, JobKind.QUARANTINE_RESTORE, plan, words)


def empty(call: Call[EmptyBody]) -> Reply:
    """Delete permanently what a plan set aside."""
    given = call.given
    plan = find_holding(call.app.known_runs, call.names["plan"]).plan
    words = tuple(_common(given.engine, given.override, dry_run=given.dry_run))
    return _submit(call, JobKind.QUARANTINE_RELEASE, plan, words)


def plan_repository(call: Call[LifecycleBody]) -> Reply:
    """Find the objects that a policy expires."""
    return _submit_policy(call, JobKind.LIFECYCLE_PLAN, ())


def sweep_repository(call: Call[LifecycleBody]) -> Reply:
    """Carry out a policy within the limits of lifecycles."""
    words = (*_rates(call.given), *_flag("dry-run", call.given.dry_run))
    return _submit_policy(call, JobKind.LIFECYCLE, words)


def _submit_policy(call: Call[LifecycleBody], kind: JobKind, words: Iterable[str]) -> Reply:
    given = call.given
    name = call.names["repository"]
    if given.place is not None or name not in call.app.repository_names:
        # It would read or write wherever the service may.
        check_role(call.caller, ServiceRole.ADMIN)
    repository = call.app.repository(name).name
    selection = () if given.as_proposed else (f"--mode={given.mode}",)
    every = (
        *selection,
        f"--floor={given.floor}",
        *_duration("branch-grace", given.branch_grace),
        *_option("place", given.place),
        *_flag("tags-protect-history", given.tags_protect_history),
        *_flag("as-proposed", given.as_proposed),
        *_common(given.engine, given.override),
        *words,
    )
    return _submit(call, kind, repository, every, {given.policy_file: given.policy})


def purge_realm(call: Call[RemoveRealmBody]) -> Reply:
    """Have everything in a realm deleted."""
    words = (*_flag("now", call.given.now), *_flag("dry-run", call.given.dry_run))
    return _submit(call, JobKind.REALM_PURGE, _realm(call.app, call.names["realm"]), words)


def delete_realm(call: Call[RemoveRealmBody]) -> Reply:
    """Delete a purged realm."""
    words = _flag("dry-run", call.given.dry_run)
    return _submit(call, JobKind.REALM_DELETE, _realm(call.app, call.names["realm"]), words)


def accepted(job: JobView) -> Reply:
    """The answer to work that was queued: the job, and where to look for it."""
    location = f"/api/v1/jobs/{quote(job.job, safe='')}"
    return Reply(job, HTTPStatus.ACCEPTED, headers={"location": location})


def _submit(
    call: Call[Any],
    kind: JobKind,
    target: str,
    words: tuple[str, ...],
    files: Mapping[str, str] | None = None,
) -> Reply:
    request = JobRequest(kind, target, words, call.caller.name, files or {})
    return accepted(submit_job(call.app, request))


def _realm(app: App, name: str) -> str:
    return app.store.realms.get(name).name


def _common(
    engine: EngineName | None, guards: Iterable[str] = (), *, dry_run: bool = False
) -> Iterable[str]:
    """The options that most commands have."""
    yield from _option("engine", engine)
    yield from (f"--override={guard}" for guard in guards)
    yield from _flag("dry-run", dry_run)


def _rates(given: _Rates) -> Iterable[str]:
    yield from _option("files-per-second", given.files_per_second)
    yield from _option("batches-per-second", given.batches_per_second)
    yield from _option("batch-size", given.batch_size)


def _option(name: str, value: object) -> tuple[str, ...]:
    return () if value is None else (f"--{name}={value}",)


def _flag(name: str, is_set: bool) -> tuple[str, ...]:
    return (f"--{name}",) if is_set else ()


def _duration(option: str, text: str | None) -> tuple[str, ...]:
    if text is not None:
        parse_duration(text)
    return _option(option, text)
