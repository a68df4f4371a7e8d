"""The kinds of catalog entities as the commands describe them: one table of options and texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.catalog import Entity


@dataclass(frozen=True, slots=True)
class FieldOption:
    """An option, and the field of an entity that it sets; two options may set one field."""

    name: str
    option: str
    metavar: str
    help: str
    required: bool = False
    read: Callable[[str], str] = str

    @property
    def attribute(self) -> str:
        """What the value is called among the options of a command."""
        return self.option.strip("-")

    def declared(self, *, required: bool) -> tuple[Any, ...]:
        """The field of a dataclass that stands for the option."""
        option = typer.Option(self.option, metavar=self.metavar, help=self.help, show_default=False)
        if required:
            return self.attribute, Annotated[str, option]
        return self.attribute, Annotated[str | None, option], None


@dataclass(frozen=True, slots=True)
class EntityCommands:
    """One kind: what it is called, what can be said of it, and what its commands do."""

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
        """A dataclass of the options: what must be said of something new need not be repeated."""
        declared = [field.declared(required=creates and field.required) for field in self.fields]
        declared.sort(key=len)
        more = [_UNREAD] if self.reads_metadata else []
        return make_dataclass("Options", [*declared, *more], frozen=True)

    def given(self, options: Any) -> dict[str, str]:
        """The fields that options set."""
        values = [(field, getattr(options, field.attribute)) for field in self.fields]
        return {field.name: field.read(value) for field, value in values if value is not None}

    def make(self, fields: Mapping[str, Any], properties: Mapping[str, str]) -> Entity:
        """An entity of this kind."""
        from lakesweep.catalog import entities

        types = {kind.value: each for each, kind in entities.KINDS.items()}
        return types[self.name](**fields, properties=dict(properties))


def _read_text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint="name a file of text") from error


_UNREAD = (
    "unread",
    Annotated[
        bool, typer.Option("--unread", help="Believe the address, and do not read the file.")
    ],
    False,
)
_LOCATION = FieldOption("location", "--location", "ADDRESS", "Where its files lie.")
_DESCRIPTION = FieldOption("description", "--description", "TEXT", "What it is good for.")
_METADATA = FieldOption(
    "metadata_location",
    "--metadata",
    "ADDRESS",
    "Its newest metadata file, such as s3://lake/t/metadata/00003-….metadata.json",
    required=True,
)
_ENTER = """Enter {} by its metadata file.

The file is read, so that a wrong address is found out here; --unread leaves that out.
"""
_TAKE_OUT = """Take {} out of its catalog.

No file is deleted: it goes on keeping its files for as long as the catalog keeps dropped tables.
Until then `lakesweep catalog undrop` brings it back; after that a sweep finds its files.
"""
_METADATA_EXAMPLE = "shop.sales.orders --metadata s3://lake/orders/metadata/00001.metadata.json"


def _iceberg(name: str, words: str) -> EntityCommands:
    return EntityCommands(
        name,
        words,
        (_METADATA, _LOCATION),
        _METADATA_EXAMPLE,
        create=_ENTER.format(words),
        drop=_TAKE_OUT.format(words),
        reads_metadata=True,
    )


_NAMESPACE = EntityCommands(
    "namespace",
    "a namespace",
    (_LOCATION,),
    "shop.sales --property owner=jane",
    create="Create a namespace.",
    drop="Drop a namespace in which nothing is left.",
    rename="\n\nAll that lies in it goes along.",
)
_GENERIC_TABLE = EntityCommands(
    "generic-table",
    "a table of another format",
    (
        FieldOption("format", "--format", "FORMAT", "delta, hudi, csv and so on.", required=True),
        FieldOption("location", "--location", "ADDRESS", "Where its files lie.", required=True),
        _DESCRIPTION,
    ),
    "shop.raw --format csv --location s3://lake/raw",
    create="Enter a table of another format; a sweep leaves all below its location alone.",
    drop=_TAKE_OUT.format("a table of another format"),
)
_POLICY = EntityCommands(
    "policy",
    "a policy",
    (
        FieldOption("type", "--type", "TYPE", "What kind of rule it is.", required=True),
        FieldOption("content", "--content", "TEXT", "The rule itself."),
        FieldOption("content", "--file", "FILE", "Read the rule from a file.", read=_read_text),
        _DESCRIPTION,
    ),
    "shop.weekly --type retention --content 'keep: 7d'",
    create="Create a policy.",
    drop="Drop a policy; what it is attached to is left without it.",
    plural="policies",
)

#: All of them, in the order of the help.
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
