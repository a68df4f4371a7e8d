"""Delete only what was listed, by conditions on etags, in batches, with an outcome for each key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import (
    DeniedError,
    LakesweepError,
    LockedError,
    MissingError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.parallel import map_ordered
from lakesweep.storage.http_transport import BadBatchError, HttpResponse, parse_batch
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ObjectInfo,
    Outcome,
    check_expected,
    check_keys,
    is_expected,
    micros_of,
)

#: Parallel requests for single keys.
_WORKERS = 16
_SECOND = 1_000_000

Etags = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class DeleteRequests:
    """How one store is asked; its addresses start with `base`.

    `refusal` says why a key cannot be sent, if so. `head` reports an object, and `send_one` deletes
    one, if it has the etag or the etag is None. `send_batch` deletes several; it returns the
    responses, or None if the store has no batches. `outcome_of` reads the response for one key.
    """

    base: str
    refusal: Callable[[str], str | None]
    head: Callable[[str], ObjectInfo]
    send_one: Callable[[str, str | None], HttpResponse]
    send_batch: Callable[[Etags], HttpResponse | None]
    outcome_of: Callable[[str, HttpResponse], Deletion]

    def delete_one(self, key: str, etag: str | None) -> Deletion:
        """Delete one object; every error is an outcome."""
        try:
            answer = self.send_one(key, etag)
        except LakesweepError as error:
            return Deletion(key, Outcome.FAILED, str(error), _may_retry(error))
        return self.outcome_of(key, answer)


def outcome_of_error(key: str, error: LakesweepError) -> Deletion:
    """The outcome for a key whose delete the store answered with `error`."""
    match error:
        case MissingError():
            return Deletion(key, Outcome.ABSENT)
        case LockedError(reason=reason):
            return Deletion(key, Outcome.LOCKED, reason)
        case DeniedError(reason=reason, hint=hint):
            return Deletion(key, Outcome.DENIED, f"{reason}; {hint}")
        case ThrottledError(reason=reason):
            return Deletion(key, Outcome.THROTTLED, reason, may_retry=True)
        case _:
            may_retry = isinstance(error, UnavailableError)
            return Deletion(key, Outcome.FAILED, error.message, may_retry)


def delete_by_batch(
    requests: DeleteRequests,
    keys: Sequence[str],
    expected: Sequence[Expected | None] | None,
    *,
    most: int,
    looks_first: bool = False,
) -> Sequence[Deletion]:
    """Delete at most `most` distinct keys; one outcome each, in that order.

    Objects that were listed without an etag are looked at first; with `looks_first`, all of them
    are, for a server that takes a conditional delete for a plain one.
    """
    check_keys(keys, most)
    check_expected(keys, expected)
    refused = {key: reason for key in keys if (reason := requests.refusal(key)) is not None}
    known = {
        key: one
        for key, one in zip(keys, expected or [None] * len(keys), strict=True)
        if key not in refused
    }
    listed = {key: one for key, one in known.items() if one is not None}
    unsure = listed if looks_first else without_etags(list(listed), list(listed.values()))
    seen, outcomes = find_etags(requests.head, unsure)
    outcomes |= {key: Deletion(key, Outcome.FAILED, why) for key, why in refused.items()}
    wanted = {
        key: seen.get(key, one.etag if one else None)
        for key, one in known.items()
        if key not in outcomes
    }
    outcomes |= _delete(requests, wanted)
    return [outcomes[key] for key in keys]


def _delete(requests: DeleteRequests, wanted: Etags) -> dict[str, Deletion]:
    # A key alone needs no batch.
    answer = requests.send_batch(wanted) if len(wanted) > 1 else None
    if answer is None:
        singles = map_ordered(
            lambda pair: requests.delete_one(*pair), wanted.items(), workers=_WORKERS
        )
        return {deletion.key: deletion for deletion in singles}
    try:
        found = parse_batch(answer)
    except BadBatchError as error:
        raise UnavailableError(requests.base, str(error)) from error
    # A key that the response does not mention may or may not be deleted.
    return {
        key: requests.outcome_of(key, found[number])
        if number in found
        else Deletion(key, Outcome.FAILED, "no outcome given", may_retry=True)
        for number, key in enumerate(wanted)
    }


def _may_retry(error: LakesweepError) -> bool:
    return isinstance(error, ThrottledError | UnavailableError)


def without_etags(
    keys: Sequence[str], expected: Sequence[Expected | None] | None
) -> Mapping[str, Expected]:
    """Objects listed without etags; without a time either, there is nothing to compare."""
    pairs = zip(keys, expected or (), strict=expected is not None)
    return {
        key: one
        for key, one in pairs
        if one is not None and one.etag is None and one.modified_micros is not None
    }


def find_etags(
    head: Callable[[str], ObjectInfo], listed: Mapping[str, Expected]
) -> tuple[Mapping[str, str], dict[str, Deletion]]:
    """The etags of objects that are as they were listed; outcomes for the others."""
    if not listed:
        return {}, {}
    found = list(
        map_ordered(lambda key: _find_etag(head, key, listed[key]), listed, workers=_WORKERS)
    )
    etags = {key: one for key, one in zip(listed, found, strict=True) if isinstance(one, str)}
    return etags, {one.key: one for one in found if isinstance(one, Deletion)}


def _find_etag(
    head: Callable[[str], ObjectInfo], key: str, listed: Expected
) -> str | Deletion | None:
    try:
        info = head(key)
    except MissingError:
        return Deletion(key, Outcome.ABSENT)
    except LakesweepError as error:
        return Deletion(key, Outcome.FAILED, str(error), _may_retry(error))
    return info.etag if _is_as_listed(info, listed) else Deletion(key, Outcome.CHANGED, CHANGED)


def _is_as_listed(info: ObjectInfo, listed: Expected) -> bool:
    """Whether an object is as listed, comparing times in whole seconds, as HEAD reports them."""
    if listed.etag is not None or listed.modified_micros is None or info.modified is None:
        return is_expected(info, listed)
    second = listed.modified_micros // _SECOND == micros_of(info.modified) // _SECOND
    return second and is_expected(info, listed._replace(modified_micros=None))
