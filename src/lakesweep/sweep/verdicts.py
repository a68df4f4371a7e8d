"""Verdicts and reasons: whether a file is kept or deleted, and why."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What is to become of a file."""

    KEEP = "keep"
    DELETE = "delete"


class Reason(StrEnum):
    """Why, in the order in which files are judged: the first that holds is the one that counts.

    The reasons from `imported` on are those of policies.
    """

    REFERENCED = "referenced"
    PINNED = "pinned"
    OWN = "own"
    OUTSIDE = "outside"
    FOREIGN = "foreign"
    INCOMPLETE_ROOT = "incomplete-root"
    OPTED_OUT = "opted-out"
    EXCLUDED = "excluded"
    UNLISTED_TABLE = "unlisted-table"
    AGE_UNKNOWN = "age-unknown"
    TOO_NEW = "too-new"
    HIDDEN = "hidden"
    UNKNOWN_KIND = "unknown-kind"
    IN_DOUBT = "in-doubt"
    WITHHELD = "withheld"
    UNREFERENCED = "unreferenced"
    IMPORTED = "imported"
    STAGED = "staged"
    HEAD = "head"
    TAGGED = "tagged"
    BRANCH_DELETED = "branch-deleted"
    UNCOVERED = "uncovered"
    DEDUPLICATED = "deduplicated"
    NOT_DUE = "not-due"
    EXPIRED = "expired"

    @property
    def verdict(self) -> Verdict:
        """Only what nothing references and nothing else protects goes, or what policies let go."""
        is_delete = self in {Reason.UNREFERENCED, Reason.EXPIRED}
        return Verdict.DELETE if is_delete else Verdict.KEEP


class OrphanCause(StrEnum):
    """How a file that nothing references may have come to be there: a label, never a proof."""

    ABORTED_WRITE = "aborted-write"
    FAILED_COMMIT = "failed-commit"
    EXPIRED_SNAPSHOT = "expired-snapshot"
    DROPPED_TABLE = "dropped-table"
    OLD_METADATA = "old-metadata"
    TEMPORARY = "temporary"
    UNKNOWN = "unknown"
