""""""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from lakesweep.app import App
from lakesweep.clock import ManualClock
from lakesweep.config.file import config_from_values
from lakesweep.errors import ConfigError
from lakesweep.operations.store.store import MaintainStoreRequest, maintain_store
from lakesweep.store import Store
from lakesweep.store.objects.object_types import ObjectTypes
from tests.moments import NOON
from tests.stores import Paper

_MODULE = """
import msgspec
from lakesweep.store import Commit, Link

class Recipe(msgspec.Struct, frozen=True):
    text: str

class Cookbook(Commit, frozen=True, kw_only=True):
    best: Link

TYPES = {"recipe": Recipe, "cookbook": Cookbook}
NOT_TYPES = 5
CLASHING = {"realms": Recipe}
"""


class Loose(msgspec.Struct):
    """Not frozen."""


@pytest.mark.parametrize("name", ["", "a", "Paper", "1st", "a b", "a_b", "x" * 65, "p\n"])
def test_names_of_types_are_plain(name: str) -> None:
    with pytest.raises(ValueError, match="is not a type name"):
        ObjectTypes({name: Paper})


def test_only_frozen_structs_are_stored() -> None:
    with pytest.raises(ValueError, match="Loose is not frozen"):
        ObjectTypes({"loose": Loose})


def test_a_struct_has_one_name() -> None:
    with pytest.raises(ValueError, match="two names"):
        ObjectTypes({"paper": Paper, "sheet": Paper})


def test_what_could_not_be_read_again_is_not_written() -> None:
    with pytest.raises(TypeError, match=r"a paper does not match .*: Expected `str`, got `int`"):
        ObjectTypes({"paper": Paper}).encode(Paper(text=5))  # type: ignore[arg-type]


def _install(folder: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """A package that offers types, as an installer would leave it."""
    (folder / "kitchen.py").write_text(_MODULE)
    info = folder / "kitchen-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kitchen\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[lakesweep.types]\nkitchen = kitchen:{target}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "kitchen", raising=False)


def _app(folder: Path, clock: ManualClock) -> App:
    config = config_from_values({"store": {"url": f"sqlite:///{folder}/store.db"}})
    return App(config, folder=folder, clock=clock)


def test_objects_of_other_packages_are_maintained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, monkeypatch, "TYPES")
    clock = ManualClock(NOON)
    app = _app(tmp_path, clock)
    app.prepare_store()
    import kitchen  # type: ignore[import-not-found]

    realm = app.store.realm("default")
    realm.references.create("books")
    realm.commit(
        "books", lambda attempt: kitchen.Cookbook(best=attempt.write(kitchen.Recipe("stew")))
    )
    forgotten = realm.objects.write(realm.new_id(), kitchen.Recipe("gruel"))
    clock.sleep(24 * 3600)
    run = maintain_store(app, MaintainStoreRequest(), lambda preview: None)
    stats = run.per_realm_per_obj_type_stats["default"]["recipe"]
    assert (stats.retained, stats.purged) == (1, 1)
    assert realm.stored.fetch(forgotten.id, kitchen.Recipe) is None
    app.close()


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("NOTHING", "has no attribute"),
        ("NOT_TYPES", "it is a int, not a mapping"),
        ("CLASHING", "there is another type realms"),
    ],
)
def test_types_that_cannot_be_used_are_an_error_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, why: str
) -> None:
    Store.create_tables(f"sqlite:///{tmp_path}/store.db")
    _install(tmp_path, monkeypatch, target)
    with pytest.raises(ConfigError, match=f"types of kitchen cannot be used: .*{why}"):
        _app(tmp_path, ManualClock(NOON)).store.realms.list()
