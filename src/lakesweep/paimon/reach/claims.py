"""Which files an owner holds.

A snapshot or tag holds a state of the table, that is, what is live after all entries of its
base and delta lists, and the files of its changelog. A changelog that outlives its snapshot
holds its own files. If the table writes no changelog files, the delta stands in for them: the
changelog then holds the lists, and the entries of the delta that compaction did not write,
added and deleted alike. This is what Paimon itself keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from lakesweep.errors import MissingError
from lakesweep.paimon.manifests.named_files import ManifestFile, index_files_of, manifests_of
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.owners import FileOwner, ListRole, ManifestList


@dataclass(frozen=True, slots=True)
class OwnerClaim:
    """The lists that one owner holds, and how it holds what they name.

    Of `state`, what is live after all of it; of `added`, what is added; of `history`, what is added
    or deleted and was not made by compaction. Of `lists` the files themselves and their manifests.
    """

    path: str
    layout: Layout
    lists: tuple[ManifestList, ...]
    state: tuple[ManifestList, ...] = ()
    added: tuple[ManifestList, ...] = ()
    history: tuple[ManifestList, ...] = ()
    index_manifest: str | None = None
    least_indexes: int = 0
    statistics: str | None = None

    @classmethod
    def of(cls, owner: FileOwner) -> Self:
        """The claim of an owner."""
        if owner.needs_state:
            return cls._of_state(owner)
        written = any(map(_is_changelog, owner.lists())) and writes_changelogs(
            owner.branch.latest_schema.options
        )
        return cls.of_changelog(owner, with_history=not written)

    @classmethod
    def of_changelog(cls, owner: FileOwner, *, with_history: bool) -> Self:
        """The claim of a changelog that outlives its snapshot, or will."""
        lists = owner.lists()
        added = tuple(filter(_is_changelog, lists))
        if not with_history:
            return cls(owner.path, owner.branch.layout, lists=added, added=added)
        history = tuple(replace(each, needed=False) for each in lists if each not in added)
        deltas = tuple(each for each in history if each.role is ListRole.DELTA)
        return cls(
            owner.path,
            owner.branch.layout,
            lists=(*added, *history),
            added=added,
            history=deltas,
        )

    @classmethod
    def of_readers(cls, owner: FileOwner) -> Self:
        """The files of data that readers of an owner's state open; none of a changelog."""
        lists = owner.lists() if owner.needs_state else ()
        state = tuple(each for each in lists if not _is_changelog(each))
        return cls(owner.path, owner.branch.layout, lists=state, state=state)

    @classmethod
    def _of_state(cls, owner: FileOwner) -> Self:
        lists = owner.lists()
        return cls(
            owner.path,
            owner.branch.layout,
            lists=lists,
            state=tuple(each for each in lists if not _is_changelog(each)),
            added=tuple(filter(_is_changelog, lists)),
            index_manifest=owner.snapshot.index_manifest,
            least_indexes=owner.least_indexes,
            statistics=owner.snapshot.statistics,
        )


def writes_changelogs(options: Options) -> bool:
    """Whether the table writes changelog files, so that deltas need not stand for them."""
    return (options.text("changelog-producer") or "none").strip().lower() != "none"


@dataclass(frozen=True, slots=True)
class ReadClaim:
    """A claim with the manifests that its lists name, and the index files of its index manifest.

    `missing` are lists that may be gone, and are.
    """

    claim: OwnerClaim
    manifests: dict[str, tuple[ManifestFile, ...]]
    index_paths: tuple[str, ...]
    missing: frozenset[str]

    def of(self, lists: tuple[ManifestList, ...]) -> Iterator[ManifestFile]:
        """The manifests of some of the lists."""
        for file in lists:
            yield from self.manifests.get(file.name, ())

    def metadata(self) -> Iterator[str]:
        """The paths of everything held that is no data file or changelog file."""
        layout = self.claim.layout
        for file in self.claim.lists:
            if file.name not in self.missing:
                yield layout.manifest(file.name)
        for manifest in self.of(self.claim.lists):
            yield from map(layout.manifest, (manifest.name, *manifest.extra_files))
        if self.claim.index_manifest is not None:
            yield layout.manifest(self.claim.index_manifest)
        if self.claim.statistics is not None:
            yield layout.statistics(self.claim.statistics)
        yield from self.index_paths


def read_claim(table: PaimonTable, claim: OwnerClaim) -> ReadClaim:
    """Read the lists and the index manifest of a claim; MissingError where one is gone."""
    manifests: dict[str, tuple[ManifestFile, ...]] = {}
    missing = set()
    for file in claim.lists:
        try:
            manifests[file.name] = manifests_of(table, file.name, file.size_bytes, file.least)
        except MissingError:
            if file.needed:
                raise
            missing.add(file.name)
    return ReadClaim(claim, manifests, _index_paths(table, claim), frozenset(missing))


def _index_paths(table: PaimonTable, claim: OwnerClaim) -> tuple[str, ...]:
    if claim.index_manifest is None:
        return ()
    paths, _ = index_files_of(table, claim.layout, claim.index_manifest, claim.least_indexes)
    return tuple(paths.to_pylist())


def _is_changelog(file: ManifestList) -> bool:
    return file.role is ListRole.CHANGELOG
