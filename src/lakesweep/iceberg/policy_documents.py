"""Upkeep policies as Polaris defines them: their types, and the schema of their content.

A policy says `enable`, which is required, and how, in a free map `config`. Unknown keys beside it
are refused, as Polaris refuses them when a policy is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import UsageError

SCHEMA_VERSION = "2025-02-03"
_SYSTEM = "system."


class PolicyType(StrEnum):
    """The types that Polaris knows. All of them are inherited."""

    DATA_COMPACTION = "system.data-compaction"
    METADATA_COMPACTION = "system.metadata-compaction"
    ORPHAN_REMOVAL = "system.orphan-file-removal"
    SNAPSHOT_EXPIRY = "system.snapshot-expiry"


class PolicyContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a policy says. `config` is not promised to mean the same to all engines."""

    enable: bool
    version: str = SCHEMA_VERSION
    config: dict[str, str | int | float | bool] = {}


class OrphanPolicyContent(PolicyContent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of a policy about orphan files. An age that is not there is not 0."""

    max_orphan_file_age_in_days: int | float | None = None
    locations: tuple[str, ...] | None = None


_CONTENTS: Mapping[PolicyType, type[PolicyContent]] = {
    PolicyType.ORPHAN_REMOVAL: OrphanPolicyContent,
}


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """A policy that applies to a table. `origin` says where it was found, for people."""

    type: PolicyType
    name: str
    origin: str
    content: PolicyContent


def check_policy(type_: str, content: str) -> None:
    """UsageError unless a policy of one of Polaris' types fits its schema; others are free."""
    if not type_.startswith(_SYSTEM):
        return
    if type_ not in {each.value for each in PolicyType}:
        near = get_close_matches(type_, [each.value for each in PolicyType], n=1, cutoff=0)
        raise UsageError(f"there is no type of policies {type_}", hint=f"do you mean {near[0]}?")
    parse_policy_content(PolicyType(type_), content)


def parse_policy_content(type_: PolicyType, text: str) -> PolicyContent:
    """The content of a policy; UsageError if it does not fit the schema of its type."""
    try:
        found: PolicyContent = typed_json(text or "{}", _CONTENTS.get(type_, PolicyContent))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _wrong(type_, str(error)) from error
    if found.version != SCHEMA_VERSION:
        raise _wrong(type_, f"its schema version is {found.version!r}, not {SCHEMA_VERSION}")
    age = getattr(found, "max_orphan_file_age_in_days", None)
    if age is not None and age < 0:
        raise _wrong(type_, "max_orphan_file_age_in_days is negative")
    return found


def _wrong(type_: PolicyType, reason: Any) -> UsageError:
    return UsageError(
        f"the content of the policy does not fit {type_}: {reason}",
        hint='write JSON such as {"enable": true, "config": {"max_snapshot_age_days": 7}}',
    )
