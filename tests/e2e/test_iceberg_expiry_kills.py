"""An expiry whose process is killed anywhere: the table can be read, and the next run goes on.

The command is the real one, on real files and a real database; see `tests/mortal.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from lakesweep.runs.records import LeaseRecord, RunStatus
from tests.command import Lakesweep
from tests.expired_table import REF, ExpiredTable
from tests.mortal import KILLED, run_mortal

COMMAND = ("iceberg", "expire-snapshots", REF, "--older-than", "0s", "--yes")
CONFIG = """
[store]
url = "sqlite:///store.db"
[lakes.l]
locations = ["{folder}/warehouse"]
[[lakes.l.roots]]
type = "iceberg-catalog"
name = "shop"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}
"""


class Shop:
    """A table that can be put back to what it was before it was expired."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "shop"
        self.folder.mkdir()
        self.table = ExpiredTable.write(self.folder)
        self.config = self.folder / "lakesweep.toml"
        self.config.write_text(CONFIG.format(folder=self.folder))
        self._saved = folder / "saved"
        shutil.copytree(self.folder, self._saved)

    def put_back(self) -> None:
        self.table.catalog.engine.dispose()
        shutil.rmtree(self.folder)
        shutil.copytree(self._saved, self.folder)

    def kill(self, steps: int, since: str) -> bool:
        """Run the command, which dies so many steps behind one; whether it came to that."""
        code = run_mortal(COMMAND, self.folder, steps, since)
        if (self.folder / "store.db").exists():
            self._end_leases()
        return code == KILLED

    def statuses(self) -> set[RunStatus]:
        return {run.status for run in self.table.app().runs.list()}

    def _end_leases(self) -> None:
        """As if the minutes had passed for which a dead run holds them."""
        runs = self.table.app().runs
        for lake in {run.lake for run in runs.list()}:
            held = runs.realm.objects.fetch(runs.lake(lake).lease, LeaseRecord)
            if held is not None and held.value.expires_at:
                ended = msgspec.structs.replace(held.value, expires_at=1)
                assert runs.realm.objects.update(held, ended) is not None


@pytest.fixture
def lakesweep(capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


#: Where the command dies: so many steps behind one, and whether the catalog has the change by then.
#: The journal, the commit, the deletes and the end; what lies between only reads.
POINTS = (
    (0, "os.mkdir expiry-", False),
    (6, "os.mkdir expiry-", False),
    (0, "UPDATE iceberg_tables", False),
    (0, "COMMIT", False),
    (1, "COMMIT", True),
    (0, "os.remove 00000-0-", True),
    (2, "os.remove snap-", True),
    (0, "os.rmdir expiry-", True),
    (2, "os.rmdir expiry-", True),
)


def test_an_expiry_that_is_killed_is_gone_on_with(shop: Shop, lakesweep: Lakesweep) -> None:
    lakesweep.config = shop.config
    assert lakesweep(*COMMAND).code == 0
    left = shop.table.files()
    shop.put_back()
    for steps, since, is_committed in POINTS:
        assert shop.kill(steps, since), since
        assert (len(shop.table.snapshots()) == 1) == is_committed, since
        assert shop.table.rows() == {"main": 6}
        again = lakesweep(*COMMAND)
        assert again.code == 0, again.err
        assert shop.table.rows() == {"main": 6}
        assert shop.table.files() == left
        assert len(shop.table.snapshots()) == 1
        assert not shop.table.journals()
        assert RunStatus.RUNNING not in shop.statuses()
        shop.put_back()
