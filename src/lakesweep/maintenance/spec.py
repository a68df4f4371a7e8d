"""Which realms a run of maintenance works on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakesweep.errors import UsageError
from lakesweep.store.names import RESERVED
from lakesweep.store.realms import RealmDefinition, RealmStatus

#: The states of realms whose unused rows are deleted.
PROCESSED = frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE})


@dataclass(frozen=True, slots=True)
class MaintenanceRunSpec:
    """The realms that keep what they lead to, and those that go; all others are left alone."""

    realms_to_process: frozenset[str] = frozenset()
    realms_to_purge: frozenset[str] = frozenset()
    include_system_realm: bool = True

    def check(self) -> None:
        """UsageError if it contradicts itself, or names a realm of the system."""
        for name in sorted(self.realms_to_process | self.realms_to_purge):
            if name.startswith(RESERVED):
                raise UsageError(
                    f"{name} is a realm of the system",
                    hint="it is included unless include_system_realm is False",
                )
        for name in sorted(self.realms_to_process & self.realms_to_purge):
            raise UsageError(f"realm {name} cannot be both kept and purged")


def spec_of(realms: Iterable[RealmDefinition]) -> MaintenanceRunSpec:
    """What the states of realms ask for."""
    states = {realm.name: realm.status for realm in realms}
    return MaintenanceRunSpec(
        frozenset(name for name, status in states.items() if status in PROCESSED),
        frozenset(name for name, status in states.items() if status is RealmStatus.PURGING),
    )
