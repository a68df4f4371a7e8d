"""Why an address is kept or expires, and ranks, which encode reason and retention in one number.

The lowest rank of all occurrences of an address decides, so any engine finds it by a minimum.
The upper half is the day before which the object must have been written, counted from 1970;
days before any calendar stand for reasons that no age outweighs. The lower half says which
keeper and which rule it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lakesweep.lifecycle.policy.ref_retention import FOREVER, RefKeeper, RefKind, places_of
from lakesweep.lifecycle.policy.rules import LifecyclePolicy, LifecycleRule
from lakesweep.sweep.verdicts import Verdict

Ranks = npt.NDArray[np.int64]

_CODES = 1 << 32
_DAY = 86_400_000_000
_LONG_AGO = -10_000_000


class AddressReason(StrEnum):
    """Why an object is kept, or goes: the first that holds is the one that counts."""

    IMPORTED = "imported"
    STAGED = "staged"
    AGE_UNKNOWN = "age-unknown"
    HEAD = "head"
    TAGGED = "tagged"
    BRANCH_DELETED = "branch-deleted"
    UNCOVERED = "uncovered"
    NOT_DUE = "not-due"
    EXPIRED = "expired"

    @property
    def verdict(self) -> Verdict:
        """Only what every rule on every ref lets go, goes."""
        return Verdict.DELETE if self is AddressReason.EXPIRED else Verdict.KEEP


#: Reasons that no age outweighs, the strongest first.
_REASONS = (
    AddressReason.IMPORTED,
    AddressReason.STAGED,
    AddressReason.AGE_UNKNOWN,
    AddressReason.HEAD,
    AddressReason.TAGGED,
    AddressReason.BRANCH_DELETED,
    AddressReason.UNCOVERED,
)
_KEEPING = {
    RefKind.HEAD: AddressReason.HEAD,
    RefKind.TAG: AddressReason.TAGGED,
    RefKind.DELETED: AddressReason.BRANCH_DELETED,
    RefKind.BRANCH: AddressReason.UNCOVERED,
    RefKind.DANGLING: AddressReason.UNCOVERED,
}


def reason_rank(why: AddressReason, code: int = 0) -> int:
    """The rank of what is kept for this reason, whatever its age."""
    return (_LONG_AGO + _REASONS.index(why)) * _CODES + code


@dataclass(frozen=True)
class Ranker:
    """Tells ranks by the keepers of a range and the rules that cover a path. Can be pickled.

    `today` is the day of the run, counted from 1970.
    """

    policy: LifecyclePolicy
    keepers: tuple[RefKeeper, ...]
    today: int

    def rank(self, bits: int, rules: Sequence[int]) -> int:
        """The rank of a path that these rules cover, where all these keepers hold it.

        What no keeper holds was in a commit that the refs no longer have: it is kept.
        """
        held = [place for place in places_of(bits) if place < len(self.keepers)]
        ranks = (self._rank_of(place, rules) for place in held)
        return min(ranks, default=reason_rank(AddressReason.UNCOVERED, self._nobody))

    def _rank_of(self, place: int, rules: Sequence[int]) -> int:
        keeper = self.keepers[place]
        covering = ((keeper.terms[rule], rule) for rule in rules)
        days, rule = max(
            ((days, rule) for days, rule in covering if days is not None), default=(None, -1)
        )
        code = place * self._width + rule + 1
        if days is None:
            why = AddressReason.UNCOVERED if keeper.kind is RefKind.HEAD else _KEEPING[keeper.kind]
            return reason_rank(why, code)
        if days == FOREVER:
            return reason_rank(_KEEPING[keeper.kind], code)
        return (self.today - days) * _CODES + code

    @property
    def _width(self) -> int:
        return len(self.policy.rules) + 1

    @property
    def _nobody(self) -> int:
        return len(self.keepers) * self._width

    @cached_property
    def is_potential(self) -> int:
        """The bit that says of a range that a commit has it which may hold what was left."""
        return 1 << len(self.keepers)

    def keeper(self, rank: int) -> RefKeeper | None:
        """What a rank comes from; None where it is no ref."""
        place = rank % _CODES // self._width
        found = place < len(self.keepers) and not _is_of_no_ref(rank)
        return self.keepers[place] if found else None

    def rule(self, rank: int) -> LifecycleRule | None:
        """The rule that a rank comes from; None where none covers."""
        place = rank % _CODES % self._width - 1
        return self.policy.rules[place] if place >= 0 and not _is_of_no_ref(rank) else None


def _is_of_no_ref(rank: int) -> bool:
    return rank // _CODES < _LONG_AGO + _REASONS.index(AddressReason.HEAD)


def days_of(ranks: Ranks) -> Ranks:
    """The day of each rank, counted from 1970; long ago for what is kept whatever its age."""
    return ranks // _CODES


def reasons_of(ranks: Ranks) -> Ranks:
    """For each rank the place of its reason in Why, or -1 where its day decides."""
    places = np.array([list(AddressReason).index(why) for why in _REASONS], np.int64)
    order = days_of(ranks) - _LONG_AGO
    return np.where(order < len(_REASONS), places[np.minimum(order, len(_REASONS) - 1)], -1)


def are_due(ranks: Ranks, ages: Ranks) -> npt.NDArray[np.bool_]:
    """Which ranks let what came at these moments go; a moment below 0 stands for none."""
    due: npt.NDArray[np.bool_] = (ages >= 0) & (ages < days_of(ranks) * _DAY)
    return due
