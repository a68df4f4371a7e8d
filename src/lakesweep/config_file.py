"""Find, read and check `lakesweep.toml`.

Errors name the file, the line, the key and the nearest valid name, but never the value, which
may be a secret.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lakesweep.config import Config
from lakesweep.errors import ConfigError
from lakesweep.toml_lines import find_line, spell

FILE_NAME = "lakesweep.toml"
ENVIRONMENT_VARIABLE = "LAKESWEEP_CONFIG"

_REFERENCE = re.compile(r"\$\{([^}]*)\}")


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


def find_config(explicit: Path | None, environment: Mapping[str, str], folder: Path) -> Path | None:
    """The file to read: as given, from the environment, or the nearest in a parent; else None."""
    named = explicit or _path(environment.get(ENVIRONMENT_VARIABLE))
    if named is not None:
        return named
    folder = folder.absolute()
    candidates = (parent / FILE_NAME for parent in (folder, *folder.parents))
    return next((path for path in candidates if path.is_file()), None)


def load_config(path: Path | None, environment: Mapping[str, str]) -> Config:
    """Read and check a file; the defaults if there is none."""
    return Config() if path is None else parse_config(_read(path), path, environment)


def parse_config(text: str, path: Path, environment: Mapping[str, str]) -> Config:
    """Check the text of a configuration; `path` is used in errors only."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: this is not TOML: {error}", hint="fix that line") from None
    # After parsing, so that a variable cannot change the structure of the file.
    substitute = _Substitution(text, path, environment)
    try:
        return Config.model_validate(substitute(values, ()))
    except ValidationError as error:
        raise _config_error(error, text, path) from None


def config_from_values(values: Mapping[str, Any]) -> Config:
    """Check values that a program gives, as the tables of a file would hold them."""
    try:
        return Config.model_validate(dict(values))
    except ValidationError as error:
        raise _config_error(error, "", Path("configuration")) from None


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration cannot be read: {error.strerror}",
            hint="lakesweep init creates one",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: this is not UTF-8: {error.reason}") from None


class _Substitution:
    """Replaces `${NAME}` in values by environment variables."""

    def __init__(self, text: str, path: Path, environment: Mapping[str, str]) -> None:
        self._text = text
        self._path = path
        self._environment = environment

    def __call__(self, value: object, key: tuple[str | int, ...]) -> object:
        match value:
            case str():
                return _REFERENCE.sub(lambda found: self._look_up(found[1], key), value)
            case dict():
                return {name: self(item, (*key, name)) for name, item in value.items()}
            case list():
                return [self(item, (*key, index)) for index, item in enumerate(value)]
            case _:
                return value

    def _look_up(self, variable: str, key: tuple[str | int, ...]) -> str:
        where = _where(self._path, self._text, key)
        if not _VARIABLE.fullmatch(variable):
            raise ConfigError(
                f"{where}: the text in ${{…}} is not the name of an environment variable",
                hint="use letters, digits and _ between the braces",
            )
        if variable not in self._environment:
            raise ConfigError(
                f"{where}: the environment variable {variable} is not set",
                hint=f"export {variable}=…",
            )
        return self._environment[variable]


def _config_error(error: ValidationError, text: str, path: Path) -> ConfigError:
    # All problems at once, without the input values: they may be secrets.
    problems = [_problem(details, text, path) for details in error.errors(include_input=False)]
    hints = [hint for _, hint in problems if hint]
    return ConfigError("\n".join(line for line, _ in problems), hint=hints[0] if hints else None)


def _problem(details: ErrorDetails, text: str, path: Path) -> tuple[str, str | None]:
    """One error as text, and its hint."""
    key = _without_tags(details["loc"])
    context = details.get("ctx", {})
    match details["type"]:
        case "unknown_key":
            line = f"{_where(path, text, (*key, context['key']))}: unknown key"
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
