"""How large filters have to be, by what earlier runs found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.maintenance.records import MaintenanceRunInformation

#: Filters that are smaller than for so many references save nothing.
_FEWEST_REFERENCES = 1_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many references and objects are expected to stay."""

    references: int
    objects: int


def sizes_for(config: MaintenanceConfig, runs: Iterable[MaintenanceRunInformation]) -> Sizes:
    """What is configured, or the most that an earlier run saw and some more.

    What was scanned counts as well as what was identified: a run that failed early may have seen
    only one of the two.
    """
    references = max(config.expected_reference_count, _FEWEST_REFERENCES)
    objects = config.expected_obj_count
    for run in runs:
        seen = max(run.reference_stats.scanned, run.identified_references)
        references = max(references, ceil(seen * config.count_from_last_run_multiplier))
        seen = max(run.obj_stats.scanned, run.identified_objs)
        objects = max(objects, ceil(seen * config.count_from_last_run_multiplier))
    return Sizes(references, objects)
