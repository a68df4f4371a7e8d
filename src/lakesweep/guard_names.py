"""The names of all guards that `--override` takes."""

from __future__ import annotations

from enum import StrEnum


class GuardName(StrEnum):
    """A guard that can stop a delete. Names are part of plans and of the command line."""

    FIRST_RUN = "first-run"
    ZERO_LIVE = "zero-live"
    LIVE_FELL = "live-fell"
    SHARE = "share"
    INCOMPLETE = "incomplete"
    ROOTS_GONE = "roots-gone"
    UNLISTED_TABLE = "unlisted-table"
    EMPTY_CATALOG = "empty-catalog"
    REPOSITORIES = "repositories"
    MISSING = "missing"
    FOREIGN = "foreign"
    STALE_PLAN = "stale-plan"
    GRACE = "grace"
    GC_ENABLED = "gc.enabled"
    CATALOG_LOCK = "catalog-lock"
    POLICY_CHANGED = "policy-changed"
    SHORT_RETENTION = "short-retention"
    AS_PROPOSED = "as-proposed"
    STAGED = "staged"
    REFS_DUMP = "refs-dump"
    STALE_REFS = "stale-refs"
    CLOCK = "clock"
    LAKE_GONE = "lake-gone"
    PLAN_GONE = "plan-gone"
    OUTSIDE = "outside"
    REFERENCED = "referenced"


#: What begins an override that names a table: the guard as such lets none go.
NAMED_TABLE = f"{GuardName.UNLISTED_TABLE}="
