"""Lifecycle runs over random repositories, against a plain oracle."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.lifecycle.policy.rules import LifecyclePolicy
from tests.lakefs_repositories import NOW, Model
from tests.lifecycle_models import grow, models, policies, staged_addresses
from tests.lifecycle_oracle import expired
from tests.lifecycle_runs import going, run, sweep
from tests.processes import scratch_folder
from tests.random_tests import examples

_FEW = examples(6)


@_FEW
@given(models(), policies())
def test_a_full_run_lets_go_what_the_oracle_lets_go(model: Model, policy: LifecyclePolicy) -> None:
    with scratch_folder("lifecycle") as folder:
        assert going(run(model, policy, folder)) == expired(model, policy)


@_FEW
@given(st.data())
def test_incremental_runs_let_go_together_what_full_ones_do(data: st.DataObject) -> None:
    policy = data.draw(policies())
    model = data.draw(models(4))
    gone: set[str] = set()
    with scratch_folder("lifecycle") as folder:
        for days in (40, 33, 8, 0):
            grow(data.draw, model, days, data.draw(st.integers(0, 3)))
            model.staged = data.draw(st.lists(staged_addresses(), max_size=2))
            now = NOW - timedelta(days=days)
            found = run(
                model,
                policy,
                folder,
                now=now,
                selection=Selection.INCREMENTAL,
                grace=timedelta(0),
            )
            assert going(found) <= expired(model, policy, now)
            gone |= going(found)
            assert gone >= expired(model, policy, now)
            if data.draw(st.integers(0, 3)):
                sweep(found, folder, now)
