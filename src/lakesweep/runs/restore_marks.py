"""Marks that a restore leaves in each location, so that older plans of any store are refused.

A plan that was made before a restore would delete what was restored: its files are the same as
before. The store of the restore knows that; another store with a plan for the same lake does not.
A restore therefore marks the location before the first file comes back, and again after the last
one. A plan records the mark that it finds before it lists. If the mark is another one when the plan
is applied, files came back meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from lakesweep.errors import LakesweepError, MissingError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.runs.run_names import home_folder, plan_command
from lakesweep.runs.sessions import holder_name
from lakesweep.storage.address import Address, parse
from lakesweep.storage.object_store import StoreOpener

#: The name of the mark in the home folder of a location.
MARK = "restored"


@contextmanager
def mark_restore(
    stores: StoreOpener, lake: str, locations: Iterable[str], run: str
) -> Iterator[None]:
    """Mark the locations while files are restored, and when that has ended."""
    places = [_place(lake, location) for location in locations]
    # The first mark stands before any file is back, so a crash leaves plans refused that are older.
    _write(stores, places, f"{run} began ({holder_name()})")
    yield
    # The second one refuses plans that listed the location in between.
    _write(stores, places, f"{run} ended ({holder_name()})")


def read_restore_marks(stores: StoreOpener, lake: str, locations: Iterable[str]) -> dict[str, str]:
    """The marks of locations; those that cannot be read are left out."""
    found = {}
    for location in locations:
        with suppress(LakesweepError):
            found[location] = _read(stores, _place(lake, location))
    return {location: mark for location, mark in found.items() if mark}


def check_restore_marks(
    stores: StoreOpener, lake: str, locations: Iterable[str], known: Mapping[str, str], plan: str
) -> None:
    """RefusedError if files were restored since a plan recorded these marks."""
    for location in locations:
        mark = _read(stores, _place(lake, location))
        if mark != known.get(location, ""):
            raise RefusedError(
                GuardName.STALE_PLAN,
                f"files were restored in {location} since plan {plan} was made: {mark}",
                hint=plan_command(lake),
            )


def _write(stores: StoreOpener, places: Iterable[Address], text: str) -> None:
    for place in places:
        stores.open(place).write(place.key, text.encode())


def _read(stores: StoreOpener, place: Address) -> str:
    try:
        return stores.open(place).read(place.key).decode(errors="replace")
    except MissingError:
        return ""


def _place(lake: str, location: str) -> Address:
    return parse(home_folder(lake, location) + MARK)
