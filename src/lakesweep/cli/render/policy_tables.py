"""Upkeep rules and what became of them, for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from lakesweep.operations.upkeep.table_policies import PolicyOutcome, PolicyView
    from lakesweep.upkeep.policy.effective_rules import RuleValue

#: A thousand years; calendars end before the largest number does.
_FOR_EVER_MS = 1000 * 365 * 24 * 3600 * 1000


def policy_tables(view: PolicyView) -> Iterator[TextTable]:
    """What is done, by which values, and what forbids it."""
    jobs = [(name, "yes" if is_done else "no") for name, is_done in view.jobs.items()]
    yield TextTable(("job", "done"), jobs, title=_title(view))
    rows = [(_name(each), _value(each), _source(each)) for each in view.values]
    yield TextTable(("rule", "value", "from"), rows)
    if view.vetoes:
        vetoes = [(each.key.value, each.source.value, each.origin) for each in view.vetoes]
        yield TextTable(("forbidden", "by", ""), vetoes)


def _title(view: PolicyView) -> str:
    return view.table if view.lake is None else f"{view.table} in lake {view.lake}"


def _name(each: RuleValue) -> str:
    return each.key.value if each.ref is None else f"{each.key.value} of {each.ref}"


def _value(each: RuleValue) -> str:
    if isinstance(each.value, bool):
        return "yes" if each.value else "no"
    if not each.key.value.endswith("age"):
        return f"{each.value:,}"
    if each.value >= _FOR_EVER_MS:
        return "for ever"
    whole = each.value % 1000 == 0
    return format_duration(timedelta(milliseconds=each.value)) if whole else f"{each.value:,} ms"


def _source(each: RuleValue) -> str:
    return f"{each.source.value}: {each.origin}" if each.origin else each.source.value


def outcome_text(outcome: PolicyOutcome) -> str:
    """What the rules of a table led to, in one line."""
    text = f"{outcome.status:<10}  {outcome.table}"
    if outcome.status in {"done", "incomplete"}:
        done = "to expire" if outcome.dry_run else "expired"
        snapshots = format_count(outcome.expired_snapshots, "snapshot")
        files = format_count(outcome.deleted_files, "file")
        text += f"  {snapshots} {done}, {files}, {format_size(outcome.bytes_deleted)}"
        if outcome.manifests_created:
            text += f", {format_count(outcome.manifests_created, 'manifest')} written"
    if outcome.why is not None:
        text += f"  {outcome.why}"
    return f"{text}  (orphan files: by a sweep of the lake)" if outcome.left_to_sweep else text
