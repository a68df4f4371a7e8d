"""What catalogs report about their tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.errors import IncompleteError, LakesweepError, NotFoundError

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One table or view as a catalog lists it.

    `access` holds the properties with which the catalog lets its client read the files, such as
    vended credentials; `folders` are where it says the files are.
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
    """A name that a catalog lists without saying where the metadata is."""

    full_name: str
    name: Name
    error: LakesweepError


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table of another format in a catalog, with its folders."""

    full_name: str
    folders: tuple[str, ...]


def full_name(catalog: str, name: Name) -> str:
    """A name as the command line takes it."""
    return ".".join(f'"{part}"' if "." in part else part for part in (catalog, *name))


def table_missing(catalog: str, name: Name) -> NotFoundError:
    """The error for a name that is not in a catalog."""
    return NotFoundError(
        f"catalog {catalog} has no table or view {'.'.join(name)}",
        hint="write catalog.namespace.table; put a part that contains a dot in double quotes",
    )


def without_metadata(catalog: str, name: Name) -> IncompleteError:
    """The error for an entry without a metadata file."""
    return IncompleteError(f"catalog {catalog} names no metadata file for {'.'.join(name)}")


def client_error(catalog: str, name: Name, error: Exception) -> LakesweepError:
    """Translate an error of a catalog client; `name` is what was requested."""
    if isinstance(error, LakesweepError):
        return error
    if type(error).__name__ in {"NoSuchTableError", "NoSuchViewError", "NoSuchNamespaceError"}:
        return table_missing(catalog, name)
    return IncompleteError(
        f"catalog {catalog} did not answer for {'.'.join(name) or 'its namespaces'}: {error}",
        hint="lakesweep doctor",
    )
