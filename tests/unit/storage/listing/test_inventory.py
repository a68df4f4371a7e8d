from __future__ import annotations

import gzip
import hashlib
import json
import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakesweep.errors import (
    DamagedError,
    LakesweepError,
    LimitError,
    MissingError,
    TruncatedError,
    UsageError,
)
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.inventory import Inventory, open_inventory
from lakesweep.storage.listing.inventory_rows import read_inventory_part
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Stores

TAKEN = datetime(2026, 5, 3, 1, 30, tzinfo=UTC)
TIME = datetime(2026, 4, 1, 12, 0, 1, 500_000, tzinfo=UTC)
FIELDS = {
    "Bucket": "bucket", "Key": "key", "VersionId": "version_id", "IsLatest": "is_latest",
    "IsDeleteMarker": "is_delete_marker", "Size": "size", "LastModifiedDate": "last_modified_date",
    "ETag": "e_tag", "StorageClass": "storage_class",
}  # fmt: skip
ODD_KEYS = ["wh/a b+c.parquet", "wh/50%/ž.parquet", "wh//x", "wh/a%2Fb", "wh/tab\tand,comma"]

Rows = list[dict[str, Any]]


def row(key: str, **changes: Any) -> dict[str, Any]:
    usual = {
        "bucket": "lake", "key": key, "version_id": "v", "is_latest": True,
        "is_delete_marker": False, "size": 7, "last_modified_date": TIME, "e_tag": "abc",
        "storage_class": "STANDARD",
    }  # fmt: skip
    return {**usual, **changes}


