"""The Iceberg REST catalog as its clients use it: PyIceberg against real processes."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

from lakesweep.cli.main import run
from tests.processes import running

STRANGE = "a b/c%2F+d.é🎉'\""
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rest")
    config = folder / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{folder}/store.db"\n')
    lake = f"file://{folder}/lake"
    assert run(["--config", str(config), "store", "init"]) == 0
    assert run(["--config", str(config), "catalog", "create", "shop", "--location", lake]) == 0
    return config


@pytest.fixture(scope="module")
def urls(config: Path) -> Iterator[tuple[str, str]]:
    """Two servers over one store."""
    command = [sys.executable, "-m", "lakesweep", "--config", str(config), "serve", "--port", "0"]
    with ExitStack() as stack:
        logs = [config.with_name(f"serve-{number}.log") for number in (1, 2)]
        starts = (running(command, log, r"listening on (\S+)", stop=signal.SIGTERM) for log in logs)
        found = [stack.enter_context(start)[1] for start in starts]
        yield found[0], found[1]


@pytest.fixture(scope="module")
def catalog(urls: tuple[str, str]) -> RestCatalog:
    return _connect(urls[0])


@pytest.fixture(scope="module")
def other(urls: tuple[str, str]) -> RestCatalog:
    return _connect(urls[1])


def _connect(url: str) -> RestCatalog:
    return RestCatalog("shop", uri=f"{url}/iceberg", warehouse="shop")


def _ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_a_table_lives_its_life(catalog: RestCatalog, config: Path) -> None:
    catalog.create_namespace("life", {"owner": "me"})
    table = catalog.create_table("life.orders", SCHEMA)
    assert table.location().startswith(f"file://{config.parent}/lake/life/orders-")
    table.append(ROWS)
    table.append(ROWS)
    table.overwrite(ROWS)
    table.delete("id = 2")
    assert _ids(table) == [1, 3]
    with table.update_schema() as update:
        update.add_column("price", LongType())
    with table.update_spec() as spec:
        spec.add_field("id", "bucket[4]")
    with table.transaction() as transaction:
        transaction.set_properties({"a": "b"})
    snapshot = table.snapshots()[0].snapshot_id
    with table.manage_snapshots() as refs:
        refs.create_tag(snapshot, "first").create_branch(snapshot, "dev")
    loaded = catalog.load_table("life.orders")
    assert loaded.metadata == table.metadata
    assert {"main", "first", "dev"} == set(loaded.refs())
    assert loaded.schema().find_field("price").field_id == 3
    assert loaded.metadata_location.rpartition("/")[2].startswith("00008-")
    with pytest.raises(TableAlreadyExistsError, match=r"Table already exists: life\.orders"):
        catalog.create_table("life.orders", SCHEMA)

    catalog.create_namespace("life2")
    moved = catalog.rename_table("life.orders", "life2.moved")
    assert moved.metadata.table_uuid == table.metadata.table_uuid
    assert not catalog.table_exists("life.orders")
    with pytest.raises(NamespaceNotEmptyError, match="is not empty"):
        catalog.drop_namespace("life2")
    catalog.purge_table("life2.moved")
    with pytest.raises(NoSuchTableError, match=r"Table does not exist: life2\.moved"):
        catalog.load_table("life2.moved")
    assert Path(moved.metadata_location.removeprefix("file://")).exists(), "purged at once"
    catalog.register_table("life2.again", moved.metadata_location)
    assert _ids(catalog.load_table("life2.again")) == [1, 3]


def test_the_example_of_the_page_works(urls: tuple[str, str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "rest-catalog.md").read_text()
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    exec(example[1].replace("http://127.0.0.1:8080", urls[0]), {})


def test_a_staged_table_is_invisible_until_its_commit(catalog: RestCatalog) -> None:
    catalog.create_namespace("staged")
    schema = Schema(NestedField(7, "id", LongType(), required=False))
    with catalog.create_table_transaction("staged.t", schema) as transaction:
        assert not catalog.table_exists("staged.t")
        transaction.append(pa.table({"id": [5]}))
    table = catalog.load_table("staged.t")
    assert _ids(table) == [5]
    assert table.metadata.metadata_log == []
    assert table.schema().find_field("id").field_id == 1
    late = catalog.create_table_transaction("staged.late", schema)
    catalog.create_table("staged.late", schema)
    with pytest.raises(CommitFailedException, match="Requirement failed: table already exists"):
        late.commit_transaction()


def test_names_may_hold_anything(catalog: RestCatalog, other: RestCatalog) -> None:
    catalog.create_namespace((STRANGE,))
    nested = (STRANGE, f"in {STRANGE}")
    catalog.create_namespace(nested, {"k": STRANGE})
    assert (STRANGE,) in other.list_namespaces()
    assert other.list_namespaces((STRANGE,)) == [nested]
    assert other.load_namespace_properties(nested) == {"k": STRANGE}
    table = catalog.create_table((*nested, STRANGE), SCHEMA)
    table.append(ROWS)
    assert other.list_tables(nested) == [(*nested, STRANGE)]
    assert _ids(other.load_table((*nested, STRANGE))) == [1, 2, 3]
    other.drop_table((*nested, STRANGE))
    assert catalog.list_tables(nested) == []
    catalog.drop_namespace(nested)
    assert not other.namespace_exists(nested)


def test_properties_of_namespaces(catalog: RestCatalog) -> None:
    catalog.create_namespace("props", {"a": "1", "b": "2"})
    summary = catalog.update_namespace_properties("props", {"a", "gone"}, {"c": "3"})
    assert (summary.removed, summary.updated, summary.missing) == (["a"], ["c"], ["gone"])
    assert catalog.load_namespace_properties("props") == {"b": "2", "c": "3"}
    with pytest.raises(NamespaceAlreadyExistsError, match="Namespace already exists: props"):
        catalog.create_namespace("props")
    with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist: nowhere"):
        catalog.list_tables("nowhere")
    with pytest.raises(RESTError, match="Namespace does not exist: nowhere"):
        catalog.create_namespace(("nowhere", "below"))


def test_views(catalog: RestCatalog) -> None:
    catalog.create_namespace("views")
    name = ("views", STRANGE)
    sql = SQLViewRepresentation(type="sql", sql="select 1", dialect="spark")
    version = ViewVersion(
        version_id=1,
        timestamp_ms=1,
        schema_id=5,
        summary={"engine": "x"},
        representations=[sql],
        default_namespace=["views"],
    )
    schema = Schema(NestedField(9, "id", StringType(), required=False))
    view = catalog.create_view(name, schema, version, properties={"p": "q"})
    assert view.metadata.current_version_id == 1
    assert catalog.list_views("views") == [name]
    assert catalog.list_tables("views") == []
    assert catalog.view_exists(name)
    assert catalog.load_view(name).metadata == view.metadata
    with pytest.raises(TableAlreadyExistsError, match="View with same name already exists"):
        catalog.create_table(name, SCHEMA)
    catalog.drop_view(name)
    with pytest.raises(NoSuchViewError):
        catalog.load_view(name)


@pytest.mark.parametrize("tables", [1, 4])
def test_nothing_is_lost_or_doubled(
    catalog: RestCatalog, other: RestCatalog, tables: int, urls: tuple[str, str]
) -> None:
    """Four writers, each with its own client, spread over two servers."""
    namespace = f"race{tables}"
    catalog.create_namespace(namespace)
    names = [f"{namespace}.t{number}" for number in range(tables)]
    for name in names:
        catalog.create_table(name, SCHEMA)

    def write(writer: int) -> None:
        client = _connect(urls[writer % 2])
        for number in range(5):
            _append(client, names[writer % tables], writer * 100 + number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    expected = [writer * 100 + number for writer in range(4) for number in range(5)]
    found = [id_ for name in names for id_ in _ids(other.load_table(name))]
    assert sorted(found) == expected
    snapshots = sum(len(other.load_table(name).snapshots()) for name in names)
    assert snapshots == len(expected)


def _append(client: RestCatalog, name: str, number: int) -> None:
    """Until it lands: a refusal is sure, so trying again cannot double anything."""
    row = pa.table({"id": [number], "name": ["x"]})
    while True:
        try:
            client.load_table(name).append(row)
        except CommitFailedException:
            continue
        return


def test_a_load_can_be_conditional_and_partial(catalog: RestCatalog, urls: tuple[str, str]) -> None:
    catalog.create_namespace("tags")
    table = catalog.create_table("tags.t", SCHEMA)
    table.append(ROWS)
    table.append(ROWS)
    prefix = httpx.get(f"{urls[0]}/iceberg/v1/config", params={"warehouse": "shop"}).json()
    base = f"{urls[1]}/iceberg/v1/{prefix['overrides']['prefix']}/namespaces/tags/tables/t"
    every = httpx.get(base)
    tag = every.headers["etag"]
    # Iceberg's Java client before 1.12 finds it by this spelling only.
    assert b"ETag" in [name for name, _ in every.headers.raw]
    assert len(every.json()["metadata"]["snapshots"]) == 2
    assert httpx.get(base, headers={"if-none-match": tag}).status_code == 304
    some = httpx.get(base, params={"snapshots": "refs"}, headers={"if-none-match": tag})
    assert some.status_code == 200
    assert [each["snapshot-id"] for each in some.json()["metadata"]["snapshots"]] == [
        table.current_snapshot().snapshot_id
    ]
    assert len(some.json()["metadata"]["snapshot-log"]) == 2
    table.append(ROWS)
    assert httpx.get(base, headers={"if-none-match": tag}).status_code == 200
    assert httpx.head(base).status_code == 204
