"""What a realm holds: catalogs with namespaces, tables, views and policies, and who may use them.

Each named reference of a realm points to one container of entities, changed by commits; see
`commits`.
"""

from __future__ import annotations

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.commits import (
    TYPES,
    BatchOutcome,
    Create,
    Drop,
    MutationResult,
    MutationStatus,
    Rename,
    Undrop,
    Update,
)
from lakesweep.catalog.entities import (
    CatalogDefinition,
    CatalogPolicy,
    CatalogRole,
    Entity,
    EntityType,
    GenericTable,
    Namespace,
    Principal,
    PrincipalRole,
    Table,
    TableMemo,
    View,
)

__all__ = [
    "TYPES",
    "BatchOutcome",
    "Catalog",
    "CatalogDefinition",
    "CatalogPolicy",
    "CatalogRole",
    "Catalogs",
    "Create",
    "Drop",
    "Entity",
    "EntityType",
    "GenericTable",
    "MutationResult",
    "MutationStatus",
    "Namespace",
    "Principal",
    "PrincipalRole",
    "Rename",
    "Table",
    "TableMemo",
    "Undrop",
    "Update",
    "View",
]
