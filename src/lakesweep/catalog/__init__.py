"""What a realm holds: catalogs with namespaces, tables, views and policies; and who may use them.

Each named pointer of a realm is one container, changed by commits; see `heads`.
"""

from __future__ import annotations

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.entities import (
    CatalogDefinition,
    CatalogRole,
    Entity,
    GenericTable,
    Namespace,
    Policy,
    Principal,
    PrincipalRole,
    Table,
    TableMemo,
    View,
)
from lakesweep.catalog.heads import TYPES
from lakesweep.catalog.kinds import Kind
from lakesweep.catalog.mutations import (
    Create,
    Drop,
    Outcome,
    Rename,
    Result,
    Status,
    Undrop,
    Update,
)

__all__ = [
    "TYPES",
    "Catalog",
    "CatalogDefinition",
    "CatalogRole",
    "Catalogs",
    "Create",
    "Drop",
    "Entity",
    "GenericTable",
    "Kind",
    "Namespace",
    "Outcome",
    "Policy",
    "Principal",
    "PrincipalRole",
    "Rename",
    "Result",
    "Status",
    "Table",
    "TableMemo",
    "Undrop",
    "Update",
    "View",
]
