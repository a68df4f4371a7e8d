"""Report how a purge or a tolerant read ended; exit with code 4 if it was incomplete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from lakesweep.cli.render.output import TextTable
from lakesweep.errors import IncompleteError

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.marks.unreadable import Strict, Tolerant
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals

_SHOWN_FAILURES = 20


@dataclass(frozen=True, slots=True)
class PurgeOutcome:
    """How a purge ended, next to what it had found."""

    tally: OutcomeTotals
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

    def _table(self) -> TextTable:
        from lakesweep.units import format_size

        counts = {
            "found": self.found,
            "deleted": self.tally.deleted,
            "absent": self.tally.absent,
            "failed": self.tally.failed,
        }
        rows = [(name, f"{count:,}") for name, count in counts.items()]
        rows.append(("freed", format_size(self.tally.bytes_deleted)))
        return TextTable(("outcome", "files"), rows, numbers=frozenset({"files"}))


def tell_problems(context: Context, tolerance: Strict | Tolerant) -> None:
    """Say what could not be read, and end the command with code 4 if there was anything."""
    from lakesweep.marks.unreadable import Tolerant

    if isinstance(tolerance, Tolerant) and tolerance.problems:
        for problem in dict.fromkeys(tolerance.problems):
            context.output.say(str(problem))
        raise typer.Exit(IncompleteError.exit_code)
