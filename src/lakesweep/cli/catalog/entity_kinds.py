"""The kinds of catalog entities as the commands describe them: one table of options and texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from lakesweep.errors import UsageError


@dataclass(frozen=True, slots=True)
class FieldOption:
    """An option and the entity field it sets; two options may set the same field."""

    name: str
    option: str
    metavar: str
    help: str
    required: bool = False
    read: Callable[[str], str] = str

    @property
    def attribute(self) -> str:
        """The name of the value among the options of a command."""
        return self.option.strip("-")

    def declared(self, *, required: bool) -> tuple[Any, ...]:
        """The dataclass field for the option."""
        option = typer.Option(self.option, metavar=self.metavar, help=self.help, show_default=False)
        if required:
            return self.attribute, Annotated[str, option]
        return self.attribute, Annotated[str | None, option], None


@dataclass(frozen=True, slots=True)
class EntityCommands:
    """One kind of entity: its names, its options, and the help of its commands."""

    name: str
    words: str
    fields: Sequence[FieldOption]
    example: str
    create: str
    drop: str
    plural: str = ""
    rename: str = ""
    reads_metadata: bool = False

    @property
    def title(self) -> str:
        return self.plural or f"{self.name.replace('-', ' ')}s"

    def options(self, *, creates: bool) -> type:
        """A dataclass of the options; those required to create an entity are optional later."""
        declared = [field.declared(required=creates and field.required) for field in self.fields]
        declared.sort(key=len)
        more = [_UNREAD] if self.reads_metadata else []
        return make_dataclass("Options", [*declared, *more], frozen=True)

    def given(self, options: Any) -> dict[str, str]:
        """The fields that options set."""
        values = [(field, getattr(options, field.attribute)) for field in self.fields]
        return {field.name: field.read(value) for field, value in values if value is not None}

    def reads(self, options: Any) -> bool:
        """Whether options ask to read the metadata file."""
        return self.reads_metadata and not options.unread


def _read_text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint="name a text file") from error


_UNREAD = (
    "unread",
    Annotated[bool, typer.Option("--unread", help="Trust the address, and do not read the file.")],
    False,
)
_LOCATION = FieldOption("location", "--location", "ADDRESS", "The location of its files.")
_DESCRIPTION = FieldOption("description", "--description", "TEXT", "A description.")
_METADATA = FieldOption(
    "metadata_location",
    "--metadata",
    "ADDRESS",
    "Its newest metadata file, such as s3://lake/t/metadata/00003-….metadata.json",
    required=True,
)
_REGISTER = """Register {} by its metadata file.

The file is read, so a wrong address fails here; --unread skips that.
"""
_UNREGISTER = """Drop {} from its catalog.

No file is deleted. It keeps its files for as long as the catalog keeps dropped tables. Until then,
`lakesweep catalog undrop` restores it; after that, a sweep finds its files.
"""
_METADATA_EXAMPLE = "shop.sales.orders --metadata s3://lake/orders/metadata/00001.metadata.json"


def _iceberg(name: str, words: str) -> EntityCommands:
    return EntityCommands(
        name,
        words,
        (_METADATA, _LOCATION),
        _METADATA_EXAMPLE,
        create=_REGISTER.format(words),
        drop=_UNREGISTER.format(words),
        reads_metadata=True,
    )


_NAMESPACE = EntityCommands(
    "namespace",
    "a namespace",
    (_LOCATION,),
    "shop.sales --property owner=jane",
    create="Create a namespace.",
    drop="Drop an empty namespace.",
    rename="\n\nEverything in it moves along.",
)
_GENERIC_TABLE = EntityCommands(
    "generic-table",
    "a table of another format",
    (
        FieldOption("format", "--format", "FORMAT", "delta, hudi, csv and so on.", required=True),
        FieldOption(
            "location", "--location", "ADDRESS", "The location of its files.", required=True
        ),
        _DESCRIPTION,
    ),
    "shop.raw --format csv --location s3://lake/raw",
    create="Register a table of another format; a sweep keeps everything below its location.",
    drop=_UNREGISTER.format("a table of another format"),
)
_POLICY = EntityCommands(
    "policy",
    "a policy",
    (
        FieldOption(
            "type",
            "--type",
            "TYPE",
            "The type of the rule. Content of the types system.snapshot-expiry,"
            " system.orphan-file-removal, system.metadata-compaction and system.data-compaction"
            " must fit the schemas of Polaris.",
            required=True,
        ),
        FieldOption("content", "--content", "TEXT", "The text of the rule."),
        FieldOption("content", "--file", "FILE", "Read the rule from a file.", read=_read_text),
        _DESCRIPTION,
    ),
    "shop.weekly --type system.snapshot-expiry"
    """ --content '{"enable": true, "config": {"max_snapshot_age_days": 7}}'""",
    create="Create a policy.",
    drop="Drop a policy; it no longer applies to anything.",
    plural="policies",
)

#: All kinds, in the order of the help.
KINDS: Mapping[str, EntityCommands] = {
    kind.name: kind
    for kind in (
        _NAMESPACE,
        _iceberg("table", "an Iceberg table"),
        _iceberg("view", "an Iceberg view"),
        _GENERIC_TABLE,
        _POLICY,
    )
}
