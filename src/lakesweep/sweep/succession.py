"""Whether a table as it is now grew out of a version of it that was seen before.

Names of tables change, and an id alone says little: a copy has it too, and a second catalog may
have taken the table another way since. What a metadata file lists as its past is its past.
"""

from __future__ import annotations

import re

import pyarrow as pa

from lakesweep.iceberg.names import metadata_version
from lakesweep.storage.address import identity
from lakesweep.storage.file_hashes import file_hashes, source_numbers
from lakesweep.storage.marks import Facts

_USED_AGAIN = re.compile(r"/v\d+(\.gz)?\.metadata\.json(\.gz)?$")


def follows(pointer: str, facts: Facts | None, before: str, uuid: str | None) -> bool:
    """Whether metadata at `pointer`, which says so of itself, is that at `before` or a later one.

    `uuid` is the id of the table that was seen before. Its file may be so old that the log of the
    later one has forgotten it; then it has a lower number, and lies in the same folder.
    """
    if identity(pointer) == identity(before):
        return True
    if facts is None:
        return False
    return _number(before) in facts.log or (
        uuid is not None and facts.uuid == uuid and _is_older(pointer, facts, before)
    )


def has_left_behind(pointer: str, facts: Facts, other: str) -> bool:
    """Whether metadata of the same table is the one at `pointer`, or older than that."""
    if follows(pointer, facts, other, facts.uuid):
        return True
    ours, theirs = metadata_version(pointer), metadata_version(other)
    is_beside = _folder(pointer) == _folder(other)
    return is_beside and ours is not None and theirs is not None and theirs < ours


def is_used_again(pointer: str) -> bool:
    """Whether a table that is made anew, without a catalog, has metadata of the same names."""
    return bool(_USED_AGAIN.search(pointer))


def _folder(pointer: str) -> str:
    return identity(pointer).rpartition("/")[0]


def _is_older(pointer: str, facts: Facts, before: str) -> bool:
    version, oldest = metadata_version(before), facts.oldest_version
    is_beside = _folder(pointer) == _folder(before)
    return is_beside and version is not None and oldest is not None and version < oldest


def _number(path: str) -> int:
    (number,) = source_numbers(file_hashes(pa.array([path]))).to_pylist()
    return int(number)
