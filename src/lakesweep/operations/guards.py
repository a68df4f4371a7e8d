"""The names of all guards that can be overridden."""

from __future__ import annotations

#: The guards that `--override` takes.
GUARDS = (
    "first-run",
    "zero-live",
    "live-fell",
    "share",
    "incomplete",
    "roots-gone",
    "empty-catalog",
    "repositories",
    "missing",
    "foreign",
    "stale-plan",
    "grace",
    "gc.enabled",
    "catalog-lock",
    "policy-changed",
    "staged",
    "refs-dump",
    "stale-refs",
    "clock",
    "lake-gone",
    "plan-gone",
)
