"""What stays of the system realm, and of the realms of users, by what the store itself keeps."""

from __future__ import annotations

from lakesweep.maintenance.identifiers import Collector
from lakesweep.maintenance.records import MAINTENANCE_RUNS
from lakesweep.store.ids.rows import lease_id
from lakesweep.store.ids.snowflake import NODE_COUNT
from lakesweep.store.names import REALMS, SYSTEM_REALM, standing_names
from lakesweep.sweep.records import SWEEPS


class OwnsNothing:
    """The base of identifiers that let all references stay."""

    def owns(self, reference: str) -> bool:
        del reference
        return False


class SystemIdentifier(OwnsNothing):
    """The realms, the leases of nodes, and the runs of maintenance."""

    def identify(self, collector: Collector) -> bool:
        if collector.realm.name != SYSTEM_REALM:
            return False
        for name in (REALMS, MAINTENANCE_RUNS):
            collector.retain_reference(name)
        # Nothing leads to them: the id of each follows from the number of its node.
        collector.retain_objects([lease_id(node) for node in range(NODE_COUNT)])
        return True


class UserIdentifier(OwnsNothing):
    """The references that every realm has, and the runs and plans of sweeps."""

    def identify(self, collector: Collector) -> bool:
        realm = collector.realm
        if realm.name == SYSTEM_REALM:
            return False
        names = [*standing_names(realm.name), SWEEPS]
        there = realm.backend.fetch_references(realm.name, names)
        for name in there:
            collector.retain_reference(name)
        return bool(there)
