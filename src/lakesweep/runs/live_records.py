"""What a run tells the store while it runs, and the word that asks it to stop.

Each run has two rows that are replaced conditionally, like a lease: how far it is, and its last
lines. A thread writes them at most about once a second, so nothing that works waits for the store.
The same row carries the request to cancel the run, which therefore reaches it on any machine.

Telling never fails a run: if the store does not answer, that is counted, and told when it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.errors import LakesweepError, UnknownOutcomeError
from lakesweep.progress_board import MOST_LINES, ProgressBoard, Stage
from lakesweep.store import Link, Realm, Stored
from lakesweep.termination import request_termination

#: How often a run tells the store how far it is, and looks whether it should stop.
TELL_SECONDS = 1.0
#: While the store does not answer, the pauses grow up to this.
_LONGEST_PAUSE = 30.0
#: A run without news tells that it is alive.
_SIGN_OF_LIFE_SECONDS = 15.0


class StageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run. `seconds` is how long it took, or takes so far."""

    stage: str
    unit: str
    count: int
    total: int | None
    size_bytes: int
    seconds: float
    is_open: bool = False


class RunLiveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is. Moments are microseconds since 1970.

    `lost` counts how often the store did not answer. `cancelled_by` asks the run to stop.
    """

    run: str
    updated_at: int
    stages: tuple[StageRecord, ...] = ()
    lost: int = 0
    cancelled_by: str | None = None


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last lines that a run or a job wrote, after `dropped` earlier ones."""

    dropped: int = 0
    lines: tuple[str, ...] = ()

    def extended(self, lines: list[str]) -> OutputRecord:
        """With more lines at the end; the oldest ones give way."""
        every = (*self.lines, *lines)
        surplus = max(0, len(every) - MOST_LINES)
        return OutputRecord(dropped=self.dropped + surplus, lines=every[surplus:])


class LiveLinks(msgspec.Struct, frozen=True):
    """Where the rows of a run lie."""

    live: Link
    output: Link


def new_links(realm: Realm, run: str, clock: Clock) -> LiveLinks | None:
    """New rows for a run, written before anything links to them; None if that failed."""
    began = RunLiveRecord(run=run, updated_at=micros(clock.now()))
    try:
        live = realm.objects.insert(realm.new_id(), began)
        output = realm.objects.insert(realm.new_id(), OutputRecord())
    except LakesweepError:
        return None  # progress is not worth a failed run
    assert live is not None  # the ids are new
    assert output is not None
    return LiveLinks(Link(live.id), Link(output.id))


def live_record(realm: Realm, links: LiveLinks | None) -> RunLiveRecord | None:
    """How far a run is; None if it does not tell."""
    found = None if links is None else realm.objects.fetch(links.live, RunLiveRecord)
    return None if found is None else found.value


def output_record(realm: Realm, link: Link | None) -> OutputRecord:
    """The last lines of a run or a job."""
    found = None if link is None else realm.objects.fetch(link, OutputRecord)
    return OutputRecord() if found is None else found.value


def request_cancel(realm: Realm, links: LiveLinks, by: str) -> RunLiveRecord | None:
    """Ask a run to stop; what is known of it then, or None if it has no row."""

    def ask(now: RunLiveRecord) -> RunLiveRecord:
        if now.cancelled_by is not None:
            return now
        return msgspec.structs.replace(now, cancelled_by=by)

    return _change(realm, links.live, ask)


def _change(
    realm: Realm, link: Link, change: Callable[[RunLiveRecord], RunLiveRecord]
) -> RunLiveRecord | None:
    """Replace a row by what `change` makes of it, however often others do the same."""
    while True:
        found = realm.objects.fetch(link, RunLiveRecord)
        if found is None:
            return None
        wanted = change(found.value)
        if wanted == found.value:
            return wanted
        with suppress(UnknownOutcomeError):  # it may have been written: look again
            if realm.objects.update(found, wanted) is not None:
                return wanted


