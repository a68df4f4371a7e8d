from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.config.file import parse_config
from lakesweep.errors import ConfigError
from lakesweep.store import Store
from lakesweep.store.ids.node_leases import leased_nodes

_LAKE = """
[lakes.{lake}]
locations = ["s3://lake"]
[[lakes.{lake}.roots]]
type = "iceberg-catalog"
name = "{catalog}"
properties = {{ uri = "{uri}" }}
"""


def _app(text: str) -> App:
    return App(parse_config(text, Path("lakesweep.toml"), {}))


def test_plans_have_an_address_wherever_the_configuration_is() -> None:
    """As with `--config lakesweep.toml`."""
    app = App(Config(), folder=Path("conf"))
    assert app.plans == f"{Path.cwd()}/conf/.lakesweep/plans"


def test_catalogs_of_all_lakes_are_found_by_name() -> None:
    app = _app(
        _LAKE.format(lake="a", catalog="x", uri="1") + _LAKE.format(lake="b", catalog="y", uri="2")
    )
    assert app.catalogs == {"x": {"uri": "1"}, "y": {"uri": "2"}}


def test_two_lakes_may_share_a_catalog() -> None:
    app = _app(
        _LAKE.format(lake="a", catalog="x", uri="1") + _LAKE.format(lake="b", catalog="x", uri="1")
    )
    assert app.catalogs == {"x": {"uri": "1"}}


def test_one_name_for_two_catalogs_is_refused() -> None:
    lakes = (("a", "1"), ("b", "2"))
    with pytest.raises(ConfigError, match="catalog x"):
        _app("".join(_LAKE.format(lake=lake, catalog="x", uri=uri) for lake, uri in lakes))


def test_two_commands_may_create_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    App(Config(), folder=tmp_path).prepare_store()
    # The second one looked before the first one was done.
    monkeypatch.setattr(App, "is_new_store", True)
    second = App(Config(), folder=tmp_path)
    second.prepare_store()
    assert second.store.realm("default").name == "default"


def test_storage_sections_become_the_options_of_stores() -> None:
    app = _app('[storage."s3://lake"]\nendpoint = "http://127.0.0.1:1"\nretries = 2\n')
    options = app.storage_options["s3://lake"]
    assert (options.endpoint, options.retries) == ("http://127.0.0.1:1", 2)


def test_stores_are_opened_once(tmp_path: Path) -> None:
    app = _app("")
    assert app.stores is app.stores
    assert app.stores.open(str(tmp_path)) is app.stores.open(f"file://{tmp_path}")


def test_a_relative_store_is_that_of_the_configuration(tmp_path: Path) -> None:
    app = App(parse_config("", Path("lakesweep.toml"), {}), folder=tmp_path)
    assert app.store_url == f"sqlite:///{tmp_path}/.lakesweep/store.db"


def test_without_a_configuration_it_is_that_of_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _app("").store_url == f"sqlite:///{tmp_path}/.lakesweep/store.db"


def test_the_store_is_opened_once_and_closed_with_the_app(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.create_tables(url)
    app = _app(f'[store]\nurl = "{url}"\n')
    store = app.store
    assert app.store is store
    store.create_realm("acme")
    app.close()
    assert not leased_nodes(app.store.backend, app.clock)


def _modes(folder: Path) -> dict[str, int]:
    found = (folder, *folder.iterdir())
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in found}


@pytest.fixture
def open_umask() -> Iterator[None]:
    """New files can be written by everyone, unless their creator takes care."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_a_new_store_is_closed_to_other_users(tmp_path: Path) -> None:
    app = App(Config(), folder=tmp_path)
    app.prepare_store()
    app.store.create_realm("acme")
    modes = _modes(tmp_path / ".lakesweep")
    app.close()
    assert modes.pop(".lakesweep") == 0o700
    assert modes.keys() >= {"store.db", "store.db-wal", "store.db-shm"}
    assert set(modes.values()) == {0o600}


@pytest.mark.usefixtures("open_umask")
def test_a_store_that_was_open_to_others_is_closed_to_them_and_that_is_said_once(
    tmp_path: Path,
) -> None:
    App(Config(), folder=tmp_path).prepare_store()
    folder = tmp_path / ".lakesweep"
    folder.chmod(0o755)
    (folder / "store.db").chmod(0o664)
    (folder / "store.db-journal").touch(mode=0o644)
    said: list[str] = []
    for _ in range(2):
        app = App(Config(), folder=tmp_path, notify=said.append)
        app.store.realms.list()
        app.close()
    assert len(said) == 1
    assert str(folder / "store.db") in said[0]
    assert {mode & 0o077 for mode in _modes(folder).values()} == {0}


def test_the_folder_around_a_store_stays_as_it_is_unless_it_is_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    url = f"sqlite:///{tmp_path}/store.db"
    Store.create_tables(url)
    _app(f'[store]\nurl = "{url}"\n').store.realms.list()
    assert _modes(tmp_path)[tmp_path.name] == 0o755


def test_an_app_whose_store_nobody_used_has_nothing_to_close(tmp_path: Path) -> None:
    App(parse_config("", Path("lakesweep.toml"), {}), folder=tmp_path).close()
    assert not list(tmp_path.iterdir())


def test_a_store_in_memory_has_its_realm_at_once() -> None:
    app = _app('[store]\nurl = "memory:"\nrealm = "mine"\n')
    assert app.store.realm("mine").name == "mine"


def test_an_engine_in_this_process_needs_no_spark(tmp_path: Path) -> None:
    with App(Config(), folder=tmp_path).engine("local") as engine:
        assert engine.name == "local"
