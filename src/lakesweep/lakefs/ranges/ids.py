"""Content ids of ranges, entries and commits, which verify what was read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

_BYTES, _STRING, _INT, _STRINGS, _MAP, _EMBEDDED = range(6)


class SSTableHash:
    """The id of a range or a metarange: of its records and its named properties."""

    def __init__(self) -> None:
        self._found = hashlib.sha256()

    def add(self, piece: bytes | memoryview) -> None:
        """Add records, each with its lengths."""
        self._found.update(piece)

    def finish(self, named: Mapping[str, bytes]) -> str:
        """The id, once all records were added."""
        self._found.update(_encode_map(named))
        return self._found.hexdigest()


def _encode_int(number: int) -> bytes:
    return bytes((_INT, 8)) + number.to_bytes(8, "big", signed=True)


def _encode_bytes(data: bytes, kind: int = _BYTES) -> bytes:
    return bytes((kind,)) + _encode_int(len(data)) + data


def _encode_map(pairs: Mapping[str, bytes]) -> bytes:
    parts = (part for key in sorted(pairs) for part in (key.encode(), pairs[key]))
    texts = b"".join(_encode_bytes(part, _STRING) for part in parts)
    return bytes((_MAP,)) + _encode_int(len(pairs)) + texts


def entry_identity(
    size_bytes: int, checksum: str, metadata: Mapping[str, str], content_type: str
) -> bytes:
    """The identity of an entry; it does not include the address of its object."""
    texts = {key: value.encode() for key, value in metadata.items()}
    parts = _encode_int(size_bytes) + _encode_bytes(checksum.encode(), _STRING) + _encode_map(texts)
    if content_type:
        parts += _encode_bytes(content_type.encode(), _STRING)
    return hashlib.sha256(parts).digest()


def commit_id(
    committer: str,
    message: str,
    metarange_id: str,
    seconds: int,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> str:
    """The id of a commit, from its contents and its parents."""
    texts = ("commit:v1", committer, message, metarange_id)
    named = b"".join(_encode_bytes(text.encode(), _STRING) for text in texts)
    pairs = _encode_map({key: value.encode() for key, value in metadata.items()})
    before = b"".join(_encode_bytes(parent.encode(), _STRING) for parent in parents)
    lineage = hashlib.sha256(bytes((_STRINGS,)) + _encode_int(len(parents)) + before).digest()
    embedded = bytes((_EMBEDDED,)) + _encode_bytes(lineage)
    return hashlib.sha256(named + _encode_int(seconds) + pairs + embedded).hexdigest()
