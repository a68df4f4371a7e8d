"""Damaged configurations, policies, inventories, pins and filters are read, or refused."""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.config.file import parse_config
from lakesweep.errors import ConfigError, FormatError, StorageError, UsageError
from lakesweep.hashing.bloom_file import load_bloom
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.marks.pins import read_pins
from lakesweep.operations.setup.configuration import TEMPLATE
from lakesweep.storage.listing.inventory import open_inventory
from lakesweep.storage.listing.inventory_rows import read_inventory_part
from lakesweep.storage.stores import Stores
from tests.fuzz.damage import NASTY_TEXTS, damaged, damaged_document
from tests.random_tests import Cases

_POLICY = {
    "logs": {"prefix": "logs/*", "days": 30, "branch_days": {"main": 7}, "tag_days": {"v*": 90}},
    "all": {"prefix": "", "days": 365, "allow_empty_prefix": True},
}
_MANIFEST = {
    "sourceBucket": "lake",
    "destinationBucket": "arn:aws:s3:::lake",
    "version": "2016-11-30",
    "creationTimestamp": "1731844800000",
    "fileFormat": "CSV",
    "fileSchema": "Bucket, Key, Size, LastModifiedDate, ETag",
    "files": [{"key": "data/part.csv", "size": 70, "MD5checksum": None}],
}
_CSV = b'"lake","wh/a%20b","7","2026-11-01T00:00:00.000Z","abc"\n' * 3


def test_configurations(cases: Cases) -> None:
    whole = TEMPLATE.replace("\n# [", "\n[").replace("\n# ", "\n")
    tomllib.loads(TEMPLATE)
    for chance in cases(1_000):
        text = _damaged_text(chance.choice([TEMPLATE, whole]), chance)
        with suppress(ConfigError):
            parse_config(text, Path("lakesweep.toml"), {"LAKE_SECRET": "s", "LAKE_KEY_ID": "i"})


@pytest.mark.parametrize("suffix", ["json", "yaml", "toml"])
def test_policies(cases: Cases, suffix: str) -> None:
    for chance in cases(500):
        data = damaged_document(_POLICY, chance)
        if suffix == "toml":
            data = damaged(
                b'[logs]\nprefix = "logs/*"\ndays = 30\n[logs.tag_days]\nv = 9\n', chance
            )
        with suppress(ConfigError):
            parse_policy(data, f"policy.{suffix}")


def test_inventories(cases: Cases) -> None:
    stores = Stores()
    store = stores.open("memory://fuzzed-inventories/")
    for chance in cases(1_000):
        store.write("i/manifest.json", damaged_document(_MANIFEST, chance))
        store.write("data/part.csv", damaged(_CSV, chance))
        with suppress(FormatError, StorageError, UsageError):
            inventory = open_inventory(stores, "memory://fuzzed-inventories/i/manifest.json")
            for part in inventory.parts:
                list(read_inventory_part(stores, part, ["s3://lake/wh"]))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_plain_inventories(cases: Cases, form: str) -> None:
    stores, data = Stores(), _CSV if form == "csv" else _parquet("key")
    store = stores.open("memory://fuzzed-inventories/")
    for chance in cases(300):
        store.write(f"plain.{form}", damaged(data, chance))
        with suppress(FormatError, StorageError, UsageError):
            inventory = open_inventory(stores, f"memory://fuzzed-inventories/plain.{form}")
            for part in inventory.parts:
                list(read_inventory_part(stores, part, ["s3://lake/wh"]))


@pytest.mark.parametrize("data", [b"# pins\ns3://lake/a\ns3://lake/b/\n", None])
def test_pins(cases: Cases, data: bytes | None) -> None:
    stores = Stores()
    for chance in cases(300):
        found = damaged(_parquet("path") if data is None else data, chance)
        stores.open("memory://fuzzed-pins/").write("pins", found)
        with suppress(FormatError):
            read_pins(stores, "memory://fuzzed-pins/pins")


def test_bloom_filters(cases: Cases) -> None:
    data = (Path(__file__).parents[1] / "data" / "bloom-1.bin").read_bytes()
    for chance in cases(500):
        with suppress(FormatError):
            load_bloom("filter", damaged(data, chance)).contains(
                (np.ones(9, "u8"), np.ones(9, "u8"))
            )


def _damaged_text(text: str, chance: Random) -> str:
    lines = text.splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        match chance.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, chance.choice(lines))
            case 2:
                lines[at] = lines[at].replace('"', chance.choice(["", "'", '"""']), 1)
            case _:
                name = lines[at].partition("=")[0]
                lines[at] = f"{name}= {chance.choice(_VALUES)}"
    return "\n".join(lines)


_VALUES = (
    *("-1", "0", "1e400", "nan", "inf", "9" * 5000, str(2**63), "true", "[]", "{}", "1979-05-27"),
    *("[" * 2000, "{a=" * 500, '"${LAKE_SECRET}"', '"${"', '"${NOT_SET}"', '"99999999999d"'),
    *(json.dumps(text) for text in NASTY_TEXTS),
)


@cache
def _parquet(column: str) -> bytes:
    out = pa.BufferOutputStream()
    table = {column: ["s3://lake/wh/a", "s3://lake/wh/b"], "size": [1, 2]}
    pq.write_table(pa.table({**table, "last_modified_date": ["2026-11-01T00:00:00Z"] * 2}), out)
    return bytes(out.getvalue())
