"""Explain why one file is kept or deleted: the evidence behind a verdict, in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import LakesweepError, MissingError, NotFoundError
from lakesweep.storage.address import identities, identity, parse
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_part
from lakesweep.storage.file_identity import (
    file_hashes,
    hash_columns,
    resolve_alias,
    resolve_aliases,
)
from lakesweep.storage.object_store import ObjectInfo
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.inspect.evidence import RootReference, find_references, find_spellings
from lakesweep.sweep.judge.paimon_names import paimon_namings
from lakesweep.sweep.judge.reasons import JudgeRules, judge
from lakesweep.sweep.judge.rules import table_folders_of
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.roots.root import RootKind
from lakesweep.sweep.verdicts import OrphanCause, Reason, Verdict
from lakesweep.units import format_count, format_duration, format_moment

if TYPE_CHECKING:
    from lakesweep.sweep.mark.marks import Marks
    from lakesweep.sweep.plan.document import PlanDocument
    from lakesweep.sweep.plan.stored_plan import StoredPlan

_DAY = timedelta(days=1)
#: What means something in a glob.
_SPECIAL = re.compile(r"[\\*?\[\]{},]")
_ESCAPED = r"\\\g<0>"

#: Reasons that one sentence explains, with the rule of the verdict in it.
_REASONS = {
    Reason.PINNED: "{} names it, or a folder that it lies in",
    Reason.OWN: "it is Lakesweep's own, such as a plan or what is in quarantine",
    Reason.OUTSIDE: "it lies below no location of the lake",
    Reason.FOREIGN: "others may need it: {}",
    Reason.OPTED_OUT: "it lies in a folder of {}, which says gc.enabled=false",
    Reason.EXCLUDED: "the lake's exclude has {}",
    Reason.UNLISTED_TABLE: "{} holds the metadata of a table that no root lists; add the catalog"
    " that lists it to the roots of the lake",
    Reason.AGE_UNKNOWN: "its age is not known: {}",
    Reason.HIDDEN: "a name on its way begins with . or _, and the lake says unknown = keep",
    Reason.UNKNOWN_KIND: "it is named like no file of a table, and the lake says unknown = keep",
    Reason.IN_DOUBT: "a reference that leads to nothing stored may mean it: a link to it, or a file"
    " of the same name in a Paimon table",
}
#: The tables that can say of themselves that nothing of them is to go.
_WITH_PROPERTIES = (RootKind.ICEBERG_TABLE, RootKind.ICEBERG_VIEW)
_GUESSES = {
    OrphanCause.ABORTED_WRITE: "perhaps a write that was never committed left it",
    OrphanCause.FAILED_COMMIT: "perhaps a commit that failed left it",
    OrphanCause.EXPIRED_SNAPSHOT: "perhaps it belonged to a snapshot that was expired",
    OrphanCause.DROPPED_TABLE: "perhaps it belonged to a table that was dropped",
    OrphanCause.OLD_METADATA: "perhaps it is metadata that the table's log no longer names",
    OrphanCause.TEMPORARY: "it is named as engines name what they mean to remove",
    OrphanCause.UNKNOWN: "nothing is known of why it is there",
}


@dataclass(frozen=True)
class Explanation:
    """One row of a plan (VERDICTS), the roots that keep the file, and the evidence in words."""

    row: Mapping[str, Any]
    references: Sequence[RootReference]
    evidence: Sequence[str]
    would_be_kept_by: Sequence[str]


def explain(plan: StoredPlan, path: str) -> Explanation:
    """Why a plan keeps or deletes a file; NotFoundError says why it is not in the plan."""
    row = find_row(plan, path)
    if row is None:
        raise _absent(plan, path)
    references = _references(plan, row, path)
    return Explanation(
        row,
        references,
        list(_evidence(plan.document, row, references)),
        list(_protection(plan, row)) if row["verdict"] == Verdict.DELETE else [],
    )


def _references(plan: StoredPlan, row: Mapping[str, Any], path: str) -> list[RootReference]:
    """The references that keep a file, or that may mean it."""
    match row["reason"]:
        case Reason.REFERENCED:
            return find_references(plan.stores, plan.marks(), path)
        case Reason.IN_DOUBT:
            return find_spellings(plan.stores, plan.marks(), path)
        case _:
            return []


def find_row(plan: StoredPlan, path: str) -> Mapping[str, Any] | None:
    """The verdict on a file, whatever the spelling of its address."""
    h1, h2 = (column[0].as_py() for column in hash_columns(file_hashes(pa.array([path]))))
    is_same = (pc.field("h1") == h1) & (pc.field("h2") == h2)
    wanted = resolve_alias(identity(path))
    for verdict in Verdict:
        for row in _rows(plan, plan.dataset(verdict.value), is_same):
            if resolve_alias(identity(row["path"])) == wanted:
                return row
    return None


def _rows(plan: StoredPlan, dataset: Dataset, chosen: pc.Expression) -> Iterator[dict[str, Any]]:
    """Rows that a filter on hashes finds; only parts that hold one are read with all columns."""
    for part in dataset.parts:
        hashes = read_part(plan.stores, dataset, part, ["h1"], chosen, verify=False)
        if any(True for _ in hashes):
            for batch in read_part(plan.stores, dataset, part, None, chosen):
                yield from batch.to_pylist()


def _evidence(
    document: PlanDocument, row: Mapping[str, Any], references: Sequence[RootReference]
) -> Iterator[str]:
    rule = row["rule"]
    match Reason(row["reason"]):
        case Reason.REFERENCED:
            yield from _liveness(references)
        case Reason.TOO_NEW:
            yield from _youth(document, row["modified"])
        case Reason.INCOMPLETE_ROOT:
            yield f"{rule} may reference it, and could not be read"
            yield from (root.reason for root in document.incomplete_roots if root.name == rule)
        case Reason.IN_DOUBT if references:
            yield from (_spelling(each) for each in references)
        case Reason.UNREFERENCED:
            yield from _proof(document, row)
        case reason:
            yield _REASONS[reason].format(rule)


def _liveness(references: Sequence[RootReference]) -> Iterator[str]:
    if references:
        verb = "keeps" if len(references) == 1 else "keep"
        yield f"{format_count(len(references), 'root')} {verb} it alive"
        return
    yield "no root names it: the filter of this plan took it for live by mistake"
    yield "each plan's filter errs about other files, so a later plan will find it"


def _spelling(reference: RootReference) -> str:
    return (
        f"{reference.root.name} references {reference.path}, which is not stored, and may mean"
        " this file"
    )


def _youth(document: PlanDocument, modified: datetime) -> Iterator[str]:
    yield f"it was written {_moment(modified)}, after the cut-off {_moment(document.cut_off)}"
    yield f"a plan may delete it from {_moment(modified + _grace(document))} on"


def _proof(document: PlanDocument, row: Mapping[str, Any]) -> Iterator[str]:
    """Why a file may go."""
    roots = format_count(document.roots.complete, "root")
    live = document.spec.get("live", 0)
    yield f"none of {roots} references it; together they name files {format_count(live, 'time')}"
    older = document.cut_off - row["modified"]
    yield (
        f"it was written {_moment(row['modified'])}, {format_duration(_rounded(older))} before "
        f"the cut-off"
    )
    table = row["table"]
    yield f"it lies in a folder of {table}" if table else "it lies in no table's folder"
    # Plans of other versions may have no guess, or one that is not known here.
    guess = next((each for each in OrphanCause if each == row["rule"]), None)
    if guess is not None:
        yield _GUESSES[guess]


def _protection(plan: StoredPlan, row: Mapping[str, Any]) -> Iterator[str]:
    """What would have kept a file that is deleted."""
    document, marks = plan.document, plan.marks()
    started = document.cut_off + _grace(document)
    days = math.ceil((started - row["modified"]) / _DAY + 1e-9)
    yield f'grace = "{days}d"'
    below = _below(document, row["path"])
    if below is not None:
        yield f"exclude = [{_quoted(_SPECIAL.sub(_ESCAPED, '/' + below))}]"
    yield "a root of type pinned whose list names it, or a folder that it lies in"
    if _is_odd(document, marks, row):
        yield 'unknown = "keep"'
    if any(root.name == row["table"] and root.kind in _WITH_PROPERTIES for root in marks.roots):
        yield f"gc.enabled=false in the properties of {row['table']}"


def _below(document: PlanDocument, path: str) -> str | None:
    """The path below its location, None where it is below none."""
    name = resolve_alias(identity(path))
    around = [
        folder for folder in map(claimed_folder, document.locations) if name.startswith(folder)
    ]
    return name.removeprefix(max(around, key=len)) if around else None


def _is_odd(document: PlanDocument, marks: Marks, row: Mapping[str, Any]) -> bool:
    """Whether `unknown = "keep"` would have kept the file."""
    batch = pa.RecordBatch.from_pylist([dict(row)], schema=LISTING)
    rules = JudgeRules(
        now=document.created,
        cutoff=document.cut_off,
        locations=FolderMap((claimed_folder(each), each) for each in document.locations),
        tables=(tables := table_folders_of(marks)),
        namings=paimon_namings(
            tables, {root.name: root.facts for root in marks.roots if root.facts}
        ),
    )
    names = resolve_aliases(identities(batch["path"]))
    [verdict] = judge(batch, names, pa.array([False]), rules)["verdict"].to_pylist()
    return bool(verdict == Verdict.KEEP.value)


def _absent(plan: StoredPlan, path: str) -> NotFoundError:
    """Why a file is not in a plan."""
    document = plan.document
    name = document.plan
    if _below(document, path) is None:
        places = ", ".join(document.locations)
        return NotFoundError(
            f"{path} lies outside of what {name} looked at: {places}",
            hint="lakesweep show tells the locations of a plan; keys are compared exactly",
        )
    found = _head(plan, path)
    references = find_references(plan.stores, plan.marks(), path)
    if found is None and references:
        return NotFoundError(
            f"{path} is not stored, and was not when {name} listed the lake, although "
            f"{references[0].root.name} references it",
            hint=f"lakesweep check {document.lake}",
        )
    if found is None:
        return NotFoundError(
            f"{path} is not stored, and was not when {name} listed the lake",
            hint="check the spelling: keys are compared exactly",
        )
    when = f", written {_moment(found.modified)}" if found.modified else ""
    return NotFoundError(
        f"{path} is stored{when}, but was not when {name} listed the lake: it is newer than the "
        "plan, which does not touch it",
        hint=f"lakesweep plan {document.lake}",
    )


def _head(plan: StoredPlan, path: str) -> ObjectInfo | None:
    address = parse(path)
    try:
        return plan.stores.open(address).head(address.key)
    except MissingError:
        return None
    except LakesweepError as error:
        message = f"{path} is not in {plan.document.plan}, and cannot be looked at: {error.message}"
        raise NotFoundError(message, hint=error.hint) from error


def _quoted(text: str) -> str:
    """Text as TOML has it."""
    return json.dumps(text, ensure_ascii=False)


def _grace(document: PlanDocument) -> timedelta:
    return timedelta(seconds=document.grace_seconds)


def _rounded(duration: timedelta) -> timedelta:
    """A duration that reads well: whole days, hours or minutes where it is long enough."""
    for unit in (_DAY, timedelta(hours=1), timedelta(minutes=1)):
        if duration >= unit:
            return duration // unit * unit
    return duration


def _moment(moment: datetime) -> str:
    return format_moment(moment.replace(microsecond=0))
