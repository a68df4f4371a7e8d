"""What a policy lets go, told in the plainest way: every commit, every path, every ref."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from lakesweep.lifecycle.policy.rules import LifecyclePolicy, LifecycleRule
from tests.lakefs_repositories import NOW, Made, Model

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"


def expired(
    model: Model, policy: LifecyclePolicy, now: datetime = NOW, lost: Sequence[tuple[str, str]] = ()
) -> set[str]:
    """The addresses that may go. `lost` are branches that are gone, and hold what they held."""
    kept, candidates = {address for _, address in model.staged}, set()
    ages: dict[str, datetime] = {}
    limits: dict[str, datetime] = {}
    for made in model.commits.values():
        for path, entry in made.tree.items():
            address = entry.address
            if entry.type == 2:
                kept.add(address.partition("/repo/")[2])
                continue
            if not entry.seconds:
                kept.add(address)
            rules = [rule for rule in policy.rules if rule.prefix.covers(path.encode())]
            if rules and address.startswith("data/"):
                candidates.add(address)
            age = max(datetime.fromtimestamp(entry.seconds, UTC), _xid_time(address))
            ages[address] = max(age, ages.get(address, age))
            for limit in _limits(model, made, rules, now, lost):
                if limit is None:
                    kept.add(address)
                else:
                    limits[address] = min(limit, limits.get(address, limit))
    return {address for address in candidates - kept if ages[address] < limits[address]}


def _limits(
    model: Model,
    made: Made,
    rules: list[LifecycleRule],
    now: datetime,
    lost: Sequence[tuple[str, str]],
) -> Iterator[datetime | None]:
    """What each ref that keeps a commit says of a path: before when an object must have come."""
    branches = [*model.branches.items(), *lost]
    holding = [name for name, head in branches if made.id in ancestors(model, head)]
    for name in holding:
        yield _limit([rule.days_on_branch(name) for rule in rules], now)
    for name, head in model.branches.items():
        if head == made.id:
            own = [rule for rule in rules if rule.days_on_branch(name) is not None]
            if not all(rule.expire_heads for rule in own):
                yield None
    if any(head == made.id for _, head in lost):
        yield None
    tags = [name for name, id_ in model.tags.items() if id_ == made.id]
    for name in tags:
        yield _limit([rule.days_on_tag(name) for rule in rules], now)
    if not holding:
        yield _limit([rule.days for rule in rules], now)


def _limit(days: list[int | None], now: datetime) -> datetime | None:
    covering = [each for each in days if each is not None]
    if not covering:
        return None
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=max(covering))


def ancestors(model: Model, head: str) -> set[str]:
    found, ahead = set(), [head]
    while ahead:
        id_ = ahead.pop()
        if id_ not in found:
            found.add(id_)
            ahead += model.commits[id_].parents
    return found


def _xid_time(address: str) -> datetime:
    name = address.rpartition("/")[2].partition(",")[0]
    if len(name) != 20 or set(name) - set(_ALPHABET) or name[-1] not in "0g":
        return datetime.min.replace(tzinfo=UTC)
    number = 0
    for letter in name:
        number = number << 5 | _ALPHABET.index(letter)
    return datetime.fromtimestamp(number >> 68, UTC)
