"""A realm goes into each database and out of it again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.store import Store
from lakesweep.store.transfer import ExportKind, content_hash, import_realm
from tests.libraries import export_file, fill, open_store
from tests.moments import NOON


@pytest.mark.parametrize("kind", list(ExportKind))
def test_a_realm_goes_in_and_out(url: str, kind: ExportKind, tmp_path: Path) -> None:
    source = open_store()
    wanted = content_hash(fill(source))
    export_file(source, tmp_path / "in", kind=kind)
    Store.create_tables(url)
    with Store.open(url) as store:
        import_realm(store, tmp_path / "in")
        assert content_hash(store.realm("acme")) == wanted
        export_file(store, tmp_path / "out", kind=kind)
    clock = ManualClock(NOON + timedelta(hours=1))
    back = open_store(clock=clock)
    import_realm(back, tmp_path / "out", clock=clock)
    assert content_hash(back.realm("acme")) == wanted
