"""Load the maintenance plugins: the store's own, the catalog's, and those of other packages.

Other packages register theirs as entry points of the group `lakesweep.maintenance`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points

from lakesweep.errors import ConfigError
from lakesweep.maintenance.plugin_api import Collector, Plugin
from lakesweep.maintenance.run_records import MAINTENANCE_RUNS
from lakesweep.runs.records import SWEEPS
from lakesweep.store.ids.node_leases import lease_id
from lakesweep.store.ids.snowflake import NODE_COUNT
from lakesweep.store.reserved_names import REALMS, SYSTEM_REALM, standing_names

#: Other packages offer a Plugin each under this name.
GROUP = "lakesweep.maintenance"


def _store() -> Plugin:

    return Plugin("store", realms=(SystemIdentifier(), UserIdentifier()))


def _catalog() -> Plugin:
    from lakesweep.maintenance.catalog_plugin import PLUGIN

    return PLUGIN


#: Our own.
OURS: Mapping[str, Callable[[], Plugin]] = {"store": _store, "catalog": _catalog}


def load_plugins() -> Sequence[Plugin]:
    """All plug-ins. ConfigError if one cannot be loaded: what it retains would be deleted."""
    return [*(make() for make in OURS.values()), *_offered()]


def _offered() -> Sequence[Plugin]:
    found = []
    for entry in entry_points(group=GROUP):
        try:
            plugin = entry.load()
        except Exception as error:
            raise _unusable(entry.name, str(error)) from error
        if not isinstance(plugin, Plugin):
            raise _unusable(entry.name, f"it is a {type(plugin).__name__}, not a Plugin")
        found.append(plugin)
    return found


def _unusable(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the plug-in {name} of maintenance cannot be used: {reason}",
        hint="fix it, or uninstall the package that offers it if nothing of it is stored",
    )


class OwnsNothing:
    """The base of identifiers that own no references."""

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
        # Nothing links to them: the id of each follows from the number of its node.
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
