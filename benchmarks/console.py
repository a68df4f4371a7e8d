"""How fast the console's pages are on a large store, and how big.

Fills a store with 10,000 runs of 20 lakes, 1,000 tables and a plan of 1 million files, and asks the
service for every page as a browser does. Prints wall time, CPU time and size for each page; the aim
is a 95th percentile below 100 ms and less than 200 kB.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pyarrow as pa

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.config.file import config_from_values
from lakesweep.operations.schedules.schedules import add_schedule
from lakesweep.runs.log_reference import LogReference
from lakesweep.runs.records import (
    SWEEPS,
    PlanRecord,
    RootMemory,
    RunKind,
    RunRecord,
    RunStatus,
    SweepsCommit,
)
from lakesweep.runs.schedules import JobKind, Schedule
from lakesweep.server.application import Service, ServiceOptions, create_app
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.store import LINKS, Attempt, Packed, key, seal
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.judge.totals import FileTotals, TableTotals
from lakesweep.sweep.plan.document import (
    PlanDocument,
    RootCounts,
    dataset_ref,
)
from lakesweep.sweep.plan.stored_plan import publish_plan

_LAKES, _RUNS, _TABLES, _FILES = 20, 10_000, 1_000, 1_000_000
_CHUNK = 50_000
_REPEATS = 20
_PLAN = "plan-20991231T235959-00000001"  # the newest of all
_SHARE = 4  # of so many files one is deleted


def main() -> int:
    """Fill the store, ask for all pages, and print their figures."""
    with tempfile.TemporaryDirectory(prefix="lakesweep-bench-") as folder:
        app = _app(Path(folder))
        _fill(app, Path(folder))
        service = create_app(app, ServiceOptions(has_console=True))
        slow = _measure(service, _pages(app))
    print(f"{slow} pages are slower than 100 ms at p95, or larger than 200 kB")
    return 0


def _app(folder: Path) -> App:
    lakes = {f"lake-{number:02}": _lake(folder, number) for number in range(_LAKES)}
    values = {"store": {"url": f"sqlite:///{folder}/store.db"}, "engine": "local", "lakes": lakes}
    app = App(config_from_values(values), folder=folder)
    app.prepare_store()
    return app


def _lake(folder: Path, number: int) -> dict[str, object]:
    location = folder / f"lake-{number:02}"
    location.mkdir()
    return {"locations": [str(location)], "roots": []}


def _fill(app: App, folder: Path) -> None:
    started = time.perf_counter()
    _add_runs(app)
    roots = {f"cat.shop.table_{number:04}": _memory(app, number) for number in range(_TABLES)}
    app.runs.learn("lake-00", lambda record: record, roots)
    _add_plan(app, folder / "lake-00" / "_lakesweep" / "plans")
    for number in range(20):
        add_schedule(app, Schedule(name=f"s{number:02}", job=JobKind.MAINTAIN, every=86_400))
    print(f"filled in {time.perf_counter() - started:.0f} s")


def _add_runs(app: App) -> None:
    log = LogReference(app.runs.realm, SWEEPS, SweepsCommit)
    now = app.clock.now()
    runs = [_run(number, micros(now - timedelta(minutes=5 * number))) for number in range(_RUNS)]
    for start in range(0, _RUNS, 1_000):
        page = runs[start : start + 1_000]

        def change(
            attempt: Attempt[SweepsCommit], head: SweepsCommit, page: list[RunRecord] = page
        ) -> SweepsCommit:
            import msgspec

            known = attempt.index(head.runs, LINKS)
            plans = attempt.index(head.plans, Packed(PlanRecord))
            for run in page:
                known.put(key(run.lake, run.started_at, run.run), attempt.write(run))
                if run.kind is RunKind.PLAN:
                    plans.put(key(run.run), _plan_record(run))
            return msgspec.structs.replace(head, runs=seal(known), plans=seal(plans))

        log.commit(change, "fill")


def _plan_record(run: RunRecord) -> PlanRecord:
    return PlanRecord(
        plan=run.run,
        lake=run.lake,
        address="/nowhere",
        sha256="",
        created_at=run.started_at,
        expires_at=run.started_at + 1,
        token=1,
    )


def _run(number: int, started: int) -> RunRecord:
    kind = (RunKind.PLAN, RunKind.APPLY, RunKind.CHECK)[number % 3]
    status = RunStatus.FAILED if number % 17 == 0 else RunStatus.DONE
    return RunRecord(
        run=_name(kind, number, started),
        lake=f"lake-{number % _LAKES:02}",
        kind=kind,
        status=status,
        started_at=started,
        finished_at=started + 60_000_000,
        spec={"engine": "local", "quarantine": number % 2 == 0},
        plan=_name(RunKind.PLAN, number - 1, started) if kind is RunKind.APPLY else None,
        figures={"delete_files": number, "delete_bytes": number * 1000, "quarantined": number},
        datasets={},
        user="anna",
        host="here",
    )


def _name(kind: RunKind, number: int, started: int) -> str:
    return f"{kind}-{moment(started):%Y%m%dT%H%M%S}-{number:08x}"


def _memory(app: App, number: int) -> RootMemory:
    folder = f"s3://lake/shop/table_{number:04}"
    return RootMemory(
        origin="cat",
        folders=(folder,),
        pointer=f"{folder}/metadata/v1.metadata.json",
        uuid=None,
        seen_at=micros(app.clock.now()),
    )


def _add_plan(app: App, folder: Path) -> None:
    address = f"{folder}/{_PLAN}"
    now = app.clock.now()
    datasets = {
        verdict: write_dataset(app.stores, f"{address}/{verdict}", VERDICTS, _verdicts(verdict))
        for verdict in ("delete", "keep")
    }
    deletes = _FILES // _SHARE
    amounts = [FileTotals(deletes, deletes * 1000), FileTotals(_FILES - deletes, _FILES * 750)]
    tables = tuple(
        TableTotals(
            table=f"cat.shop.table_{number:04}",
            delete=FileTotals(250, 250_000),
            keep=FileTotals(750, 750_000),
        )
        for number in range(_TABLES)
    )
    document = PlanDocument(
        plan=_PLAN,
        lake="lake-00",
        created=now,
        expires=now + timedelta(days=1),
        cut_off=now,
        grace_seconds=0,
        mode="exact",
        roots=RootCounts(_TABLES, 0),
        totals={"delete": {"unreferenced": amounts[0]}, "keep": {"referenced": amounts[1]}},
        tables=tables,
        datasets={name: dataset_ref(name, each) for name, each in datasets.items()},
    )
    publish_plan(app.stores, app.runs, address, document, token=10)


def _verdicts(verdict: str) -> Iterator[pa.RecordBatch]:
    count = _FILES // _SHARE if verdict == "delete" else _FILES - _FILES // _SHARE
    reason = "unreferenced" if verdict == "delete" else "referenced"
    for start in range(0, count, _CHUNK):
        numbers = range(start, min(start + _CHUNK, count))
        paths = pa.array(
            [
                f"s3://lake/shop/table_{n * _TABLES // count:04}/data/{verdict}-{n:08}-"
                f"{n * 2654435761 % 2**32:08x}-5c2f81aa.parquet"
                for n in numbers
            ]
        )
        tables = pa.array([f"cat.shop.table_{n * _TABLES // count:04}" for n in numbers])
        size = len(paths)
        columns = {
            "path": paths,
            "verdict": pa.array([verdict] * size),
            "reason": pa.array([reason] * size),
            "rule": pa.nulls(size, pa.string()),
            "size_bytes": pa.array([1000] * size, pa.int64()),
            "modified": pa.array([1_700_000_000_000_000] * size).cast(
                VERDICTS.field("modified").type
            ),
            "etag": pa.nulls(size, pa.string()),
            "table": tables,
            **dict(zip(("h1", "h2"), hash_columns(file_hashes(paths)), strict=True)),
        }
        yield pa.RecordBatch.from_pydict(columns, schema=VERDICTS)


def _pages(app: App) -> Iterator[tuple[str, str]]:
    run = next(iter(app.runs.list())).run
    plan = f"/plans/{_PLAN}"
    file = quote(
        f"s3://lake/shop/table_0500/data/delete-00125000-{125000 * 2654435761 % 2**32:08x}"
        "-5c2f81aa.parquet",
        safe="",
    )
    yield from (("overview", "/"), ("runs", "/runs"), ("one run", f"/runs/{run}"))
    yield from (("runs of a lake", "/runs?lake=lake-07"), ("failed runs", "/runs?status=failed"))
    yield from (("plans", "/plans"), ("a plan", plan))
    yield "a page in the middle", f"{plan}?after=500000"
    yield "files of a table", f"{plan}?table=cat.shop.table_0900&verdict=keep"
    yield "a common text", f"{plan}?q=parquet"
    yield "a rare text", f"{plan}?q=keep-00740001"
    yield "a text that is nowhere", f"{plan}?q=nowhere"
    yield "explain a file", f"{plan}/explain?path={file}"
    yield from (("quarantine", "/quarantine"), ("lakes", "/lakes"), ("a lake", "/lakes/lake-00"))
    yield from (("schedules", "/schedules"), ("a schedule", "/schedules/s00"))
    yield from (("tables", "/tables"), ("store", "/store"), ("access", "/access"))


def _measure(service: Service, pages: Iterator[tuple[str, str]]) -> int:
    print(f"{'page':24} {'p50 ms':>8} {'p95 ms':>8} {'CPU ms':>8} {'kB':>8}")
    slow = 0
    for name, path in pages:
        asyncio.run(_ask(service, path, 2))  # caches are warm in a service that runs
        taken, cpu, size = asyncio.run(_ask(service, path, _REPEATS))
        p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
        slow += p95 > 0.1 or size > 200_000
        print(
            f"{name:24} {p50 * 1e3:8.1f} {p95 * 1e3:8.1f} {cpu * 1e3:8.1f} {size / 1e3:8.1f}",
            flush=True,
        )
    return slow


async def _ask(service: Service, path: str, repeats: int) -> tuple[list[float], float, int]:
    transport = httpx.ASGITransport(service, client=("127.0.0.1", 50_000))
    taken: list[float] = []
    size = 0
    cpu = time.process_time()
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        for _ in range(repeats):
            started = time.perf_counter()
            answer = await client.get(path)
            taken.append(time.perf_counter() - started)
            size = len(answer.content)
            if answer.status_code != 200:
                print(f"{path}: {answer.status_code}", file=sys.stderr)
    return taken, (time.process_time() - cpu) / repeats, size


if __name__ == "__main__":
    raise SystemExit(main())
