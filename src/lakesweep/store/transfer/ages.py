"""Ids of another store, and those that will be given out here.

An id holds the moment at which it was given out. Ids of this store are unique among themselves, and
those of tomorrow differ from all of yesterday. So an object from elsewhere can meet a new one only
if its id is not yet past here, which happens if the clock there was ahead, or one here is behind.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from lakesweep.clock import Clock
from lakesweep.errors import RefusedError
from lakesweep.store.ids.snowflake import decompose, moment_of

#: The clocks of those who use one store differ by less than this.
TOLERANCE = timedelta(seconds=1)
#: For so long it is worth waiting.
PATIENCE = timedelta(seconds=60)


def check_age(newest: int, clock: Clock) -> None:
    """RefusedError if the newest id will not be past soon."""
    if _past_at(newest) - clock.now() > PATIENCE:
        raise RefusedError(
            "clock",
            f"object {newest} has an id of {_text(moment_of(decompose(newest).millisecond))}, "
            f"and here it is {_text(clock.now())}: a new object could be given the same id",
            hint="set the clock of this machine right, or import it when that moment is past",
        )


def await_age(newest: int, clock: Clock) -> None:
    """Return when no id that is given out here from now on can be one of those; or refuse."""
    check_age(newest, clock)
    clock.sleep((_past_at(newest) - clock.now()).total_seconds())


def _past_at(newest: int) -> datetime:
    return moment_of(decompose(newest).millisecond + 1) + TOLERANCE


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
