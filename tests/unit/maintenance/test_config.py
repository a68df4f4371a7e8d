"""The names and defaults that programs find in the requirement's interface."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.maintenance import config
from lakesweep.maintenance.config import MaintenanceConfig


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("COUNT_FROM_LAST_RUN_MULTIPLIER", "count_from_last_run_multiplier", 1.1),
        ("CREATED_AT_GRACE_TIME", "created_at_grace_time", timedelta(hours=3)),
        ("DELETE_BATCH_SIZE", "delete_batch_size", 1_000),
        ("EXPECTED_OBJ_COUNT", "expected_obj_count", 100_000),
        ("EXPECTED_REFERENCE_COUNT", "expected_reference_count", 100),
        ("INITIALIZED_FPP", "filter_initialized_fpp", 0.00001),
        ("MAX_ACCEPTABLE_FPP", "max_acceptable_filter_fpp", 0.00005),
        ("RETAINED_RUNS", "retained_runs", 50),
    ],
)
def test_defaults_have_the_names_of_the_requirement(name: str, setting: str, value: object) -> None:
    assert getattr(config, f"DEFAULT_{name}") == value
    assert getattr(MaintenanceConfig(), setting) == value


def test_the_default_grace_is_there_as_a_text_too() -> None:
    assert config.DEFAULT_CREATED_AT_GRACE_TIME_STRING == "3h"
