"""Parse policy files: JSON, YAML or TOML of one shape, accepted as a whole or not at all.

    {"rule1": {"prefix": "foo/bar", "days": 10, "enabled": true, "branch_days": {"b1": 5}}}

A rule may also have `tag_days`, `expire_heads` and `allow_empty_prefix`, and names of branches
and tags may be patterns.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any

import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lakesweep.config.file import find_line, spell
from lakesweep.errors import ConfigError
from lakesweep.lifecycle.policy.rules import LifecyclePolicy, LifecycleRule, RulePrefix
from lakesweep.units import format_size

_MOST_DAYS = 36_500
#: No policy that people write is larger.
MOST_BYTES = 1 << 20
#: A policy has three levels. Time to read flow collections grows with the square of their depth.
_MOST_LEVELS = 20

_Days = Annotated[int, Field(ge=1, le=_MOST_DAYS, strict=True)]
_Name = Annotated[str, Field(min_length=1)]


class _RuleModel(BaseModel):
    """A rule as it is written in a file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    prefix: str
    enabled: bool
    days: _Days | None = None
    branch_days: dict[_Name, _Days] | None = None
    tag_days: dict[_Name, _Days] | None = None
    expire_heads: bool = False
    allow_empty_prefix: bool = False

    def rule(self, rule_id: str) -> LifecycleRule:
        return LifecycleRule(
            rule_id,
            RulePrefix(self.prefix),
            self.days,
            tuple(sorted((self.branch_days or {}).items())),
            tuple(sorted((self.tag_days or {}).items())),
            self.expire_heads,
            self.enabled,
        )

    def faults(self) -> Iterator[str]:
        """What is wrong with the rule beyond the types of its keys."""
        start = RulePrefix(self.prefix).start
        if not start and not self.allow_empty_prefix:
            yield "an empty prefix means the whole repository: add allow_empty_prefix = true"
        if not _is_text(start):
            yield f"prefix {self.prefix!r}: no path can contain this text"
        if "*" in start:
            yield f"prefix {self.prefix!r}: only a * at the end is a pattern"
        if start.startswith("/"):
            yield f"prefix {self.prefix!r}: paths in a repository do not begin with /"
        if self.days is None and not self.branch_days and not self.tag_days:
            yield "it needs days, branch_days or tag_days"


def _is_text(text: str) -> bool:
    """JSON can spell lone surrogates, which cannot be encoded anywhere else."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


_RULES = TypeAdapter(dict[_Name, _RuleModel])


def parse_policy(data: bytes, name: str) -> LifecyclePolicy:
    """The policy in a file of that name; ConfigError lists everything that is wrong with it."""
    if len(data) > MOST_BYTES:
        raise _wrong(name, [f"it is larger than {format_size(MOST_BYTES)}"])
    text = _decode(data, name)
    suffix = name.rpartition(".")[2].lower()
    if suffix not in _PARSERS:
        raise _wrong(name, [f"it is no .{' file, no .'.join(_PARSERS)} file"])
    try:
        written = _PARSERS[suffix](text)
        models = _RULES.validate_python(written)
    except ValidationError as error:
        raise _wrong(name, _told(error, text if suffix == "toml" else "")) from None
    except (ValueError, yaml.YAMLError) as error:
        raise _wrong(name, [_reason(error)]) from None
    except RecursionError:
        raise _wrong(name, ["it is nested too deeply"]) from None
    if not models:
        raise _wrong(name, ["it has no rules"])
    if faults := list(_faults(models)):
        raise _wrong(name, faults)
    return LifecyclePolicy(tuple(model.rule(rule_id) for rule_id, model in models.items()))


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())  # the parser of YAML writes several lines
    return "a number in it has too many digits" if "integer string conversion" in text else text


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _wrong(name, [str(error)]) from None


def _faults(models: Mapping[str, _RuleModel]) -> Iterator[str]:
    for rule_id, model in models.items():
        for fault in model.faults():
            yield f"{rule_id}: {fault}"


def _told(error: ValidationError, toml: str) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        path = [step for step in fault["loc"] if step != "[key]"]
        line = find_line(toml, path) if toml else None
        place = spell(path) + (f" (line {line})" if line else "")
        said = _advice(str(path[-1])) if fault["type"] == "extra_forbidden" else fault["msg"]
        yield f"{place}: {said}" if place else said


def _advice(wrong: str) -> str:
    near = get_close_matches(wrong, _RuleModel.model_fields, n=1, cutoff=0.5)
    keys = f"did you mean {near[0]}?" if near else f"there are {', '.join(_RuleModel.model_fields)}"
    return f"there is no such key; {keys}"


def _wrong(name: str, faults: Iterable[str]) -> ConfigError:
    return ConfigError(
        f"the policy {name} is wrong: " + "; ".join(faults),
        hint="fix the policy; nothing was judged",
    )


def _unique(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A mapping of these pairs; a duplicate key would silently lose a value."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str):  # YAML reads off, no and 1 as something else
            raise ValueError(f"the key {key!r} is not text: put it in quotes")  # noqa: TRY004
        if key in found:
            raise ValueError(f"{key!r} appears twice")
        found[key] = value
    return found


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without duplicate keys, and with plain numbers only: 030 would be 24."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = (self.construct_object(key, deep=True) for key, _ in node.value)
        _unique((key, None) for key in keys)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level > _MOST_LEVELS:
            raise ValueError("it is nested too deeply")
        super().fetch_flow_collection_start(token)

    def construct_plain_int(self, node: yaml.ScalarNode) -> int:
        if not re.fullmatch("[1-9][0-9]*|0", node.value):
            raise ValueError(f"{node.value} is not a plain number: write it in decimal digits only")
        return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_plain_int)


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique)


def _parse_yaml(text: str) -> Any:
    return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "json": _parse_json,
    "yaml": _parse_yaml,
    "yml": _parse_yaml,
    "toml": tomllib.loads,
}
