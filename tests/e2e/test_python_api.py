"""The Python API: its surface, and the examples of its page, run on the demo's lake."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakesweep
from lakesweep.demo.garbage import add_garbage
from lakesweep.demo.lake import DemoLake
from tests.paimon import JavaWarehouses
from tests.transcript import Step

_PAGE = Path(__file__).parents[2] / "docs" / "python.md"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoLake:
    """The demo's lake with its garbage; its folder is the current one."""
    made = DemoLake(tmp_path)
    made.create()
    add_garbage(made)
    monkeypatch.chdir(tmp_path)
    return made


def _run_examples(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "example"}
    examples = _EXAMPLE.findall(page.read_text())
    assert examples
    for code, expected in examples:
        exec(compile(code, page, "exec", dont_inherit=True), names)
        printed = capsys.readouterr().out
        assert Step(code, expected.rstrip(), 0).matches(printed), printed


def test_the_examples_of_the_page_run(lake: DemoLake, capsys: pytest.CaptureFixture[str]) -> None:
    _run_examples(_PAGE, capsys)


def test_the_examples_for_paimon_run(
    java_tables: JavaWarehouses,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    java_tables.table("append_dt").copy_to(tmp_path / "warehouse")
    monkeypatch.chdir(tmp_path)
    _run_examples(_PAGE.with_name("paimon.md"), capsys)


def test_the_public_names_are_these() -> None:
    assert lakesweep.__all__ == [
        "Lakesweep",
        "LakesweepError",
        "Plan",
        "RowStream",
        "__version__",
        "open",
    ]
    assert all(getattr(lakesweep, name) for name in lakesweep.__all__)


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, lakesweep; print(*(m for m in sys.modules if m.startswith('lakesweep.')))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    assert loaded.decode().split() == ["lakesweep.version"]


def test_a_session_opens_from_values(lake: DemoLake) -> None:
    values = {"lakes": {"mine": {"locations": [str(lake.warehouse)]}}}
    with lakesweep.open(values) as session:
        assert session.files(str(lake.warehouse)).count() == len(lake.files())


def test_values_that_are_wrong_name_the_key() -> None:
    with pytest.raises(lakesweep.LakesweepError, match=r"lakes\.mine\.locatons"):
        lakesweep.open({"lakes": {"mine": {"locatons": ["x"]}}})


def test_nothing_is_deleted_without_consent(lake: DemoLake) -> None:
    before = lake.files()
    with lakesweep.open() as session, pytest.raises(lakesweep.LakesweepError, match="confirmed"):
        session.purge_files(str(lake.warehouse))
    assert lake.files() == before


def test_a_plan_shows_well_in_a_notebook(lake: DemoLake) -> None:
    with lakesweep.open() as session:
        dropped = "unlisted-table=warehouse/shop/customers"
        plan = session.plan("demo", engine="local", override=[dropped])
        assert "<td>unreferenced</td><td>23</td>" in plan._repr_html_()
        assert "<th>verdict</th>" in plan.files()._repr_html_()
