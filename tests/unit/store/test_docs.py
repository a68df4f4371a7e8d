"""The example of the page about the store runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.stores import CountingIds

_PAGE = Path(__file__).parents[3] / "docs" / "store.md"


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, object] = {"ids": CountingIds(), "__name__": "example"}
    exec(found[1] + "\nbackend.close()", names)
    assert capsys.readouterr().out == "1 first course [b'soup']\n"
