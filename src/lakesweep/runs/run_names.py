"""Names of lakes, runs and run folders, and the commands that hints suggest for a lake.

A lake has the name it has in the configuration. A lakeFS repository is a lake named after its
storage namespace, and a table that is cleaned by itself is one named after its address.
"""

from __future__ import annotations

import hashlib
from secrets import token_hex

from lakesweep.clock import Clock
from lakesweep.storage.address import folder_identity

#: With what the name of a lake begins that is a lakeFS repository.
REPOSITORY_PREFIX = "lakefs:"


#: Where Lakesweep keeps its own files, below a location of a lake or the namespace of a repository.
LAKE_HOME = "_lakesweep/"
REPOSITORY_HOME = "_lakefs/retention/lc/"


def is_repository(lake: str) -> bool:
    """Whether a lake of that name is a repository."""
    return lake.startswith(REPOSITORY_PREFIX)


def table_lake(job: str, address: str) -> str:
    """The name under which a job over a table, a database or a warehouse is recorded."""
    return f"{job}-{hashlib.sha256(folder_identity(address).encode()).hexdigest()[:12]}"


def command_prefix(lake: str) -> str:
    """How the commands for plans of a lake begin."""
    return "lakesweep lifecycle" if is_repository(lake) else "lakesweep"


def home_folder(lake: str, location: str) -> str:
    """The folder for Lakesweep's own files in a location of a lake.

    In a repository it lies beside the objects, which are its location.
    """
    if is_repository(lake):
        return f"{lake.removeprefix(REPOSITORY_PREFIX)}/{REPOSITORY_HOME}"
    return f"{location.rstrip('/')}/{LAKE_HOME}"


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
