"""The lakes of the configuration, and repositories and former lakes that plans were made for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from lakesweep.config import Config, LakefsRoot
from lakesweep.config import Root as AnyRoot
from lakesweep.errors import NotFoundError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lifecycle.repository_lake import find_repository_lake, home_of, repository_lake
from lakesweep.runs.records import PlanRecord, RootMemory, is_repository
from lakesweep.sweep.holdings import Holding
from lakesweep.sweep.lake import Lake, find_lake, folder_outside, former_lake, reaching_roots


class ConfiguredLakes:
    """Finds lakes, each with what no run may touch in it.

    `plans` is the default location of plans, `own_files` what no command deletes, and `searched`
    where a configuration file was looked for, if none was found. `remembered` tells what earlier
    plans of a lake saw of its own roots.
    """

    def __init__(
        self,
        config: Config,
        plans: str,
        own_files: Sequence[str],
        remembered: Callable[[str], Sequence[RootMemory]],
        notify: Callable[[str], object],
        searched: str | None = None,
    ) -> None:
        self._config = config
        self._plans = plans
        self._own_files = own_files
        self._remembered = remembered
        self._notify = notify
        self._searched = searched

    @cached_property
    def kept_folders(self) -> tuple[str, ...]:
        """What no command deletes, with what Lakesweep keeps in or near all lakes."""
        lakes = self._config.lakes
        own = (each for name in lakes for each in find_lake(lakes, name, self._plans).own_folders)
        return tuple(dict.fromkeys((*self._own_files, *own)))

    def find(self, name: str) -> Lake:
        """A lake from the configuration, or a repository that a plan was made for."""
        if is_repository(name):
            return self._beside_lakes(find_repository_lake(name))
        if self._searched is not None and name not in self._config.lakes:
            raise NotFoundError(
                f"there is no lake {name}, because no configuration was found:"
                f" looked for {self._searched}",
                hint="lakesweep init writes a configuration; --config FILE names another one",
            )
        return self._protected(find_lake(self._config.lakes, name, self._plans, self._open_lakes))

    def of_plan(self, plan: PlanRecord) -> Lake:
        """The lake that a plan was made for."""
        if is_repository(plan.lake):
            return self._beside_lakes(find_repository_lake(plan.lake, home_of(plan.address)))
        return self.find(plan.lake)

    def of_holding(self, holding: Holding, plan: PlanRecord) -> Lake:
        """The lake that files were quarantined from, even if it is no longer configured.

        NotFoundError if that is unknown.
        """
        lakes = self._config.lakes
        if is_repository(holding.lake) or holding.lake in lakes or not holding.locations:
            return self.of_plan(plan)
        folder = plan.address.rstrip("/").rpartition("/")[0]
        return self._protected(former_lake(lakes, holding.lake, holding.locations, folder))

    def of_repository(self, namespace: StorageNamespace, home: str | None = None) -> Lake:
        """A repository as a lake, beside those of the configuration."""
        return self._beside_lakes(repository_lake(namespace, home))

    def roots_reaching(self, places: Iterable[str]) -> tuple[AnyRoot, ...]:
        """The roots of all lakes that may reference files in some places."""
        return tuple(reaching_roots(self._config.lakes, places, self._open_lakes))

    def _beside_lakes(self, lake: Lake) -> Lake:
        """A repository that roots of lakes may reference. Other repositories are separate."""
        roots = (root for each in self._config.lakes.values() for root in each.roots)
        others = tuple(root for root in roots if not isinstance(root, LakefsRoot))
        section = lake.section.model_copy(update={"limits": self._config.lifecycle.limits})
        return self._protected(replace(lake, section=section, roots_of_others=others))

    def _protected(self, lake: Lake) -> Lake:
        return replace(lake, kept=(*lake.kept, *self._own_files))

    @cached_property
    def _open_lakes(self) -> frozenset[str]:
        """Lakes that are configured as closed, but were seen to reference files elsewhere."""
        found: set[str] = set()
        for name, section in self._config.lakes.items():
            outside = folder_outside(section, self._remembered(name)) if section.closed else None
            if outside is not None:
                self._notify(
                    f"warning: lake {name} is configured as closed, but its roots reference"
                    f" files in {outside}; plans of other lakes read its roots even so"
                )
                found.add(name)
        return frozenset(found)
