"""Finding out how a server spells the keys of its listings, once, and never guessing."""

from __future__ import annotations

from typing import Protocol

from lakesweep.errors import InexactKeyError
from lakesweep.storage.s3.keys import Encoding, UndecodableKeyError, decode, is_encoded

_TRIES = 5


class Witness(Protocol):
    """What can be asked of the store when a page can be read in more than one way."""

    def unencoded_names(self) -> list[str] | None:
        """The names of the same page without any encoding; None where XML cannot carry them."""
        ...

    def exists(self, key: str) -> bool:
        """Whether there is an object with this key."""
        ...


class KeyDecoder:
    """Decodes the names of pages that a server calls url-encoded.

    A `+` is a space to one server and a plus sign to another, and the wrong reading names another
    object. So as long as the readings of a page differ, the store itself is asked.
    """

    def __init__(self, base: str, known: Encoding | None = None) -> None:
        self._base = base
        self._possible = tuple(Encoding) if known is None else (known,)

    def decode(self, names: list[str], witness: Witness) -> list[str]:
        """The names that a page means; InexactKeyError where that cannot be decided."""
        readings = [(encoding, _reading(names, encoding)) for encoding in self._possible]
        reading = _agreed(readings)
        if reading is None and len(readings) > 1:
            readings = self._decide(readings, witness)
            reading = _agreed(readings)
            self._possible = tuple(encoding for encoding, _ in readings) or self._possible
        if reading is None:
            raise self._undecided(names)
        return reading

    def _decide(self, readings: list[_Reading], witness: Witness) -> list[_Reading]:
        unencoded = witness.unencoded_names()
        agreeing = [item for item in readings if item[1] is not None and item[1] == unencoded]
        # The bucket may have changed between the two answers: then single objects decide.
        return agreeing or _ask_for_objects(readings, witness)

    def _undecided(self, names: list[str]) -> InexactKeyError:
        for encoding in self._possible:
            try:
                decode(names, encoding)
            except UndecodableKeyError as error:
                return InexactKeyError(
                    self._base + error.encoded, "this key of the listing is not valid UTF-8 text"
                )
        doubtful = next(name for name in names if is_encoded(name))
        return InexactKeyError(
            self._base + doubtful,
            "this listed key can be read in more than one way, and the store does not tell which",
        )


_Reading = tuple[Encoding, list[str] | None]


def _reading(names: list[str], encoding: Encoding) -> list[str] | None:
    try:
        return decode(names, encoding)
    except UndecodableKeyError:
        return None


def _agreed(readings: list[_Reading]) -> list[str] | None:
    """The reading that all encodings share, if they do."""
    if not readings or any(reading != readings[0][1] for _, reading in readings):
        return None
    return readings[0][1]


def _ask_for_objects(readings: list[_Reading], witness: Witness) -> list[_Reading]:
    """Keep the encodings under which an object exists, and under no other one."""
    for position in _differences(readings)[:_TRIES]:
        candidates = {reading[position] for _, reading in readings if reading is not None}
        found = [key for key in sorted(candidates) if witness.exists(key)]
        if len(found) == 1:
            readings = [item for item in readings if item[1] and item[1][position] in found]
        if _agreed(readings) is not None:
            break
    return readings


def _differences(readings: list[_Reading]) -> list[int]:
    """Where the readings are not the same, or all places but those that no reading changes."""
    known = [reading for _, reading in readings if reading is not None]
    columns = zip(*known, strict=True)
    return [
        position
        for position, column in enumerate(columns)
        if len(set(column)) > 1 or (len(known) < len(readings) and is_encoded(column[0]))
    ]
