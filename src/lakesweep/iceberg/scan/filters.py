"""Filters of scans: Iceberg's expressions, bound to a schema, judged on what is known of a file.

What is known of a column is a range that all its values lie in, and whether some are null. From
that a predicate holds for all rows, for none, or perhaps. A file none of whose rows can match is
left out; of what remains, the parts that hold for all its rows are taken out of its residual.
Negations are moved to the predicates first: nulls satisfy neither a predicate nor its opposite, so
where some may be null, the opposite of "none" is never "all".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.scan.single_values import base_of, is_float, parse_literal
from lakesweep.untrusted.documents import JsonObject

_OPPOSITES = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "lt": "gt-eq",
    "lt-eq": "gt",
    "eq": "not-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
    "and": "or",
}
_OPPOSITES |= {after: before for before, after in _OPPOSITES.items()}
_UNARY = ("is-null", "not-null", "is-nan", "not-nan")
_SETS = ("in", "not-in")
_ORDERED = ("lt", "lt-eq", "gt", "gt-eq")


class Match(Enum):
    """For which rows of a file something holds."""

    NONE = 0
    SOME = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What is known of a column in a file: all values that are not null lie between these."""

    low: Any = None
    high: Any = None
    may_be_null: bool = True
    is_all_null: bool = False
    may_be_nan: bool = True
    is_all_nan: bool = False

    @property
    def is_known(self) -> bool:
        return self.low is not None and self.high is not None

    def within(self, low: Any, high: Any) -> ColumnRange:
        """The same with another range that holds, too."""
        lowest = _better(self.low, low, max)
        highest = _better(self.high, high, min)
        return replace(self, low=lowest, high=highest)


UNKNOWN_RANGE = ColumnRange()


def _better(own: Any, other: Any, choose: Callable[[Any, Any], Any]) -> Any:
    return other if own is None else own if other is None else choose(own, other)


@dataclass(frozen=True, slots=True)
class BoundTerm:
    """A column, or a transform of one."""

    field_id: int
    kind: str
    transform: str | None = None


@dataclass(frozen=True, slots=True)
class ScanPredicate:
    """One comparison. `json` is how a residual has it."""

    operation: str
    term: BoundTerm
    values: tuple[Any, ...]
    json: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Junction:
    """Two filters, of which both must hold, or one."""

    is_and: bool
    left: ScanFilter
    right: ScanFilter


