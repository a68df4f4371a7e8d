"""What lakes are called: those of the configuration by its names, repositories by their folders."""

from __future__ import annotations

#: With what the name of a lake begins that is a lakeFS repository.
REPOSITORY = "lakefs:"


def is_repository(lake: str) -> bool:
    """Whether a lake of that name is a repository."""
    return lake.startswith(REPOSITORY)


def commands_of(lake: str) -> str:
    """How the commands for plans of a lake begin."""
    return "lakesweep lifecycle" if is_repository(lake) else "lakesweep"


def plan_command(lake: str) -> str:
    """The command that makes a new plan."""
    if is_repository(lake):
        return f"{commands_of(lake)} plan REPO --policy FILE"
    return f"lakesweep plan {lake}"
