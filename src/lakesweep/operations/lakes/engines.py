"""Open the engine that a request names, and warn if it cannot reach the plans of a lake."""

from __future__ import annotations

from contextlib import AbstractContextManager

from lakesweep.app import App
from lakesweep.operations.interaction import EngineName, Interaction, choose_engine
from lakesweep.spark.settings import is_local
from lakesweep.storage.address import StoreKind, parse
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.lake import Lake


def open_engine(
    app: App, name: EngineName | None, io: Interaction
) -> AbstractContextManager[SweepEngine]:
    """The engine, or that of the configuration, for as long as the block runs."""
    return app.engine(choose_engine(app, name).value, verbose=io.verbose)


def warn_of_local_plans(app: App, engine: EngineName | None, lake: Lake, io: Interaction) -> None:
    """Notify the caller if executors may run elsewhere while plans are on this machine's disk."""
    place = app.config.spark.remote or app.config.spark.master
    if choose_engine(app, engine) is EngineName.LOCAL or is_local(place):
        return
    if parse(lake.plans).kind is StoreKind.FILE:
        io.notify(
            f"warning: plans of lake {lake.name} are written to {lake.plans}, which the executors"
            f" at {place} must be able to read; unless it is a shared folder, set plans to a bucket"
        )
