"""The script that fetches servers of object stores, with programs that only pretend."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_setup_databases import Machine

_GO = """#!/bin/sh
case "$*" in
"env GOVERSION") echo go1.{version}.1 ;;
"env GOTOOLCHAIN") echo {toolchain} ;;
*) echo "go $*" >> "${{0%/*}}/log" ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for name in ("npm", "node"):
        machine.add(name)
    machine.add("nice", '#!/bin/sh\nexec "$@"\n')
    machine.add("go", _GO.format(version=26, toolchain="local"))
    return machine


def test_servers_are_installed_by_name_and_told(machine: Machine) -> None:
    done = machine.set_up("setup-clouds")
    assert done.returncode == 0, done.stdout
    assert machine.calls == ["npm", "go", "go", "go"]
    for name in ("azurite@", "fake-gcs-server@", "versitygw@", "minio@"):
        assert f"{name}" in done.stdout
    assert "://" not in (machine.project / "scripts" / "setup-clouds").read_text()


def test_a_second_run_only_looks(machine: Machine) -> None:
    machine.set_up("setup-clouds")
    before = machine.calls
    done = machine.set_up("setup-clouds")
    assert (done.returncode, done.stdout) == (0, "setup-clouds: everything is installed\n")
    assert machine.calls == before


def test_what_failed_is_tried_again_and_nothing_else(machine: Machine) -> None:
    machine.add("go", "#!/bin/sh\ntest $1 = env && echo go1.26.1 || exit 1\n")
    assert machine.set_up("setup-clouds").returncode == 1
    machine.add("go", _GO.format(version=26, toolchain="local"))
    assert machine.set_up("setup-clouds").returncode == 0
    assert machine.calls == ["npm", "go", "go", "go"]


@pytest.mark.parametrize(
    ("version", "toolchain", "works"),
    [(24, "local", False), (24, "auto", True), (19, "auto", False)],
)
def test_an_old_go_is_refused_unless_it_fetches_a_newer_one(
    machine: Machine, version: int, toolchain: str, works: bool
) -> None:
    machine.add("go", _GO.format(version=version, toolchain=toolchain))
    done = machine.set_up("setup-clouds")
    assert (done.returncode == 0) == works
    assert works or "still missing after the installation" in done.stdout