@dataclass
class LiveTeller:
    """Tells the store how far a run is. `cancel` is called once, when the run should stop."""

    realm: Realm
    clock: Clock
    board: ProgressBoard
    links: LiveLinks
    cancel: Callable[[str], None] = request_termination
    cancelled_by: str | None = None
    lost: int = 0
    _since: float = 0.0
    _first_line: int = 0
    _live: Stored[RunLiveRecord] | None = None
    _output: Stored[OutputRecord] | None = None
    _told: tuple[StageRecord, ...] = ()
    _told_at: float = field(default=-_SIGN_OF_LIFE_SECONDS)

    def __post_init__(self) -> None:
        self._since = self.clock.monotonic()
        self._first_line = self.board.said

    def tell(self, *, at_last: bool = False) -> None:
        """Write what is new, and look whether the run should stop. Raises nothing of the store."""
        try:
            self._tell_live(at_last=at_last)
            self._tell_output()
        except LakesweepError:
            self.lost += 1
            self._live = self._output = None  # whatever was written: look again

    def look(self) -> str | None:
        """Who asked the run to stop, as the store knows now; for its last record."""
        with suppress(LakesweepError):
            found = live_record(self.realm, self.links)
            if found is not None and found.cancelled_by is not None:
                self.cancelled_by = found.cancelled_by
        return self.cancelled_by

    def _tell_live(self, *, at_last: bool) -> None:
        stages = self._stages()
        now = self.clock.monotonic()
        is_news = _figures(stages) != _figures(self._told) or at_last
        if self._live is None or not (is_news or now - self._told_at >= _SIGN_OF_LIFE_SECONDS):
            self._live = self.realm.objects.fetch(self.links.live, RunLiveRecord)
        if self._live is None:
            return  # another process removed it
        self._heed(self._live.value)
        if not (is_news or now - self._told_at >= _SIGN_OF_LIFE_SECONDS):
            return
        wanted = msgspec.structs.replace(
            self._live.value, stages=stages, updated_at=micros(self.clock.now()), lost=self.lost
        )
        updated = self.realm.objects.update(self._live, wanted)
        if updated is None:  # a request to cancel came in between
            self._live = None
            self._tell_live(at_last=at_last)
            return
        self._live, self._told, self._told_at = updated, stages, now

    def _heed(self, found: RunLiveRecord) -> None:
        if found.cancelled_by is not None and self.cancelled_by is None:
            self.cancelled_by = found.cancelled_by
            self.cancel(f"cancelled by {found.cancelled_by}")

    def _tell_output(self) -> None:
        first, lines = self.board.lines(self._first_line)
        if not lines:
            return
        if self._output is None:
            self._output = self.realm.objects.fetch(self.links.output, OutputRecord)
        if self._output is None:
            return
        before = self._output.value
        skipped = first - self._first_line
        wanted = msgspec.structs.replace(before, dropped=before.dropped + skipped).extended(lines)
        self._output = self.realm.objects.update(self._output, wanted)
        self._first_line = first + len(lines)

    def _stages(self) -> tuple[StageRecord, ...]:
        now = self.clock.monotonic()
        return tuple(_stage_record(each, now) for each in self.board.stages(self._since))


@contextmanager
def keep_telling(teller: LiveTeller) -> Iterator[LiveTeller]:
    """Tell the store how far the run is while the block runs, and once more at its end."""
    done = threading.Event()
    thread = threading.Thread(target=_tell_until, args=(teller, done), daemon=True, name="live")
    thread.start()
    try:
        yield teller
    finally:
        done.set()
        thread.join()
        teller.tell(at_last=True)


def _tell_until(teller: LiveTeller, done: threading.Event) -> None:
    pause = TELL_SECONDS
    while not done.wait(pause):
        lost = teller.lost
        teller.tell()
        pause = TELL_SECONDS if teller.lost == lost else min(2 * pause, _LONGEST_PAUSE)


def _stage_record(stage: Stage, now: float) -> StageRecord:
    return StageRecord(
        stage=stage.label,
        unit=stage.unit,
        count=stage.count,
        total=stage.total,
        size_bytes=stage.size_bytes,
        seconds=round((now if stage.ended is None else stage.ended) - stage.started, 3),
        is_open=stage.ended is None,
    )


def _figures(stages: tuple[StageRecord, ...]) -> list[tuple[object, ...]]:
    """What counts as news: time passes anyway."""
    return [(each.stage, each.count, each.total, each.is_open) for each in stages]


#: The types that a store must know to hold all this.
TYPES: Mapping[str, type[msgspec.Struct]] = {
    "run-live": RunLiveRecord,
    "run-output": OutputRecord,
}
