"""Why an address is kept or expires, and ranks, which encode reason and retention in one number.

The lowest rank of all occurrences of an address decides, so any engine finds it by a minimum.
The upper half is the day before which the object must have been written, counted from 1970;
days before any calendar stand for reasons that no age outweighs. The lower half says which
keeper and which rule it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lakesweep.lifecycle.policy.ref_retention import FOREVER, RefKeeper, RefKind, places_of
from lakesweep.lifecycle.policy.rules import LifecyclePolicy, LifecycleRule
from lakesweep.sweep.verdicts import Reason

Ranks = npt.NDArray[np.int64]

_CODES = 1 << 32
_DAY = 86_400_000_000
_LONG_AGO = -10_000_000


#: Reasons are passed by index into this, in memory only.
REASONS = tuple(Reason)

#: Reasons that no age outweighs, the strongest first.
_AGELESS = (
    Reason.IMPORTED,
    Reason.STAGED,
    Reason.AGE_UNKNOWN,
    Reason.HEAD,
    Reason.TAGGED,
    Reason.BRANCH_DELETED,
    Reason.UNCOVERED,
    Reason.DEDUPLICATED,
)
#: Why a ref keeps what no rule of it lets expire.
REF_REASONS = {
    RefKind.HEAD: Reason.HEAD,
    RefKind.TAG: Reason.TAGGED,
    RefKind.DELETED: Reason.BRANCH_DELETED,
    RefKind.BRANCH: Reason.UNCOVERED,
    RefKind.DANGLING: Reason.UNCOVERED,
    RefKind.EXAMINED: Reason.DEDUPLICATED,
}


def decides_before(why: Reason) -> int:
    """Of several things that are said of an address, the one with the least number decides."""
    if why in _AGELESS:
        return _AGELESS.index(why)
    return len(_AGELESS) + (why is Reason.EXPIRED)


def reason_rank(why: Reason, code: int = 0) -> int:
    """The rank of what is kept for this reason, at any age."""
    return (_LONG_AGO + _AGELESS.index(why)) * _CODES + code


@dataclass(frozen=True)
class Ranker:
    """Computes ranks from the keepers of a range and the rules that cover a path. Can be pickled.

    `today` is the day of the run, counted from 1970.
    """

    policy: LifecyclePolicy
    keepers: tuple[RefKeeper, ...]
    today: int

    def rank(self, bits: int, rules: Sequence[int]) -> int:
        """The rank of a path that these rules cover and these keepers hold.

        A path without keepers was in a commit that the refs no longer have: it is kept.
        """
        held = [place for place in places_of(bits) if place < len(self.keepers)]
        ranks = (self._rank_of(place, rules) for place in held)
        return min(ranks, default=reason_rank(Reason.UNCOVERED, self._nobody))

    def _rank_of(self, place: int, rules: Sequence[int]) -> int:
        keeper = self.keepers[place]
        covering = ((keeper.terms[rule], rule) for rule in rules)
        days, rule = max(
            ((days, rule) for days, rule in covering if days is not None), default=(None, -1)
        )
        code = place * self._width + rule + 1
        if days is None:
            why = Reason.UNCOVERED if keeper.kind is RefKind.HEAD else REF_REASONS[keeper.kind]
            return reason_rank(why, code)
        if days == FOREVER:
            return reason_rank(REF_REASONS[keeper.kind], code)
        return (self.today - days) * _CODES + code

    @property
    def _width(self) -> int:
        return len(self.policy.rules) + 1

    @property
    def _nobody(self) -> int:
        return len(self.keepers) * self._width

    @cached_property
    def is_potential(self) -> int:
        """The bit of a range that is in a potential commit."""
        return 1 << len(self.keepers)

    def keeper(self, rank: int) -> RefKeeper | None:
        """The keeper that a rank comes from; None if it is not a ref."""
        place = rank % _CODES // self._width
        found = place < len(self.keepers) and not _is_of_no_ref(rank)
        return self.keepers[place] if found else None

    def rule(self, rank: int) -> LifecycleRule | None:
        """The rule that a rank comes from; None if none covers the path."""
        place = rank % _CODES % self._width - 1
        return self.policy.rules[place] if place >= 0 and not _is_of_no_ref(rank) else None


def _is_of_no_ref(rank: int) -> bool:
    return rank // _CODES < _LONG_AGO + _AGELESS.index(Reason.HEAD)


def days_of(ranks: Ranks) -> Ranks:
    """The day of each rank, counted from 1970; long ago for what is kept at any age."""
    return ranks // _CODES


def reasons_of(ranks: Ranks) -> Ranks:
    """For each rank the index of its reason in REASONS, or -1 if its day decides."""
    places = np.array([REASONS.index(why) for why in _AGELESS], np.int64)
    order = days_of(ranks) - _LONG_AGO
    return np.where(order < len(_AGELESS), places[np.minimum(order, len(_AGELESS) - 1)], -1)


def are_due(ranks: Ranks, ages: Ranks) -> npt.NDArray[np.bool_]:
    """Which ranks expire what was written at these times; a time below 0 means unknown."""
    due: npt.NDArray[np.bool_] = (ages >= 0) & (ages < days_of(ranks) * _DAY)
    return due
