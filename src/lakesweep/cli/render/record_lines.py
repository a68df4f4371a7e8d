"""What the store records, as lines and tables: runs, commits, references and realms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.maintenance.run_records import MaintenanceStats
    from lakesweep.operations.lakes.live_runs import RunEvent, RunProgressView, StageView
    from lakesweep.operations.lakes.runs import RunView
    from lakesweep.operations.store.log import ChangeView, CommitView, ReferenceView
    from lakesweep.operations.store.realms import RealmView
    from lakesweep.operations.store.store import MaintenanceView


#: How many changes of one commit are shown to people.
_SHOWN_CHANGES = 20


def run_text(run: RunView) -> str:
    """A run in one line."""
    started = format_moment(run.started.replace(microsecond=0))
    words = [f"{run.run:<32}", f"{run.status:<10}", started, f"{_took(run):>9}", run.subject]
    return "  ".join([*words, *filter(None, (_amount(run), _who(run), run.message))])


def run_table(run: RunView) -> TextTable:
    """A run in full."""
    rows = [
        ("lake", run.lake),
        *((("worked on", run.subject),) if run.subject != run.lake else ()),
        ("kind", run.kind),
        *((("run by", _who(run)),) if _who(run) else ()),
        ("status", run.status),
        ("started", format_moment(run.started)),
        ("took", _took(run)),
        ("plan", run.plan or "-"),
        *((("message", run.message),) if run.message else ()),
        *_flat("asked for", run.spec),
        *_flat("found", run.figures),
    ]
    return TextTable(("run", run.run), rows)


def event_lines(event: RunEvent) -> list[str]:
    """What is new of a run that somebody follows."""
    if event.progress is not None:
        stage = event.progress.stage
        return [] if stage is None else [stage_text(stage)]
    if event.output is not None:
        return [f"    {line}" for line in event.output.lines]
    return [] if event.end is None else [run_text(event.end)]


def stage_table(progress: RunProgressView) -> TextTable:
    """The stages of a run."""
    rows = [
        (each.stage, f"{each.count:,} {each.unit}" if each.unit else "", f"{each.seconds:,.1f} s")
        for each in progress.stages
    ]
    return TextTable(("stage", "count", "took"), rows, numbers=frozenset({"count", "took"}))


def stage_text(stage: StageView) -> str:
    """How far a stage is, in one line."""
    of = "" if stage.total is None else f" of {stage.total:,} ({stage.count / stage.total:.0%})"
    counted = f" {stage.count:,}{of} {stage.unit}" if stage.unit else ""
    parts = [f"{stage.stage}{counted}"]
    if stage.bytes:
        parts.append(format_size(stage.bytes))
    if stage.rate:
        parts.append(f"{stage.rate:,.0f}/s")
    if stage.seconds_left is not None:
        parts.append(f"{timedelta(seconds=round(stage.seconds_left))} left")
    return ", ".join(parts)


def _amount(run: RunView) -> str:
    """How much a run deleted, or would delete."""
    if run.files is None:
        return ""
    size = "" if run.bytes is None else f", {format_size(run.bytes)}"
    to = " to delete" if run.kind == "plan" else ""
    return f"{format_count(run.files, 'file')}{size}{to}"


def _who(run: RunView) -> str:
    return "@".join(filter(None, (run.user, run.host)))


def _took(run: RunView) -> str:
    return "-" if run.seconds is None else f"{run.seconds:,.1f} s"


def _flat(title: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """One figure per row; nested figures are named after their group."""
    for name, value in values.items():
        if value is None or value is False or value in ({}, []):
            continue
        if isinstance(value, Mapping):
            yield from _flat(f"{title} {name}", value)
            continue
        for shown in _shown(value):
            yield f"{title} {name}", shown


def _shown(value: object) -> list[str]:
    """A list in one row; each group of values of a list in a row of its own."""
    if not isinstance(value, list):
        return [_number(value)]
    groups = [each for each in value if isinstance(each, Mapping)]
    plain = ", ".join(str(each) for each in value if not isinstance(each, Mapping))
    told = [", ".join(f"{name} {part}" for name, part in each.items()) for each in groups]
    return [*filter(None, (plain,)), *told]


def _number(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


_COUNTS = ("scanned", "retained", "newer", "unreferenced", "purged", "failed")


@dataclass(frozen=True, slots=True)
class MaintenanceLine:
    """A maintenance run."""

    info: MaintenanceView

    def table(self) -> TextTable:
        """Counts by realm and type."""
        return TextTable(("realm", "of", *_COUNTS), list(self._rows()), numbers=frozenset(_COUNTS))

    def words(self) -> str:
        """The run in a few words."""
        info = self.info
        when = format_moment(info.started.replace(microsecond=0))
        purged = info.obj_stats.purged + info.reference_stats.purged
        return f"{info.run} is {info.status}, {when}: {format_count(purged, 'row')} purged"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        info = self.info
        realms = {**info.per_realm_reference_stats, **info.per_realm_per_obj_type_stats}
        for realm in sorted(realms):
            if realm in info.per_realm_reference_stats:
                yield realm, "references", *_cells(info.per_realm_reference_stats[realm])
            types = info.per_realm_per_obj_type_stats.get(realm, {})
            for name, stats in sorted(types.items()):
                yield realm, name, *_cells(stats)
        for realm, kinds in info.tidied.items():
            for kind, count in kinds.items():
                yield realm, f"stale {kind}", "", "", "", f"{count:,}", "", ""


def _cells(stats: MaintenanceStats) -> tuple[str, ...]:
    return tuple(f"{getattr(stats, name):,}" for name in _COUNTS)


def commit_lines(commit: CommitView) -> list[str]:
    """A commit and its changes."""
    changes = [_change_text(change) for change in commit.changes[:_SHOWN_CHANGES]]
    more = len(commit.changes) - len(changes)
    rest = [f"    and {more:,} more; --json shows all"] if more else []
    return [commit_title(commit), *changes, *rest]


def commit_title(commit: CommitView) -> str:
    """A commit in one line."""
    author = [f"{commit.author}:"] if commit.author else []
    message = [commit.message] if commit.message else []
    words = [commit.commit, f"seq {commit.seq}", format_moment(commit.committed)]
    return "  ".join([*words, *author, *message])


def _change_text(change: ChangeView) -> str:
    before = f"  (before: {change.before})" if change.before is not None else ""
    return f"    {change.action:<8}{change.key}{before}"


def reference_text(reference: ReferenceView) -> str:
    """A reference and its head in one line."""
    when = "-" if reference.committed is None else format_moment(reference.committed)
    seq = "-" if reference.seq is None else str(reference.seq)
    problem = f"  ({reference.problem})" if reference.problem else ""
    head = reference.head or "-"
    return f"{seq:>8}  {when:<27}  {head:<19}  {reference.reference}{problem}"


def realm_table(realms: Sequence[RealmView]) -> TextTable:
    """Realms, with the number of references if they were counted."""
    counts = ["references"] if any(isinstance(realm.references, int) for realm in realms) else []
    columns = ("realm", "status", *counts, "created", "since", "properties")
    rows = [[*_realm_cells(realm)] for realm in realms]
    return TextTable(columns, rows, numbers=frozenset(counts))


def _realm_cells(realm: RealmView) -> Iterator[str]:
    yield from (realm.name, realm.status)
    if isinstance(realm.references, int):
        yield f"{realm.references:,}"
    yield from (format_moment(m.replace(microsecond=0)) for m in (realm.created, realm.updated))
    yield ", ".join(f"{key}={value}" for key, value in sorted(realm.properties.items()))