ScanFilter: TypeAlias = bool | ScanPredicate | Junction
#: What is known of a term in a file, and whether it may have one of some values.
TermFacts = Callable[[BoundTerm], ColumnRange]
MayHave = Callable[[BoundTerm, Any], bool]
#: A residual as JSON; a boolean if it is decided.
Residual: TypeAlias = bool | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns of a schema by their full names."""

    fields: Mapping[str, tuple[int, str]]
    is_case_sensitive: bool = True

    @classmethod
    def of(cls, schema: Mapping[str, Any], *, case_sensitive: bool = True) -> ColumnNames:
        """The primitive columns that only structs lead to, and all others without a type."""
        found: dict[str, tuple[int, str]] = {}
        _name_fields(schema, "", found, case_sensitive=case_sensitive)
        return cls(found, case_sensitive)

    def find(self, name: Any) -> tuple[int, str]:
        """The id and the type of a column. InvalidUpdateError if there is none."""
        key = name if self.is_case_sensitive or not isinstance(name, str) else name.lower()
        found = self.fields.get(key) if isinstance(name, str) else None
        if found is None:
            raise InvalidUpdateError(f"Cannot find field '{name!s:.200}' in the schema")
        return found


def _name_fields(
    struct: Mapping[str, Any],
    above: str,
    found: dict[str, tuple[int, str]],
    *,
    case_sensitive: bool,
) -> None:
    for field in struct.get("fields") or ():
        name = f"{above}{field.get('name')}"
        kind = field.get("type")
        key = name if case_sensitive else name.lower()
        found[key] = (field["id"], kind if isinstance(kind, str) else "nested")
        if isinstance(kind, dict) and kind.get("type") == "struct":
            _name_fields(kind, f"{name}.", found, case_sensitive=case_sensitive)


def bind_filter(json: Any, names: ColumnNames) -> ScanFilter:
    """A filter as clients send it. InvalidUpdateError if it is none, or names no column."""
    return _bind(json, names, negate=False)


def _bind(json: Any, names: ColumnNames, *, negate: bool) -> ScanFilter:
    if isinstance(json, bool):
        return json is not negate
    if not isinstance(json, dict):
        raise InvalidUpdateError(f"{json!r:.80} is no expression")
    kind = json.get("type")
    match kind:
        case "true" | "false":
            return (kind == "true") is not negate
        case "literal" if isinstance(json.get("value"), bool):
            return json["value"] is not negate
        case "not":
            return _bind(json.get("child"), names, negate=not negate)
        case "and" | "or":
            left = _bind(json.get("left"), names, negate=negate)
            right = _bind(json.get("right"), names, negate=negate)
            return Junction((kind == "and") is not negate, left, right)
        case str() if kind in _OPPOSITES:
            return _predicate(_OPPOSITES[kind] if negate else kind, json, names)
        case _:
            raise InvalidUpdateError(f"{kind!r:.80} is no kind of expression")


def _predicate(operation: str, json: Mapping[str, Any], names: ColumnNames) -> ScanPredicate:
    term = _term(json.get("term"), names)
    shown: JsonObject = {"type": operation, "term": json.get("term")}
    if operation in _UNARY:
        return ScanPredicate(operation, term, (), shown)
    key = "values" if operation in _SETS else "value"
    sent = json.get(key)
    given = sent if operation in _SETS else [sent]
    if key not in json or not isinstance(given, list):
        raise InvalidUpdateError(f"{operation} needs {key}")
    shown[key] = sent
    return ScanPredicate(operation, term, tuple(_literal(term.kind, each) for each in given), shown)


def _literal(kind: str, sent: Any) -> Any:
    value = sent.get("value") if isinstance(sent, dict) else sent
    if base_of(kind) in ("nested", "variant", "unknown", "geometry", "geography"):
        return None
    try:
        return parse_literal(kind, value)
    except ValueError as error:
        raise InvalidUpdateError(f"Invalid value of a filter: {error}") from None


def _term(json: Any, names: ColumnNames) -> BoundTerm:
    match json:
        case {"type": "transform", "transform": str(transform), "term": name}:
            field_id, _ = names.find(_reference(name))
            return BoundTerm(field_id, "unknown", transform)
        case _:
            return BoundTerm(*names.find(_reference(json)))


def _reference(json: Any) -> Any:
    match json:
        case {"type": "reference", "term": name} | {"type": "reference", "name": name}:
            return name
        case _:
            return json


def columns_of(filter_: ScanFilter) -> set[int]:
    """The columns that a filter looks at."""
    match filter_:
        case bool():
            return set()
        case Junction():
            return columns_of(filter_.left) | columns_of(filter_.right)
        case ScanPredicate():
            return {filter_.term.field_id}


def residual_of(filter_: ScanFilter, facts: TermFacts, may_have: MayHave) -> Residual:
    """What is left of a filter for the rows of one file; False if none of them can match."""
    match filter_:
        case bool():
            return filter_
        case ScanPredicate():
            match _judge(filter_, facts, may_have):
                case Match.NONE:
                    return False
                case Match.ALL:
                    return True
                case _:
                    return filter_.json
        case Junction():
            ends = not filter_.is_and
            left = residual_of(filter_.left, facts, may_have)
            if left is ends:
                return ends
            right = residual_of(filter_.right, facts, may_have)
            if right is ends or isinstance(left, bool):
                return right
            if isinstance(right, bool):
                return left
            return {"type": "and" if filter_.is_and else "or", "left": left, "right": right}


def _judge(predicate: ScanPredicate, facts: TermFacts, may_have: MayHave) -> Match:
    known = facts(predicate.term)
    if predicate.operation in _UNARY:
        return _judge_unary(predicate.operation, known)
    if known.is_all_null:
        # Whether nulls satisfy a negation is not the same everywhere; nothing else matches them.
        return Match.SOME if predicate.operation.startswith("not-") else Match.NONE
    if any(value is None for value in predicate.values):
        return Match.SOME
    if predicate.term.kind == "uuid" and predicate.operation in _ORDERED:
        return Match.SOME  # engines do not agree on the order of UUIDs
    found = _compare(predicate, known, may_have)
    is_safe = not known.may_be_null and not (
        is_float(predicate.term.kind) and (known.may_be_nan or known.is_all_nan)
    )
    return Match.SOME if found is Match.ALL and not is_safe else found


def _judge_unary(operation: str, known: ColumnRange) -> Match:
    match operation:
        case "is-null":
            return _of(known.is_all_null, not known.may_be_null)
        case "not-null":
            return _of(not known.may_be_null, known.is_all_null)
        case "is-nan":
            return _of(known.is_all_nan and not known.may_be_null, not known.may_be_nan)
        case _:
            return _of(not known.may_be_nan and not known.may_be_null, known.is_all_nan)


def _of(is_all: bool, is_none: bool) -> Match:
    return Match.NONE if is_none else Match.ALL if is_all else Match.SOME


def _compare(predicate: ScanPredicate, known: ColumnRange, may_have: MayHave) -> Match:
    low, high, values = known.low, known.high, predicate.values
    match predicate.operation:
        case "lt":
            return _of(_below(high, values[0]), _at_least(low, values[0]))
        case "lt-eq":
            return _of(_at_least(values[0], high), _below(values[0], low))
        case "gt":
            return _of(_below(values[0], low), _at_least(values[0], high))
        case "gt-eq":
            return _of(_at_least(low, values[0]), _below(high, values[0]))
        case "eq" | "in":
            return _among(predicate.term, values, known, may_have)
        case "not-eq" | "not-in":
            return _without(predicate.term, values, known, may_have)
        case "starts-with":
            return _begins(str(values[0]), known)
        case _:
            return _begins_otherwise(str(values[0]), known)


def _below(one: Any, other: Any) -> bool:
    return one is not None and other is not None and bool(one < other)


def _at_least(one: Any, other: Any) -> bool:
    return one is not None and other is not None and bool(one >= other)


def _among(
    term: BoundTerm, values: tuple[Any, ...], known: ColumnRange, may_have: MayHave
) -> Match:
    inside = [
        each
        for each in values
        if not _below(each, known.low) and not _below(known.high, each) and may_have(term, each)
    ]
    is_single = known.is_known and known.low == known.high
    return _of(is_single and known.low in inside, not inside)


def _without(
    term: BoundTerm, values: tuple[Any, ...], known: ColumnRange, may_have: MayHave
) -> Match:
    """The opposite; where nulls may be, it is never decided that no row matches."""
    match _among(term, values, known, may_have):
        case Match.NONE:
            return Match.ALL
        case Match.ALL if not known.may_be_null and not known.may_be_nan:
            return Match.NONE
        case _:
            return Match.SOME


def _begins(prefix: str, known: ColumnRange) -> Match:
    low, high = known.low, known.high
    is_below = isinstance(high, str) and high[: len(prefix)] < prefix
    is_above = isinstance(low, str) and low[: len(prefix)] > prefix
    both = all(isinstance(each, str) and each.startswith(prefix) for each in (low, high))
    return _of(both, is_below or is_above)


def _begins_otherwise(prefix: str, known: ColumnRange) -> Match:
    match _begins(prefix, known):
        case Match.NONE:
            return Match.ALL
        case Match.ALL if not known.may_be_null:
            return Match.NONE
        case _:
            return Match.SOME
