from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.avro import decoder_kernels
from lakesweep.hashing import HashSet, hash128, hash_set_kernels, siphash
from tests.avro_files import CODECS, column, record, write_avro


@pytest.mark.parametrize("module", ["lakesweep.avro", "lakesweep.hashing"])
def test_importing_what_uses_kernels_does_not_import_numba(module: str) -> None:
    code = f"import sys, {module}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kernels_are_compiled_once_whatever_holds_the_data() -> None:
    for codec in CODECS:
        data = write_avro(record(("it", "string")), [{"it": "x"}] * 100, codec)
        for wrapped in (data, bytearray(data), memoryview(bytearray(data)), pa.py_buffer(data)):
            assert column(wrapped, "it") == ["x"] * 100
    low, high = hash128(pa.array(["a", "b"]))
    hash128(pa.chunked_array([["a"], ["b"]]))
    seen = HashSet()
    seen.add((low[::-1], high[::-1]))
    assert seen.contains((low, high)).all()
    kernels: list[Any] = [
        decoder_kernels.walk,
        decoder_kernels.find_blocks,
        hash_set_kernels.add,
        hash_set_kernels.contains,
    ]
    assert [len(kernel.overloads) for kernel in kernels] == [1, 1, 1, 1]
    of_strings: Any = siphash.hash_strings
    assert len(of_strings.overloads) <= 2, "one for strings, one for large strings"
