"""The example of the page about the store runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "store.md"


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert found is not None
    exec(compile(found[1], _PAGE, "exec", dont_inherit=True), {"__name__": "example"})
    assert capsys.readouterr().out == "b'\\x02soup\\x00' water, salt\n1 first course [b'soup']\n"
