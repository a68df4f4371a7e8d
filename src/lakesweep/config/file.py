"""Read and check `lakesweep.toml`.

Errors name the file, the line, the key and the nearest valid name, but never the value, which
may be a secret.

The line of a key is searched in the text, because Python's own parser does not report it.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lakesweep.config import Config
from lakesweep.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 16_000_000
_LARGEST = 2**63 - 1
_TOO_DEEP = "tables or lists are nested too deeply"
_FEWER_LEVELS = "no setting needs more than a few levels; check brackets and braces"
_SMALLER = "write a smaller number"
_TAGS = (
    "iceberg-catalog",
    "iceberg-metadata",
    "iceberg-scan",
    "lakesweep",
    "paimon-warehouse",
    "lakefs",
    "pinned",
)
_TYPE_WORDS = {
    "string_type": "must be text in quotes",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "tuple_type": "must be a list in [ ]",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "too_short": "must not be empty",
}
#: The steps to a value: names of keys, and positions in lists.
KeyPath = tuple[str | int, ...]
#: No setting lies deeper; a longer path is cut, since finding it costs the square of its length.
MOST_STEPS = 32
_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def load_config(path: Path | None, environment: Mapping[str, str]) -> Config:
    """Read and check a file; the defaults if there is none."""
    return Config() if path is None else parse_config(_read(path), path, environment)


def parse_config(text: str, path: Path, environment: Mapping[str, str]) -> Config:
    """Check the text of a configuration; `path` is used in errors only."""
    values = _parse_toml(text, path)
    # After parsing, so that a variable cannot change the structure of the file.
    return _validated(_Substitution(text, path, environment)(values, ()), text, path)


def config_from_values(values: Mapping[str, Any]) -> Config:
    """Check values that a program gives, as the tables of a file would hold them."""
    path = Path("configuration")
    return _validated(_CheckedValues("", path)(dict(values), ()), "", path)


def _parse_toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: this is not TOML: {error}", hint="fix that line") from None
    except RecursionError:
        raise ConfigError(f"{path}: {_TOO_DEEP}", hint=_FEWER_LEVELS) from None
    except ValueError:
        # Python refuses to read numbers of thousands of digits.
        raise ConfigError(f"{path}: a number has too many digits", hint=_SMALLER) from None


def _validated(values: object, text: str, path: Path) -> Config:
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _config_error(error, text, path) from None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigError(f"{path}: more than {_MOST_BYTES:,} bytes is not a configuration")
        return data.decode()
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration cannot be read: {error.strerror}",
            hint="lakesweep init creates one",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: this is not UTF-8: {error.reason}") from None


class _CheckedValues:
    """Refuses values that no setting can have, naming the key."""

    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._path = path

    def __call__(self, value: object, key: tuple[str | int, ...]) -> object:
        match value:
            case str():
                return self._checked_text(value, key)
            case dict():
                self._check_depth(key)
                return {name: self(item, (*key, name)) for name, item in value.items()}
            case list() | tuple():
                self._check_depth(key)
                return [self(item, (*key, index)) for index, item in enumerate(value)]
            case int() if abs(value) > _LARGEST:
                raise self._error(key, "is too large a number", _SMALLER)
            case float() if not isfinite(value):
                raise self._error(key, "must be a finite number", _SMALLER)
            case _:
                return value

    def _checked_text(self, value: str, key: tuple[str | int, ...]) -> str:
        if "\0" in value:
            raise self._error(key, "contains a NUL character", "remove \\u0000 from the text")
        return value

    def _check_depth(self, key: tuple[str | int, ...]) -> None:
        # Before going deeper: Python would run out of stack, and that error names no key.
        if len(key) > MOST_STEPS:
            raise self._error(key[:MOST_STEPS], _TOO_DEEP, _FEWER_LEVELS)

    def _error(self, key: tuple[str | int, ...], problem: str, hint: str) -> ConfigError:
        return ConfigError(f"{_where(self._path, self._text, key)}: {problem}", hint=hint)


class _Substitution(_CheckedValues):
    """Also replaces `${NAME}` in values by environment variables."""

    def __init__(self, text: str, path: Path, environment: Mapping[str, str]) -> None:
        super().__init__(text, path)
        self._environment = environment

    def _checked_text(self, value: str, key: tuple[str | int, ...]) -> str:
        text = _REFERENCE.sub(lambda found: self._look_up(found[1], key), value)
        return super()._checked_text(text, key)

    def _look_up(self, variable: str, key: tuple[str | int, ...]) -> str:
        if not _VARIABLE.fullmatch(variable):
            problem = "the text in ${…} is not the name of an environment variable"
            raise self._error(key, problem, "use letters, digits and _ between the braces")
        if variable not in self._environment:
            problem = f"the environment variable {variable} is not set"
            raise self._error(key, problem, f"export {variable}=…")
        return self._environment[variable]


def _config_error(error: ValidationError, text: str, path: Path) -> ConfigError:
    # All problems at once, without the input values: they may be secrets.
    problems = [_problem(details, text, path) for details in error.errors(include_input=False)]
    hints = [hint for _, hint in problems if hint]
    return ConfigError([line for line, _ in problems], hint=hints[0] if hints else None)


def _problem(details: ErrorDetails, text: str, path: Path) -> tuple[str, str | None]:
    """One error as text, and its hint."""
    key = _without_tags(details["loc"])
    context = details.get("ctx", {})
    match details["type"]:
        case "unknown_key":
            line = f"{_where(path, text, (*key, context['key']))}: unknown key"
            if key and context["key"] in Config.model_fields:
                return line, f"{context['key']} stands at the top of the file, before all sections"
            return line, _advice(context["key"], context["valid"].split(", "), "keys")
        case "union_tag_invalid":
            line = f"{_where(path, text, (*key, 'type'))}: unknown root type"
            return line, _advice(context["tag"], _TAGS, "types")
        case _:
            return f"{_where(path, text, key)}: {_in_words(details)}", None


def _advice(wrong: str, valid: Sequence[str], noun: str) -> str:
    near = get_close_matches(wrong, valid, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"the {noun} here are {', '.join(valid)}"


def _without_tags(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A location as in the file: pydantic adds the type of a root after its index."""
    steps = zip((None, *location), location, strict=False)
    return tuple(step for before, step in steps if not (isinstance(before, int) and step in _TAGS))


