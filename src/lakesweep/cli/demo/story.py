"""The demo's script: real commands on a real lake, each with the reason for it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, TypeAlias

from lakesweep.cli.render.text_table import TextTable
from lakesweep.demo.garbage import (
    PlantedGarbage,
    SnapshotContent,
    add_garbage,
    prove_left,
    prove_same,
    read_all,
)
from lakesweep.demo.lake import DemoLake
from lakesweep.errors import LakesweepError, RefusedError
from lakesweep.runs.records import PlanStatus
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.app import App
    from lakesweep.cli.context import Context

#: Runs one command line in this process and returns its exit code.
RunCommand: TypeAlias = Callable[[Sequence[str]], int]

_DROPPED = "--override unlisted-table=warehouse/shop/customers"
_HERE = "--engine local"
_WIDTH = 100
_PATIENCE_SECONDS = 120.0
_LEFTOVERS = 12
_LAKE = (
    "The tables have partitions, row-level deletes, a branch and a tag; two share a folder. "
    "Crashed writers, failed commits, expired snapshots and a dropped table have left orphan files."
)


@dataclass(frozen=True)
class Story:
    """Runs the demo in the lake's own folder; the heaviest commands run on the engine."""

    context: Context
    lake: DemoLake
    engine: str
    run: RunCommand

    def tell(self) -> None:
        """Run all steps; LakesweepError if a result is not as expected."""
        planted = self._make()
        before = read_all(self.lake)
        plan = self._look(planted)
        self._undo(plan, before)
        self._unattended()
        prove_same(before, read_all(self.lake))
        before = {**self._delete(planted), **before}
        self._prove(planted, before)

    def serve(self) -> None:
        """Leave a plan that waits for a person, and serve the console until Ctrl-C."""
        folder, long_ago = self.lake.warehouse / "shop" / "events" / "data", 1_700_000_000
        for number in range(_LEFTOVERS):
            path = folder / f"00000-{number}-left-over.parquet"
            path.write_bytes(bytes(1_000 * (number + 1)))
            os.utime(path, (long_ago, long_ago))
        self._run(
            "Another writer has crashed. The limits of this lake let the plan wait for you:",
            f"sweep demo {_HERE}",
            code=RefusedError.exit_code,
        )
        self._run(
            "Look at it in the console, and approve it there. Ctrl-C ends it.", "serve --port 0"
        )

    def _make(self) -> PlantedGarbage:
        self.lake.create()
        planted = add_garbage(self.lake)
        self._say(f"Created a lake of Iceberg tables in {self.lake.folder}.")
        self._say(*wrap(_LAKE, _WIDTH))
        return planted

    def _look(self, planted: PlantedGarbage) -> str:
        self._run(
            "Find the files that nothing references. Every file gets a verdict and a reason; "
            "nothing is deleted. A table that no catalog lists is kept, as its catalog may have "
            "been forgotten. This one was dropped on purpose, so it is named.",
            f"plan demo{self._on_engine} {_DROPPED}",
        )
        plan = self._newest_plan()
        self._run(
            "List the files to delete in one table, with their probable origin:",
            "show demo --verdict delete --table demo.shop.orders",
        )
        self._run("Write the plan as a page with charts:", "show demo --html plan.html")
        aborted = planted.aborted.relative_to(self.lake.folder)
        self._run("Why would this file be deleted?", f"explain demo {shlex.quote(str(aborted))}")
        self._run("And why is this one kept?", f"explain demo {shlex.quote(self._deletes())}")
        return plan

    def _undo(self, plan: str, before: dict[int, SnapshotContent]) -> None:
        self._run(
            "A guard refuses the first apply ever, so that you look at the plan first:",
            f"apply {plan} --yes",
            code=RefusedError.exit_code,
        )
        self._run(
            "We have looked at it. --quarantine sets files aside instead of deleting them. (A "
            "small lake needs no Spark: --engine local does the same in one process.)",
            f"apply {plan} {_HERE} --quarantine --override first-run --yes",
        )
        self._run("Check for dangling references:", f"check demo {_HERE}")
        prove_same(before, read_all(self.lake))
        self._run("Undo it:", f"quarantine restore {plan}")

    def _unattended(self) -> None:
        self._run(
            "All this can happen without you. A schedule, kept in the store:",
            "schedule add soon --job sweep --lake demo --every 2s --option engine=local",
        )
        self._announce(
            "The service claims each due time once, and runs its job as a process of its own.",
            "lakesweep serve &",
        )
        with self._service() as console:
            self._say(f"Its console is at {console} while it runs; demo --serve keeps it up.")
            self._wait(lambda app: bool(app.schedules.open_jobs()))
            self._run("It is due. Once is enough for this demo:", "schedule pause soon")
            self._wait(lambda app: not app.schedules.open_jobs())
            plan = self._newest_plan()
            self._run("The limits of this lake let every plan wait for a person:", "lakes")
            self._run("Let the service apply it:", f"approve {plan} --why 'only leftovers'")
            self._run("And do not wait for the next due time:", "schedule run soon")
            self._wait(lambda app: app.runs.plan(plan).status is PlanStatus.APPLIED)
            self._wait(lambda app: not app.schedules.open_jobs())
        self._run("What the service did:", "schedule jobs --limit 2")
        self._run("It went to quarantine for a week. Undo it, too:", f"quarantine restore {plan}")

    @contextmanager
    def _service(self) -> Iterator[str]:
        """A service over the store of the lake, while the block runs; gives its address."""
        config = str(self.lake.config)
        words = [sys.executable, "-m", "lakesweep", "--config", config, "serve", "--port", "0"]
        log = self.lake.folder / "serve.log"
        with (
            log.open("wb") as told,
            subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=told, stderr=told) as process,  # noqa: S603 - our own command
        ):
            try:
                yield self._address(log)
            finally:
                process.terminate()

    def _address(self, log: Path) -> str:
        """Where a service that was just started listens, as its log says."""

        def found(_: App) -> bool:
            return "listening on " in log.read_text(encoding="utf-8")

        self._wait(found)
        said = log.read_text(encoding="utf-8").partition("listening on ")[2]
        return said.split(maxsplit=1)[0]

    def _wait(self, is_so: Callable[[App], bool]) -> None:
        """Wait until the service has done something."""
        end = time.monotonic() + _PATIENCE_SECONDS
        app = self._app()
        try:
            while not is_so(app):
                if time.monotonic() > end:
                    raise LakesweepError("the demo's service did not do its job in time")
                time.sleep(0.2)
        finally:
            app.close()

    def _delete(self, planted: PlantedGarbage) -> dict[int, SnapshotContent]:
        self._run(
            "Now delete for good. A plan can be applied only once, so make another one. It reads "
            "only new manifests.",
            f"plan demo {_HERE} {_DROPPED}",
            into="second-plan.txt",
        )
        plan = self._newest_plan()
        self.lake.tables()["shop.clicks"].add_files([str(planted.late)])
        now = read_all(self.lake)
        self._run(
            "Meanwhile, a slow writer has committed a file of that plan to shop.clicks. Apply "
            "re-checks all tables, and keeps the file.",
            f"apply {plan}{self._on_engine} --yes",
        )
        return now

    def _prove(self, planted: PlantedGarbage, before: dict[int, SnapshotContent]) -> None:
        after = read_all(self.lake)
        prove_same(before, after)
        left = prove_left(self.lake, planted.kept)
        self._say("", "The proof: every snapshot still has the same rows.")
        rows = [(each.table, each.what, f"{each.rows:,}", "the same") for each in after.values()]
        columns = ("table", "snapshot", "rows", "reads")
        table = TextTable(columns, rows, numbers=frozenset({"rows"}))
        document = {"readable": list(after.values()), "left": left}
        self.context.output.result(document, table)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left.items())
        self._say(f"{format_count(sum(left.values()), 'file')} are left: {reasons}.")

    def _run(self, why: str, words: str, *, code: int = 0, into: str | None = None) -> None:
        settings = self.context.settings
        into = None if settings.json else into
        self._announce(why, f"lakesweep {words}{f' > {into}' if into else ''}")
        options = ["--config", str(self.lake.config)]
        options += ["--json"] if settings.json else []
        options += ["--quiet"] if settings.quiet else []
        options += ["--verbose"] if settings.verbose else []
        with _into(Path(into)) if into else nullcontext():
            ended = self.run([*options, *shlex.split(words)])
        if ended != code:
            raise LakesweepError(f"the demo's command ended with code {ended}: {words}")

    def _announce(self, why: str, command: str) -> None:
        if self.context.settings.json:
            self.context.output.result({"why": why, "command": command})
        self._say("", *wrap(why, _WIDTH))
        self._say(f"$ {command}")

    def _say(self, *lines: str) -> None:
        if not self.context.settings.json:
            for line in lines:
                self.context.output.say(line)

    @property
    def _on_engine(self) -> str:
        """Spark is the default engine of commands."""
        return "" if self.engine == "spark" else f" --engine {self.engine}"

    def _newest_plan(self) -> str:
        from lakesweep.sweep.plan.stored_plan import open_plan

        app = self._app()
        try:
            return open_plan(app.stores, app.runs, "demo").document.plan
        finally:
            app.close()

    def _app(self) -> App:
        from lakesweep.app import App
        from lakesweep.config.file import load_config

        return App(load_config(self.lake.config, {}), folder=self.lake.folder)

    def _deletes(self) -> str:
        """The position delete file, which only a delete manifest references."""
        found = next(self.lake.warehouse.rglob("*-deletes.parquet"))
        return str(found.relative_to(self.lake.folder))


@contextmanager
def _into(file: Path) -> Iterator[None]:
    with file.open("w", encoding="utf-8") as stream, redirect_stdout(stream):
        yield
