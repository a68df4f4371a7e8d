"""The log of runs, plans and lakes in the store. Each change is one commit."""

from __future__ import annotations

import getpass
import heapq
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.errors import NotFoundError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.progress_board import ProgressBoard
from lakesweep.runs.live_records import new_links
from lakesweep.runs.log_reference import LogReference, find_run
from lakesweep.runs.outbox import (
    MOST_ENTRIES,
    LakeEvent,
    OutboxEntry,
    WebhookTarget,
    approval_events,
    entries_for,
    run_events,
)
from lakesweep.runs.record_cache import RecordCache
from lakesweep.runs.records import (
    SWEEPS,
    Approval,
    ApprovalState,
    LakeDocument,
    LakeRecord,
    LeaseRecord,
    PlanRecord,
    PlanStatus,
    RootMemory,
    RunKind,
    RunRecord,
    RunStatus,
    SweepsCommit,
    new_name,
    plan_command,
)
from lakesweep.storage.address import parse
from lakesweep.storage.wrappers.run_load import RunLoad
from lakesweep.store import LINKS, Attempt, Change, Link, Packed, Realm, key, seal
from lakesweep.store.index.keys import decode
from lakesweep.units import format_some

_PLANS = Packed(PlanRecord)
_ROOTS = Packed(RootMemory)
_OUTBOX = Packed(OutboxEntry)
#: Of a root that used more folders than this, whole stores are remembered: rather too much is kept.
MOST_FOLDERS = 5_000


