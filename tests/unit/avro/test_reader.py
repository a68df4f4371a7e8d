from __future__ import annotations

import json
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from lakesweep.avro import ProjectedColumn, read_avro, read_header
from lakesweep.avro.column_buffers import HEAP_BYTES, ROWS
from lakesweep.errors import DamagedError
from tests.avro_files import (
    CODECS,
    SYNC,
    array,
    column,
    file_of,
    long,
    only_batch,
    record,
    rows,
    text,
    write_avro,
)

FIXED = {"type": "fixed", "name": "three", "size": 3}
ENUM = {"type": "enum", "name": "letter", "symbols": ["A", "B", "C"]}

LEAVES: list[tuple[Any, Any, pa.DataType]] = [
    ("boolean", True, pa.bool_()),
    ("int", -(2**31), pa.int32()),
    ("long", 2**63 - 1, pa.int64()),
    ("float", 1.5, pa.float32()),
    ("double", -0.1, pa.float64()),
    ("string", "žluťoučký kůň", pa.string()),
    ("bytes", b"\x00\xff", pa.binary()),
    (FIXED, b"abc", pa.binary(3)),
    (ENUM, "C", pa.string()),
    ({"type": "int", "logicalType": "date"}, 19000, pa.int32()),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\x01", pa.binary()),
]


@pytest.mark.parametrize(("type_", "value", "expected"), LEAVES)
def test_a_leaf_comes_in_the_arrow_type_of_its_base_type(
    type_: Any, value: Any, expected: pa.DataType
) -> None:
    schema = record(("before", "string"), ("it", type_), ("after", ["null", "long"]))
    data = write_avro(schema, [{"before": "x", "it": value, "after": 1}] * 3)
    batch = only_batch(data, ProjectedColumn("it", names=("it",)))
    assert batch.schema.field("it").type == expected
    assert batch.to_pylist() == [{"it": value}] * 3


@pytest.mark.parametrize(("type_", "value", "expected"), LEAVES)
def test_a_nullable_leaf_and_a_list_of_them_keep_their_nulls(
    type_: Any, value: Any, expected: pa.DataType
) -> None:
    schema = record(("it", ["null", type_]), ("many", ["null", array([type_name(type_), "null"])]))
    records = [
        {"it": None, "many": [value, None]},
        {"it": value, "many": None},
        {"it": value, "many": []},
    ]
    data = write_avro(schema, records)
    batch = only_batch(
        data, ProjectedColumn("it", names=("it",)), ProjectedColumn("many", names=("many",))
    )
    assert batch.schema.types == [expected, pa.list_(expected)]
    assert batch.to_pylist() == records
    batch.validate(full=True)


def type_name(type_: Any) -> Any:
    return type_["name"] if isinstance(type_, dict) and "name" in type_ else type_


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sync_interval", [1, 100, 64000])
def test_every_codec_reads_files_of_one_and_of_many_blocks(codec: str, sync_interval: int) -> None:
    records = [{"path": f"s3://bucket/{i}", "size": i} for i in range(500)]
    schema = record(("path", "string"), ("size", "long"))
    data = write_avro(schema, records, codec, sync_interval)
    assert (
        rows(data, [ProjectedColumn(each, names=(each,)) for each in ("path", "size")]) == records
    )


@pytest.mark.parametrize("wrap", [bytes, memoryview, pa.py_buffer])
def test_data_may_be_any_buffer(wrap: Any) -> None:
    data = write_avro(record(("it", "long")), [{"it": 7}])
    assert column(wrap(data), "it") == [7]


def test_a_header_tells_schema_codec_metadata_and_sync_mark() -> None:
    schema = record(("it", "long"))
    header = read_header("some.avro", file_of(schema, codec="deflate"))
    assert header.schema == schema
    assert header.codec == "deflate"
    assert json.loads(header.metadata["avro.schema"]) == schema
    assert header.sync == SYNC


def test_a_file_without_codec_is_not_compressed() -> None:
    data = file_of(record(("it", "long")), (1, long(5))).replace(
        b"\x04\x16avro.schema", b"\x02\x16avro.schema"
    )
    assert column(data.replace(text("avro.codec") + text("null"), b""), "it") == [5]


def test_a_file_without_records_has_no_batches() -> None:
    schema = record(("it", "long"))
    assert (
        list(read_avro("some.avro", file_of(schema), [ProjectedColumn("it", names=("it",))])) == []
    )
    assert (
        list(read_avro("x", file_of(schema, (0, b"")), [ProjectedColumn("it", names=("it",))]))
        == []
    )


def test_columns_come_in_the_order_asked_for_and_under_their_own_names() -> None:
    data = write_avro(record(("a", "long"), ("b", "string")), [{"a": 1, "b": "x"}])
    batch = only_batch(
        data, ProjectedColumn("second", names=("b",)), ProjectedColumn("first", names=("a",))
    )
    assert batch.to_pydict() == {"second": ["x"], "first": [1]}


