"""What catalogs add to maintenance: which of their references stay, and what is stale in a realm.

Memos of metadata files, entities and indexes need no word here: they are linked, so they stay as
long as a commit that is kept leads to them, and go after that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.heads import KEYS, CatalogsCommit
from lakesweep.catalog.stale import (
    tidy_catalogs,
    tidy_dropped,
    tidy_grants,
    tidy_mappings,
    tidy_tasks,
)
from lakesweep.errors import WrongTypeError
from lakesweep.maintenance.identifiers import Collector, Plugin
from lakesweep.store import Commit, Realm
from lakesweep.store.index.keys import decode
from lakesweep.store.names import (
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
        # Catalogs first: what was granted on them goes with them.
        return {
            "catalogs": tidy_catalogs(catalogs, dry_run=dry_run, holder="maintenance"),
            "grants": tidy_grants(catalogs, dry_run=dry_run),
            "mappings": tidy_mappings(catalogs, dry_run=dry_run),
            "tasks": tidy_tasks(catalogs, dry_run=dry_run),
            "dropped": tidy_dropped(catalogs, dry_run=dry_run),
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