def _in_words(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            return "is missing"
        case "literal_error":
            return f"must be {context['expected']}"
        case "union_tag_not_found":
            return f"has no type; the types are {', '.join(_TAGS)}"
        case "greater_than":
            return f"must be greater than {context['gt']:g}"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case kind:
            return _TYPE_WORDS.get(kind) or str(details["msg"])


def _where(path: Path, text: str, key: Sequence[str | int]) -> str:
    if not key:
        return str(path)
    line = find_line(text, key)
    return f"{path}, {f'line {line}, ' if line else ''}{spell(key)}"


def find_line(text: str, path: Sequence[str | int]) -> int | None:
    """The line number of a key, or of the nearest table or value around it."""
    lines: dict[KeyPath, int] = {}
    for found, number in _keys(text):
        for prefix in _prefixes(found):
            # The first line counts: a table may be continued later in the file.
            lines.setdefault(prefix, number)
    return next(
        (lines[prefix] for prefix in _prefixes(tuple(path[:MOST_STEPS])) if prefix in lines), None
    )


def spell(path: Sequence[str | int]) -> str:
    """A key path as people write it: `lakes.prod.roots[0].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if _BARE.fullmatch(step) else f'"{step}"')
    return text


def _keys(text: str) -> Iterator[tuple[KeyPath, int]]:
    table: KeyPath = ()
    elements: Counter[tuple[str, ...]] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            names = _names(header[2])
            elements[names] += header[1] == "[["
            table = _indexed(names, elements)
            yield table, number
        elif assignment := _ASSIGNMENT.match(line):
            yield table + _names(assignment[1]), number


def _prefixes(path: KeyPath) -> Iterator[KeyPath]:
    """The path itself, then each of its prefixes."""
    return (path[:length] for length in range(len(path), 0, -1))


def _names(dotted: str) -> tuple[str, ...]:
    """The names in a dotted key, split by Python's own parser."""
    names = []
    value: object = tomllib.loads(f"{dotted} = 0")
    while isinstance(value, dict):
        [(name, value)] = value.items()
        names.append(name)
    return tuple(names[:MOST_STEPS])


def _indexed(names: tuple[str, ...], elements: Counter[tuple[str, ...]]) -> KeyPath:
    """A table's path with the index in each list of tables on the way."""
    path: KeyPath = ()
    for length, name in enumerate(names, start=1):
        path += (name,)
        if count := elements[names[:length]]:
            path += (count - 1,)
    return path
