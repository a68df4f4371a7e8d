"""The kinds of things that a realm holds."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What an entity is."""

    ROOT = "root"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    GENERIC_TABLE = "generic-table"
    POLICY = "policy"
    PRINCIPAL = "principal"
    PRINCIPAL_ROLE = "principal-role"
    CATALOG_ROLE = "catalog-role"
    TASK = "task"

    @property
    def words(self) -> str:
        """The kind for people."""
        return self.value.replace("-", " ")


#: What keeps files alive: these are remembered for a while after they were dropped.
STORED_KINDS = frozenset({Kind.TABLE, Kind.VIEW, Kind.GENERIC_TABLE})
#: What a catalog contains.
CONTENT_KINDS = STORED_KINDS | {Kind.NAMESPACE, Kind.POLICY}