class Bucket:
    """Writes S3 inventories as Amazon does, into a folder that stands for the bucket `reports`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = Stores(replace={"s3://reports": LocalStore(str(folder), "s3://reports/")})
        self._home = "daily/lake/config"

    def write(self, form: str, *files: Rows, **changes: Any) -> str:
        """The address of the manifest."""
        listed = [self._write_data(form, number, rows) for number, rows in enumerate(files)]
        manifest = {
            "sourceBucket": "lake",
            "destinationBucket": "arn:aws:s3:::reports",
            "version": "2016-11-30",
            "creationTimestamp": str(int(TAKEN.timestamp() * 1000)),
            "fileFormat": form,
            "fileSchema": ", ".join(FIELDS),
            "files": listed,
            **changes,
        }
        data = json.dumps(manifest).encode()
        key = f"{self._home}/2026-05-03T01-30Z/manifest"
        self.put(f"{key}.json", data)
        self.put(f"{key}.checksum", hashlib.md5(data).hexdigest().encode())
        return f"s3://reports/{key}.json"

    def put(self, key: str, data: bytes) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def data_file(self, number: int = 0) -> Path:
        return next(self.folder.glob(f"{self._home}/data/{number}.*"))

    def _write_data(self, form: str, number: int, rows: Rows) -> dict[str, Any]:
        write, ending = WRITERS[form]
        key = f"{self._home}/data/{number}.{ending}"
        data = write(rows)
        self.put(key, data)
        return {"key": key, "size": len(data), "MD5checksum": hashlib.md5(data).hexdigest()}


def _csv(rows: Rows) -> bytes:
    def text(name: str, value: Any) -> str:
        match name, value:
            case _, None:
                return ""
            case "key", _:
                return quote_plus(value, safe="/")
            case _, bool():
                return str(value).lower()
            case _, datetime():
                return str(value.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
        return str(value)

    lines = (",".join(f'"{text(*item)}"' for item in each.items()) for each in rows)
    return gzip.compress("".join(f"{line}\n" for line in lines).encode())


def _table(rows: Rows, time: pa.DataType) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    place = table.schema.get_field_index("last_modified_date")
    return table.set_column(place, "last_modified_date", table["last_modified_date"].cast(time))


def _orc(rows: Rows) -> bytes:
    sink = pa.BufferOutputStream()
    orc.write_table(_table(rows, pa.timestamp("ns")), sink, compression="zlib")
    return bytes(sink.getvalue())


def _parquet(rows: Rows) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_table(rows, pa.timestamp("ms", "UTC")), sink)
    return bytes(sink.getvalue())


WRITERS = {"CSV": (_csv, "csv.gz"), "ORC": (_orc, "orc"), "Parquet": (_parquet, "parquet")}
every_format = pytest.mark.parametrize("form", list(WRITERS))


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path / "reports")


def read(
    stores: Stores, inventory: Inventory, locations: Sequence[str] = ("s3://lake/wh",)
) -> Rows:
    rows: Rows = []
    for part in inventory.parts:
        for batch in read_inventory_part(stores, part, locations):
            assert batch.schema == FILE_SCHEMA
            rows += batch.to_pylist()
    return rows


class TestS3:
    @every_format
    def test_gives_the_files_of_all_parts(self, bucket: Bucket, form: str) -> None:
        path = bucket.write(form, [row("wh/a.parquet")], [row("wh/b.parquet", size=0)])
        found = read(bucket.stores, open_inventory(bucket.stores, path))
        time = TIME if form != "CSV" else TIME.replace(microsecond=0)
        assert found == [
            {"path": f"s3://lake/wh/{name}.parquet", "kind": None, "size_bytes": size,
             "modified": time, "etag": "abc"}
            for name, size in (("a", 7), ("b", 0))
        ]  # fmt: skip

    @every_format
    def test_keeps_every_key_exactly(self, bucket: Bucket, form: str) -> None:
        path = bucket.write(form, [row(key) for key in ODD_KEYS])
        found = read(bucket.stores, open_inventory(bucket.stores, path))
        assert [each["path"] for each in found] == [f"s3://lake/{key}" for key in ODD_KEYS]

    @every_format
    def test_leaves_out_old_versions_and_what_was_deleted(self, bucket: Bucket, form: str) -> None:
        rows = [
            row("wh/kept"),
            row("wh/kept", is_latest=False),
            row("wh/gone", is_delete_marker=True, size=None, e_tag=None),
            row("wh/gone", is_latest=False),
        ]
        found = read(bucket.stores, open_inventory(bucket.stores, bucket.write(form, rows)))
        assert [each["path"] for each in found] == ["s3://lake/wh/kept"]

    @every_format
    def test_needs_no_columns_of_versions(self, bucket: Bucket, form: str) -> None:
        short = {k: v for k, v in row("wh/a").items() if k not in ("is_latest", "is_delete_marker")}
        schema = ", ".join(name for name, plain in FIELDS.items() if plain in short)
        path = bucket.write(form, [short], fileSchema=schema)
        assert len(read(bucket.stores, open_inventory(bucket.stores, path))) == 1

    def test_leaves_out_what_lies_below_no_location(self, bucket: Bucket) -> None:
        path = bucket.write("CSV", [row("wh/a"), row("wh2/a"), row("wh"), row("other/b")])
        inventory = open_inventory(bucket.stores, path)
        found = read(bucket.stores, inventory, ("s3a://lake/wh", "s3://lake/other/"))
        assert [each["path"] for each in found] == ["s3://lake/wh/a", "s3://lake/other/b"]
        assert read(bucket.stores, inventory, ()) == []

    def test_has_the_time_when_it_was_begun(self, bucket: Bucket) -> None:
        inventory = open_inventory(bucket.stores, bucket.write("CSV", []))
        assert inventory.taken_at == TAKEN
        assert inventory.age(TAKEN + timedelta(days=2)) == timedelta(days=2)

    def test_from_the_future_is_refused(self, bucket: Bucket) -> None:
        inventory = open_inventory(bucket.stores, bucket.write("CSV", []))
        with pytest.raises(UsageError, match="future"):
            inventory.age(TAKEN - timedelta(seconds=1))

    def test_has_parts_that_can_be_sent_elsewhere(self, bucket: Bucket) -> None:
        path = bucket.write("CSV", [row("wh/a")])
        parts = pickle.loads(pickle.dumps(open_inventory(bucket.stores, path).parts))
        assert len(list(read_inventory_part(bucket.stores, parts[0], ["s3://lake"]))) == 1

    def test_can_lie_in_another_bucket_than_its_manifest(self, bucket: Bucket) -> None:
        path = bucket.write("CSV", [row("wh/a")], destinationBucket="arn:aws:s3:::elsewhere")
        [part] = open_inventory(bucket.stores, path).parts
        assert part.path == "s3://elsewhere/daily/lake/config/data/0.csv.gz"

    def test_can_be_a_copy_on_disk(self, bucket: Bucket) -> None:
        bucket.write("ORC", [row("wh/a")])
        manifest = next(bucket.folder.rglob("manifest.json"))
        assert len(read(Stores(), open_inventory(Stores(), str(manifest)))) == 1


class TestDamage:
    @every_format
    def test_a_missing_data_file_is_an_error(self, bucket: Bucket, form: str) -> None:
        inventory = open_inventory(bucket.stores, bucket.write(form, [row("wh/a")]))
        bucket.data_file().unlink()
        with pytest.raises(DamagedError, match="missing"):
            read(bucket.stores, inventory)

    @every_format
    def test_a_data_file_of_another_size_is_an_error(self, bucket: Bucket, form: str) -> None:
        inventory = open_inventory(bucket.stores, bucket.write(form, [row("wh/a")]))
        bucket.data_file().write_bytes(bucket.data_file().read_bytes()[:-1])
        with pytest.raises(TruncatedError, match="bytes instead of"):
            read(bucket.stores, inventory)

    @every_format
    def test_a_data_file_with_other_bytes_is_an_error(self, bucket: Bucket, form: str) -> None:
        inventory = open_inventory(bucket.stores, bucket.write(form, [row("wh/a")]))
        data = bytearray(bucket.data_file().read_bytes())
        data[len(data) // 2] ^= 1
        bucket.data_file().write_bytes(data)
        with pytest.raises(DamagedError, match="MD5"):
            read(bucket.stores, inventory)

    @every_format
    def test_a_data_file_of_another_format_is_an_error(self, bucket: Bucket, form: str) -> None:
        other = {"CSV": "ORC", "ORC": "Parquet", "Parquet": "CSV"}[form]
        path = bucket.write(form, [row("wh/a")], fileFormat=other)
        with pytest.raises(LakesweepError):
            read(bucket.stores, open_inventory(bucket.stores, path))

    def test_a_manifest_that_was_changed_is_an_error(self, bucket: Bucket) -> None:
        path = bucket.write("CSV", [row("wh/a")])
        bucket.put(path.removeprefix("s3://reports/"), b"{}")
        with pytest.raises(DamagedError, match="checksum"):
            open_inventory(bucket.stores, path)

    @pytest.mark.parametrize(
        "change",
        [
            {"fileFormat": "XML"},
            {"creationTimestamp": "yesterday"},
            {"creationTimestamp": "9" * 30},
            {"files": None},
            {"files": [{"key": "x"}]},
            {"sourceBucket": None},
        ],
    )
    def test_a_manifest_that_makes_no_sense_is_an_error(
        self, bucket: Bucket, change: dict[str, Any]
    ) -> None:
        with pytest.raises(DamagedError, match="not an S3 inventory manifest"):
            open_inventory(bucket.stores, bucket.write("CSV", [], **change))

    def test_a_destination_that_is_no_bucket_is_an_error(self, bucket: Bucket) -> None:
        path = bucket.write("CSV", [row("wh/a")], destinationBucket="arn:aws:s3:::a/b")
        with pytest.raises(DamagedError, match="not a bucket"):
            open_inventory(bucket.stores, path)

    def test_keys_of_another_bucket_are_an_error(self, bucket: Bucket) -> None:
        path = bucket.write("ORC", [row("wh/a"), row("wh/b", bucket="other")])
        with pytest.raises(DamagedError, match="a bucket other than"):
            read(bucket.stores, open_inventory(bucket.stores, path))

    @pytest.mark.parametrize("key", ["", None])
    def test_rows_without_a_key_are_an_error(self, bucket: Bucket, key: Any) -> None:
        path = bucket.write("Parquet", [row("wh/a"), row(key)])
        with pytest.raises(DamagedError, match="without a file name"):
            read(bucket.stores, open_inventory(bucket.stores, path))

    def test_an_inventory_without_times_says_what_to_change(self, bucket: Bucket) -> None:
        short = {"bucket": "lake", "key": "wh/a", "size": 1}
        path = bucket.write("CSV", [short], fileSchema="Bucket, Key, Size")
        with pytest.raises(UsageError, match="modification time") as caught:
            read(bucket.stores, open_inventory(bucket.stores, path))
        assert "LastModifiedDate" in (caught.value.hint or "")

    def test_a_missing_manifest_is_not_found(self, bucket: Bucket) -> None:
        with pytest.raises(MissingError):
            open_inventory(bucket.stores, "s3://reports/none/manifest.json")


class TestPlain:
    """Files that anybody may write."""

    def read(self, path: Path, locations: Sequence[str] = ("s3://lake/wh",)) -> Rows:
        return read(Stores(), open_inventory(Stores(), str(path)), locations)

    def parquet(self, folder: Path, **columns: Any) -> Path:
        pq.write_table(pa.table(columns), folder / "it.parquet")
        return folder / "it.parquet"

    def csv(self, folder: Path, text: str) -> Path:
        (folder / "it.csv").write_text(text, encoding="utf-8")
        return folder / "it.csv"

    def test_parquet_has_a_path_a_size_and_a_time(self, tmp_path: Path) -> None:
        path = self.parquet(
            tmp_path,
            path=["s3a://lake/wh/a+b%20c"],
            size_bytes=pa.array([3]),
            modified=pa.array([TIME], pa.timestamp("us", "UTC")),
            etag=['"abc"'],
        )
        assert self.read(path) == [
            {"path": "s3a://lake/wh/a+b%20c", "kind": None, "size_bytes": 3, "modified": TIME,
             "etag": "abc"}
        ]  # fmt: skip

    def test_csv_is_taken_as_it_is_written(self, tmp_path: Path) -> None:
        path = self.csv(
            tmp_path,
            "\ufeffPath,Size,Last-Modified\n"
            "s3://lake/wh/a+b%20c,3,2026-04-01T12:00:01.5Z\n"
            '"s3://lake/wh/x,\ny",,2026-04-01T14:00:01.5+02:00\n',
        )
        found = [(each["path"], each["size_bytes"], each["modified"]) for each in self.read(path)]
        assert found == [("s3://lake/wh/a+b%20c", 3, TIME), ("s3://lake/wh/x,\ny", None, TIME)]

    def test_csv_may_be_compressed(self, tmp_path: Path) -> None:
        text = "bucket,key,size,modified\nlake,wh/a,1,2026-04-01T12:00:00Z\n"
        (tmp_path / "it.csv.gz").write_bytes(gzip.compress(text.encode()))
        assert [each["path"] for each in self.read(tmp_path / "it.csv.gz")] == ["s3://lake/wh/a"]

    def test_that_delta_takes_is_taken(self, tmp_path: Path) -> None:
        path = self.parquet(
            tmp_path,
            path=["s3://lake/wh/a", "s3://lake/wh/folder"],
            length=[3, 0],
            isDir=[False, True],
            modificationTime=[int(TIME.timestamp() * 1000)] * 2,
        )
        assert [(each["path"], each["modified"]) for each in self.read(path)] == [
            ("s3://lake/wh/a", TIME)
        ]

    def test_numbers_in_csv_are_milliseconds(self, tmp_path: Path) -> None:
        moment = int(TIME.timestamp() * 1000)
        path = self.csv(tmp_path, f"path,modified\ns3://lake/wh/a,{moment}\ns3://lake/wh/b,\n")
        assert [each["modified"] for each in self.read(path)] == [TIME, None]

    def test_seconds_are_not_taken_for_old_times(self, tmp_path: Path) -> None:
        path = self.parquet(tmp_path, path=["s3://lake/wh/a"], modified=[int(TIME.timestamp())])
        assert [each["modified"] for each in self.read(path)] == [None]

    @pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.float64(), pa.date32()])
    def test_times_without_a_zone_are_refused(self, tmp_path: Path, kind: pa.DataType) -> None:
        times = pa.array([0]).cast(pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
        path = self.parquet(tmp_path, path=["s3://lake/wh/a"], modified=times)
        with pytest.raises(UsageError, match="times of this inventory"):
            self.read(path)

    def test_times_in_csv_without_a_zone_are_refused(self, tmp_path: Path) -> None:
        path = self.csv(tmp_path, "path,modified\ns3://lake/wh/a,2026-04-01 12:00:00\n")
        with pytest.raises(DamagedError, match="zone"):
            self.read(path)

    @pytest.mark.parametrize("columns", ["key,modified", "size,modified", "path,size"])
    def test_without_what_is_needed_is_refused(self, tmp_path: Path, columns: str) -> None:
        path = self.csv(tmp_path, f"{columns}\nx,1\n")
        with pytest.raises(UsageError, match="no column"):
            self.read(path)

    def test_that_is_no_inventory_at_all_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "it").write_bytes(b"PAR1 and nothing else")
        with pytest.raises(DamagedError, match="cannot be read"):
            self.read(tmp_path / "it")

    def test_is_as_old_as_the_file_unless_told(self, tmp_path: Path) -> None:
        path = self.csv(tmp_path, "path,modified\n")
        modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        found = open_inventory(Stores(), str(path)).taken_at
        assert abs(found - modified) < timedelta(milliseconds=1)
        assert open_inventory(Stores(), str(path), taken_at=TAKEN).taken_at == TAKEN

    def test_that_changed_after_it_was_opened_is_an_error(self, tmp_path: Path) -> None:
        path = self.csv(tmp_path, "path,modified\n")
        inventory = open_inventory(Stores(), str(path))
        path.write_text("path,modified\ns3://lake/wh/a,\n")
        with pytest.raises(TruncatedError):
            read(Stores(), inventory)

    def test_of_many_rows_comes_in_batches(self, tmp_path: Path) -> None:
        count = 200_000
        table = pa.table(
            {
                "path": [f"s3://lake/wh/{number}" for number in range(count)],
                "modified": pa.array([TIME] * count, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, tmp_path / "it.parquet")
        pa_csv.write_csv(
            table.select(["path"]).append_column("modified", pa.array([TIME.isoformat()] * count)),
            tmp_path / "it.csv",
        )
        for name in ("it.parquet", "it.csv"):
            [part] = open_inventory(Stores(), str(tmp_path / name)).parts
            sizes = [
                batch.num_rows for batch in read_inventory_part(Stores(), part, ["s3://lake/"])
            ]
            assert sum(sizes) == count
            assert max(sizes) < count


def plain(tmp_path: Path, name: str, data: bytes) -> list[str]:
    """The paths in a plain inventory with this content."""
    path = tmp_path / name
    path.write_bytes(data)
    stores = Stores()
    (part,) = open_inventory(stores, str(path)).parts
    batches = read_inventory_part(stores, part, ["s3://lake"])
    return [each for batch in batches for each in batch["path"].to_pylist()]


def parquet_of(columns: dict[str, pa.Array]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return bytes(sink.getvalue())


def files_of(count: int, **changes: pa.Array) -> dict[str, pa.Array]:
    columns = {
        "path": pa.array(["s3://lake/a"] * count),
        "size": pa.array([1] * count, pa.int64()),
        "modified": pa.array([TIME] * count, pa.timestamp("us", "UTC")),
    }
    return {**columns, **changes}


def test_a_text_repeated_by_its_dictionary_does_not_fill_the_memory(tmp_path: Path) -> None:
    rows = 60_000
    longest = pa.DictionaryArray.from_arrays(
        pa.array([0] * rows, pa.int32()), pa.array(["s3://lake/" + "x" * 50_000])
    )
    bomb = parquet_of(files_of(rows, path=longest))
    assert len(bomb) < 100_000
    with pytest.raises(LimitError, match=r"bomb\.parquet.* more than .* bytes of text"):
        plain(tmp_path, "bomb.parquet", bomb)


HEADER = b"path,size,modified\n"
DAMAGED = {
    "not-utf8.csv": HEADER + b"s3://lake/caf\xe9,1,1700000000000\n",
    "header-not-utf8.csv": b"p\xe9th,size,modified\ns3://lake/a,1,1700000000000\n",
    "large.csv": HEADER + b"s3://lake/a,9223372036854775808,1700000000000\n",
    "digits.csv": HEADER + b"s3://lake/a," + b"9" * 5_000 + b",1700000000000\n",
    "negative.csv": HEADER + b"s3://lake/a,-1,1700000000000\n",
    "cut.csv.gz": gzip.compress(HEADER * 1_000)[:-20],
    "cut.orc": b"ORC" + bytes(200),
    "cut.parquet": b"PAR1" + bytes(200) + b"PAR1",
    "large.parquet": parquet_of(files_of(1, size=pa.array([2**63], pa.uint64()))),
    "nul.parquet": parquet_of(files_of(1, path=pa.array(["s3://lake/a\0b"]))),
    "times.parquet": parquet_of(files_of(1, modified=pa.array([2**63 - 1], pa.int64()))),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_inventory_is_an_error_that_names_the_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(DamagedError, match=name):
        plain(tmp_path, name, DAMAGED[name])


def test_a_header_without_an_end_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(LakesweepError, match=r"header\.csv\.gz"):
        plain(tmp_path, "header.csv.gz", gzip.compress(b"x" * 50_000_000))


@pytest.mark.parametrize(("form", "cases"), [("ORC", 4), ("Parquet", 200), ("CSV", 200)])
def test_flipped_bytes_never_raise_anything_else(bucket: Bucket, form: str, cases: int) -> None:
    """The ORC reader of Arrow crashes on some of these: that must not end our process."""
    manifest = bucket.write(form, [row(f"wh/{n}") for n in range(50)])
    (part,) = open_inventory(bucket.stores, manifest).parts
    path = bucket.folder / part.path.removeprefix("s3://reports/")
    data = path.read_bytes()
    for number in range(cases):
        damaged = bytearray(data)
        damaged[(number * 7919) % len(data)] ^= 1 << (number % 8)
        path.write_bytes(damaged)
        with suppress(LakesweepError):
            for _ in read_inventory_part(bucket.stores, replace(part, md5=None), ["s3://lake"]):
                pass
