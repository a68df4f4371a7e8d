"""The sections of lakes: locations, limits of unattended runs, rules of upkeep."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from lakesweep.config.fields import (
    Address,
    AtLeastOne,
    Duration,
    Section,
    Share,
    Texts,
    as_size,
    as_tuple,
)
from lakesweep.config.roots import Root


def _end_date(value: object) -> object:
    """A day, as TOML writes it or as text."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise PydanticCustomError("date", "must be a day such as 2027-01-31") from None


class AcceptSection(Section):
    """A standing decision: what a guard withholds of a table or a root is deleted all the same.

    It ends after the day `until`. A root that cannot be read keeps its files even so; accepting it
    only means that runs are not incomplete because of it.
    """

    guard: Literal["missing", "roots-gone", "share", "incomplete", "unlisted-table"]
    table: Annotated[str, Field(min_length=1)] | None = None
    root: Annotated[str, Field(min_length=1)] | None = None
    until: Annotated[date, BeforeValidator(_end_date)]
    reason: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.table is None) == (self.root is None):
            raise PydanticCustomError("missing_key", "must name either a table or a root")
        return self

    @property
    def subject(self) -> str:
        """The table or root that it is about."""
        return self.table or self.root or ""

    @property
    def ends(self) -> datetime:
        """The first moment at which it does not count any more."""
        return datetime.combine(self.until, time(), UTC) + timedelta(days=1)


class UnattendedSection(Section):
    """What an unattended sweep may delete without approval.

    `max_share` is a share of the files of the lake, `max_table_share` of those of a table. Files
    stay in quarantine for `quarantine`; with `0d` they are deleted at once. With `guards = "wait"`
    a guard about a table or a root makes the whole plan wait, like every other guard; with
    `withhold` it withholds the files that it is about.
    """

    apply: Literal["within-limits", "after-approval", "never"] = "within-limits"
    max_files: Annotated[int, Field(ge=0)] = 100_000
    max_bytes: Annotated[int, BeforeValidator(as_size), Field(ge=0)] = 5 * 2**40
    max_share: Share = 0.2
    max_table_share: Share = 0.5
    quarantine: Duration = timedelta(days=7)
    guards: Literal["wait", "withhold"] = "wait"


class UpkeepValues(Section):
    """What upkeep does to tables. What is not set comes from the next source."""

    expire: bool | None = None
    max_snapshot_age: Duration | None = None
    min_snapshots: AtLeastOne | None = None
    max_ref_age: Duration | None = None
    clean_expired_metadata: bool | None = None
    rewrite_manifests: bool | None = None
    remove_orphans: bool | None = None
    orphan_age: Duration | None = None


class UpkeepRule(UpkeepValues):
    """The same for the tables whose names match one of the patterns."""

    tables: Annotated[Texts, Field(min_length=1)]


class UpkeepSection(UpkeepValues):
    """The defaults of a lake, and its floors.

    Snapshots younger than `min_age`, and the newest `min_keep` of each branch, always stay.
    """

    min_age: Duration | None = None
    min_keep: AtLeastOne | None = None


class LakeSection(Section):
    """The locations to keep clean, and the roots that keep files in them alive.

    The roots of a `closed` lake reference nothing outside its locations, as its owner states.
    """

    locations: Annotated[tuple[Address, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    grace: Duration = timedelta(days=7)
    exclude: Texts = ()
    unknown: Literal["keep", "delete"] = "keep"
    plans: Address | None = None
    quarantine: Address | None = None
    keep_plans: Duration = timedelta(days=30)
    filter_bytes: Annotated[int, Field(gt=0)] = 2**34
    closed: bool = False
    roots: Annotated[tuple[Root, ...], BeforeValidator(as_tuple)] = ()
    accept: Annotated[tuple[AcceptSection, ...], BeforeValidator(as_tuple)] = ()
    # Without a word about limits, an unattended sweep asks before it deletes.
    limits: UnattendedSection = UnattendedSection(apply="after-approval")
    upkeep: UpkeepSection = UpkeepSection()
    rules: Annotated[tuple[UpkeepRule, ...], BeforeValidator(as_tuple)] = ()

    @model_validator(mode="after")
    def _exclude_below(self) -> Self:
        """Refuse an address as a pattern: it would match nothing, and so protect nothing."""
        folders = tuple(f"{location.rstrip('/')}/" for location in self.locations)
        for pattern in self.exclude:
            if ":/" in pattern or f"{pattern}/".startswith(folders):
                raise PydanticCustomError(
                    "address",
                    "exclude has the address {pattern}; patterns apply to paths below a"
                    " location, such as /folder/** or **/name/**",
                    {"pattern": pattern},
                )
        return self
