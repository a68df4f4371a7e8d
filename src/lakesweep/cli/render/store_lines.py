"""Commits, references and realms of the store as lines and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.cli.render.output import TextTable
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.store import Change, Commit, Stored
    from lakesweep.store.backends.rows import Reference
    from lakesweep.store.realms.registry import RealmDefinition

#: So many changes of one commit are shown to people.
_SHOWN_CHANGES = 20


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One change of a commit; keys are readable, and exact in hexadecimal."""

    action: str
    key: str
    key_hex: str
    before: str | None

    @classmethod
    def of(cls, change: Change) -> ChangeLine:
        before = None if change.before is None else readable(change.before)
        return cls(change.action, readable(change.key), change.key.hex(), before)

    def text(self) -> str:
        before = f"  (before: {self.before})" if self.before is not None else ""
        return escape_newlines(f"    {self.action:<8}{self.key}{before}")


@dataclass(frozen=True, slots=True)
class CommitLine:
    """One commit. Its id is text, since many programs cannot hold so large a number."""

    commit: str
    seq: int
    committed: datetime
    author: str
    message: str
    changes: list[ChangeLine]

    @classmethod
    def of(cls, stored: Stored[Commit]) -> CommitLine:
        from lakesweep.timestamps import moment

        commit = stored.value
        changes = [ChangeLine.of(change) for change in commit.changes]
        when = moment(commit.committed_at)
        return cls(str(stored.id), commit.seq, when, commit.author, commit.message, changes)

    def text(self) -> str:
        changes = [change.text() for change in self.changes[:_SHOWN_CHANGES]]
        more = len(self.changes) - len(changes)
        rest = [f"    and {more:,} more; --json shows all"] if more else []
        return "\n".join([self.title(), *changes, *rest])

    def title(self) -> str:
        """The commit in one line."""
        author = [f"{self.author}:"] if self.author else []
        words = [self.commit, f"seq {self.seq}", format_moment(self.committed), *author]
        return escape_newlines("  ".join([*words, *([self.message] if self.message else [])]))


@dataclass(frozen=True, slots=True)
class ReferenceHeadLine:
    """One reference and its head; `problem` says why the head cannot be read."""

    reference: str
    head: str | None
    seq: int | None
    committed: datetime | None
    problem: str | None = None

    @classmethod
    def of(cls, reference: Reference, head: CommitLine | None) -> ReferenceHeadLine:
        """The line of a reference that is in order."""
        pointer = None if reference.pointer is None else str(reference.pointer)
        if head is None:
            return cls(reference.name, pointer, None, None)
        return cls(reference.name, pointer, head.seq, head.committed)

    def text(self) -> str:
        when = "-" if self.committed is None else format_moment(self.committed)
        seq = "-" if self.seq is None else str(self.seq)
        problem = f"  ({self.problem})" if self.problem else ""
        return escape_newlines(
            f"{seq:>8}  {when:<27}  {self.head or '-':<19}  {self.reference}{problem}"
        )


def escape_newlines(text: str) -> str:
    """Keep what somebody named in its line: the next one would pass for a line of ours."""
    return text.replace("\n", "\\n")


def readable(key: bytes) -> str:
    """A key for people: its components if it has any, else its text, else hexadecimal."""
    from lakesweep.errors import DamagedError
    from lakesweep.store.index.keys import decode

    try:
        return "/".join(c.hex() if isinstance(c, bytes) else str(c) for c in decode(key))
    except DamagedError:
        return _as_text(key) or f"0x{key.hex()}"


def _as_text(key: bytes) -> str | None:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


@dataclass(frozen=True, slots=True)
class RealmLine:
    """One realm."""

    name: str
    status: str
    references: int | None
    created: datetime
    updated: datetime
    properties: dict[str, str]

    @classmethod
    def of(cls, realm: RealmDefinition, references: int | None = None) -> RealmLine:
        """The line of a realm, with the number of its references where somebody counted them."""
        from lakesweep.timestamps import moment

        created, updated = moment(realm.created_at), moment(realm.updated_at)
        return cls(
            realm.name, realm.status.value, references, created, updated, dict(realm.properties)
        )

    def document(self) -> dict[str, object]:
        """The realm for programs."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def realm_table(realms: Sequence[RealmLine]) -> TextTable:
    """Realms for people; with the number of references where they were counted."""
    counts = ["references"] if any(realm.references is not None for realm in realms) else []
    columns = ("realm", "status", *counts, "created", "since", "properties")
    rows = [[*_cells(realm, counted=bool(counts))] for realm in realms]
    return TextTable(columns, rows, numbers=frozenset(counts))


def _cells(realm: RealmLine, *, counted: bool) -> Iterator[str]:
    yield from (realm.name, realm.status)
    if counted:
        yield f"{realm.references:,}"
    yield from (format_moment(m.replace(microsecond=0)) for m in (realm.created, realm.updated))
    yield ", ".join(f"{key}={value}" for key, value in sorted(realm.properties.items()))
