"""`lakesweep demo`: run the whole story on an embedded lake."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from lakesweep.cli.commands import command
from lakesweep.cli.context import Context
from lakesweep.cli.options import EngineChoice
from lakesweep.errors import SparkSetupError, UsageError
from lakesweep.operations.interaction import EngineName

KeptFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Create the lake here, and keep it, so that you can try things on it.",
        show_default=False,
    ),
]


Served = Annotated[
    bool,
    typer.Option("--serve", help="Keep the service and its console running afterwards."),
]


def add_demo(app: typer.Typer, run: Callable[[Sequence[str]], int]) -> None:
    """Add the command to the root. `run` runs the commands of the story, as a shell would."""

    def demo(
        context: Context, engine: EngineChoice, keep: KeptFolder = None, serve: Served = False
    ) -> None:
        _tell(context, engine, keep, run, serve=serve)

    demo.__doc__ = _tell.__doc__
    command(
        app,
        "demo",
        examples=[
            "lakesweep demo",
            "lakesweep demo --keep ./demo-lake",
            "lakesweep demo --engine local",
            "lakesweep demo --serve",
        ],
    )(demo)


def _tell(
    context: Context,
    engine: EngineChoice,
    keep: Path | None,
    run: Callable[[Sequence[str]], int],
    *,
    serve: bool,
) -> None:
    """The whole story on an embedded lake.

    Creates Iceberg tables in a folder, with the garbage that years of use leave, and shows with
    real commands how a plan is made, reviewed, applied with quarantine, undone, and applied for
    good. In between, the service does the same unattended, and waits for approval. At the end it
    proves that every table reads as before and that no garbage is left. Takes about a minute; needs
    no server, and with --engine local no Java. With --serve, the console stays up with a plan that
    waits for a decision.
    """
    chosen = engine.engine or EngineName.SPARK
    _check(chosen)
    with _folder(keep) as folder, chdir(folder):
        from lakesweep.cli.demo.story import Story
        from lakesweep.demo.lake import DemoLake

        story = Story(context, DemoLake(folder), chosen.value, run)
        story.tell()
        if serve:
            story.serve()
    if keep is not None:
        context.output.say(f"the lake is in {keep}; continue with: cd {shlex.quote(str(keep))}")


def _check(engine: EngineName) -> None:
    """What Spark lacks is better told before the story than in the middle of it."""
    if engine is not EngineName.SPARK:
        return
    from lakesweep.spark.java import find_java

    try:
        find_java()
    except SparkSetupError as error:
        raise SparkSetupError(error.message, hint=f"{error.hint}; or add --engine local") from error


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="lakesweep-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and any(keep.iterdir()):
        raise UsageError(f"{keep} is not empty", hint="name a new folder after --keep")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.resolve()
