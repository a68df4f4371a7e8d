"""Sweep every lake of a configuration once a night, one task a lake.

Put this file into Airflow's folder of DAGs; the workers need `lakesweep[spark]` and the variable
LAKESWEEP_CONFIG. A plan that waits for approval fails its task, so that Airflow tells its owner.
"""

from __future__ import annotations

import os

import pendulum
from airflow.exceptions import AirflowFailException
from airflow.sdk import dag, task


@dag(
    schedule="0 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["lakesweep"],
)
def sweep_lakes() -> None:
    """One task a lake; lakes wait for each other no more than Airflow's pools make them."""

    @task
    def list_lakes() -> list[str]:
        import lakesweep

        with lakesweep.open(os.environ["LAKESWEEP_CONFIG"]) as session:
            return list(session.lakes)

    # Repeating a refused sweep refuses it again, so there are no retries.
    @task(retries=0, max_active_tis_per_dag=2)
    def sweep(lake: str) -> dict[str, object]:
        import lakesweep

        with lakesweep.open(os.environ["LAKESWEEP_CONFIG"]) as session:
            result = session.sweep(lake)
        if result.outcome == "waiting":
            raise AirflowFailException(f"{result.plan} waits: {'; '.join(result.reasons)}")
        return {
            "plan": result.plan,
            "outcome": str(result.outcome),
            "files": result.delete_files,
            "bytes": result.delete_bytes,
        }

    sweep.expand(lake=list_lakes())


dag_of_lakes = sweep_lakes()
