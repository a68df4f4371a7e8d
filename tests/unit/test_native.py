""""""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.avro import decoder_kernels
from lakesweep.hashing import HashSet, hash128, hash_set_kernels, siphash
from lakesweep.native import OwnCacheFile
from lakesweep.spark.settings import zip_package
from tests.avro_files import CODECS, column, record, write_avro

NOWHERE = "/proc/nowhere"
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import lakesweep
assert ".zip" in lakesweep.__file__
import pyarrow as pa
from lakesweep.hashing import hash128
from lakesweep.hashing.siphash import hash_strings
low, high = hash128(pa.array(["a", "b"]))
print(low[0], high[0], sum(hash_strings.stats.cache_hits.values()))
"""
HASH = "13736040008585759999 2698726064037086438"


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


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = zip_package(tmp_path_factory.mktemp("shipped"))
    assert found is not None
    return found


def run(package: Path, home: str, temporary: str) -> str:
    """The first hash of the zipped package, and how many kernels it found compiled."""
    variables = {"HOME": home, "TMPDIR": temporary, "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", SCRIPT, str(package)]
    return subprocess.check_output(command, env=variables, text=True).strip()


def test_what_was_compiled_from_one_zip_serves_its_copy(package: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "copy.zip"
    copy.parent.mkdir()
    copy.write_bytes(package.read_bytes())
    assert run(package, str(tmp_path), NOWHERE) == f"{HASH} 0"
    assert run(copy, str(tmp_path), NOWHERE) == f"{HASH} 1"


def test_without_a_home_a_temporary_folder_serves(package: Path, tmp_path: Path) -> None:
    assert run(package, NOWHERE, str(tmp_path)) == f"{HASH} 0"
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_is_not_used(package: Path, tmp_path: Path) -> None:
    open_to_all = tmp_path / f"lakesweep-numba-{os.geteuid()}"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert run(package, NOWHERE, str(tmp_path)) == f"{HASH} 0"
    assert not list(open_to_all.iterdir())


def cache_file(folder: Path, stamp: str = "source") -> OwnCacheFile:
    return OwnCacheFile(str(folder), "kernel", stamp)


def test_processes_that_compile_a_kernel_at_once_keep_their_code_apart(tmp_path: Path) -> None:
    index = tmp_path / "kernel.nbi"
    cache_file(tmp_path).save("one", "code of one")
    known = index.read_bytes()
    index.unlink()  # the other process looked before
    cache_file(tmp_path).save("two", "code of two")
    assert cache_file(tmp_path).load("two") == "code of two"
    index.write_bytes(known)  # and the first one writes last
    assert cache_file(tmp_path).load("one") == "code of one"


def test_code_of_another_source_is_never_run(tmp_path: Path) -> None:
    cache_file(tmp_path, "old").save("one", "old code")
    cache_file(tmp_path, "new").save("two", "new code")
    assert cache_file(tmp_path, "new").load("one") is None
    assert cache_file(tmp_path, "new").load("two") == "new code"


def test_kernels_keep_their_code_so() -> None:
    from lakesweep.hashing.siphash import hash_strings

    assert isinstance(hash_strings._cache._cache_file, OwnCacheFile)  # type: ignore[attr-defined]
