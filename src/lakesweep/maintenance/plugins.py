"""Load the maintenance plugins: the store's own, the catalog's, and those of other packages.

Other packages register theirs as entry points of the group `lakesweep.maintenance`.

The catalog's plugin decides which references of catalogs are retained, and which entries are
stale. Memos of metadata files, entities and indexes are linked, so they are retained for as long as
a retained commit leads to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.commits import KEYS, CatalogsCommit
from lakesweep.catalog.stale_entries import (
    end_due_catalogs,
    forget_expired_drops,
    remove_stale_grants,
    remove_stale_mappings,
    remove_stale_tasks,
)
from lakesweep.errors import ConfigError, WrongTypeError
from lakesweep.maintenance.plugin_api import Collector, Plugin
from lakesweep.maintenance.run_records import MAINTENANCE_RUNS
from lakesweep.runs.records import SWEEPS
from lakesweep.store import Commit, Realm
from lakesweep.store.ids.node_leases import lease_id
from lakesweep.store.ids.snowflake import NODE_COUNT
from lakesweep.store.index.keys import decode
from lakesweep.store.reserved_names import (
    CATALOGS,
    REALMS,
    SYSTEM_REALM,
    catalog_content,
    catalog_grants,
    catalog_roles,
    standing_names,
)

#: Other packages offer a Plugin each under this name.
GROUP = "lakesweep.maintenance"
_REFERENCE = re.compile(r"cat/\d+/(roles|grants|heads/main)")


def _store() -> Plugin:

    return Plugin("store", realms=(SystemIdentifier(), UserIdentifier()))


def _catalog() -> Plugin:

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


@dataclass(frozen=True, slots=True)
class CatalogReferences:
    """Keeps the references of every catalog that a kept commit of `catalogs` names."""

    def owns(self, reference: str) -> bool:
        return _REFERENCE.fullmatch(reference) is not None

    def identify(self, collector: Collector) -> bool:
        if collector.realm.name == SYSTEM_REALM:
            return False
        for commit in collector.commits(CATALOGS):
            for number in _catalogs(collector.realm, commit.value):
                collector.retain_reference(catalog_content(number))
                collector.retain_reference(catalog_roles(number))
                collector.retain_reference(catalog_grants(number))
        return True


@dataclass(frozen=True, slots=True)
class StaleEntries:
    """Removes what names something that is gone, and ends catalogs whose time has come."""

    def tidy(self, realm: Realm, *, dry_run: bool) -> Mapping[str, int]:
        if realm.name == SYSTEM_REALM:
            return {}
        catalogs = Catalogs(realm)
        # Catalogs first: grants on them are removed with them.
        return {
            "catalogs": end_due_catalogs(catalogs, dry_run=dry_run, holder="maintenance"),
            "grants": remove_stale_grants(catalogs, dry_run=dry_run),
            "mappings": remove_stale_mappings(catalogs, dry_run=dry_run),
            "tasks": remove_stale_tasks(catalogs, dry_run=dry_run),
            "dropped": forget_expired_drops(catalogs, dry_run=dry_run),
        }


def _catalogs(realm: Realm, commit: Commit) -> Iterator[int]:
    if not isinstance(commit, CatalogsCommit):
        # With no catalogs in it, the references of all of them would be taken for left over.
        raise WrongTypeError(
            f"a commit of reference {CATALOGS!r} is of a type that this program does not know",
            hint="use a newer lakesweep, or open the store with the types of catalogs",
        )
    yield from (int(decode(key)[0]) for key, _ in realm.index(commit.ids, KEYS).items())


PLUGIN = Plugin("catalog", realms=(CatalogReferences(),), tidiers=(StaleEntries(),))
