"""What each source says about the upkeep of a table, as values by key.

Ages are milliseconds. A value that is there and cannot be read is an error: to take it as absent
would do something else than its owner asked for. Keys that mean nothing to us are only mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from lakesweep.config import UpkeepRule, UpkeepValues
from lakesweep.errors import IncompleteError, UsageError
from lakesweep.iceberg.policy_documents import OrphanPolicyContent, PolicyInForce, PolicyType
from lakesweep.units import parse_duration
from lakesweep.untrusted.documents import LARGEST_LONG, parse_long
from lakesweep.upkeep.snapshot_retention import MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS

_DAY_MS = 24 * 3600 * 1000
OWN_PREFIX = "lakesweep."
Value = int | bool


class UpkeepKey(StrEnum):
    """What can be said about the upkeep of a table."""

    EXPIRE = "expire"
    MAX_SNAPSHOT_AGE = "max-snapshot-age"
    MIN_SNAPSHOTS = "min-snapshots"
    MAX_REF_AGE = "max-ref-age"
    CLEAN_EXPIRED_METADATA = "clean-expired-metadata"
    REWRITE_MANIFESTS = "rewrite-manifests"
    REMOVE_ORPHANS = "remove-orphans"
    ORPHAN_AGE = "orphan-age"


#: Keys that switch a job on or off. Whoever says `false` has the last word.
SWITCHES = (UpkeepKey.EXPIRE, UpkeepKey.REWRITE_MANIFESTS, UpkeepKey.REMOVE_ORPHANS)
AGES = (UpkeepKey.MAX_SNAPSHOT_AGE, UpkeepKey.MAX_REF_AGE, UpkeepKey.ORPHAN_AGE)


class RuleSource(StrEnum):
    """Where a value comes from, nearest first."""

    REF = "ref"
    COMMAND_LINE = "command line"
    OWN_PROPERTY = "lakesweep property"
    ICEBERG_PROPERTY = "table property"
    RULE = "rule"
    POLICY = "policy"
    LAKE = "lake default"
    DEFAULT = "default"
    FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class RuleLayer:
    """What one source says. `origin` names it for people; `notes` are keys it has in vain."""

    source: RuleSource
    origin: str
    values: Mapping[UpkeepKey, Value] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def own_properties(properties: Mapping[str, str]) -> RuleLayer:
    """The properties `lakesweep.*` of a table."""
    values: dict[UpkeepKey, Value] = {}
    notes = []
    for name, text in properties.items():
        if not name.startswith(OWN_PREFIX):
            continue
        key = _KEYS.get(name.removeprefix(OWN_PREFIX))
        if key is None:
            notes.append(f"the table has an unknown property {name}")
        else:
            values[key] = _read(f"the property {name}", text, _reader(key))
    return RuleLayer(RuleSource.OWN_PROPERTY, "lakesweep.*", values, tuple(notes))


_KEYS = {each.value: each for each in UpkeepKey}


def iceberg_properties(properties: Mapping[str, str]) -> RuleLayer:
    """The properties of Iceberg itself."""
    values: dict[UpkeepKey, Value] = {}
    for name, key in (
        (MAX_SNAPSHOT_AGE, UpkeepKey.MAX_SNAPSHOT_AGE),
        (MIN_SNAPSHOTS, UpkeepKey.MIN_SNAPSHOTS),
        (MAX_REF_AGE, UpkeepKey.MAX_REF_AGE),
    ):
        if name in properties:
            values[key] = _read(f"the property {name}", properties[name], _number)
    return RuleLayer(RuleSource.ICEBERG_PROPERTY, "history.expire.*", values)


def matching_rules(rules: tuple[UpkeepRule, ...], table: str) -> Iterator[RuleLayer]:
    """The rules of the configuration whose patterns match, in the order of the file."""
    for number, rule in enumerate(rules, 1):
        for pattern in rule.tables:
            if fnmatchcase(table, pattern):
                yield RuleLayer(RuleSource.RULE, f"rule {number} ({pattern})", values_of(rule))
                break


def values_of(section: UpkeepValues) -> dict[UpkeepKey, Value]:
    """What a section of the configuration sets."""
    found = {
        UpkeepKey.EXPIRE: section.expire,
        UpkeepKey.MAX_SNAPSHOT_AGE: _millis(section.max_snapshot_age),
        UpkeepKey.MIN_SNAPSHOTS: section.min_snapshots,
        UpkeepKey.MAX_REF_AGE: _millis(section.max_ref_age),
        UpkeepKey.CLEAN_EXPIRED_METADATA: section.clean_expired_metadata,
        UpkeepKey.REWRITE_MANIFESTS: section.rewrite_manifests,
        UpkeepKey.REMOVE_ORPHANS: section.remove_orphans,
        UpkeepKey.ORPHAN_AGE: _millis(section.orphan_age),
    }
    return {key: value for key, value in found.items() if value is not None}


def _millis(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // timedelta(milliseconds=1)


def policy_layer(policy: PolicyInForce) -> RuleLayer:
    """What a policy says."""
    if policy.type is PolicyType.DATA_COMPACTION:
        note = f"{policy.origin} is about compaction of data, which engines do"
        return RuleLayer(RuleSource.POLICY, policy.origin, notes=(note,))
    switch = _POLICY_SWITCHES[policy.type]
    content = policy.content
    values: dict[UpkeepKey, Value] = {switch: content.enable}
    notes = []
    for name, value in content.config.items():
        found = _CONFIG_KEYS.get(name) if policy.type is PolicyType.SNAPSHOT_EXPIRY else None
        if found is None:
            notes.append(f"{policy.origin} has a key {name}, which means nothing here")
            continue
        key, read = found
        values[key] = _read(f"{name} of {policy.origin}", str(value), read)
    if isinstance(content, OrphanPolicyContent):
        if content.max_orphan_file_age_in_days is not None:
            values[UpkeepKey.ORPHAN_AGE] = int(content.max_orphan_file_age_in_days * _DAY_MS)
        if content.locations is not None:
            notes.append(f"{policy.origin} names locations; those of the lake count")
    return RuleLayer(RuleSource.POLICY, policy.origin, values, tuple(notes))


_POLICY_SWITCHES = {
    PolicyType.SNAPSHOT_EXPIRY: UpkeepKey.EXPIRE,
    PolicyType.METADATA_COMPACTION: UpkeepKey.REWRITE_MANIFESTS,
    PolicyType.ORPHAN_REMOVAL: UpkeepKey.REMOVE_ORPHANS,
}


def _read(what: str, text: str, read: Callable[[str], Value | None]) -> Value:
    value = read(text.strip())
    if value is None:
        raise IncompleteError(
            f"{what} is {text[:80]!r}, which cannot be read",
            hint="correct it: until then nothing is done to the table",
        )
    return value


def _reader(key: UpkeepKey) -> Callable[[str], Value | None]:
    if key in AGES:
        return _age
    return _positive if key is UpkeepKey.MIN_SNAPSHOTS else _flag


def _age(text: str) -> int | None:
    try:
        return parse_duration(text) // timedelta(milliseconds=1)
    except UsageError:
        return None


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _number(text: str) -> int | None:
    value = parse_long(text)
    return value if value is not None and 0 <= value <= LARGEST_LONG else None


def _positive(text: str) -> int | None:
    return _number(text) or None


def _days(text: str) -> int | None:
    try:
        days = float(text)
    except ValueError:
        return None
    return int(days * _DAY_MS) if 0 <= days <= LARGEST_LONG // _DAY_MS else None


#: What the schemas of Polaris show as examples; `min_snapshots_to_keep` is a common variant.
_CONFIG_KEYS: Mapping[str, tuple[UpkeepKey, Callable[[str], Value | None]]] = {
    "min_snapshot_to_keep": (UpkeepKey.MIN_SNAPSHOTS, _positive),
    "min_snapshots_to_keep": (UpkeepKey.MIN_SNAPSHOTS, _positive),
    "max_snapshot_age_days": (UpkeepKey.MAX_SNAPSHOT_AGE, _days),
    "max_ref_age_days": (UpkeepKey.MAX_REF_AGE, _days),
}
