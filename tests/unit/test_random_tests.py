"""Random tests keep to their budget, and are repeated by what they print."""

from __future__ import annotations

import re
import time

import pytest

from tests.random_tests import Budget, Cases
from tests.soak import Soak


def drawn(budget: Budget, test: str = "test") -> list[int]:
    return [chance.randrange(1_000_000) for chance in Cases(test, budget)(5)]


def test_cases_are_the_same_every_time_and_others_with_a_seed() -> None:
    assert drawn(Budget()) == drawn(Budget()) != drawn(Budget(seed=7))
    assert drawn(Budget(seed=7)) == drawn(Budget(seed=7)) != drawn(Budget(seed=7), "other")


def test_a_soak_begins_with_the_cases_of_its_seed_and_tries_more() -> None:
    some, more = drawn(Budget(seed=7)), drawn(Budget(effort=3, seed=7))
    assert (more[:5], len(more)) == (some, 15)


def test_a_case_is_repeated_alone_by_the_command_that_its_failure_shows() -> None:
    cases = Cases("tests/fuzz/test_some.py::test_one", Budget(seed=7))
    chances = cases(5)
    failing = [next(chances).random() for _ in range(3)][-1]
    shown = re.search(r"--hypothesis-seed 7 --case (\d+)$", cases.repeat())
    assert shown is not None
    (again,) = Cases(cases.test, Budget(seed=7, case=int(shown[1])))(5)
    assert again.random() == failing


def test_no_case_is_tried_after_the_time_is_over() -> None:
    assert drawn(Budget(deadline=time.monotonic() - 1)) == []


def test_a_soak_without_time_tries_nothing_and_says_its_seed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert Soak(0, 7, []).run() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "soak: seed 7, rounds 0, passed: nothing"


def test_a_soak_adds_up_what_its_rounds_say() -> None:
    soak = Soak(0, 7, [])
    for _ in range(2):
        soak.add("…\nrandom tests tried 40 examples, 1,421 steps, 0 cases\n1 passed\n")
    assert soak.tried == {"examples": 80, "steps": 2_842, "cases": 0}
