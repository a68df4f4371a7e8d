"""pandas is installed beside pyspark; commands do not load it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BEFORE = """
import sys
from lakesweep.no_pandas import disable_pandas
{first}
disable_pandas()
{then}
import pyarrow as pa
pa.array([1]), pa.array(["a"]).to_numpy(zero_copy_only=False)
assert "pandas" not in sys.modules
assert not any(type(each).__module__ == "lakesweep.no_pandas" for each in sys.meta_path)
import pandas
assert pandas.DataFrame({{"a": [1]}}).a[0] == 1
"""


@pytest.mark.parametrize(("first", "then"), [("import pyarrow", ""), ("", "import pyarrow")])
def test_pyarrow_does_without_pandas_which_others_still_find(first: str, then: str) -> None:
    code = _BEFORE.format(first=first, then=then)
    subprocess.run([sys.executable, "-c", code], check=True)
