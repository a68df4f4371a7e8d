"""Events for webhooks: what is worth telling others, and what still has to be delivered.

An event is written by the same commit that records what happened, so a crash loses none and tells
none that did not happen. Services deliver it later; no run waits for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

#: Only the newest events are kept while nobody delivers them.
MOST_ENTRIES = 10_000


class EventType(StrEnum):
    """What a webhook can be told."""

    RUN_DONE = "run.done"
    RUN_FAILED = "run.failed"
    APPROVAL_NEEDED = "approval.needed"
    LIMIT_REACHED = "limit.reached"
    ROOT_UNREADABLE = "root.unreadable"
    FILES_MISSING = "files.missing"
    TEST = "test"


class LakeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. `id` is the same however often it is told; `at` are microseconds."""

    id: str
    type: EventType
    subject: str
    at: int
    data: dict[str, Any] = {}


class OutboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a webhook has to be told, not before `next_at`. `error` is of the last try."""

    event: LakeEvent
    webhook: str
    attempts: int = 0
    next_at: int = 0
    error: str = ""

    @property
    def place(self) -> tuple[int, str, str]:
        """Its key: in the order of events."""
        return self.event.at, self.event.id, self.webhook


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A webhook, named so that its URL, which may be secret, is not stored."""

    name: str
    events: frozenset[str]

    @classmethod
    def of(cls, url: str, events: Iterable[str]) -> WebhookTarget:
        """The target of a URL."""
        return cls(hashlib.sha256(url.encode()).hexdigest()[:12], frozenset(events))


def entries_for(
    events: Iterable[LakeEvent], targets: Sequence[WebhookTarget]
) -> Iterator[OutboxEntry]:
    """What each webhook has to be told."""
    for event in events:
        for target in targets:
            if event.type.value in target.events:
                yield OutboxEntry(event=event, webhook=target.name)
