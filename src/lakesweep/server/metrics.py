"""Metrics for Prometheus: what the store knows of lakes, runs and jobs, and how requests went.

What comes from the store is the same for all services over it, and is read at most every few
seconds, however often it is asked for. Labels are names of the configuration, kinds and statuses;
requests are counted by the template of their route, never by their path.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from lakesweep.app import App
from lakesweep.clock import micros
from lakesweep.errors import LakesweepError
from lakesweep.operations.lakes.live_runs import run_progress
from lakesweep.operations.lakes.runs import RunFilter, RunView, every_run
from lakesweep.runs.job_records import JobStatus
from lakesweep.runs.records import ApprovalState, PlanStatus
from lakesweep.runs.run_figures import run_totals
from lakesweep.sweep.holdings import holdings

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_KEPT_SECONDS = 10.0
#: A job that waits for longer than this after its due time is late.
_PUNCTUAL = timedelta(minutes=1)
#: Callers may invent others, and each would be a series of its own.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


@dataclass
class ServiceMetrics:
    """The metrics of one service."""

    app: App
    registry: CollectorRegistry = field(
        default_factory=lambda: CollectorRegistry(auto_describe=True)
    )

    def __post_init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        labels = ("method", "route", "status")
        self._requests = Counter(
            "lakesweep_http_requests", "Requests by route.", labels, registry=self.registry
        )
        self._seconds = Histogram(
            "lakesweep_http_request_seconds",
            "Time until the answer begins, by route.",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(_StoreCollector(self.app))

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self.registry)


class _StoreCollector:
    """Reads the store when metrics are asked for; without an answer it says so."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._kept: list[Metric] = []
        self._read_at: float | None = None

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: that would read the store."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """What the store knows now, or knew some seconds ago."""
        with self._lock:
            now = self._app.clock.monotonic()
            if self._read_at is None or now - self._read_at > _KEPT_SECONDS:
                self._kept, self._read_at = _read(self._app), now
            return list(self._kept)


def _read(app: App) -> list[Metric]:
    up = GaugeMetricFamily("lakesweep_store_up", "Whether the store answers.")
    try:
        found = [*_runs(app), *_plans(app), *_jobs(app), *_held(app), *_store(app)]
    except LakesweepError:
        up.add_metric([], 0)
        return [up]
    up.add_metric([], 1)
    return [up, *found]


def _runs(app: App) -> Iterator[Metric]:
    runs = GaugeMetricFamily("lakesweep_runs", "Recorded runs.", labels=["kind", "status"])
    deleted = CounterMetricFamily("lakesweep_deleted_bytes", "Deleted bytes.", labels=["lake"])
    found: list[RunView] = list(every_run(app, RunFilter()))
    for (kind, status), count in Tally((run.kind, run.status) for run in found).items():
        runs.add_metric([kind, status], count)
    sums: Tally[str] = Tally()
    for run in found:
        if run.lake in app.config.lakes:
            sums[run.lake] += run_totals(run.figures).bytes_deleted or 0
    for lake in app.config.lakes:
        deleted.add_metric([lake], sums[lake])
    yield from (runs, deleted, *_newest_plans(app, found), *_stages(app, found))


def _newest_plans(app: App, runs: list[RunView]) -> Iterator[Metric]:
    """What the newest plan of each lake found."""
    named = {
        "delete_bytes": ("lakesweep_found_bytes", "Bytes that nothing references."),
        "delete_files": ("lakesweep_found_files", "Files that nothing references."),
        "roots_incomplete": ("lakesweep_roots_incomplete", "Roots that could not be read."),
    }
    families = {
        figure: GaugeMetricFamily(name, f"{text} As of the newest plan.", labels=["lake"])
        for figure, (name, text) in named.items()
    }
    for lake in app.config.lakes:
        made = (run for run in runs if run.lake == lake and run.kind == "plan" and run.figures)
        newest = next(made, None)
        for figure, family in families.items():
            if newest is not None and figure in newest.figures:
                family.add_metric([lake], newest.figures[figure])
    yield from families.values()


def _stages(app: App, runs: list[RunView]) -> Iterator[Metric]:
    """How long the newest run of each kind took in each stage, and how much it worked on."""
    labels = ["lake", "kind", "stage"]
    seconds = GaugeMetricFamily(
        "lakesweep_stage_seconds", "Seconds by stage. Of the newest run of a kind.", labels=labels
    )
    files = GaugeMetricFamily(
        "lakesweep_stage_files", "Files by stage. Of the newest run of a kind.", labels=labels
    )
    newest: dict[tuple[str, str], RunView] = {}
    for run in runs:
        if run.lake in app.config.lakes:
            newest.setdefault((run.lake, run.kind), run)
    for (lake, kind), run in newest.items():
        totals: dict[str, tuple[float, int]] = {}
        progress = run_progress(app, run.run)
        for stage in progress.stages if progress else ():
            before = totals.get(stage.stage, (0.0, 0))
            totals[stage.stage] = before[0] + stage.seconds, before[1] + stage.count
        for name, (took, count) in totals.items():
            seconds.add_metric([lake, kind, name], took)
            files.add_metric([lake, kind, name], count)
    yield from (seconds, files)


def _plans(app: App) -> Iterator[Metric]:
    now = micros(app.clock.now())
    waiting = [
        plan
        for plan in app.known_runs.plans()
        if plan.status is PlanStatus.READY
        and plan.expires_at > now
        and plan.approval is not None
        and plan.approval.state is ApprovalState.WAITING
    ]
    yield _gauge("lakesweep_approvals_waiting", "Plans that wait for approval.", len(waiting))


def _jobs(app: App) -> Iterator[Metric]:
    open_jobs = app.known_schedules.open_jobs()
    jobs = GaugeMetricFamily("lakesweep_jobs", "Open jobs.", labels=["status"])
    for status in (JobStatus.QUEUED, JobStatus.RUNNING):
        jobs.add_metric([status.value], sum(1 for job in open_jobs if job.status is status))
    oldest = micros(app.clock.now() - _PUNCTUAL)
    late = [job for job in open_jobs if job.status is JobStatus.QUEUED and job.start_at < oldest]
    yield jobs
    yield _gauge("lakesweep_due_times_late", "Jobs that have waited for too long.", len(late))


def _held(app: App) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "lakesweep_quarantined_bytes", "Bytes in quarantine, as runs counted.", labels=["lake"]
    )
    sums: Tally[str] = Tally()
    for each in holdings(app.known_runs):
        if each.ended is None:
            sums[each.lake] += max(each.size_bytes, 0)
    for lake in app.config.lakes:
        family.add_metric([lake], sums[lake])
    yield family


def _store(app: App) -> Iterator[Metric]:
    counts, cache = app.store.commit_counts, app.store.cache.stats()
    figures = {
        "lakesweep_store_commits": ("Commits of this process.", counts.commits),
        "lakesweep_store_conflicts": ("Attempts that lost a swap.", counts.conflicts),
        "lakesweep_cache_hits": ("Reads that the cache answered.", cache.hits),
        "lakesweep_cache_misses": ("Reads that the database answered.", cache.misses),
    }
    for name, (text, value) in figures.items():
        family = CounterMetricFamily(name, text)
        family.add_metric([], value)
        yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
