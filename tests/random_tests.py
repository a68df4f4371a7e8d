"""Random tests: how much a run tries, from which seed, and how much it has tried.

`make test` tries a small, fixed number of examples, the same ones every time. `make soak` tries
more of them, from other seeds, for as long as asked. A random test is one of three:

- a function with Hypothesis' `@given`, with `@examples(20)` if 50 are too many or too few;
- a `Machine`: a state machine whose rules are steps, with `examples(20, steps=16)` as settings;
- a function that loops over the fixture `cases`, for bytes that are damaged by the thousand:

      def test_a_damaged_manifest_is_read_or_refused(cases: Cases) -> None:
          for chance in cases(2_000):
              read_or_refuse(damaged(MANIFEST, chance))

  A failure prints the command that repeats its case alone.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant

_EXAMPLES = 50
_ALL_PHASES = tuple(Phase)
#: How long an example takes and how large it is say nothing about the code.
_UNCHECKED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
_PASSED_AND_FAILED = re.compile(r"(\d+) passing, (\d+) failing")

#: What the test that runs in this process has tried.
_tried: Counter[str] = Counter()


def examples(
    count: int,
    *,
    steps: int = 50,
    phases: Sequence[Phase] = _ALL_PHASES,
) -> settings:
    """The settings of a test that tries `count` examples in `make test`, and more in a soak."""
    return settings(
        max_examples=count * settings().max_examples // _EXAMPLES,
        stateful_step_count=steps,
        phases=phases,
    )


class Machine(RuleBasedStateMachine):
    """A state machine whose steps are counted."""

    @invariant()
    def _count_step(self) -> None:
        _tried["steps"] += 1


@dataclass
class Cases:
    """Sources of chance for one test, each with a seed of its own."""

    test: str
    budget: Budget
    number: int | None = None

    def __call__(self, count: int) -> Iterator[Random]:
        """As many cases as `count` says in `make test`, and more in a soak."""
        for number in self.budget.numbers(count):
            self.number = number
            _tried["cases"] += 1
            yield Random(f"{self.budget.seed} {self.test} {number}")

    def repeat(self) -> str:
        """The command that tries the current case alone."""
        seed = "" if self.budget.seed is None else f" --hypothesis-seed {self.budget.seed}"
        return f"pytest '{self.test}'{seed} --case {self.number}"


@dataclass(frozen=True)
class Budget:
    """How much to try: so many times as much as `make test` does, until the time is over."""

    effort: int = 1
    seed: int | None = None
    deadline: float | None = None
    case: int | None = None

    @classmethod
    def of(cls, config: pytest.Config) -> Budget:
        seconds, seed = config.getoption("--seconds"), config.getoption("--hypothesis-seed")
        return cls(
            effort=config.getoption("--effort"),
            seed=None if seed is None else int(seed),
            deadline=None if seconds is None else time.monotonic() + seconds,
            case=config.getoption("--case"),
        )

    def numbers(self, count: int) -> Iterator[int]:
        """The numbers of the cases to try."""
        chosen = range(count * self.effort) if self.case is None else [self.case]
        return (number for number in chosen if not self.is_over())

    def is_over(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def load_profile(self) -> None:
        """Make Hypothesis keep to the budget; without a seed, it always tries the same."""
        settings.register_profile(
            "budget",
            max_examples=self.effort * _EXAMPLES,
            derandomize=self.seed is None,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=_UNCHECKED,
        )
        settings.load_profile("budget")


def add_options(parser: pytest.Parser) -> None:
    """The options of random tests, which `tests/soak.py` sets."""
    group = parser.getgroup("random tests")
    group.addoption("--effort", type=int, default=1, help="try so many times as much")
    group.addoption("--seconds", type=float, help="start no test and no case after this time")
    group.addoption("--case", type=int, help="try only the case with this number")


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Tally:
    """Adds up what all random tests of a run tried, on however many workers."""

    budget: Budget
    tried: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_protocol(self) -> bool | None:
        """Leave out what there is no time for."""
        _tried.clear()
        return True if self.budget.is_over() else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call":
            found = _PASSED_AND_FAILED.findall(getattr(item, "hypothesis_statistics", ""))
            _tried["examples"] += sum(int(number) for pair in found for number in pair)
            report.user_properties += _tried.items()
            cases = item.funcargs.get("cases")
            if report.failed and isinstance(cases, Cases):
                report.sections.append(("Random case", cases.repeat()))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.tried.update(dict(report.user_properties))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        figures = [f"{self.tried[name]:,} {name}" for name in ("examples", "steps", "cases")]
        terminalreporter.write_line(f"random tests tried {', '.join(figures)}")
