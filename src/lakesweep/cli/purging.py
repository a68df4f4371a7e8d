"""What the commands that delete share: how fast, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.output import Table
from lakesweep.errors import IncompleteError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakesweep.cli.context import Context
    from lakesweep.storage.deleting import Deleter
    from lakesweep.storage.outcome import Tally
    from lakesweep.storage.stores import Stores

_PANEL = "Pace"


def _limit(name: str, least: float, meaning: str) -> Any:
    return typer.Option(name, min=least, metavar="N", help=meaning, rich_help_panel=_PANEL)


FilesPerSecond = Annotated[
    float | None, _limit("--files-per-second", 0.001, "Delete no more files a second than this.")
]
BatchesPerSecond = Annotated[
    float | None, _limit("--batches-per-second", 0.001, "Send no more delete requests a second.")
]
BatchSize = Annotated[
    int | None, _limit("--batch-size", 1, "Keys in one request; at most what the store takes.")
]

_SHOWN_FAILURES = 20


@dataclass(frozen=True)
class Pace:
    """How fast to delete."""

    files_per_second: FilesPerSecond = None
    batches_per_second: BatchesPerSecond = None
    batch_size: BatchSize = None

    def deleter(self, stores: Stores, context: Context) -> Deleter:
        """A function that deletes at this pace."""
        from lakesweep.storage.deleting import Limits, delete_files

        limits = Limits(
            context.clock,
            files_per_second=self.files_per_second,
            batches_per_second=self.batches_per_second,
        )

        def delete(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return delete_files(stores, batches, batch_size=self.batch_size, limits=limits)

        return delete


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a purge ended, next to what it had found."""

    tally: Tally
    found: int
    found_bytes: int
    protected: int = 0
    dry_run: bool = False

    def show(self, context: Context) -> None:
        """Give the outcome; end with code 4 where something was left behind."""
        context.output.result(self._document(), *([] if self.dry_run else [self._table()]))
        for failure in self.tally.failures[:_SHOWN_FAILURES]:
            context.output.say(f"{failure.path}: {failure.reason}")
        if self.tally.failed:
            raise typer.Exit(IncompleteError.exit_code)
        if self.dry_run and self.found:
            context.output.say("nothing was deleted; run the same with --yes in place of --dry-run")

    def _document(self) -> dict[str, object]:
        return {
            **self.tally.document(),
            "found": self.found,
            "bytes_found": self.found_bytes,
            "protected": self.protected,
            "dry_run": self.dry_run,
        }

    def _table(self) -> Table:
        from lakesweep.units import format_size

        counts = {
            "found": self.found,
            "deleted": self.tally.deleted,
            "absent": self.tally.absent,
            "failed": self.tally.failed,
        }
        rows = [(name, f"{count:,}") for name, count in counts.items()]
        rows.append(("freed", format_size(self.tally.bytes_deleted)))
        return Table(("outcome", "files"), rows, numbers=frozenset({"files"}))
