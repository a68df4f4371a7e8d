"""What is asked of a plan by a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.lifecycle.rereading import Changes, OtherSources, PlanSources
from lakesweep.sweep.root_sources import Sources, root_sources
from lakesweep.units import format_some

if TYPE_CHECKING:
    from lakesweep.lakefs.addresses import Namespace
    from lakesweep.lakefs.dump_ages import Ages
    from lakesweep.lakefs.refs import Refs
    from lakesweep.lifecycle.spec import Spec
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.lakefs_roots import Opener


@dataclass(frozen=True)
class LifecycleOrder:
    """What is asked of a plan. `spec` has no folder yet; `neighbours` may have imported objects.

    `of_lakes` tells the roots of other lakes, which the lake of the repository names. `siblings`
    are all other repositories of the server.
    """

    lake: Lake
    spec: Spec
    opener: Opener
    neighbours: Mapping[str, Opener] = field(default_factory=dict)
    overridden: tuple[str, ...] = ()
    policy_text: str = ""
    policy_name: str = "policy.json"
    of_lakes: Sources = root_sources
    siblings: Mapping[str, Namespace] = field(default_factory=dict)

    @property
    def openers(self) -> Mapping[str, Opener]:
        """The repository and its neighbours."""
        return {self.spec.repository.name: self.opener, **self.neighbours}

    def warnings(self) -> Iterator[str]:
        """Of which repositories it is not known what they have imported from this one."""
        if unknown := sorted(self.siblings.keys() - self.neighbours.keys()):
            yield (
                "what other repositories of the server have imported from this one is not known, as"
                f" no root of the configuration names them: {format_some(unknown)}"
            )

    @property
    def shortest(self) -> timedelta:
        """The shortest time that any rule lets objects live."""
        days = [days for rule in self.spec.policy.rules for _, days in rule.all_days()]
        return timedelta(days=min(days, default=0))

    def cutoff(self, started: datetime) -> datetime:
        """What was written since is too new for every rule: rules count whole days."""
        return started - self.shortest

    def sources(self, refs: Refs, ages: Ages) -> PlanSources:
        """Who is asked what came since the repository had these refs."""
        spec = self.spec
        changes = Changes(spec.policy, refs, spec.tags_protect_history)
        others = OtherSources(self.neighbours, spec.without_staging, ages, self.of_lakes)
        return PlanSources(spec.repository.name, self.opener, changes.metaranges, others)
