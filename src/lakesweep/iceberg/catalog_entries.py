"""What catalogs report about their tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.errors import IncompleteError, LakesweepError, NotFoundError

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """What a catalog says of one table or view.

    `access` holds the properties by which the catalog lets its client reach the files, such as
    vended credentials; `folders` are where it says that the files are.
    """

    catalog: str
    name: Name
    is_view: bool
    metadata_path: str
    access: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    folders: tuple[str, ...] = field(default=(), compare=False)

    @property
    def full_name(self) -> str:
        """The name as the command line takes it."""
        return full_name(self.catalog, self.name)


@dataclass(frozen=True, slots=True)
class UnresolvedTable:
    """A name that a catalog lists, and of which it does not say where the metadata is."""

    full_name: str
    name: Name
    error: LakesweepError


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table of another format that a catalog lists among its own, with the folders of it."""

    full_name: str
    folders: tuple[str, ...]


def full_name(catalog: str, name: Name) -> str:
    """A name as the command line takes it."""
    return ".".join(f'"{part}"' if "." in part else part for part in (catalog, *name))


def table_missing(catalog: str, name: Name) -> NotFoundError:
    """The error for a name that a catalog does not have."""
    return NotFoundError(
        f"catalog {catalog} has no table or view {'.'.join(name)}",
        hint="write catalog.namespace.table; a part that holds a dot goes in double quotes",
    )


def without_metadata(catalog: str, name: Name) -> IncompleteError:
    """The error for a name that leads nowhere."""
    return IncompleteError(f"catalog {catalog} names no metadata file for {'.'.join(name)}")


def client_error(catalog: str, name: Name, error: Exception) -> LakesweepError:
    """What an error of a catalog's client means; `name` is what it was asked for."""
    if isinstance(error, LakesweepError):
        return error
    if type(error).__name__ in {"NoSuchTableError", "NoSuchViewError", "NoSuchNamespaceError"}:
        return table_missing(catalog, name)
    return IncompleteError(
        f"catalog {catalog} did not answer for {'.'.join(name) or 'its namespaces'}: {error}",
        hint="lakesweep doctor",
    )
