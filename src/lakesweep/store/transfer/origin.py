"""From which export a realm was loaded, as its properties say."""

from __future__ import annotations

from collections.abc import Mapping

_PROPERTY = "lakesweep.import"


def origin_of(properties: Mapping[str, str]) -> str | None:
    """The name of the export; None if the realm was made here."""
    return properties.get(_PROPERTY)


def with_origin(properties: Mapping[str, str], export: str) -> Mapping[str, str]:
    """The properties of a realm that is loaded from an export."""
    return {**properties, _PROPERTY: export}


def without_origin(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a realm takes along."""
    return {name: value for name, value in properties.items() if name != _PROPERTY}
