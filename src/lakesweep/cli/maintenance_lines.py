"""Runs of maintenance as commands show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.cli.output import Table
from lakesweep.cli.run_lines import RunLine
from lakesweep.units import format_count, format_moment

if TYPE_CHECKING:
    from lakesweep.maintenance.records import MaintenanceRunInformation
    from lakesweep.maintenance.stats import MaintenanceStats

_COUNTS = ("scanned", "retained", "newer", "unreferenced", "purged", "failed")


@dataclass(frozen=True, slots=True)
class MaintenanceLine:
    """One run of maintenance."""

    info: MaintenanceRunInformation

    def document(self) -> dict[str, Any]:
        """All of it, for programs."""
        from lakesweep.store.moments import moment

        info = self.info
        return {
            "run": info.run,
            "status": info.status.value,
            "success": info.success,
            "dry_run": info.is_dry_run,
            "started": info.started,
            "finished": info.finished,
            "cut_off": moment(info.cut_off_at),
            "status_message": info.status_message,
            "detailed_information": info.detailed_information,
            "reference_stats": info.reference_stats,
            "obj_stats": info.obj_stats,
            "per_realm_reference_stats": info.per_realm_reference_stats,
            "per_realm_per_obj_type_stats": info.per_realm_per_obj_type_stats,
            "purged_realms": info.purged_realms,
            "realms_purged": info.realms_purged,
            "identified_references": info.identified_references,
            "identified_objs": info.identified_objs,
            "tidied": info.tidied,
            "filters": info.filters,
            "resumes": info.resumes,
        }

    def table(self) -> Table:
        """What was found, by realm and type."""
        return Table(("realm", "of", *_COUNTS), list(self._rows()), numbers=frozenset(_COUNTS))

    def words(self) -> str:
        """The run in a few words."""
        info = self.info
        when = format_moment(info.started.replace(microsecond=0))
        purged = info.obj_stats.purged + info.reference_stats.purged
        return f"{info.run} is {info.status}, {when}: {format_count(purged, 'row')} purged"

    def run_line(self) -> RunLine:
        """The run among others, with its totals."""
        from msgspec.structs import asdict

        info, finished = self.info, self.info.finished
        totals = {"references": info.reference_stats, "rows": info.obj_stats}
        return RunLine(
            run=info.run,
            lake="-",
            kind="maintain",
            status=info.status.value,
            started=info.started,
            finished=finished,
            seconds=None if finished is None else (finished - info.started).total_seconds(),
            plan=None,
            message=info.status_message,
            spec={},
            figures={name: asdict(stats) for name, stats in totals.items()},
        )

    def _rows(self) -> Iterator[tuple[str, ...]]:
        info = self.info
        realms = {**info.per_realm_reference_stats, **info.per_realm_per_obj_type_stats}
        for realm in sorted(realms):
            if realm in info.per_realm_reference_stats:
                yield realm, "references", *_cells(info.per_realm_reference_stats[realm])
            types = info.per_realm_per_obj_type_stats.get(realm, {})
            for name, stats in sorted(types.items()):
                yield realm, name, *_cells(stats)
        for realm, kinds in info.tidied.items():
            for kind, count in kinds.items():
                yield realm, f"stale {kind}", "", "", "", f"{count:,}", "", ""


def _cells(stats: MaintenanceStats) -> tuple[str, ...]:
    return tuple(f"{getattr(stats, name):,}" for name in _COUNTS)
