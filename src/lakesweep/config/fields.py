"""What settings are made of: sections without unknown keys, and types of values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from lakesweep.errors import UsageError
from lakesweep.redaction import masked_settings
from lakesweep.units import parse_duration, parse_size

_ADDRESS = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


class Section(BaseModel):
    """One table of the file: immutable, strictly typed, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: object) -> object:
        # Before pydantic's own check, so that the error can name the valid keys.
        if isinstance(values, Mapping):
            for key in values:
                if key not in cls.model_fields:
                    raise _unknown_key(str(key), list(cls.model_fields))
        return values

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        """What `repr` shows: everything but secrets, also those inside of URLs."""
        shown = {str(name): value for name, value in super().__repr_args__()}
        texts = {name: value for name, value in shown.items() if isinstance(value, str)}
        return {**shown, **masked_settings(texts)}.items()


def _unknown_key(key: str, valid: Sequence[str]) -> PydanticCustomError:
    context = {"key": key, "valid": ", ".join(valid)}
    return PydanticCustomError("unknown_key", "unknown key", context)


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("duration", "must be a duration such as 7d")
    try:
        return parse_duration(value)
    except UsageError:
        raise PydanticCustomError("duration", "must be a duration such as 90s, 6h, 7d") from None


def as_size(value: object) -> object:
    """Bytes; a text such as 500GB is converted."""
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except UsageError:
        raise PydanticCustomError("size", "must be a size such as 500GB, 5TiB") from None


def as_tuple(value: object) -> object:
    """A list of TOML, immutable."""
    return tuple(value) if isinstance(value, list) else value


def _as_texts(value: object) -> object:
    """Convert numbers and booleans in a table of properties to text."""
    if not isinstance(value, dict):
        return value
    return {key: _as_text(item) for key, item in value.items()}


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _address(value: str) -> str:
    """Require an absolute address: a relative one would depend on the current folder."""
    if not _ADDRESS.match(value):
        raise PydanticCustomError("address", "must be an address such as s3://lake/a or /srv/a")
    return value


Address = Annotated[str, AfterValidator(_address)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]
Texts = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
Properties = Annotated[dict[str, str], BeforeValidator(_as_texts)]
Positive = Annotated[float, Field(gt=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=1e-9, le=1)]
