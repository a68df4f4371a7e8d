"""What is read again before and while a plan deletes.

A new commit, a branch or tag on an old commit, or a branch with a longer retention may need
objects that the plan deletes. So the trees of all commits are read that are new, or kept by
something that did not keep them when the plan was made; what they hold, and everything
staged, is kept. Other repositories that may have imported objects, and all roots of the
configured lakes, are checked as the sweep checks roots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakesweep.errors import IncompleteError
from lakesweep.lakefs.refs.commit_graph import without_temporary
from lakesweep.lakefs.repository.interface import Ages, RepositoryOpener, check_age
from lakesweep.lifecycle.policy.ref_retention import RefKeeper, find_keepers, places_of
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.sweep.roots.lakefs import LakefsRoots, MetarangeChooser
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.lakefs.refs.commit_graph import Refs
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.lifecycle.policy.rules import LifecyclePolicy
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.roots.iceberg_scan import ListedFiles
    from lakesweep.sweep.roots.root import RootSource


@dataclass(frozen=True)
class RefChanges:
    """Which commits are kept by more refs than before."""

    policy: LifecyclePolicy
    before: Refs
    tags_protect_history: bool = False

    def metaranges(self, refs: Refs) -> list[str]:
        """The metaranges of these commits, each once.

        IncompleteError if commits are gone: no server forgets any, so this is another server, or
        one that was restored from a backup.
        """
        if gone := len(self.before.commits.keys() - refs.commits.keys()):
            raise IncompleteError(
                f"{format_count(gone, 'commit')} of the plan no longer exist, so another"
                " repository answers, or its server forgot what happened since",
                hint="check which server is configured, then plan again",
            )
        before, now = self._keepers(self.before), self._keepers(without_temporary(refs))
        found = {
            refs.commits[commit].metarange_id
            for commit, keepers in now.items()
            if not keepers <= before.get(commit, frozenset())
        }
        return sorted(found - {""})

    def _keepers(self, refs: Refs) -> Mapping[str, frozenset[RefKeeper]]:
        """What keeps each commit; equal sets are shared."""
        kept = find_keepers(refs, self.policy, tags_protect_history=self.tags_protect_history)
        sets = {
            bits: frozenset(kept.keepers[place] for place in places_of(bits))
            for bits in set(kept.commits.values())
        }
        return {commit: sets[bits] for commit, bits in kept.commits.items()}


def head_metaranges(refs: Refs) -> list[str]:
    """The trees of all branches and tags, for when it is unknown what has changed."""
    heads = {branch.commit_id for branch in refs.branches} | {tag.commit_id for tag in refs.tags}
    return sorted({refs.commits[head].metarange_id for head in heads} - {""})


@dataclass(frozen=True)
class NeighbourSources:
    """What else may reference objects of a repository. A `RootSourceFactory`.

    These are other repositories, and the roots of configured lakes: a table may have been
    registered by the addresses of objects. `ages` are those of the dumps that the plan used.
    """

    neighbours: Mapping[str, RepositoryOpener] = field(default_factory=dict)
    without_staging: bool = False
    ages: Ages = field(default_factory=dict)
    of_lakes: RootSourceFactory = root_sources

    def __call__(self, stores: Stores, lake: Lake, listing: ListedFiles) -> Sequence[RootSource]:
        found = list(self.of_lakes(stores, lake, listing))
        if not self.neighbours:
            return found
        repositories = LakefsRoots(
            stores,
            "neighbours",
            _checked(self.neighbours, self.ages),
            lake.plans,
            without_staging=self.without_staging,
        )
        return [repositories, *found]


@dataclass(frozen=True)
class RecheckSources:
    """The sources of a lifecycle plan: the repository, as far as it changed, and all others.

    A `RootSourceFactory`. `choose` selects the trees to read.
    """

    repository: str
    opener: RepositoryOpener
    choose: MetarangeChooser
    others: NeighbourSources

    def __call__(self, stores: Stores, lake: Lake, listing: ListedFiles) -> Sequence[RootSource]:
        own = LakefsRoots(
            stores,
            self.repository,
            _checked({self.repository: partial(_open_same, self.opener, lake)}, self.others.ages),
            lake.plans,
            self.choose,
            without_staging=self.others.without_staging,
        )
        return [own, *self.others(stores, lake, listing)]


def _checked(openers: Mapping[str, RepositoryOpener], ages: Ages) -> dict[str, RepositoryOpener]:
    return {name: check_age(opener, name, ages.get(name)) for name, opener in openers.items()}


def _open_same(opener: RepositoryOpener, lake: Lake) -> Repository:
    """The repository; IncompleteError if it is stored elsewhere than when it was planned."""
    repository = opener()
    if lake_name(repository.namespace) != lake.name:
        raise IncompleteError(
            f"{repository.name} lies in {repository.namespace.location} now, but the plan is of"
            f" {lake.name}: it is another repository of that name",
            hint="check which server is configured, then plan again",
        )
    return repository
