"""Sweep every lake of a configuration once a night, one op a lake.

Load it with `dagster dev -f sweep_lakes.py`; the code location needs `lakesweep[spark]` and the
variable LAKESWEEP_CONFIG. A plan that waits for approval fails its op with the reasons.
"""

import os
from collections.abc import Iterator

import dagster as dg


@dg.op(out=dg.DynamicOut(str))
def lakes() -> Iterator[dg.DynamicOutput[str]]:
    """The names of all lakes."""
    import lakesweep

    with lakesweep.open(os.environ["LAKESWEEP_CONFIG"]) as session:
        for number, lake in enumerate(session.lakes):
            yield dg.DynamicOutput(lake, mapping_key=f"lake_{number}")


@dg.op
def sweep(context: dg.OpExecutionContext, lake: str) -> None:
    """Plan one lake, and apply what its limits allow."""
    import lakesweep

    with lakesweep.open(os.environ["LAKESWEEP_CONFIG"]) as session:
        result = session.sweep(lake)
    context.add_output_metadata(
        {
            "plan": result.plan,
            "outcome": str(result.outcome),
            "files": result.delete_files,
            "bytes": result.delete_bytes,
        }
    )
    if result.outcome == "waiting":
        raise dg.Failure(f"{result.plan} waits: {'; '.join(result.reasons)}", allow_retries=False)


@dg.job
def sweep_lakes() -> None:
    """One op a lake."""
    lakes().map(sweep)


nightly = dg.ScheduleDefinition(job=sweep_lakes, cron_schedule="0 2 * * *")
defs = dg.Definitions(jobs=[sweep_lakes], schedules=[nightly])
