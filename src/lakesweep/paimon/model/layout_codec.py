"""The layout of a branch as text, so that rows can carry it to where manifests are read.

Only what decides the path of a file is encoded. Branches and schema versions with equal text
therefore resolve the same manifest to the same files.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.partitioning import make_partitioning
from lakesweep.paimon.model.schemas import PaimonField
from lakesweep.paimon.model.table import PaimonBranch

#: The options by which files are put and named.
_OPTIONS = (
    "data-file.path-directory",
    "index-file-in-data-file-dir",
    "partition.default-name",
    "partition.legacy-name",
    "data-file.prefix",
    "changelog-file.prefix",
)


class EncodedLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a layout is made of; `of_changes` where what is named are files of a changelog."""

    root: str
    fields: tuple[tuple[str, str], ...] = ()
    options: dict[str, str] = {}
    of_changes: bool = False
    is_hashed: bool = False
    external_roots: tuple[str, ...] = ()

    @classmethod
    def of(cls, branch: PaimonBranch) -> EncodedLayout:
        """That of a branch, by its newest schema."""
        schema = branch.latest_schema
        texts = ((name, schema.options.text(name)) for name in _OPTIONS)
        return cls(
            branch.table.address.path,
            tuple((field.name, field.type) for field in schema.partition_fields),
            {name: text for name, text in texts if text is not None},
            is_hashed=schema.is_hashed,
            external_roots=branch.table.external_roots,
        )

    def write(self) -> str:
        """The text."""
        return msgspec.json.encode(self, order="deterministic").decode()


@lru_cache(maxsize=1024)
def parse_layout(text: str) -> tuple[Layout, bool]:
    """The layout of a text, and whether what is named are files of a changelog."""
    found = typed_json(text, EncodedLayout)
    options = Options(found.options)
    fields = [PaimonField(name, kind) for name, kind in found.fields]
    partitioning = make_partitioning(fields, options)
    layout = Layout(
        found.root,
        partitioning,
        options,
        is_hashed=found.is_hashed,
        external_roots=found.external_roots,
    )
    return layout, found.of_changes


@lru_cache(maxsize=1024)
def changelog_layout(text: str) -> str:
    """The text of the same layout, for files of a changelog."""
    found = typed_json(text, EncodedLayout)
    return msgspec.structs.replace(found, of_changes=True).write()