def test_one_value_may_be_read_for_several_columns() -> None:
    data = write_avro(
        record(("a", ["null", "string"]), ("b", array("long"))),
        [{"a": "x", "b": [1, 2]}, {"a": None, "b": []}],
    )
    columns = [ProjectedColumn(f"{name}{i}", names=(name,)) for name in "ab" for i in range(3)]
    assert rows(data, columns) == [
        {"a0": "x", "a1": "x", "a2": "x", "b0": [1, 2], "b1": [1, 2], "b2": [1, 2]},
        {"a0": None, "a1": None, "a2": None, "b0": [], "b1": [], "b2": []},
    ]


class TestIds:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "record",
        "name": "entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            {
                "name": "data_file",
                "field-id": 2,
                "type": {
                    "type": "record",
                    "name": "r2",
                    "fields": [{"name": "file_path", "type": "string", "field-id": 100}],
                },
            },
        ],
    }
    DATA = write_avro(SCHEMA, [{"status": 1, "data_file": {"file_path": "p"}}])

    def test_lead_to_a_leaf(self) -> None:
        assert rows(self.DATA, [ProjectedColumn("it", ids=(2, 100))]) == [{"it": "p"}]

    def test_win_over_names_where_the_schema_has_them(self) -> None:
        assert rows(
            self.DATA, [ProjectedColumn("it", ids=(0,), names=("data_file", "file_path"))]
        ) == [{"it": 1}]

    def test_give_way_to_names_where_the_schema_has_none(self) -> None:
        data = write_avro(record(("status", "int")), [{"status": 2}])
        assert rows(data, [ProjectedColumn("it", ids=(0,), names=("status",))]) == [{"it": 2}]
        assert rows(data, [ProjectedColumn("it", ids=(0,))]) == [{"it": None}]

    def test_twice_in_one_record_are_damage(self) -> None:
        schema = record(("a", "int"), ("b", "int"))
        for each in schema["fields"]:
            each["field-id"] = 1
        with pytest.raises(DamagedError, match="twice"):
            rows(file_of(schema), [ProjectedColumn("it", ids=(1,))])


class TestMissingColumns:
    DATA = write_avro(record(("a", "int")), [{"a": 1}, {"a": 2}])

    def test_are_null(self) -> None:
        batch = only_batch(
            self.DATA, ProjectedColumn("b", names=("b",)), ProjectedColumn("c", names=("a", "c"))
        )
        assert batch.schema.types == [pa.null(), pa.null()]
        assert batch.to_pydict() == {"b": [None, None], "c": [None, None]}

    def test_are_null_in_the_type_that_is_counted_on(self) -> None:
        batch = only_batch(self.DATA, ProjectedColumn("b", names=("b",), type=pa.string()))
        assert batch.schema.types == [pa.string()]
        assert batch.to_pydict() == {"b": [None, None]}

    def test_are_damage_where_they_are_required(self) -> None:
        with pytest.raises(DamagedError, match=r"some\.avro: .*file_path.*missing"):
            rows(self.DATA, [ProjectedColumn("file_path", names=("b",), required=True)])

    def test_need_a_way_to_them(self) -> None:
        with pytest.raises(ValueError, match="neither ids nor names"):
            rows(self.DATA, [ProjectedColumn("b")])

    def test_are_not_none_at_all(self) -> None:
        with pytest.raises(ValueError, match="no columns"):
            rows(self.DATA, [])


class TestTypes:
    def test_are_promoted_as_avro_does(self) -> None:
        data = write_avro(
            record(
                ("i", "int"), ("f", "float"), ("s", "string"), ("b", "bytes"), ("l", array("int"))
            ),
            [{"i": 1, "f": 0.5, "s": "x", "b": b"y", "l": [1]}],
        )
        wanted = {
            "i": pa.int64(),
            "f": pa.float64(),
            "s": pa.binary(),
            "b": pa.string(),
            "l": pa.list_(pa.int64()),
        }
        columns = [
            ProjectedColumn(name, names=(name,), type=type_) for name, type_ in wanted.items()
        ]
        batch = only_batch(data, *columns)
        assert batch.schema.types == list(wanted.values())
        assert batch.to_pylist() == [{"i": 1, "f": 0.5, "s": b"x", "b": "y", "l": [1]}]

    def test_of_another_kind_are_damage(self) -> None:
        data = write_avro(record(("it", "long")), [{"it": 1}])
        with pytest.raises(DamagedError, match="it is int64, not string"):
            column(data, "it", type=pa.string())

    def test_of_bytes_that_are_no_text_are_damage(self) -> None:
        data = write_avro(record(("it", "bytes")), [{"it": b"\xff"}])
        with pytest.raises(DamagedError, match="UTF-8"):
            column(data, "it", type=pa.string())

    @pytest.mark.parametrize(
        ("type_", "reason"),
        [
            (record(("x", "int"), name="inner"), "is a record"),
            ({"type": "map", "values": "int"}, "is a map"),
            (["int", "string"], "several types"),
            (array(array("int")), "list of lists"),
            (array("null"), "items without bytes"),
        ],
    )
    def test_that_are_no_leaves_are_refused(self, type_: Any, reason: str) -> None:
        with pytest.raises(DamagedError, match=f"column it cannot be read: it .*{reason}"):
            column(file_of(record(("it", type_))), "it")


