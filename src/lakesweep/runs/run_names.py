"""Names of lakes, runs and run folders, and the commands that hints suggest for a lake.

A lake has the name it has in the configuration. A lakeFS repository is a lake named after its
storage namespace.
"""

from __future__ import annotations

from secrets import token_hex

from lakesweep.clock import Clock

#: With what the name of a lake begins that is a lakeFS repository.
REPOSITORY_PREFIX = "lakefs:"


def is_repository(lake: str) -> bool:
    """Whether a lake of that name is a repository."""
    return lake.startswith(REPOSITORY_PREFIX)


def command_prefix(lake: str) -> str:
    """How the commands for plans of a lake begin."""
    return "lakesweep lifecycle" if is_repository(lake) else "lakesweep"


def plan_command(lake: str) -> str:
    """The command that makes a new plan."""
    if is_repository(lake):
        return f"{command_prefix(lake)} plan REPO --policy FILE"
    return f"lakesweep plan {lake}"


def run_folder(plan: str, run: str) -> str:
    """The folder of a run that carries out the plan of an address."""
    return f"{plan.rstrip('/')}/apply-{run}"


def new_name(kind: str, clock: Clock) -> str:
    """A name that sorts by time and that nobody else has."""
    return f"{kind}-{clock.now():%Y%m%dT%H%M%S}-{token_hex(4)}"
