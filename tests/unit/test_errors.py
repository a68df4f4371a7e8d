from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

from lakesweep import errors
from lakesweep.errors import (
    ConfigError,
    DeniedError,
    IncompleteError,
    LakesweepError,
    LeaseHeldError,
    MissingError,
    NotFoundError,
    RefusedError,
    ThrottledError,
    UsageError,
)


def _tree(kind: type[LakesweepError]) -> Iterator[type[LakesweepError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


def _drawn() -> dict[str, int]:
    """Names and exit codes as the module's docstring draws them."""
    return {
        name: int(code) for name, code in re.findall(r"(\w+Error)\s+(\d)", errors.__doc__ or "")
    }


def test_the_drawing_shows_every_class_with_its_exit_code() -> None:
    ours = [kind for kind in _tree(LakesweepError) if kind.__module__ == errors.__name__]
    assert _drawn() == {kind.__name__: kind.exit_code for kind in ours}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (LakesweepError, 1),
        (UsageError, 2),
        (ConfigError, 2),
        (RefusedError, 3),
        (IncompleteError, 4),
        (LeaseHeldError, 5),
        (NotFoundError, 6),
        (MissingError, 6),
    ],
)
def test_exit_codes_are_those_that_were_published(kind: type[LakesweepError], code: int) -> None:
    assert kind.exit_code == code


def test_an_error_carries_message_and_hint() -> None:
    error = UsageError("what", hint="next")
    assert (str(error), error.message, error.hint) == ("what", "what", "next")


def test_an_error_without_a_hint_has_the_usual_one_of_its_kind() -> None:
    assert UsageError("what").hint == "lakesweep --help"
    assert "lakesweep doctor" in DeniedError("s3://lake/x", "no").hint


def test_a_missing_object_is_named_by_its_address() -> None:
    error = MissingError("s3://lake/x")
    assert error.message == "s3://lake/x: is not there"


def test_throttling_says_how_long_to_wait() -> None:
    assert ThrottledError("s3://lake/x", "slow down", retry_after=2.5).retry_after == 2.5


def test_every_class_says_what_it_means() -> None:
    assert all(inspect.getdoc(kind) for kind in _tree(LakesweepError))