class TestUnions:
    def test_of_records_give_what_each_has(self) -> None:
        first = record(("x", "int"), ("y", "string"), name="first")
        second = record(("y", "string"), ("x", ["null", "int"]), name="second")
        third = record(("z", "long"), name="third")
        schema = record(("it", ["null", first, second, third]))
        body = b"".join(
            [
                long(0),
                long(1) + long(7) + text("a"),
                long(2) + text("b") + long(1) + long(8),
                long(3) + long(9),
            ]
        )
        columns = [ProjectedColumn(name, names=("it", name)) for name in "xyz"]
        assert rows(file_of(schema, (4, body)), columns) == [
            {"x": None, "y": None, "z": None},
            {"x": 7, "y": "a", "z": None},
            {"x": 8, "y": "b", "z": None},
            {"x": None, "y": None, "z": 9},
        ]

    def test_may_be_the_whole_row(self) -> None:
        data = file_of(
            ["null", record(("x", "int"))], (3, long(1) + long(5) + long(0) + long(1) + long(6))
        )
        assert column(data, "x") == [5, None, 6]

    def test_of_a_list_and_other_things_give_null_for_the_others(self) -> None:
        schema = record(("it", ["null", array(record(("x", "int"), name="item")), "string"]))
        body = long(0) + long(1) + long(2) + long(4) + long(5) + long(0) + long(2) + text("s")
        assert column(file_of(schema, (3, body)), "it", "x") == [None, [4, 5], None]

    def test_of_fixed_and_null_stay_in_step(self) -> None:
        schema = record(("it", [FIXED, "null"]))
        data = write_avro(schema, [{"it": each} for each in (b"abc", None, b"def", None)])
        assert column(data, "it") == [b"abc", None, b"def", None]


class TestLists:
    def test_of_record_fields_come_side_by_side(self) -> None:
        item = record(("f0", "string"), ("f1", "int"), ("f2", ["null", "long"]), name="item")
        schema = record(("ranges", ["null", array(item)]), ("after", "int"))
        records = [
            {
                "ranges": [{"f0": "a", "f1": 1, "f2": None}, {"f0": "b", "f1": 2, "f2": 3}],
                "after": 1,
            },
            {"ranges": None, "after": 2},
            {"ranges": [], "after": 3},
        ]
        columns = [ProjectedColumn(name, names=("ranges", name)) for name in ("f2", "f0")]
        assert rows(
            write_avro(schema, records), [*columns, ProjectedColumn("n", names=("after",))]
        ) == [
            {"f2": [None, 3], "f0": ["a", "b"], "n": 1},
            {"f2": None, "f0": None, "n": 2},
            {"f2": [], "f0": [], "n": 3},
        ]

    def test_in_several_blocks_with_and_without_sizes_are_one(self) -> None:
        schema = record(("it", array("long")), ("after", "long"))
        one, two = long(1) + long(300), long(2)
        sized = long(-2) + long(len(one)) + one + long(1) + two + long(0)
        data = file_of(schema, (1, sized + long(9)))
        assert rows(
            data, [ProjectedColumn("it", names=("it",)), ProjectedColumn("n", names=("after",))]
        ) == [{"it": [1, 300, 2], "n": 9}]
        assert column(data, "after") == [9]

    def test_with_more_items_than_a_batch_has_rows_make_room(self) -> None:
        records = [{"it": list(range(n))} for n in (3, 2 * ROWS, 5)]
        assert column(write_avro(record(("it", array("int"))), records), "it") == [
            each["it"] for each in records
        ]


