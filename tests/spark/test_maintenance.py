"""The maintenance of a store on executors, against the same in one process."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.maintenance.remote_engine import RemoteEngine
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.stores import Stores
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.libraries import fill
from tests.maintained import Maintained, heads_reach, stored_ids


def test_executors_delete_what_nothing_leads_to(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    backend = SqlBackend(url)
    backend.init_schema()
    maintained = Maintained(backend, clock=ManualClock(SystemClock().now() - timedelta(days=1)))
    with maintained.store:
        realm = fill(maintained.store)
        maintained.clock.sleep(24 * 3600)
        here = maintained.maintain(dry_run=True)
        engine = SparkSweepEngine(spark, ExecutorAccess(Stores({}), parts=2))
        # Objects that tasks read, however few they are.
        service = replace(maintained.service, engine=RemoteEngine(engine, url, few=50))
        dry = service.perform(service.build_spec(), dry_run=True)
        assert dry.identified_objs == here.identified_objs
        assert dry.distinct_objs == here.distinct_objs > 50
        assert dry.per_realm_per_obj_type_stats == here.per_realm_per_obj_type_stats
        run = service.perform(service.build_spec())
        assert run.success, run.detailed_information
        assert run.obj_stats.purged == here.obj_stats.unreferenced > 0
        assert stored_ids(backend, "acme") == heads_reach(realm)
