"""The judge: an ordered table of checks, of which the first that holds gives a file its reason.

A pure function of a batch of listed files, of what is known to be referenced, and of the rules of
the run. Files in doubt are kept; only files that no check keeps are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.clock import micros
from lakesweep.storage.file_batches import FIRST_TIME
from lakesweep.storage.listing.filters import translate
from lakesweep.sweep.columns import VERDICTS, Mask, mask_of
from lakesweep.sweep.judge.dangling_references import DanglingMatches, loose_paths
from lakesweep.sweep.judge.orphan_causes import TableHistory, guess_causes
from lakesweep.sweep.judge.paimon_names import (
    PaimonNameStatus,
    PaimonNameStatuses,
    PaimonNamings,
    PaimonUsedNames,
    classify_names,
)
from lakesweep.sweep.paths.file_names import FileNames, FormatFamily, is_hidden
from lakesweep.sweep.paths.folder_map import FolderMap, FolderNumbers
from lakesweep.sweep.verdicts import Reason

_TEXT = pa.string()
_NO_TIME = np.iinfo(np.int64).min
_REASONS = list(Reason)
_REASON_TEXTS = pa.array([reason.value for reason in Reason])
_VERDICT_TEXTS = pa.array([reason.verdict.value for reason in Reason])


@dataclass(frozen=True, slots=True)
class WithheldFiles:
    """What guards withhold: files in some folders, and files of some tables. Picklable.

    `folders` are loose (`dangling_references.loose_paths`) and have the names of guards. `tables`
    are the folders of tables when the plan was made, and `guards` the guard of those that are
    withheld: a table that was renamed since is still the same.
    """

    folders: FolderMap
    tables: FolderMap
    guards: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JudgeRules:
    """The rules of a run. Picklable.

    Folders are identities that end in `/`, with all local links resolved; the names in the maps
    become the `rule` of a verdict. Files modified at `cutoff` or later are too new. `now` is
    not before the end of the listing: later times are implausible. `excludes` are globs for
    paths below a location. `families` are the formats that the roots of the run read.
    `hidden_fields` are names of partition fields that look hidden, by the number of the folder
    in `tables`, and `namings` say by that number how Paimon tables name files. Files in folders
    of `gone` roots are judged like others, and counted. `unlisted` are folders of tables that
    no root lists, `released` those that a person let go by name. `doubts` match files that
    dangling references may mean, and `namesakes` the names that Paimon tables use.
    `repositories` are folders of lakeFS, in which everything is kept except `objects`, the
    folders where any name is that of an object. `withheld` is what guards keep for now; a plan
    has none, because guards judge its totals. `exclusions` are folders with their own globs for
    what stays in them, wherever the locations of the run are.
    """

    now: datetime
    cutoff: datetime
    locations: FolderMap
    tables: FolderMap = field(default_factory=FolderMap)
    pinned: FolderMap = field(default_factory=FolderMap)
    own: FolderMap = field(default_factory=FolderMap)
    foreign: FolderMap = field(default_factory=FolderMap)
    incomplete: FolderMap = field(default_factory=FolderMap)
    opted_out: FolderMap = field(default_factory=FolderMap)
    gone: FolderMap = field(default_factory=FolderMap)
    unlisted: FolderMap = field(default_factory=FolderMap)
    released: FolderMap = field(default_factory=FolderMap)
    excludes: tuple[str, ...] = ()
    keep_unknown: bool = True
    families: frozenset[FormatFamily] = frozenset({FormatFamily.ICEBERG})
    hidden_fields: Mapping[int, frozenset[str]] = field(default_factory=dict)
    history: TableHistory = field(default_factory=TableHistory)
    namings: PaimonNamings = field(default_factory=dict)
    doubts: DanglingMatches | None = None
    namesakes: PaimonUsedNames | None = None
    repositories: FolderMap = field(default_factory=FolderMap)
    objects: FolderMap = field(default_factory=FolderMap)
    withheld: WithheldFiles | None = None
    exclusions: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        if self.now.tzinfo is None or self.cutoff.tzinfo is None or self.cutoff > self.now:
            raise ValueError("files are judged by moments with a zone, the cut-off before now")


@dataclass(frozen=True, slots=True)
class _Files:
    """Files without a reason yet: their rows in the batch, and what the checks need."""

    rows: npt.NDArray[np.int64]
    names: FileNames
    modified: npt.NDArray[np.int64]
    tables: FolderNumbers
    locations: FolderNumbers
    #: The status of their names for the Paimon tables in whose folders they are.
    named: PaimonNameStatuses

    def filter(self, mask: Mask) -> _Files:
        return _Files(
            self.rows[mask],
            self.names.filter(mask),
            self.modified[mask],
            self.tables[mask],
            self.locations[mask],
            self.named[mask],
        )


#: The files that a reason applies to, and the rule to show with each (used only where it applies).
_Finding = tuple[Mask, pa.Array]
_Check = Callable[[_Files, JudgeRules], _Finding]


def judge(
    batch: pa.RecordBatch, identities: pa.Array, referenced: pa.Array, rules: JudgeRules
) -> pa.RecordBatch:
    """The verdicts (columns.VERDICTS) on listed files (columns.LISTING), in the same order.

    `identities` are those of the paths, with all local links resolved. `referenced` says for each
    file whether a root keeps it alive, and must not be null.
    """
    # A null here would count as "not referenced" below, and the file would be deleted.
    if referenced.null_count or not len(referenced) == len(identities) == batch.num_rows:
        raise ValueError("of each file it must be known whether it is referenced")
    tables = rules.tables.find(identities)
    rows = np.flatnonzero(~referenced.to_numpy(zero_copy_only=False))
    reasons = np.full(batch.num_rows, _REASONS.index(Reason.REFERENCED), np.int8)
    waiting = _waiting(batch, identities, rows, tables, rules)
    rule = _judge_unreferenced(waiting, rules, reasons)
    return _verdicts(batch, reasons, rule, rules.tables.labels(tables))


def _waiting(
    batch: pa.RecordBatch,
    identities: pa.Array,
    rows: np.ndarray,
    tables: FolderNumbers,
    rules: JudgeRules,
) -> _Files:
    chosen = identities.take(pa.array(rows))
    times = batch["modified"].cast(pa.int64()).fill_null(_NO_TIME).to_numpy()
    locations = rules.locations.find(chosen)
    named = classify_names(chosen, tables[rows], rules.tables, rules.namings)
    return _Files(rows, FileNames(chosen), times[rows], tables[rows], locations, named)


def _judge_unreferenced(files: _Files, rules: JudgeRules, reasons: np.ndarray) -> pa.Array:
    """Set the reasons of files that nothing references; returns the rules of all files."""
    rows, texts = [], []
    for reason, check in _CHECKS:
        mask, rule = check(files, rules)
        if not mask.any():
            continue
        rows.append(files.rows[mask])
        texts.append(rule.filter(pa.array(mask)))
        reasons[files.rows[mask]] = _REASONS.index(reason)
        # Each file gets the first reason that applies, so protective checks must stay above
        # UNREFERENCED.
        files = files.filter(~mask)
    return _scatter(rows, texts, len(reasons))


def _scatter(rows: list[np.ndarray], texts: list[pa.Array], count: int) -> pa.Array:
    """Texts at the positions of their rows, null elsewhere."""
    places = np.full(count, -1, np.int64)
    found = np.concatenate(rows) if rows else np.empty(0, np.int64)
    places[found] = np.arange(len(found))
    return pa.concat_arrays([*texts, _texts(0)]).take(pa.array(places, mask=places < 0))


def _verdicts(
    batch: pa.RecordBatch, reasons: np.ndarray, rule: pa.Array, tables: pa.Array
) -> pa.RecordBatch:
    numbers = pa.array(reasons)
    columns = {
        "verdict": _VERDICT_TEXTS.take(numbers),
        "reason": _REASON_TEXTS.take(numbers),
        "rule": rule,
        "table": tables,
    }
    arrays = [columns[name] if name in columns else batch[name] for name in VERDICTS.names]
    return pa.RecordBatch.from_arrays(arrays, schema=VERDICTS)


def _in_folder(found: FolderNumbers, folders: FolderMap) -> _Finding:
    return found >= 0, folders.labels(found)


def _is_pinned(files: _Files, rules: JudgeRules) -> _Finding:
    return _in_folder(rules.pinned.find_with_self(files.names.paths), rules.pinned)


def _is_of_repository(files: _Files, rules: JudgeRules) -> _Finding:
    """What repositories keep for themselves: everything but their objects, even if nested."""
    around = rules.repositories.find_with_self(files.names.paths)
    sizes = _sizes(rules.repositories, around)
    mask = (sizes > 0) & (sizes > _sizes(rules.objects, rules.objects.find(files.names.paths)))
    return mask, rules.repositories.labels(around)


def _sizes(folders: FolderMap, found: FolderNumbers) -> npt.NDArray[np.int64]:
    """The lengths of the folders that were found, 0 for none."""
    return np.append(folders.sizes, 0)[found]


def _is_own(files: _Files, rules: JudgeRules) -> _Finding:
    return _in_folder(rules.own.find_with_self(files.names.paths), rules.own)


def _looks_own(files: _Files, _: JudgeRules) -> _Finding:
    """Folders of earlier configurations contain files that may still be restored."""
    return files.names.own(), _texts(len(files.rows))


def _is_outside(files: _Files, _: JudgeRules) -> _Finding:
    return files.locations < 0, _texts(len(files.rows))


def _is_foreign(files: _Files, rules: JudgeRules) -> _Finding:
    return _in_folder(rules.foreign.find_with_self(files.names.paths), rules.foreign)


def _looks_foreign(files: _Files, rules: JudgeRules) -> _Finding:
    families = files.names.families()
    read = pa.array(sorted(rules.families), pa.string())
    mask = mask_of(pc.and_not(families.is_valid(), pc.is_in(families, value_set=read)))
    ours = mask_of(pc.equal(families, FormatFamily.PAIMON.value).fill_null(False))
    mask[ours & _is_of_paimon(files, rules)] = False
    # A table that no root lists has a reason of its own, and one that was let go has none.
    mask &= ~_is_unlisted(files, rules)[0] & (rules.released.find(files.names.paths) < 0)
    return mask, pc.binary_join_element_wise("looks like", families, " ")


def _is_of_paimon(files: _Files, rules: JudgeRules) -> Mask:
    """Whether files are in the folder of a Paimon table, whether or not it could be read."""
    of_paimon: Mask = files.named != PaimonNameStatus.ELSEWHERE
    of_paimon |= rules.incomplete.find_with_self(files.names.paths) >= 0
    return of_paimon


def _is_kept_by_paimon(files: _Files, _: JudgeRules) -> _Finding:
    rule = pa.repeat("of a kind that Paimon itself removes", len(files.rows))
    return files.named == PaimonNameStatus.KEPT, rule


def _is_incomplete(files: _Files, rules: JudgeRules) -> _Finding:
    return _in_folder(rules.incomplete.find_with_self(files.names.paths), rules.incomplete)


def _is_opted_out(files: _Files, rules: JudgeRules) -> _Finding:
    return _in_folder(rules.opted_out.find_with_self(files.names.paths), rules.opted_out)


def _is_excluded(files: _Files, rules: JudgeRules) -> _Finding:
    rows, texts = [], []
    for location in np.unique(files.locations) if rules.excludes else ():
        here = np.flatnonzero(files.locations == location)
        paths = files.names.paths.take(pa.array(here))
        rows.append(here)
        texts.append(_excluding_pattern(paths, int(location), rules))
    patterns = _scatter(rows, texts, len(files.rows))
    for folder, globs in rules.exclusions:
        patterns = pc.coalesce(patterns, _excluded_below(files.names.paths, folder, globs))
    return mask_of(patterns.is_valid()), patterns


def _excluded_below(paths: pa.Array, folder: str, globs: tuple[str, ...]) -> pa.Array:
    """The first glob that matches each path below one folder."""
    here = np.flatnonzero(mask_of(pc.starts_with(paths, folder)))
    found = _first_match(_below(paths.take(pa.array(here)), folder), globs)
    return _scatter([here], [found], len(paths))


def _excluding_pattern(paths: pa.Array, location: int, rules: JudgeRules) -> pa.Array:
    """The first glob that matches each path below its location, or below an enclosing one."""
    folders = map(rules.locations.folder, rules.locations.around(location))
    return pc.coalesce(*(_first_match(_below(paths, each), rules.excludes) for each in folders))


def _is_unlisted(files: _Files, rules: JudgeRules) -> _Finding:
    """Files of a table that no root lists, unless a table that is listed lies inside of it."""
    found = rules.unlisted.find_with_self(files.names.paths)
    sizes = _sizes(rules.unlisted, found)
    mask = (sizes > 0) & (sizes >= _sizes(rules.tables, files.tables))
    return mask, rules.unlisted.labels(found)


def _is_of_unknown_age(files: _Files, rules: JudgeRules) -> _Finding:
    is_past = files.modified >= micros(FIRST_TIME)
    is_future = files.modified > micros(rules.now)
    rule = pc.if_else(pa.array(is_future), "in the future", pa.scalar("no time", pa.string()))
    return ~is_past | is_future, rule


def _is_too_new(files: _Files, rules: JudgeRules) -> _Finding:
    return files.modified >= micros(rules.cutoff), _texts(len(files.rows))


def _is_hidden(files: _Files, rules: JudgeRules) -> _Finding:
    if not rules.keep_unknown:
        return _nothing(files)
    starts = rules.locations.sizes[files.locations]
    hidden = files.names.hidden(starts) & (files.named != PaimonNameStatus.LITTER)
    hidden &= ~files.names.leftover()
    begins = rules.tables.sizes
    for row in np.flatnonzero(hidden & np.isin(files.tables, list(rules.hidden_fields))):
        table, path = int(files.tables[row]), files.names.paths[int(row)].as_py()
        fields = rules.hidden_fields[table]
        hidden[row] = is_hidden(path, int(starts[row]), int(begins[table]), fields)
    return hidden, _texts(len(files.rows))


def _is_of_unknown_kind(files: _Files, rules: JudgeRules) -> _Finding:
    if not rules.keep_unknown:
        return _nothing(files)
    # Names of formats that no root reads were kept by an earlier check, so the rest is known.
    known = pc.or_(files.names.kinds().is_valid(), files.names.families().is_valid())
    elsewhere = files.named == PaimonNameStatus.ELSEWHERE
    unknown = np.where(elsewhere, ~mask_of(known), files.named == PaimonNameStatus.STRANGE)
    is_object = rules.objects.find(files.names.paths) >= 0
    return unknown & ~is_object & ~files.names.leftover(), _texts(len(files.rows))


def _is_in_doubt(files: _Files, rules: JudgeRules) -> _Finding:
    doubtful = np.zeros(len(files.rows), np.bool_)
    if rules.doubts is not None:
        doubtful |= rules.doubts.find(files.names.paths)
    if rules.namesakes is not None:
        in_paimon = files.named != PaimonNameStatus.ELSEWHERE
        doubtful |= in_paimon & rules.namesakes.find(files.names.paths)
    return doubtful, _texts(len(files.rows))


def _is_withheld(files: _Files, rules: JudgeRules) -> _Finding:
    if rules.withheld is None:
        return _nothing(files)
    tables = rules.withheld.tables
    names = tables.labels(tables.find(files.names.paths)).to_pylist()
    by_table = pa.array(map(rules.withheld.guards.get, names), _TEXT)
    guards = pc.coalesce(_withheld_folders(files, rules.withheld.folders), by_table)
    return mask_of(guards.is_valid()), guards


def _withheld_folders(files: _Files, folders: FolderMap) -> pa.Array:
    """The guard of the folder that a file is in, by any spelling of its path."""
    if not len(folders):
        return _texts(len(files.rows))
    loose = loose_paths(files.names.paths)
    labels = folders.labels(folders.find_with_self(loose.keys))
    found = np.flatnonzero(mask_of(labels.is_valid()))
    return _scatter([loose.rows[found]], [labels.take(pa.array(found))], len(files.rows))


def _is_unreferenced(files: _Files, rules: JudgeRules) -> _Finding:
    guesses = guess_causes(files.names, files.modified, files.tables, rules.history)
    return np.ones(len(files.rows), np.bool_), guesses


#: In order of precedence. Referenced files have been dealt with before.
_CHECKS: tuple[tuple[Reason, _Check], ...] = (
    (Reason.PINNED, _is_pinned),
    (Reason.PINNED, _is_of_repository),
    (Reason.OWN, _is_own),
    (Reason.OWN, _looks_own),
    (Reason.OUTSIDE, _is_outside),
    (Reason.FOREIGN, _is_foreign),
    (Reason.FOREIGN, _looks_foreign),
    (Reason.FOREIGN, _is_kept_by_paimon),
    (Reason.INCOMPLETE_ROOT, _is_incomplete),
    (Reason.OPTED_OUT, _is_opted_out),
    (Reason.EXCLUDED, _is_excluded),
    (Reason.UNLISTED_TABLE, _is_unlisted),
    (Reason.AGE_UNKNOWN, _is_of_unknown_age),
    (Reason.TOO_NEW, _is_too_new),
    (Reason.HIDDEN, _is_hidden),
    (Reason.UNKNOWN_KIND, _is_of_unknown_kind),
    (Reason.IN_DOUBT, _is_in_doubt),
    (Reason.WITHHELD, _is_withheld),
    (Reason.UNREFERENCED, _is_unreferenced),
)


def _below(identities: pa.Array, folder: str) -> pa.Array:
    return pc.utf8_slice_codeunits(identities, start=len(folder))


def _first_match(paths: pa.Array, patterns: tuple[str, ...]) -> pa.Array:
    """The first pattern that matches each path, null for none."""
    found = _texts(len(paths))
    if not pc.any(pc.match_substring_regex(paths, translate(patterns))).as_py():
        return found
    for pattern in reversed(patterns):
        matches = pc.match_substring_regex(paths, translate([pattern]))
        found = pc.if_else(matches, pattern, found)
    return found


def _nothing(files: _Files) -> _Finding:
    return np.zeros(len(files.rows), np.bool_), _texts(len(files.rows))


def _texts(count: int) -> pa.Array:
    return pa.nulls(count, pa.string())
