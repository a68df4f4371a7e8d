"""The sections of roots: what keeps the files of a lake alive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from lakesweep.config.fields import Positive, Properties, Section, Texts
from lakesweep.redaction import masked


class IcebergCatalogRoot(Section):
    """All tables and views of a catalog that PyIceberg can load."""

    type: Literal["iceberg-catalog"]
    name: str
    properties: Properties = Field(default_factory=dict, repr=False)
    catalog_requests_per_second: Positive | None = None


class IcebergMetadataRoot(Section):
    """Tables and views that no catalog lists, by their metadata files."""

    type: Literal["iceberg-metadata"]
    files: Texts


class IcebergScanRoot(Section):
    """Tables and views that no catalog lists any more, found by their metadata files below a path.

    They are reported and kept; with `keep = false` they are only reported.
    """

    type: Literal["iceberg-scan"]
    path: str
    keep: bool = True


class LakesweepRoot(Section):
    """All or some catalogs in a realm of Lakesweep's own store, with their tables and views.

    `realm` and `url` default to those of the section `store`.
    """

    type: Literal["lakesweep"]
    realm: str | None = None
    url: str | None = Field(None, repr=False)
    catalogs: Texts = ()


class PaimonWarehouseRoot(Section):
    """All tables of a Paimon warehouse."""

    type: Literal["paimon-warehouse"]
    path: str


class LakefsRoot(Section):
    """Repositories of a lakeFS server, by name, and others by the addresses of their namespaces.

    `local_root` is where the server keeps `local://` namespaces. A namespace does not show what is
    staged, so it keeps everything, unless `without_staging` states that nothing is staged.
    """

    type: Literal["lakefs"]
    endpoint: str | None = None
    repositories: Texts = ()
    namespaces: Texts = ()
    local_root: str | None = None
    without_staging: bool = False
    catalog_requests_per_second: Positive | None = None

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if not self.repositories and not self.namespaces:
            raise PydanticCustomError("missing_key", "must name repositories or namespaces")
        if self.repositories and self.endpoint is None:
            raise PydanticCustomError("missing_key", "names repositories but no endpoint")
        return self

    @property
    def called(self) -> str:
        """Its name in reports."""
        return masked(self.endpoint) if self.endpoint else ", ".join(self.namespaces)


class PinnedRoot(Section):
    """A file that lists addresses and prefixes to keep."""

    type: Literal["pinned"]
    file: str


Root = Annotated[
    IcebergCatalogRoot
    | IcebergMetadataRoot
    | IcebergScanRoot
    | LakesweepRoot
    | PaimonWarehouseRoot
    | LakefsRoot
    | PinnedRoot,
    Field(discriminator="type"),
]


def _calls(root: Root) -> str | None:
    """What distinguishes a root from others of its type; None if several count as one."""
    match root:
        case IcebergCatalogRoot():
            return f"catalog {root.name}"
        case IcebergScanRoot():
            return f"scan of {root.path}"
        case LakesweepRoot():
            return f"realm {root.realm or 'of the store'}"
        case LakefsRoot():
            return f"lakeFS server {root.called}"
        case _:
            return None


def contradiction(roots: Iterable[Root]) -> str | None:
    """The first root that appears twice with different settings."""
    known: dict[str, Root] = {}
    named = ((_calls(root), root) for root in roots)
    return next(
        (name for name, root in named if name and known.setdefault(name, root) != root), None
    )
