from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from lakesweep.spark.executor_package import zip_package


def test_the_same_code_gives_the_same_zip(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    first, second = zip_package(one), zip_package(other)
    assert first is not None
    assert second is not None
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())


def test_the_zip_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    path = zip_package(tmp_path)
    assert path is not None
    names = ZipFile(path).namelist()
    assert "lakesweep/spark/kernels.py" in names
    assert all(name.startswith("lakesweep/") and "__pycache__" not in name for name in names)
