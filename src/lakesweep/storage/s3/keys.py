"""Key encodings of S3: percent-encoding in URLs, url-encoding in listings.

Servers disagree on how a listing encodes keys. KeyDecoder finds out once for each server, and
never guesses.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Protocol
from urllib.parse import quote, unquote_to_bytes

from lakesweep.errors import InexactKeyError

_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")

# Characters XML 1.0 cannot carry at all, and the carriage return, which a parser may turn into a
# line feed if a server sends it bare.
_NOT_FOR_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Encoding(Enum):
    """How a server spells keys in a page that it calls url-encoded.

    Amazon writes a space as `+` (FORM); others write `%20` and may leave a plus sign alone
    (PERCENT); and some servers claim to encode but do not (RAW).
    """

    FORM = "form"
    PERCENT = "percent"
    RAW = "raw"


class UndecodableKeyError(ValueError):
    """A listed key that is not valid text, or not encoded as its page claims."""

    def __init__(self, encoded: str) -> None:
        super().__init__(encoded)
        self.encoded = encoded


def encode(key: str) -> str:
    """The key as it appears in a URL: all but unreserved characters and `/` escaped."""
    return quote(key, safe="/~")


def fits_xml(key: str) -> bool:
    """Whether an XML document can carry the key unchanged."""
    return _NOT_FOR_XML.search(key) is None


def decode(keys: list[str], encoding: Encoding) -> list[str]:
    """The decoded keys of a page, in order; UndecodableKeyError names the first bad one.

    All keys are decoded in one pass: most pages use two or three different escapes, thousands of
    times each.
    """
    if encoding is Encoding.RAW or not keys:
        return keys
    text = "\0".join(keys)
    if encoding is Encoding.FORM:
        text = text.replace("+", " ")
    if "%" not in text:
        return text.split("\0")
    try:
        return _unescape(text)
    except ValueError:
        return [_decode_one(key, encoding) for key in keys]


def is_encoded(key: str) -> bool:
    """Whether decoding may change the key."""
    return "%" in key or "+" in key


def _unescape(text: str) -> list[str]:
    data = text.encode()
    escapes = _ESCAPE.findall(data)
    distinct = set(escapes)
    if len(escapes) != data.count(b"%") or b"%00" in distinct:
        raise ValueError
    # The percent sign comes last, so that its result is not decoded a second time.
    for escape in sorted(distinct, key=b"%25".__eq__):
        data = data.replace(escape, bytes.fromhex(escape[1:].decode()))
    return data.decode().split("\0")


def _decode_one(key: str, encoding: Encoding) -> str:
    text = key.replace("+", " ") if encoding is Encoding.FORM else key
    data = text.encode()
    if len(_ESCAPE.findall(data)) != data.count(b"%"):
        raise UndecodableKeyError(key)
    try:
        return unquote_to_bytes(data).decode()
    except UnicodeDecodeError:
        raise UndecodableKeyError(key) from None


_TRIES = 5


class KeyProbe(Protocol):
    """Questions to the store when a page can be decoded in more than one way."""

    def unencoded_names(self) -> list[str] | None:
        """The names of the same page without encoding; None if XML cannot carry them."""
        ...

    def exists(self, key: str) -> bool:
        """Whether an object with this key exists."""
        ...


class KeyDecoder:
    """Decodes the names of pages that a server calls url-encoded.

    A `+` is a space to one server and a plus sign to another, and the wrong decoding names a
    different object. So whenever the decodings of a page differ, the store itself is asked.
    """

    def __init__(self, base: str, known: Encoding | None = None) -> None:
        self._base = base
        self._possible = tuple(Encoding) if known is None else (known,)

    def decode(self, names: list[str], witness: KeyProbe) -> list[str]:
        """The decoded names of a page; InexactKeyError if that is ambiguous."""
        readings = [(encoding, _reading(names, encoding)) for encoding in self._possible]
        reading = _agreed(readings)
        if reading is None and len(readings) > 1:
            readings = self._decide(readings, witness)
            reading = _agreed(readings)
            # What one page has settled holds for the server: later pages are decoded without
            # asking.
            self._possible = tuple(encoding for encoding, _ in readings) or self._possible
        if reading is None:
            raise self._undecided(names)
        return reading

    def _decide(self, readings: list[_Reading], witness: KeyProbe) -> list[_Reading]:
        unencoded = witness.unencoded_names()
        agreeing = [item for item in readings if item[1] is not None and item[1] == unencoded]
        # The bucket may have changed between the two responses; then existing objects decide.
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
            "this listed key can be decoded in several ways, and the store does not say which",
        )


_Reading = tuple[Encoding, list[str] | None]


def _reading(names: list[str], encoding: Encoding) -> list[str] | None:
    try:
        return decode(names, encoding)
    except UndecodableKeyError:
        return None


def _agreed(readings: list[_Reading]) -> list[str] | None:
    """The result that all encodings agree on, if they do."""
    if not readings or any(reading != readings[0][1] for _, reading in readings):
        return None
    return readings[0][1]


def _ask_for_objects(readings: list[_Reading], witness: KeyProbe) -> list[_Reading]:
    """Keep the encodings under which, and under no others, an object exists."""
    for position in _differences(readings)[:_TRIES]:
        candidates = {reading[position] for _, reading in readings if reading is not None}
        found = [key for key in sorted(candidates) if witness.exists(key)]
        # Evidence only if exactly one candidate exists: with several, the bucket holds look-alikes.
        if len(found) == 1:
            readings = [item for item in readings if item[1] and item[1][position] in found]
        if _agreed(readings) is not None:
            break
    return readings


def _differences(readings: list[_Reading]) -> list[int]:
    """The positions where the decodings differ, or may differ from one that failed."""
    known = [reading for _, reading in readings if reading is not None]
    columns = zip(*known, strict=True)
    return [
        position
        for position, column in enumerate(columns)
        if len(set(column)) > 1 or (len(known) < len(readings) and is_encoded(column[0]))
    ]
