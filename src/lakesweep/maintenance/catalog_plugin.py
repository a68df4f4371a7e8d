"""The catalog's plugin: which references of catalogs are retained, and which entries are stale.

Memos of metadata files, entities and indexes are linked, so they are retained for as long as
a retained commit leads to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.commits import KEYS, CatalogsCommit
from lakesweep.catalog.stale_entries import (
    end_due_catalogs,
    forget_expired_drops,
    remove_stale_grants,
    remove_stale_mappings,
    remove_stale_tasks,
)
from lakesweep.errors import WrongTypeError
from lakesweep.maintenance.plugin_api import Collector, Plugin
from lakesweep.store import Commit, Realm
from lakesweep.store.index.keys import decode
from lakesweep.store.reserved_names import (
    CATALOGS,
    SYSTEM_REALM,
    catalog_content,
    catalog_grants,
    catalog_roles,
)

_REFERENCE = re.compile(r"cat/\d+/(roles|grants|heads/main)")


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
