"""Commits, references and realms of the store as lines and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakesweep.cli.render.output import TextTable
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.operations.store.log import ChangeView, CommitView, ReferenceView
    from lakesweep.operations.store.realms import RealmView

#: How many changes of one commit are shown to people.
_SHOWN_CHANGES = 20


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