@dataclass(frozen=True, slots=True)
class RunLog:
    """Runs, plans and lakes of one realm. Each change is one commit."""

    realm: Realm
    clock: Clock
    #: What the stores and catalogs of this process are asked for, if that is recorded.
    load: Callable[[], RunLoad] | None = None
    #: What this process does and says, if runs tell the store how far they are.
    board: ProgressBoard | None = None
    #: The scheduled job that this process carries out, and who wants to know its runs.
    job: str | None = None
    announce: Callable[[str], None] | None = None
    #: Who is told what happens.
    webhooks: tuple[WebhookTarget, ...] = ()
    _records: RecordCache = field(default_factory=RecordCache, repr=False, compare=False)

    def begin(
        self,
        lake: str,
        kind: RunKind,
        *,
        name: str | None = None,
        plan: str | None = None,
        spec: Mapping[str, Any],
        token: int = 0,
    ) -> RunRecord:
        """Record that a run has started."""
        known = name or new_name(kind, self.clock)
        run = RunRecord(
            run=known,
            lake=lake,
            kind=kind,
            started_at=micros(self.clock.now()),
            plan=plan,
            spec=dict(spec),
            token=token,
            datasets={},
            user=system_user(),
            host=socket.gethostname(),
            job=self.job,
            live=None if self.board is None else new_links(self.realm, known, self.clock),
        )
        self._put_run(run, "add")
        if self.announce is not None:
            self.announce(run.run)
        return run

    def vouch(self, run: RunRecord, folder: str, sha256: str) -> RunRecord:
        """Record the hash of a dataset that a run wrote in a folder below its own."""
        known = msgspec.structs.replace(run, datasets={**(run.datasets or {}), folder: sha256})
        self._put_run(known, "update")
        return known

    def finish(
        self, run: RunRecord, status: RunStatus, figures: Mapping[str, Any], message: str = ""
    ) -> RunRecord:
        """Record how a run ended."""
        done = msgspec.structs.replace(
            run,
            status=status,
            figures=dict(figures),
            message=message,
            finished_at=micros(self.clock.now()),
        )
        self._put_run(done, "update")
        return done

    def list(self, lake: str | None = None) -> Iterator[RunRecord]:
        """Runs, newest first; of one lake or of all."""
        head = self._log.head()
        if lake is not None:
            return self._list(head, lake)
        lakes = self.realm.index(head.runs, LINKS).heads()
        every = [self._list(head, str(decode(lake)[0])) for lake in lakes]
        return heapq.merge(*every, key=lambda run: run.started_at, reverse=True)

    def _list(self, head: SweepsCommit, lake: str) -> Iterator[RunRecord]:
        index = self.realm.index(head.runs, LINKS)
        links = (link for _, link in index.prefix(key(lake), reverse=True))
        return self._records.runs(links, self._fetch)

    def _fetch(self, links: Sequence[Link]) -> Sequence[RunRecord | None]:
        found = self.realm.objects.fetch_many(links, RunRecord)
        return [None if each is None else each.value for each in found]

    def get(self, run: str) -> RunRecord:
        """One run. NotFoundError if there is none of that name."""
        # Keys end with the name, so that no other record has to be read.
        index, ending = self.realm.index(self._log.head().runs, LINKS), key(run)
        links = [link for found, link in index.items() if found.endswith(ending)]
        return find_run(self._log.fetch(links, RunRecord), run)

    def holds_lease(self, run: str, until: int) -> bool | None:
        """Whether a run holds the lease of its lake, which ends at `until` or later.

        None if no run of that name was recorded here. A copy of a store has the same runs, but
        their leases are not renewed in it.
        """
        found = next((each for each in self.list() if each.run == run), None)
        if found is None:
            return None
        lease = self.realm.objects.fetch(self.lake(found.lake).lease, LeaseRecord)
        return (
            lease is not None
            and lease.value.run == run
            and lease.value.expires_at >= max(until, micros(self.clock.now()))
        )

    def add_plan(self, plan: PlanRecord) -> None:
        """Record a plan that was written and can be carried out."""
        self._put_plan(plan, "add")

    def named_plan(self, name: str) -> PlanRecord | None:
        """The plan of exactly this name; no other is read."""
        return self.realm.index(self._log.head().plans, _PLANS).get(key(name))

    def plan(self, name: str) -> PlanRecord:
        """One plan, by its name or a beginning that no other has; else NotFoundError."""
        plans = self.realm.index(self._log.head().plans, _PLANS)
        found = plans.get(key(name))
        if found is not None:
            return found
        begun = [plan for _, plan in plans.items() if name and plan.plan.startswith(name)]
        if len(begun) == 1:
            return begun[0]
        if begun:
            names = format_some([plan.plan for plan in begun])
            raise NotFoundError(f"several plans begin with {name}: {names}", hint="type more of it")
        raise NotFoundError(f"there is no plan {name}", hint="lakesweep runs lists them")

    def plans(self, lake: str | None = None) -> Sequence[PlanRecord]:
        """The plans of a lake, or of all, newest first."""
        stored = self._log.head().plans
        every = self._records.plans(
            stored, lambda: (plan for _, plan in self.realm.index(stored, _PLANS).items())
        )
        if lake is None:
            return every
        found = (plan for plan in every if plan.lake == lake)
        return sorted(found, key=lambda plan: (plan.token, plan.created_at), reverse=True)

    def planned_lakes(self) -> Sequence[str]:
        """The lakes that have plans, those with the newest one first."""
        return list(dict.fromkeys(plan.lake for plan in self.plans()))

    def newest_plan(self, lake: str) -> PlanRecord:
        """The plan of a lake that was made last. NotFoundError if it has none."""
        plans = self.realm.index(self._log.head().plans, _PLANS)
        found = (plan for _, plan in plans.prefix(b"", reverse=True) if plan.lake == lake)
        newest = next(found, None)
        if newest is None:
            raise NotFoundError(f"lake {lake} has no plan", hint=plan_command(lake))
        # Names of plans sort by time, but for those of the same second.
        rivals = takewhile(lambda plan: _second(plan) == _second(newest), found)
        return max((newest, *rivals), key=lambda plan: (plan.token, plan.created_at))

    def check_unrestored(self, plan: PlanRecord) -> None:
        """RefusedError if files came back from quarantine since a plan was made.

        It was made without them, or to delete them; a user wanted them to stay. Stores that copy
        give them new times and the same etags, so nothing else would tell them from old ones.
        """
        for run in self.list(plan.lake):
            if run.kind is RunKind.RESTORE and run.token > plan.token:
                raise RefusedError(
                    GuardName.STALE_PLAN,
                    f"{run.run} brought files back since plan {plan.plan} was made",
                    hint=plan_command(plan.lake),
                )

    def claim(self, name: str, run: str, *, resumes: str | None) -> PlanRecord:
        """Take a plan for a run, once; or from the run that it `resumes`, which is dead."""

        def change(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit:
            plans = attempt.index(head.plans, _PLANS)
            plan = plans.get(key(name))
            if plan is None:
                raise NotFoundError(f"there is no plan {name}", hint="lakesweep runs lists them")
            check_free(plan, resumes)
            taken = msgspec.structs.replace(plan, status=PlanStatus.APPLYING, run=run)
            plans.put(key(name), taken)
            attempt.record(Change("update", key("plan", name)))
            return msgspec.structs.replace(head, plans=seal(plans))

        self._log.commit(change, f"{run} applies {name}")
        return self.plan(name)

    def decide(self, name: str, approval: Approval) -> PlanRecord:
        """Record that a plan waits for a person, or what that person decided.

        RefusedError unless the plan is ready to be applied.
        """

        def change(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit:
            plans = attempt.index(head.plans, _PLANS)
            plan = plans.get(key(name))
            if plan is None:
                raise NotFoundError(f"there is no plan {name}", hint="lakesweep runs lists them")
            check_free(plan, None)
            plans.put(key(name), _decided(plan, approval))
            attempt.record(Change("update", key("plan", name)))
            head = msgspec.structs.replace(head, plans=seal(plans))
            return self._with_events(attempt, head, approval_events(plan, approval))

        self._log.commit(change, f"{name} is {approval.state}: {approval.by}")
        return self.plan(name)

    def close_plan(self, plan: PlanRecord) -> None:
        """Record that a plan was carried out to its end, unless another run has taken it over."""

        def change(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit | None:
            plans = attempt.index(head.plans, _PLANS)
            if plans.get(key(plan.plan)) != plan:
                return None
            plans.put(key(plan.plan), msgspec.structs.replace(plan, status=PlanStatus.APPLIED))
            attempt.record(Change("update", key("plan", plan.plan)))
            return msgspec.structs.replace(head, plans=seal(plans))

        self._log.commit(change, f"{plan.plan} is {PlanStatus.APPLIED}")

    def forget_plan(self, plan: PlanRecord) -> None:
        """Have no plan of that name any more, unless something happened to it just now."""

        def change(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit | None:
            plans = attempt.index(head.plans, _PLANS)
            if plans.get(key(plan.plan)) != plan:
                return None
            plans.remove(key(plan.plan))
            attempt.record(Change("remove", key("plan", plan.plan)))
            return msgspec.structs.replace(head, plans=seal(plans))

        self._log.commit(change, f"{plan.plan} is forgotten")

    def lake(self, name: str) -> LakeRecord:
        """What is known of a lake; if nothing is known, with a lease that is free."""
        found = self._find_lake(name)
        return found if found is not None else self._add_lake(name)

    def find_lake(self, name: str) -> LakeRecord | None:
        """What is known of a lake; None if nothing is."""
        return self._find_lake(name)

    def known_folders(self, lake: LakeRecord) -> Mapping[str, RootMemory]:
        """The folders of every root that was ever seen in a lake."""
        index = self.realm.index(lake.roots, _ROOTS)
        return {str(decode(found)[0]): memory for found, memory in index.items()}

    def learn(
        self,
        name: str,
        change: Callable[[LakeRecord], LakeRecord],
        roots: Mapping[str, RootMemory] | None = None,
        forgotten: Mapping[str, int] | None = None,
        dropped: Mapping[str, int] | None = None,
    ) -> None:
        """Remember something new of a lake, and where its roots keep their files.

        Roots that were not seen since the moments in `forgotten` are remembered no longer, those
        in `dropped` as tables that are gone for good.
        """
        self.lake(name)

        def commit(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit:
            lakes = attempt.index(head.lakes, LINKS)
            link = lakes.get(key(name))
            record = None if link is None else attempt.fetch(link, LakeRecord)
            if record is None:
                raise NotFoundError(f"the record of lake {name} is gone")
            known = attempt.index(record.roots, _ROOTS)
            for root, memory in (roots or {}).items():
                known.put(key(root), _joined(known.get(key(root)), memory))
            for root, seen_at in (forgotten or {}).items():
                if (found := known.get(key(root))) and found.seen_at <= seen_at:
                    known.remove(key(root))
            for root, seen_at in (dropped or {}).items():
                if (found := known.get(key(root))) and found.seen_at <= seen_at:
                    known.put(key(root), msgspec.structs.replace(found, dropped=True))
            record = msgspec.structs.replace(change(record), roots=seal(known))
            lakes.put(key(name), attempt.write(record))
            attempt.record(Change("update", key("lake", name)))
            return msgspec.structs.replace(head, lakes=seal(lakes))

        self._log.commit(commit, f"lake {name}")

    def document(self, lake: str, name: str) -> bytes | None:
        """A document that the runs of a lake keep in the store; None if there is none."""
        link = self.lake(lake).documents.get(name)
        found = None if link is None else self.realm.objects.fetch(link, LakeDocument)
        return None if found is None else found.value.data

    def keep_document(self, lake: str, name: str, data: bytes) -> None:
        """Replace a document of a lake."""
        self.lake(lake)

        def commit(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit:
            lakes = attempt.index(head.lakes, LINKS)
            link = lakes.get(key(lake))
            record = None if link is None else attempt.fetch(link, LakeRecord)
            if record is None:
                raise NotFoundError(f"the record of lake {lake} is gone")
            documents = {**record.documents, name: attempt.write(LakeDocument(data=data))}
            record = msgspec.structs.replace(record, documents=documents)
            lakes.put(key(lake), attempt.write(record))
            attempt.record(Change("update", key("lake", lake)))
            return msgspec.structs.replace(head, lakes=seal(lakes))

        self._log.commit(commit, f"{name} of lake {lake}")

    def _put_run(self, run: RunRecord, action: str) -> None:
        def change(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit:
            runs = attempt.index(head.runs, LINKS)
            runs.put(key(run.lake, run.started_at, run.run), attempt.write(run))
            attempt.record(Change(action, key("run", run.run)))
            head = msgspec.structs.replace(head, runs=seal(runs))
            return self._with_events(attempt, head, run_events(run))

        self._log.commit(change, f"{run.run} is {run.status}")

    def outbox(self) -> Sequence[OutboxEntry]:
        """What webhooks still have to be told, oldest first."""
        return [each for _, each in self.realm.index(self._log.head().outbox, _OUTBOX).items()]

    def change_entry(self, entry: OutboxEntry, changed: OutboxEntry | None) -> bool:
        """Replace what a webhook has to be told, or remove it; False if it has changed since."""

        def change(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit | None:
            outbox = attempt.index(head.outbox, _OUTBOX)
            if outbox.get(key(*entry.place)) != entry:
                return None
            if changed is None:
                outbox.remove(key(*entry.place))
            else:
                outbox.put(key(*entry.place), changed)
            return msgspec.structs.replace(head, outbox=seal(outbox))

        return self._log.commit(change, f"event {entry.event.id}")

    def tell(self, events: Sequence[LakeEvent]) -> None:
        """Have webhooks told of something that is recorded elsewhere, such as maintenance."""
        if any(True for _ in entries_for(events, self.webhooks)):
            self._log.commit(
                lambda attempt, head: self._with_events(attempt, head, events),
                f"event {events[0].id}",
            )

    def _with_events(
        self, attempt: Attempt[SweepsCommit], head: SweepsCommit, events: Iterable[LakeEvent]
    ) -> SweepsCommit:
        """The head with what webhooks have to be told, in the commit of what happened."""
        entries = list(entries_for(events, self.webhooks))
        if not entries:
            return head
        outbox = attempt.index(head.outbox, _OUTBOX)
        for entry in entries:
            outbox.put(key(*entry.place), entry)
        known = [found for found, _ in outbox.items()]
        for old in known[: max(0, len(known) - MOST_ENTRIES)]:
            outbox.remove(old)
        return msgspec.structs.replace(head, outbox=seal(outbox))

    def _put_plan(self, plan: PlanRecord, action: str) -> None:
        def change(attempt: Attempt[SweepsCommit], head: SweepsCommit) -> SweepsCommit:
            plans = attempt.index(head.plans, _PLANS)
            plans.put(key(plan.plan), plan)
            attempt.record(Change(action, key("plan", plan.plan)))
            return msgspec.structs.replace(head, plans=seal(plans))

        self._log.commit(change, f"{plan.plan} is {plan.status}")

    def _find_lake(self, name: str) -> LakeRecord | None:
        link = self.realm.index(self._log.head().lakes, LINKS).get(key(name))
        found = None if link is None else self.realm.objects.fetch(link, LakeRecord)
        return None if found is None else found.value

    def _add_lake(self, name: str) -> LakeRecord:
        def link(
            attempt: Attempt[SweepsCommit], head: SweepsCommit, lease: Link
        ) -> SweepsCommit | None:
            lakes = attempt.index(head.lakes, LINKS)
            if key(name) in lakes:
                return None
            lakes.put(key(name), attempt.write(LakeRecord(lease=lease)))
            attempt.record(Change("add", key("lake", name)))
            return msgspec.structs.replace(head, lakes=seal(lakes))

        self._log.add_lease(link, f"lake {name}")
        return self.lake(name)

    @property
    def _log(self) -> LogReference[SweepsCommit]:
        return LogReference(self.realm, SWEEPS, SweepsCommit)


def _decided(plan: PlanRecord, approval: Approval) -> PlanRecord:
    is_rejected = approval.state is ApprovalState.REJECTED
    status = PlanStatus.REJECTED if is_rejected else plan.status
    return msgspec.structs.replace(plan, status=status, approval=approval)


def _second(plan: PlanRecord) -> str:
    """All of a name that tells the time."""
    return plan.plan.rpartition("-")[0]


def system_user() -> str:
    """Who runs this process; its number where the system has no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user in the system's database, as in containers
        return str(os.getuid())


def check_free(plan: PlanRecord, resumes: str | None) -> None:
    """RefusedError if a plan was applied or rejected, or another run than `resumes` applies it."""
    match plan.status:
        case PlanStatus.APPLIED:
            raise RefusedError(
                GuardName.STALE_PLAN,
                f"plan {plan.plan} was applied by {plan.run}; a plan is applied once",
                hint=plan_command(plan.lake),
            )
        case PlanStatus.REJECTED:
            assert plan.approval is not None
            raise RefusedError(
                GuardName.STALE_PLAN,
                f"plan {plan.plan} was rejected by {plan.approval.by}: {plan.approval.why}",
                hint=plan_command(plan.lake),
            )
        case PlanStatus.APPLYING if plan.run != resumes:
            raise RefusedError(
                GuardName.STALE_PLAN,
                f"plan {plan.plan} is being applied by {plan.run}",
                hint=f"lakesweep runs {plan.run}",
            )
        case _:
            return


def _joined(before: RootMemory | None, now: RootMemory) -> RootMemory:
    """Folders that a root ever used: an old file may still lie in one that it left."""
    if before is None:
        return now
    folders = tuple(dict.fromkeys((*now.folders, *before.folders)))
    if len(folders) > MOST_FOLDERS:
        folders = tuple(dict.fromkeys(parse(folder).store_id for folder in folders))
    return msgspec.structs.replace(now, folders=folders)
