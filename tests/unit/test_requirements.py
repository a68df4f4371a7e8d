"""The pages of requirements and threats name modules and tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "requirements.md"
_ROW = re.compile(r"^\| (?P<statement>.+?) \| (?P<where>.+?) \| (?P<proof>.+?) \|$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")


def _rows() -> list[tuple[str, str, str]]:
    found = _ROW.finditer(_PAGE.read_text("utf-8"))
    rows = [(row["statement"], row["where"], row["proof"]) for row in found]
    return [row for row in rows if row[0] != "statement"]


@cache
def _functions() -> frozenset[str]:
    sources = [*(_ROOT / "tests").rglob("*.py"), *(_ROOT / "src").rglob("contract.py")]
    found = (re.findall(r"def (\w+)\(", source.read_text("utf-8")) for source in sources)
    return frozenset(name for names in found for name in names)


@pytest.mark.parametrize(("statement", "where", "proof"), _rows())
def test_a_statement_names_modules_and_tests_that_exist(
    statement: str, where: str, proof: str
) -> None:
    modules = [_ROOT / "src" / "lakesweep" / name for name in _NAME.findall(where)]
    assert modules, statement
    assert [str(module) for module in modules if not module.exists()] == []
    tests = set(_NAME.findall(proof))
    assert tests, statement
    assert sorted(tests - _functions()) == []


def test_all_five_texts_are_gone_through() -> None:
    headings = re.findall(r"^## (\d)\.", _PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == ["0", "1", "2", "3", "4"]


def test_the_threat_model_names_tests_that_exist() -> None:
    page = (_ROOT / "docs" / "decisions" / "0025-threat-model.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named
    assert sorted(named - _functions()) == []
