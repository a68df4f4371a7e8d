"""Treat a repository as a lake, so that policies share the sweep's plans, leases and quarantine.

The lake is named after the storage namespace, not after the repository: there is one run per
namespace, and quarantined objects are found again without a server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakesweep.config import LakeSection
from lakesweep.errors import RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.lakefs.addresses import DATA, StorageNamespace
from lakesweep.lifecycle.run_history import HOME
from lakesweep.runs.records import REPOSITORY_PREFIX
from lakesweep.storage.address import folder_identity
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.paths.foreign_formats import ForeignFolder, ForeignFormat

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLANS, _TRASH = "plans", "trash"


def lake_name(namespace: StorageNamespace) -> str:
    """What the lake of a repository is called."""
    return REPOSITORY_PREFIX + folder_identity(namespace.location).rstrip("/")


def repository_lake(namespace: StorageNamespace, home: str | None = None) -> Lake:
    """The lake of a repository: its objects. `home` is the place of plans and of what is held."""
    home = (home or namespace.address(HOME)).rstrip("/")
    section = LakeSection(
        locations=(namespace.address(DATA).rstrip("/"),),
        unknown="delete",
        plans=f"{home}/{_PLANS}",
        quarantine=f"{home}/{_TRASH}",
    )
    return Lake(lake_name(namespace), section, f"{home}/{_PLANS}")


def find_repository_lake(name: str, home: str | None = None) -> Lake:
    """The lake of that name, which `is_repository`."""
    return replace(
        repository_lake(StorageNamespace(name.removeprefix(REPOSITORY_PREFIX)), home), name=name
    )


def home_of(plan: str) -> str:
    """The place of all plans of a repository, by the address of one of them."""
    return plan.rstrip("/").rsplit("/", 2)[0]


def refuse_shared(
    repository: str, namespace: StorageNamespace, others: Iterable[StorageNamespace]
) -> None:
    """RefusedError where another repository lies in the same folder, above or below it."""
    own = folder_identity(namespace.location)
    for other in others:
        theirs = folder_identity(other.location)
        if own.startswith(theirs) or theirs.startswith(own):
            raise RefusedError(
                GuardName.FOREIGN,
                f"{repository} in {namespace.location} shares its folder with the repository in"
                f" {other.location}: neither knows what the other one needs",
                hint="call it by its name where they are one and the same; else move one of them to"
                " a folder of its own",
            )


def refuse_nested(repository: str, found: Iterable[ForeignFolder]) -> None:
    """RefusedError where a repository lies among the objects of this one."""
    for each in found:
        if each.format is ForeignFormat.LAKEFS:
            raise RefusedError(
                GuardName.FOREIGN,
                f"among the objects of {repository} lies another repository, in {each.folder}:"
                " nothing tells its objects from those of this one",
                hint="move it to a folder of its own",
            )
