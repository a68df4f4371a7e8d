"""The shape of the source tree, and the map of it in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

_PROJECT = Path(__file__).parents[2]
_SOURCE = _PROJECT / "src" / "lakesweep"
_MODULES = sorted(_SOURCE.rglob("*.py"))
_MAP = (_PROJECT / "docs" / "architecture.md").read_text()
_MOST_MODULES = 22


def test_no_folder_is_wider_than_a_reader_can_take_in() -> None:
    counts = Counter(module.parent for module in _MODULES if module.name != "__init__.py")
    wide = {str(folder): count for folder, count in counts.items() if count > _MOST_MODULES}
    assert not wide


def test_folders_are_at_most_two_levels_deep() -> None:
    depths = {module.parent.relative_to(_SOURCE).parts for module in _MODULES}
    assert {parts for parts in depths if len(parts) > 2} == {
        ("store", "backends", "dynamo"),
        ("store", "backends", "mongo"),
        ("store", "backends", "sql"),
    }


def test_a_public_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for module in _MODULES:
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.relative_to(_SOURCE)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_every_module_says_what_it_is_for() -> None:
    silent = [module for module in _MODULES if not ast.get_docstring(ast.parse(module.read_text()))]
    assert not silent


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([a-z_*/]+\.py)`", _MAP))))
def test_the_map_names_modules_that_exist(path: str) -> None:
    assert any(_SOURCE.glob(path))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([a-z_/]+/)`", _MAP))))
def test_the_map_names_folders_that_exist(path: str) -> None:
    assert any(folder.is_dir() for folder in _SOURCE.rglob(path.rstrip("/")))


def test_the_map_names_every_package() -> None:
    packages = {module.parent.name for module in _SOURCE.glob("*/__init__.py")}
    assert {name for name in packages if f"{name}/" not in _MAP} == set()
