"""The shape of the source tree, and the map of it in docs/architecture.md."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

_PROJECT = Path(__file__).parents[2]
_SOURCE = _PROJECT / "src" / "lakesweep"
_MODULES = sorted(_SOURCE.rglob("*.py"))
_MAP = (_PROJECT / "docs" / "architecture.md").read_text()
_MOST_MODULES = 20
_MOST_LINES = 550


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


def test_the_way_of_a_file_has_few_modules() -> None:
    way = _MAP.split("## The way of a file")[1].split("\n## ")[0]
    rows = [line for line in way.splitlines() if re.match(r"\| \d", line)]
    assert sum(len(re.findall(r"`[a-z_/]+\.py`", row)) for row in rows) <= 25


def test_every_package_with_folders_has_layers() -> None:
    contracts = tomllib.loads((_PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layered = {each for one in contracts["contracts"] for each in one.get("containers", ())}
    packages = {module.parent.parent for module in _SOURCE.glob("*/*/__init__.py")}
    assert {f"lakesweep.{package.name}" for package in packages} - layered == set()


def test_no_module_is_longer_than_a_reader_can_take_in() -> None:
    suites = {"contract.py"}  # of tests, which backends of others run too
    long = {str(each): len(each.read_text().splitlines()) for each in _MODULES}
    assert not {
        name: count
        for name, count in long.items()
        if count > _MOST_LINES and Path(name).name not in suites
    }


def test_the_map_names_every_package() -> None:
    packages = {module.parent.name for module in _SOURCE.glob("*/__init__.py")}
    assert {name for name in packages if f"{name}/" not in _MAP} == set()


def test_typed_values_are_decoded_in_one_place() -> None:
    """msgspec's own ways end the process if two threads decode a class first: see the module."""
    own = re.compile(r"msgspec\.(?:convert|(?:json|msgpack)\.(?:Decoder\(|decode\([^()]*type=))")
    found = {str(each) for each in _MODULES if own.search(each.read_text())}
    assert found == {str(_SOURCE / "decoding.py")}