class TestBatches:
    def test_end_at_a_number_of_rows(self) -> None:
        data = write_avro(
            record(("it", "int")), [{"it": i} for i in range(2 * ROWS + 1)], "deflate"
        )
        batches = list(read_avro("x", data, [ProjectedColumn("it", names=("it",))]))
        assert [batch.num_rows for batch in batches] == [ROWS, ROWS, 1]
        assert pa.Table.from_batches(batches)["it"].to_pylist() == list(range(2 * ROWS + 1))

    def test_end_at_a_number_of_bytes_and_grow_for_one_large_value(self) -> None:
        sizes = [HEAP_BYTES - 10, 10, 1, 3 * HEAP_BYTES, 5]
        data = write_avro(record(("it", "string")), [{"it": "x" * size} for size in sizes])
        batches = list(read_avro("x", data, [ProjectedColumn("it", names=("it",))]))
        lengths = [[len(each) for each in batch["it"].to_pylist()] for batch in batches]
        assert lengths == [[HEAP_BYTES - 10, 10], [1], [3 * HEAP_BYTES, 5]]

    def test_of_a_small_file_that_was_compressed_well_have_all_of_it(self) -> None:
        values = [{"it": "x" * (size % 50_000)} for size in range(0, 2_000_000, 997)]
        data = write_avro(record(("it", "string")), values, "deflate")
        assert len(data) < 200_000  # and 50 MB as it is
        batches = read_avro("x", data, [ProjectedColumn("it", names=("it",))])
        assert [text for batch in batches for text in batch["it"].to_pylist()] == [
            value["it"] for value in values
        ]

    def test_stay_as_they_are_while_later_ones_are_read(self) -> None:
        data = write_avro(record(("it", "string")), [{"it": str(i)} for i in range(3 * ROWS)])
        first, *_ = read_avro("x", data, [ProjectedColumn("it", names=("it",))])
        assert first["it"].to_pylist() == [str(i) for i in range(ROWS)]


class TestSkipping:
    def test_leaps_over_blocks_of_items_whose_size_is_given(self) -> None:
        pairs = array(record(("k", "int"), ("v", "bytes"), name="pair"))
        schema = record(("skipped", pairs), ("it", "long"))
        items = long(1) + text("ab") + long(200) + text("c" * 100)
        body = long(-2) + long(len(items)) + items + long(2) + items + long(0) + long(9)
        assert column(file_of(schema, (1, body)), "it") == [9]

    def test_takes_numbers_of_every_length_at_every_place(self) -> None:
        pair = record(("k", "int"), ("v", "long"), name="pair")
        schema = record(("skipped", array(pair)), ("one", "long"), ("it", "long"))
        records = [
            {
                "skipped": [{"k": i, "v": 2 ** ((i * 7 + n) % 63)} for i in range(n % 23)],
                "one": 2 ** (n % 63),
                "it": n,
            }
            for n in range(500)
        ]
        assert column(write_avro(schema, records), "it") == list(range(500))

    def test_takes_pairs_of_every_length_at_every_place(self) -> None:
        pair = record(("k", "long"), ("v", "bytes"), name="pair")
        schema = record(("skipped", array(pair)), ("it", "long"))
        records = [
            {
                "skipped": [
                    {"k": 2 ** ((i * 5 + n) % 20), "v": b"x" * ((i * n) % 200)}
                    for i in range(n % 9)
                ],
                "it": n,
            }
            for n in range(500)
        ]
        assert column(write_avro(schema, records), "it") == list(range(500))

    def test_takes_items_without_bytes_whatever_their_number(self) -> None:
        empty = record(name="nothing")
        schema = record(("skipped", array(empty)), ("nulls", array("null")), ("it", "long"))
        body = long(2**60) + long(0) + long(2**60) + long(5) + long(0) + long(3)
        assert column(file_of(schema, (1, body)), "it") == [3]

    def test_follows_types_that_contain_themselves(self) -> None:
        tree = record(
            ("name", "string"),
            ("left", ["null", "tree"]),
            ("children", array("tree")),
            ("named", {"type": "map", "values": "tree"}),
            name="tree",
        )
        schema = record(("skipped", tree), ("it", "long"))
        leaf: dict[str, Any] = {"name": "leaf", "left": None, "children": [], "named": {}}
        node = {"name": "node", "left": leaf, "children": [leaf, leaf], "named": {"k": leaf}}
        root = {
            "name": "root",
            "left": node,
            "children": [node] * 3,
            "named": {"a": node, "b": leaf},
        }
        data = write_avro(
            schema, [{"skipped": each, "it": i} for i, each in enumerate([leaf, root])]
        )
        assert column(data, "it") == [0, 1]
        assert column(data, "skipped", "left", "children", "name") == [None, ["leaf", "leaf"]]

    def test_refuses_to_follow_them_too_deeply(self) -> None:
        node = record(("next", ["null", "node"]), name="node")
        schema = record(("skipped", node), ("it", "long"))
        shallow = long(1) * 4000 + long(0) + long(6)
        assert column(file_of(schema, (1, shallow)), "it") == [6]
        deep = long(1) * 100_000 + long(0) + long(6)
        with pytest.raises(DamagedError, match="nested too deeply"):
            column(file_of(schema, (1, deep)), "it")
