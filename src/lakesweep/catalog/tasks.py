"""Tasks: work to be done once, by the first process to claim it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from lakesweep.catalog.commits import Create, Drop, TasksCommit, Update
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.entities import Entity, ScheduledTask
from lakesweep.errors import EntityChangedError, EntityExistsError, EntityMissingError
from lakesweep.store import Realm
from lakesweep.store.reserved_names import IMMEDIATE_TASKS

_MICROSECOND = timedelta(microseconds=1)


class Tasks(EntityContainer[TasksCommit]):
    """The tasks of a realm. There is one of a type for a target at most.

    A task is claimed for a while by one worker; if that dies, another one claims it afterwards. So
    the work itself must bear being done twice.
    """

    def __init__(self, realm: Realm) -> None:
        super().__init__(realm, IMMEDIATE_TASKS, TasksCommit)

    def schedule(self, type_: str, target: int, due_at: int) -> ScheduledTask:
        """Have something done from a moment on; what is scheduled already stays as it is."""
        name = (f"{type_} {target}",)
        try:
            outcome = self.apply(
                [Create(name, ScheduledTask(type=type_, target=target, due_at=due_at))]
            )
        except EntityExistsError:
            return as_task(self.snapshot(fresh=True).get(name))
        return as_task(outcome.results[0].entity)

    def all(self) -> Iterator[ScheduledTask]:
        """All tasks, by name."""
        view = self.snapshot(fresh=True)
        return (as_task(view.load([found])[0]) for found in view.children())

    def claim(self, task: ScheduledTask, holder: str, lease: timedelta) -> ScheduledTask | None:
        """Claim a task that is due and unclaimed; None if another process has it."""
        now = self.now()
        if task.due_at > now or task.leased_until > now:
            return None
        what = msgspec.structs.replace(
            task,
            attempts=task.attempts + 1,
            leased_until=now + lease // _MICROSECOND,
            holder=holder,
        )
        try:
            outcome = self.apply([Update((task.name,), what, version=task.version)])
        except (EntityChangedError, EntityMissingError):
            return None
        return as_task(outcome.results[0].entity)

    def finish(self, task: ScheduledTask) -> bool:
        """Remove a completed task; False if another process claimed it in the meantime."""
        outcome = self.attempt([Drop((task.name,), version=task.version)])
        return outcome.error is None


def as_task(entity: Entity | None) -> ScheduledTask:
    """An entity of which it is known that it is a task."""
    assert isinstance(entity, ScheduledTask)
    return entity
