"""Where a sweep runs, as the commands let one choose."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.config import SparkSection
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.lake import Lake


class EngineName(StrEnum):
    """The engines."""

    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True)
class EngineChoice:
    """Which engine runs the steps of a sweep."""

    engine: Annotated[
        EngineName,
        typer.Option(help="Run on Spark, as it is configured, or in this process, without Java."),
    ] = EngineName.SPARK

    def open(self, context: Context) -> AbstractContextManager[SweepEngine]:
        """The engine, for as long as the block runs."""
        return context.app.engine(self.engine.value, verbose=context.settings.verbose)

    def warn(self, context: Context, lake: Lake) -> None:
        """Tell where executors may be on other machines and plans are on this one's disk."""
        from lakesweep.storage.address import StoreKind, parse

        section = context.config.spark
        if self.engine is EngineName.LOCAL or _is_here(section):
            return
        if parse(lake.plans).kind is StoreKind.FILE:
            context.output.say(
                f"warning: plans of lake {lake.name} go to {lake.plans}, which the executors at "
                f"{section.remote or section.master} must see as well; set plans to a bucket "
                "unless it is a shared folder"
            )


def _is_here(section: SparkSection) -> bool:
    """Whether all of Spark runs on this machine."""
    from lakesweep.spark.settings import is_local

    return is_local(section.remote or section.master)
