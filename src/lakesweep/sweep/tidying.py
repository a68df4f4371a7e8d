"""Removing what was written for the time of a run only."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from lakesweep.errors import LakesweepError
from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.deleting import delete_files
from lakesweep.storage.listing import list_files

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener


def remove_folder(stores: StoreOpener, address: str) -> None:
    """Delete all that lies in a folder of Lakesweep's own; what stays does no harm."""
    place = parse(address)
    if place.kind is StoreKind.FILE:
        shutil.rmtree(place.identity, ignore_errors=True)  # and the folders themselves
        return
    with suppress(LakesweepError):
        for _ in delete_files(stores, list_files(stores, place.child(place.folder))):
            pass
