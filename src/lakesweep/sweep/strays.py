"""Runs that left their folders with a plan, and that the store knows nothing of.

A store that was brought back from a backup may take a plan for new that was carried out since. The
folders of runs lie with the plan, so they tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.errors import RefusedError
from lakesweep.storage.address import parse
from lakesweep.storage.levels import list_level
from lakesweep.sweep.control import run_folder
from lakesweep.sweep.lake_names import plan_command

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener
    from lakesweep.sweep.records import PlanRecord
    from lakesweep.sweep.runs import Runs


def check_runs_known(stores: StoreOpener, runs: Runs, plan: PlanRecord) -> None:
    """RefusedError if a run of a plan is not in the store."""
    begin = run_folder("", "").removeprefix("/")
    folders = list_level(stores, parse(f"{plan.address.rstrip('/')}/")).folders
    found = {name.removeprefix(begin) for name in folders if name.startswith(begin)}
    if not found:
        return
    strays = sorted(found - {run.run for run in runs.list(plan.lake)})
    if strays:
        raise RefusedError(
            "stale-plan",
            f"plan {plan.plan} was applied by {strays[0]}, of which the store knows nothing: it"
            " may have been brought back from a backup",
            hint=f"{plan_command(plan.lake)} makes a new plan; what the run set aside lies in"
            " the quarantine of the lake",
        )
