"""Explain why a plan keeps or deletes a file of a lake, or an object of a repository."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from lakesweep.app import App
from lakesweep.lifecycle.inspect.explanation import ObjectExplainer, ObjectExplanation
from lakesweep.lifecycle.run_history import VouchedDocuments
from lakesweep.operations.lakes.lake_paths import lake_path
from lakesweep.operations.lakes.plan_view import find_plan, plan_kind
from lakesweep.operations.upkeep.expiry_plans import explain_expiry
from lakesweep.operations.upkeep.upkeep_plans import explain_upkeep, upkeep_details
from lakesweep.sweep.inspect import verdict_explanation
from lakesweep.sweep.inspect.evidence import RootReference
from lakesweep.sweep.plan.document import PlanDocument, PlanKind
from lakesweep.sweep.verdicts import Reason, Verdict


class FileReference(msgspec.Struct, frozen=True):
    """A root that keeps a file, and the files through which it reaches it."""

    root: str
    root_kind: str
    kind: str
    path: str
    through: tuple[str, ...]


class FileExplanation(msgspec.Struct, frozen=True):
    """The verdict on a file, with the evidence."""

    plan: str
    path: str
    verdict: str
    reason: str
    rule: str | None
    size_bytes: int | None
    modified: datetime | None
    etag: str | None
    table: str | None
    references: tuple[FileReference, ...]
    evidence: tuple[str, ...]
    would_be_kept_by: tuple[str, ...]


class ObjectEvidence(msgspec.Struct, frozen=True):
    """A commit, path and ref that holds an object, and the rule that keeps or expires it."""

    path: str
    commit_id: str | None
    created: datetime | None
    ref_kind: str | None
    ref: str | None
    rule: str | None
    before: datetime | None
    age: datetime | None
    keeps: bool
    why: str


class ExplainedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a repository. The verdict is UNSET if the object is not stored."""

    address: str
    stored: bool
    path: str | UnsetType = UNSET
    verdict: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    rule: str | UnsetType | None = UNSET
    size_bytes: int | UnsetType | None = UNSET
    modified: datetime | UnsetType | None = UNSET
    evidence: tuple[ObjectEvidence, ...]


class ObjectExplanations(msgspec.Struct, frozen=True):
    """All objects that a path of a repository ever had, or the one of an address."""

    plan: str
    objects: tuple[ExplainedObject, ...]


_FILE = ("path", "verdict", "reason", "rule", "size_bytes", "modified", "etag", "table")
_OBJECT = ("path", "verdict", "reason", "rule", "size_bytes", "modified")


def explain_file(app: App, plan: str, path: str) -> FileExplanation:
    """Why a plan keeps or deletes a file, by its address or its path in the lake.

    NotFoundError says why it is not in the plan.
    """
    if plan_kind(app, plan) is PlanKind.EXPIRY:
        return _explain_upkeep(app, plan, path)
    found = find_plan(app, plan, PlanKind.SWEEP)

    def is_planned(address: str) -> bool:
        return verdict_explanation.find_row(found, address) is not None

    path = lake_path(found.document.locations, path, is_planned)
    explained = verdict_explanation.explain(found, path)
    return FileExplanation(
        plan=found.document.plan,
        **{name: explained.row[name] for name in _FILE},
        references=tuple(map(_reference, explained.references)),
        evidence=tuple(explained.evidence),
        would_be_kept_by=tuple(explained.would_be_kept_by),
    )


def _explain_upkeep(app: App, plan: str, path: str) -> FileExplanation:
    """The same for a plan that changes one table."""
    found = find_plan(app, plan, PlanKind.EXPIRY)
    details = upkeep_details(found.document)
    if details is None:
        goes, evidence = explain_expiry(app, found, path)
    else:
        goes, evidence = explain_upkeep(found, details, path)
    return FileExplanation(
        plan=found.document.plan,
        path=path,
        verdict=Verdict.DELETE if goes else Verdict.KEEP,
        reason=_reason_to_go(found.document) if goes else Reason.REFERENCED,
        rule=None,
        size_bytes=None,
        modified=None,
        etag=None,
        table=found.document.details["table"],
        references=(),
        evidence=tuple(evidence),
        would_be_kept_by=("a snapshot, branch or tag that reaches it", "any other root"),
    )


def _reason_to_go(document: PlanDocument) -> Reason:
    (reason,) = document.totals[Verdict.DELETE]
    return Reason(reason)


def _reference(reference: RootReference) -> FileReference:
    return FileReference(
        root=reference.root.name,
        root_kind=reference.root.kind,
        kind=reference.kind,
        path=reference.path,
        through=tuple(reference.through),
    )


def explain_object(app: App, plan: str, path: str) -> ObjectExplanations:
    """Why a plan keeps or deletes objects: by address, by key, or by path of the repository."""
    found = find_plan(app, plan, PlanKind.LIFECYCLE)
    documents = VouchedDocuments(app.runs, found.document.lake)
    explained = ObjectExplainer(found, documents).explain(path)
    return ObjectExplanations(found.document.plan, tuple(map(_object, explained)))


def _object(each: ObjectExplanation) -> ExplainedObject:
    verdict = {} if each.row is None else {name: each.row[name] for name in _OBJECT}
    fields = ObjectEvidence.__struct_fields__
    return ExplainedObject(
        address=each.address,
        stored=each.row is not None,
        **verdict,
        evidence=tuple(ObjectEvidence(*(row[name] for name in fields)) for row in each.evidence),
    )
