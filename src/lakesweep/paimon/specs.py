"""Partition specs: which partitions `k=v,k=v` means."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from lakesweep.errors import UsageError
from lakesweep.paimon.binary_row import Value
from lakesweep.paimon.partitions import Partitioning, escape
from lakesweep.paimon.survey import Partition
from lakesweep.paimon.value_parsing import parse_value

#: Values by key, a part of the keys or all of them: as text, as they are, or None for null.
Spec = Mapping[str, Value]

_LATER_KEY = re.compile(r",\s*(\w+)=")


def parse_spec(text: str, partitioning: Partitioning) -> dict[str, str]:
    """A spec as people write it: `k=v` for some keys, between commas or the slashes of a folder.

    A value may hold commas, slashes and equal signs: only a name of a key ends it.
    """
    names = sorted(partitioning.names, key=len, reverse=True)
    starts = list(re.finditer(rf"(?:^|[,/])({'|'.join(map(re.escape, names))})=", text))
    if not names or not starts or starts[0].start() != 0:
        raise _unknown_key(text.partition("=")[0], partitioning)
    ends = [*(found.start() for found in starts[1:]), len(text)]
    pairs = [(found[1], text[found.end() : end]) for found, end in zip(starts, ends, strict=True)]
    if len(dict(pairs)) < len(pairs):
        raise UsageError(f"{text!r} names a key twice", hint="name each key once")
    return dict(pairs)


def matching(
    spec: Spec, partitioning: Partitioning, partitions: Collection[Partition]
) -> list[Partition]:
    """The partitions that a spec means.

    A text is a value as it is written or, if no partition has that, as its folder writes it. The
    table's name for nothing stands for null.
    """
    found = list(partitions)
    for name, wanted in spec.items():
        if name not in partitioning.names:
            raise _unknown_key(name, partitioning)
        at = partitioning.names.index(name)
        values = _meant(wanted, at, partitioning, {each.values[at] for each in partitions})
        # Zero is equal to what is below it by nothing, and yet another partition.
        texts = {partitioning.text(value, at) for value in values}
        found = [
            each
            for each in found
            if each.values[at] in values and partitioning.text(each.values[at], at) in texts
        ]
    return found


def all_matching(
    specs: Iterable[Spec], partitioning: Partitioning, partitions: Collection[Partition]
) -> list[Partition]:
    """The partitions that any of the specs means, each once, in the order of their folders."""
    found = {
        partition.data: partition
        for spec in specs
        for partition in matching(spec, partitioning, partitions)
    }
    return sorted(found.values(), key=lambda partition: partition.path)


def _meant(
    wanted: Value, at: int, partitioning: Partitioning, there: Collection[Value]
) -> Sequence[Value]:
    """The values of a key that a text, or a value, means; none where no partition has one."""
    if not isinstance(wanted, str):
        return [wanted]
    if wanted == partitioning.default_name:
        return [None]
    kind = partitioning.keys[at].type
    named = [
        value
        for value in there
        if value is not None and escape(partitioning.text(value, at)) == wanted
    ]
    try:
        value = parse_value(wanted, kind)
    except UsageError:
        if not named:
            raise
        return named
    if value in there or named:
        return [value] if value in there else named
    return _nothing(wanted, partitioning)


def _nothing(wanted: str, partitioning: Partitioning) -> Sequence[Value]:
    """No partition has the value; perhaps because it swallowed a key that does not exist."""
    found = _LATER_KEY.search(wanted)
    if found is not None:
        raise _unknown_key(found[1], partitioning)
    return ()


def _unknown_key(name: str, partitioning: Partitioning) -> UsageError:
    if not partitioning.keys:
        return UsageError("the table is not partitioned", hint="it has no partitions to name")
    hint = f"write key=value; its keys are {', '.join(partitioning.names)}"
    if name in partitioning.names:
        return UsageError(f"{name!r} names a key, and no value of it", hint=hint)
    return UsageError(f"the table has no partition key {name!r}", hint=hint)
