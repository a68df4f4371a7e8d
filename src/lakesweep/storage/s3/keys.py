"""The spellings of a key on the wire: percent-encoded in addresses, url-encoded in listings."""

from __future__ import annotations

import re
from enum import Enum
from urllib.parse import quote, unquote_to_bytes

_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")

# What XML 1.0 cannot carry at all, and the carriage return, which a parser may turn into a line
# feed when a server sends it bare.
_NOT_FOR_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Encoding(Enum):
    """How a server spells keys in a page that it calls url-encoded.

    Amazon writes a space as `+` (FORM); others write `%20` and may leave a plus sign alone
    (PERCENT); and a server may say that it encodes and not do it (RAW).
    """

    FORM = "form"
    PERCENT = "percent"
    RAW = "raw"


class UndecodableKeyError(ValueError):
    """A key of a listing that stands for no text, or is not encoded as its page says."""

    def __init__(self, encoded: str) -> None:
        super().__init__(encoded)
        self.encoded = encoded


def encode(key: str) -> str:
    """The key as it stands in an address: all but unreserved characters and `/` escaped."""
    return quote(key, safe="/~")


def fits_xml(key: str) -> bool:
    """Whether an XML document can carry the key and give it back unchanged."""
    return _NOT_FOR_XML.search(key) is None


def decode(keys: list[str], encoding: Encoding) -> list[str]:
    """The keys that a page means, in the same order; UndecodableKeyError names the first bad one.

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
    # The percent sign comes last, so that what it leaves behind is not taken for an escape.
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
