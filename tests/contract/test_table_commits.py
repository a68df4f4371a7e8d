"""What every catalog must do with a commit: replace exactly what was loaded, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from lakesweep.iceberg.commits.table_handle import (
    CommitStatus,
    LoadedTable,
    MetadataChange,
    TableHandle,
    commit_with_retries,
)
from lakesweep.iceberg.document.updates import SetProperties, SetSnapshotRef
from tests import iceberg_commits as kinds
from tests.database_servers import DatabaseServer
from tests.iceberg_commits import (
    SNAPSHOTS,
    Template,
    append,
    expire,
    ids,
    metadata_files,
    psycopg_url,
    roll_back,
    row_count,
    tag,
)
from tests.servers import S3Server

ROWS = 2 * SNAPSHOTS


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template.write(tmp_path_factory.mktemp("template"))


def _opened(
    kind: str, request: pytest.FixtureRequest, template: Template, folder: Path
) -> AbstractContextManager[TableHandle]:
    match kind:
        case "sqlite":
            return kinds.sqlite(template, folder)
        case "postgresql":
            server: DatabaseServer = request.getfixturevalue("postgresql_databases")
            return kinds.sql(template, psycopg_url(server))
        case "rest":
            return kinds.rest(template)
        case "hive":
            return kinds.hive(template)
        case "realm":
            return kinds.realm(template)
        case "folder":
            return kinds.folder(template, folder)
    moto: S3Server = request.getfixturevalue("moto")
    if kind == "glue":
        return kinds.glue(template, moto)
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", moto.region)
    return kinds.dynamodb(template)


@pytest.fixture(
    params=["sqlite", "postgresql", "rest", "hive", "glue", "dynamodb", "realm", "folder"]
)
def handle(
    request: pytest.FixtureRequest, template: Template, tmp_path: Path
) -> Iterator[TableHandle]:
    with _opened(request.param, request, template, tmp_path) as handle:
        yield handle


def test_an_expiry_is_committed_and_the_table_reads_as_before(handle: TableHandle) -> None:
    before = handle.load()
    outcome = commit_with_retries(handle, expire)
    assert outcome.status is CommitStatus.COMMITTED
    assert outcome.table is not None
    assert outcome.base is not None
    assert (outcome.base.location, outcome.lost_refs) == (before.location, {})
    now = handle.load()
    assert now.location == outcome.table.location != before.location
    assert ids(now) == ids(before)[-1:]
    assert now.document.metadata_log()[-1].metadata_file == before.location
    assert now.document.encode() == outcome.table.document.encode()
    assert row_count(now.location) == ROWS


def test_nothing_to_change_writes_nothing(handle: TableHandle) -> None:
    base = handle.load()
    files = metadata_files(base)
    change = MetadataChange.of(base.document, [SetProperties(updates=base.document.properties())])
    assert handle.commit(base, change).status is CommitStatus.UNCHANGED
    assert metadata_files(base) == files
    assert handle.load().location == base.location


@pytest.mark.parametrize("writer", [append, tag, roll_back], ids=["append", "tag", "roll back"])
def test_a_writer_between_load_and_commit_wins(handle: TableHandle, writer: object) -> None:
    base = handle.load()
    change = expire(base)
    assert change is not None
    if writer is append:
        other = append(handle)
    else:
        other = (tag if writer is tag else roll_back)(handle, ids(base)[1])
    files = metadata_files(other)
    outcome = handle.commit(base, change)
    if writer is tag and outcome.status is CommitStatus.COMMITTED:
        # Only a server that checks nothing but requirements lets this pass; then it is told.
        assert outcome.lost_refs == {"audit": ids(base)[1]}
        assert outcome.base is not None
        assert outcome.base.location == other.location
        return
    assert outcome.status is CommitStatus.CONFLICT
    now = handle.load()
    assert (now.location, ids(now)) == (other.location, ids(other))
    assert metadata_files(now) == files
    assert row_count(now.location) > 0


def test_a_retry_protects_what_is_needed_now(handle: TableHandle) -> None:
    first = handle.load()
    tagged = ids(first)[1]

    def decide(base: LoadedTable) -> MetadataChange | None:
        if base.location == first.location:
            tag(handle, tagged)
        return expire(base)

    outcome = commit_with_retries(handle, decide)
    assert outcome.status is CommitStatus.COMMITTED
    if outcome.lost_refs:
        assert outcome.lost_refs == {"audit": ids(first)[1]}
        return
    now = handle.load()
    assert ids(now) == [ids(first)[1], ids(first)[3]]
    assert now.document.refs()["audit"].snapshot_id == ids(first)[1]


def test_two_expiries_at_once(handle: TableHandle) -> None:
    base = handle.load()
    mine, other = expire(base), expire(base, keep=2)
    assert mine is not None
    assert other is not None
    assert handle.commit(base, other).status is CommitStatus.COMMITTED
    # Where nothing but refs is compared, removing the rest is as good as deciding again.
    outcome = handle.commit(base, mine)
    assert outcome.status in (CommitStatus.CONFLICT, CommitStatus.COMMITTED)
    outcome = commit_with_retries(handle, expire)
    assert ids(handle.load()) == ids(base)[-1:]
    assert row_count(handle.load().location) == ROWS


@pytest.mark.parametrize("handle", ["sqlite", "rest", "realm", "folder"], indirect=True)
def test_no_tag_is_lost_in_silence_while_expiries_run(handle: TableHandle) -> None:
    first = ids(handle.load())
    lost: dict[str, int] = {}

    def set_tag(number: int) -> str | None:
        def decide(base: LoadedTable) -> MetadataChange | None:
            wanted = first[number % len(first)]
            if wanted not in ids(base):
                return None  # expired before it could be tagged
            ref = SetSnapshotRef(ref_name=f"t{number}", type="tag", snapshot_id=wanted)
            return MetadataChange.of(base.document, [ref])

        outcome = commit_with_retries(handle, decide, attempts=50)
        return f"t{number}" if outcome.status is CommitStatus.COMMITTED else None

    def expire_all(_: int) -> None:
        outcome = commit_with_retries(handle, expire, attempts=50)
        lost.update(outcome.lost_refs)

    with ThreadPoolExecutor(4) as pool:
        tags = [pool.submit(set_tag, number) for number in range(6)]
        expiries = [pool.submit(expire_all, number) for number in range(3)]
        made = {tag for future in tags if (tag := future.result()) is not None}
        for future in expiries:
            future.result()
    now = handle.load()
    assert made <= now.document.refs().keys() | lost.keys()
    assert {ref.snapshot_id for ref in now.document.refs().values()} <= {*ids(now)}
    assert row_count(now.location) == ROWS
