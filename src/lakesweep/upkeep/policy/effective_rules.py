"""The rules in force for a table: of each value the nearest source, and what forbids a job.

Vetoes are or-ed: one `false` in force switches a job off, whatever nearer sources say. Floors come
last and only lengthen what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from lakesweep.upkeep.history import HistoryRef, SnapshotHistory
from lakesweep.upkeep.policy.rule_sources import (
    SWITCHES,
    RuleLayer,
    RuleSource,
    UpkeepKey,
    Value,
)
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments

#: Sources whose `false` is a veto. A lake default and the command line only say what is usual.
_VETOING = frozenset({RuleSource.OWN_PROPERTY, RuleSource.RULE, RuleSource.POLICY})
#: What holds if no source says anything: Iceberg's own defaults, and that nothing is done.
DEFAULTS = RuleLayer(
    RuleSource.DEFAULT,
    "",
    {
        UpkeepKey.EXPIRE: False,
        UpkeepKey.MAX_SNAPSHOT_AGE: 5 * 24 * 3600 * 1000,
        UpkeepKey.MIN_SNAPSHOTS: 1,
        UpkeepKey.CLEAN_EXPIRED_METADATA: False,
        UpkeepKey.REWRITE_MANIFESTS: False,
        UpkeepKey.REMOVE_ORPHANS: False,
    },
)


class RuleValue(msgspec.Struct, frozen=True):
    """One value in force. Ages are milliseconds; `ref` is the branch or tag it holds for."""

    key: UpkeepKey
    value: Value
    source: RuleSource
    origin: str
    ref: str | None = None


class Veto(msgspec.Struct, frozen=True):
    """What forbids a job."""

    key: UpkeepKey
    source: RuleSource
    origin: str


@dataclass(frozen=True, slots=True)
class Floors:
    """What stays in any case."""

    age_ms: int = 0
    keep: int = 0


@dataclass(frozen=True)
class EffectiveRules:
    """All rules in force for one table."""

    values: tuple[RuleValue, ...]
    vetoes: tuple[Veto, ...]
    notes: tuple[str, ...]
    floors: Floors = field(default_factory=Floors)

    def get(self, key: UpkeepKey) -> RuleValue | None:
        """The value of a key for the whole table."""
        return next((each for each in self.values if each.key is key and each.ref is None), None)

    def does(self, switch: UpkeepKey) -> bool:
        """Whether a job is to be done."""
        wanted = self.get(switch)
        is_wanted = wanted is not None and wanted.value is True
        return is_wanted and all(each.key is not switch for each in self.vetoes)

    def expiry_terms(self, now_ms: int) -> ExpiryTerms:
        """How to expire the table. Fields of branches and tags come before all of this."""
        age, least = self.get(UpkeepKey.MAX_SNAPSHOT_AGE), self.get(UpkeepKey.MIN_SNAPSHOTS)
        ref_age, clean = self.get(UpkeepKey.MAX_REF_AGE), self.get(UpkeepKey.CLEAN_EXPIRED_METADATA)
        return ExpiryTerms(
            RetentionArguments(
                older_than_ms=None if age is None else now_ms - int(age.value),
                # A property may say 0, which no argument can: it is left to the table.
                retain_last=int(least.value) if least and least.value else None,
                max_ref_age_ms=None if ref_age is None else int(ref_age.value),
                floor_age_ms=self.floors.age_ms,
                floor_keep=self.floors.keep,
            ),
            clean_metadata=clean is not None and clean.value is True,
        )


def resolve(
    layers: Sequence[RuleLayer],
    history: SnapshotHistory,
    *,
    gc_enabled: bool,
    other_service: str | None = None,
    floors: Floors | None = None,
) -> EffectiveRules:
    """The rules that sources, nearest first, make together."""
    floors = floors or Floors()
    values = [_value(key, [*layers, DEFAULTS]) for key in UpkeepKey]
    of_table = [_lengthened(each, floors) for each in values if each is not None]
    of_refs = [each for name, ref in history.refs.items() for each in _of_ref(name, ref)]
    return EffectiveRules(
        (*of_table, *(_lengthened(each, floors) for each in of_refs)),
        tuple(_vetoes(layers, gc_enabled=gc_enabled, other_service=other_service)),
        tuple(note for layer in layers for note in layer.notes),
        floors,
    )


def _value(key: UpkeepKey, layers: Sequence[RuleLayer]) -> RuleValue | None:
    for layer in layers:
        if key in layer.values:
            return RuleValue(key, layer.values[key], layer.source, layer.origin)
    return None


def _lengthened(value: RuleValue, floors: Floors) -> RuleValue:
    floor = {
        UpkeepKey.MAX_SNAPSHOT_AGE: (floors.age_ms, "min_age"),
        UpkeepKey.MAX_REF_AGE: (floors.age_ms, "min_age"),
        UpkeepKey.MIN_SNAPSHOTS: (floors.keep, "min_keep"),
    }.get(value.key)
    if floor is None or value.value >= floor[0]:
        return value
    origin = f"{floor[1]} of the lake; {value.source} says less"
    return RuleValue(value.key, floor[0], RuleSource.FLOOR, origin, value.ref)


def _of_ref(name: str, ref: HistoryRef) -> list[RuleValue]:
    found = (
        (UpkeepKey.MAX_SNAPSHOT_AGE, ref.max_snapshot_age_ms),
        (UpkeepKey.MIN_SNAPSHOTS, ref.min_snapshots_to_keep),
        (UpkeepKey.MAX_REF_AGE, ref.max_ref_age_ms),
    )
    return [
        RuleValue(key, value, RuleSource.REF, f"{ref.type.value} {name}", name)
        for key, value in found
        if value is not None
    ]


def _vetoes(
    layers: Sequence[RuleLayer], *, gc_enabled: bool, other_service: str | None
) -> list[Veto]:
    found = []
    if not gc_enabled:
        keys = (UpkeepKey.EXPIRE, UpkeepKey.REMOVE_ORPHANS)
        found += [Veto(key, RuleSource.ICEBERG_PROPERTY, "gc.enabled is false") for key in keys]
    if other_service is not None:
        found.append(Veto(UpkeepKey.EXPIRE, RuleSource.ICEBERG_PROPERTY, other_service))
    for switch in SWITCHES:
        found += _switched_off(switch, layers)
    return found


def _switched_off(switch: UpkeepKey, layers: Sequence[RuleLayer]) -> list[Veto]:
    """The sources that switch a job off; of several rules and policies, the first that says it."""
    said: dict[RuleSource, RuleLayer] = {}
    for layer in layers:
        if layer.source in _VETOING and switch in layer.values:
            said.setdefault(layer.source, layer)
    return [
        Veto(switch, layer.source, layer.origin)
        for layer in said.values()
        if layer.values[switch] is False
    ]
