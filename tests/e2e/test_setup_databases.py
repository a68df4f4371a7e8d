"""The script that fetches database servers, with programs that only pretend."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_TOOLS = ("bash", "cat", "chmod", "cut", "dirname", "env", "mkdir", "rm", "sha256sum")
_PRETEND = '#!/bin/sh\necho "${0##*/} $*" >> "${0%/*}/log"\n'
# Knows every package, and "installs" the programs that are in it.
_APT_GET = f"""{_PRETEND}
provide() {{ for name in "$@"; do cat "$0" > "${{0%/*}}/$name"; chmod +x "${{0%/*}}/$name"; done; }}
case "$*" in
*install*jdk*) provide javac ;;
*install*maven) provide mvn ;;
*install*npm) provide npm node ;;
esac
"""


class Machine:
    """A project folder and a folder of programs that is the whole path."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.programs = folder / "programs"
        self.programs.mkdir()
        shutil.copytree(_ROOT / "scripts", self.project / "scripts")
        servers = Path("tests", "databases", "programs")
        shutil.copytree(_ROOT / servers, self.project / servers)
        for tool in _TOOLS:
            found = shutil.which(tool)
            assert found is not None, f"{tool} is not on this machine"
            (self.programs / tool).symlink_to(found)
        self.add("id", "#!/bin/sh\necho 0\n")
        self.add("apt-get", _APT_GET)
        self.add("apt-cache", "#!/bin/sh\n")

    def add(self, name: str, text: str = _PRETEND) -> None:
        """Put a program on the path."""
        file = self.programs / name
        file.write_text(text)
        file.chmod(0o755)

    def set_up(self, script: str = "setup-databases") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.project / "scripts" / script],
            env={"PATH": str(self.programs), "HOME": str(self.project)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def calls(self) -> list[str]:
        """The pretended programs that were run, in order."""
        log = self.programs / "log"
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_is_missing_is_installed_and_told(machine: Machine) -> None:
    done = machine.set_up()
    assert done.returncode == 0, done.stdout
    for package in ("openjdk-17-jdk-headless", "maven", "npm"):
        assert f"installing {package}: the " in done.stdout
    assert machine.calls == ["apt-get"] * 4 + ["mvn", "javac", "npm"]


def test_what_is_there_is_used(machine: Machine) -> None:
    for name in ("javac", "mvn", "npm", "node"):
        machine.add(name)
    assert machine.set_up().returncode == 0
    assert machine.calls == ["mvn", "javac", "npm"]


def test_a_second_run_only_looks(machine: Machine) -> None:
    machine.set_up()
    before = machine.calls
    done = machine.set_up()
    assert (done.returncode, done.stdout) == (0, "setup-databases: everything is installed\n")
    assert machine.calls == before


def test_a_fetch_that_failed_is_tried_again(machine: Machine) -> None:
    machine.set_up()
    machine.add("npm", "#!/bin/sh\necho 'no such package' >&2\nexit 1\n")
    program = machine.project / "tests" / "databases" / "programs" / "dynalite.js"
    program.write_text("// another version")
    failed = machine.set_up()
    assert failed.returncode == 1
    assert "no such package" in failed.stdout
    machine.add("npm")
    assert "done" in machine.set_up().stdout


def test_servers_are_fetched_by_name_alone(machine: Machine) -> None:
    for file in (machine.project / "tests" / "databases" / "programs").iterdir():
        assert "https" not in file.read_text()
        assert "repository" not in file.read_text()
