"""Marks that a restore leaves in each location, so that older plans of any store are refused.

A plan that was made before a restore would delete what was restored: its files are the same as
before. The store of the restore knows that; another store with a plan for the same lake does not.
A restore therefore marks the location before the first file comes back, and again after the last
one. A plan records the mark that it finds before it lists. If the mark is another one when the plan
is applied, files came back meanwhile.

Lakes of two stores may be nested, so the homes of lakes above a location are marked and read too,
as far as they exist and may be used. Homes below a location are known only after it was listed:
their marks count by the time at which they were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime

from lakesweep.errors import LakesweepError, MissingError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.runs.lock_holders import MOST_BYTES
from lakesweep.runs.records import home_folder, homes_above, plan_command
from lakesweep.runs.sessions import holder_name
from lakesweep.storage.address import Address, parse
from lakesweep.storage.object_store import StoreOpener
from lakesweep.untrusted.text import printable

#: The name of the mark in the home folder of a location.
MARK = "restored"


@contextmanager
def mark_restore(
    stores: StoreOpener, lake: str, locations: Iterable[str], run: str
) -> Iterator[None]:
    """Mark the locations while files are restored, and when that has ended."""
    locations = tuple(locations)
    # The first mark stands before any file is back, so a crash leaves plans refused that are older.
    _write(stores, lake, locations, f"{run} began ({holder_name()})")
    yield
    # The second one refuses plans that listed the location in between.
    _write(stores, lake, locations, f"{run} ended ({holder_name()})")


def read_restore_marks(stores: StoreOpener, lake: str, locations: Iterable[str]) -> dict[str, str]:
    """The marks of locations, and of the homes above them; those that cannot be read are left out.

    The mark of a location is under its name, that of another home under its own.
    """
    found = {}
    for location in locations:
        for name, place in (*_places(lake, location), *_above(location)):
            with suppress(LakesweepError):
                found[name] = _read(stores, place)
    return {name: mark for name, mark in found.items() if mark}


def check_restore_marks(
    stores: StoreOpener,
    lake: str,
    locations: Iterable[str],
    known: Mapping[str, str],
    plan: str,
) -> None:
    """RefusedError if files were restored since a plan recorded these marks."""
    for location in locations:
        for name, place in _places(lake, location):
            _compare(name, _read(stores, place), known, plan, lake)
        for name, place in _above(location):
            mark = ""
            with suppress(LakesweepError):  # it may not be ours to read, neither then nor now
                mark = _read(stores, place)
            _compare(name, mark, known, plan, lake)


def check_inner_marks(
    stores: StoreOpener,
    lake: str,
    homes: Iterable[str],
    since: datetime,
    plan: str,
    *,
    latest: datetime,
) -> None:
    """RefusedError if files were restored since then by a lake with one of these homes.

    No store writes marks later than `latest`. One that has such a time was forged, and counts from
    now: it must not refuse all plans for ever.
    """
    for home in homes:
        place = parse(home + MARK)
        try:
            written = stores.open(place).head(place.key).modified
        except MissingError:
            continue
        if written is None or written >= since:
            mark = _read(stores, place)
            if written is not None and written > latest:
                with suppress(LakesweepError):  # if it is not ours to write, somebody must look
                    stores.open(place).write(place.key, mark.encode())
            raise _restored(home, mark, plan, lake)


def _compare(name: str, mark: str, known: Mapping[str, str], plan: str, lake: str) -> None:
    if mark != known.get(name, ""):
        raise _restored(name, mark, plan, lake)


def _restored(where: str, mark: str, plan: str, lake: str) -> RefusedError:
    return RefusedError(
        GuardName.STALE_PLAN,
        f"files were restored in {where} since plan {plan} was made: {printable(mark)}",
        hint=plan_command(lake),
    )


def _write(stores: StoreOpener, lake: str, locations: Iterable[str], text: str) -> None:
    for location in locations:
        for _, place in _places(lake, location):
            stores.open(place).write(place.key, text.encode())
        for home, place in _above(location):
            # Lakes further out may belong to others, who need not let us write there.
            with suppress(LakesweepError):
                store, folder = stores.open(place), parse(home)
                page = store.list(folder.key, one_level=True)
                if page.entries.num_rows or page.folders:
                    store.write(place.key, text.encode())


def _read(stores: StoreOpener, place: Address) -> str:
    """The beginning of a mark: all of it, unless something else was put there."""
    try:
        data = stores.open(place).read_range(place.key, 0, MOST_BYTES)
    except MissingError:
        return ""
    return data.decode(errors="replace")


def _places(lake: str, location: str) -> Iterator[tuple[str, Address]]:
    yield location, parse(home_folder(lake, location) + MARK)


def _above(location: str) -> Iterator[tuple[str, Address]]:
    for home in homes_above(parse(location)):
        yield home.path, home.child(home.key + MARK)
