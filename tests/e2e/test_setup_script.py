"""The set-up script on machines that lack something: a path of our own, with a package manager
that only pretends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_TOOLS = (
    *("bash", "cat", "chmod", "cut", "dirname", "env", "mkdir", "readlink", "sed", "sha256sum"),
)

# Knows the packages that are named in KNOWN, and "installs" Java of the version in INSTALLS, or
# the programs of a database.
_APT_GET = """#!/bin/sh
echo "apt-get $*" >> "$0.log"
here=${0%/*}
touch_program() { echo '#!/bin/sh' > "$1"; chmod +x "$1"; }
case "$*" in
*install*jre*)
    printf '#!/bin/sh\\necho "openjdk version \\\\"%s\\\\"" >&2\\n' "$INSTALLS" > "$here/java"
    chmod +x "$here/java" ;;
*install*postgresql)
    mkdir -p "$here/postgresql/17/bin"
    touch_program "$here/postgresql/17/bin/initdb"
    touch_program "$here/postgresql/17/bin/postgres" ;;
*install*mariadb-server-core*)
    mkdir -p "$here/sbin"
    touch_program "$here/sbin/mariadbd"
    touch_program "$here/mariadb-install-db" ;;
*install*mariadb-client-core*)
    touch_program "$here/my_print_defaults" ;;
esac
"""
_DATABASES = ("initdb", "postgres", "mariadbd", "mariadb-install-db", "my_print_defaults")
_APT_CACHE = '#!/bin/sh\ncase " $KNOWN " in *" $2 "*) exit 0 ;; esac\nexit 1\n'


# Writes down what pip is asked for, and does everything else.
_PYTHON = f"""#!/bin/sh
case "$*" in *"-m pip"*) echo "$*" >> "$0.log"; exit 0 ;; esac
exec {sys.executable} "$@"
"""


class Machine:
    """A project folder and a folder of programs that is the whole path."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.programs = folder / "programs"
        self.programs.mkdir()
        (self.project / "scripts").mkdir(parents=True)
        for name in ("pyproject.toml", "constraints.txt", "scripts/setup", "scripts/packages.sh"):
            shutil.copy(_ROOT / name, self.project / name)
        self._move_folders({"/usr/lib/postgresql": "postgresql", "/usr/sbin": "sbin"})
        for tool in _TOOLS:
            self._link(tool, shutil.which(tool))
        self._link("python3", sys.executable)
        self.add("id", "#!/bin/sh\necho 0\n")
        self.add("apt-get", _APT_GET)
        self.add("apt-cache", _APT_CACHE)

    def _move_folders(self, folders: dict[str, str]) -> None:
        """Let the script look into folders of this machine instead of the real ones."""
        script = self.project / "scripts" / "setup"
        text = script.read_text()
        for real, pretended in folders.items():
            assert real in text
            text = text.replace(real, str(self.programs / pretended))
        script.write_text(text)

    def _link(self, name: str, target: str | None) -> None:
        assert target is not None, f"{name} is not on this machine"
        (self.programs / name).symlink_to(target)

    def add(self, name: str, text: str) -> None:
        """Put a program on the path."""
        file = self.programs / name
        file.write_text(text)
        file.chmod(0o755)

    def add_java(self, version: str) -> None:
        self.add("java", f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")

    def add_databases(self) -> None:
        for name in _DATABASES:
            self.add(name, "#!/bin/sh\n")

    def remove(self, *names: str) -> None:
        """Take programs from the path."""
        for name in names:
            (self.programs / name).unlink()

    def pretend_installed(self) -> None:
        """Leave a virtual environment and the stamp of a finished run."""
        python = self.project / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(_PYTHON)
        python.chmod(0o755)
        files = ("pyproject.toml", "constraints.txt", "scripts/setup")
        stamp = f"cat {' '.join(files)} | sha256sum | cut -d' ' -f1 > .venv/.setup-stamp"
        subprocess.run(["bash", "-c", stamp], cwd=self.project, check=True)

    def set_up(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.project / "scripts" / "setup"],
            env={"PATH": str(self.programs), "HOME": str(self.project), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def installed(self) -> list[str]:
        """What pip was asked for."""
        return (self.project / ".venv" / "bin" / "python.log").read_text().splitlines()

    @property
    def packages(self) -> list[str]:
        """What the package manager was asked for."""
        log = self.programs / "apt-get.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.add_databases()
    machine.pretend_installed()
    return machine


def test_a_second_run_only_looks(machine: Machine) -> None:
    machine.add_java("17.0.1")
    done = machine.set_up()
    assert (done.returncode, done.stdout) == (0, "setup: everything is installed\n")
    assert machine.packages == []


@pytest.mark.parametrize(
    ("known", "package"),
    [
        ("openjdk-17-jre-headless openjdk-21-jre-headless", "openjdk-17-jre-headless"),
        ("openjdk-21-jre-headless default-jre-headless", "openjdk-21-jre-headless"),
        ("default-jre-headless", "default-jre-headless"),
    ],
)
def test_missing_java_is_installed_as_the_system_has_it(
    machine: Machine, known: str, package: str
) -> None:
    done = machine.set_up(KNOWN=known, INSTALLS="21")
    assert done.returncode == 0, done.stdout
    assert f"installing {package}: Spark runs on Java 17 or newer" in done.stdout
    assert machine.packages[0] == "apt-get update -qq"
    assert machine.packages[1].endswith(package)


@pytest.mark.parametrize(
    ("missing", "package", "why"),
    [
        ("initdb", "postgresql", "the store is tested on PostgreSQL"),
        ("postgres", "postgresql", "the store is tested on PostgreSQL"),
        ("mariadbd", "mariadb-server-core", "the store is tested on MariaDB"),
        ("mariadb-install-db", "mariadb-server-core", "the store is tested on MariaDB"),
        (
            "my_print_defaults",
            "mariadb-client-core",
            "MariaDB needs my_print_defaults to create its folder",
        ),
    ],
)
def test_a_missing_database_is_installed_and_told_why(
    machine: Machine, missing: str, package: str, why: str
) -> None:
    machine.add_java("17")
    machine.remove(missing)
    known = f"mariadb-server mariadb-client {package}"
    done = machine.set_up(KNOWN=known)
    assert done.returncode == 0, done.stdout
    assert f"installing {package}: {why}" in done.stdout
    assert [line.split()[-1] for line in machine.packages[1:]] == [package]
    assert machine.set_up(KNOWN=known).stdout == "setup: everything is installed\n"


def test_a_database_of_an_older_system_is_found_by_its_name(machine: Machine) -> None:
    machine.add_java("17")
    machine.remove("mariadbd", "my_print_defaults")
    done = machine.set_up(KNOWN="mariadb-server-core-10.6 mariadb-client-core-10.6 mariadb-server")
    assert done.returncode == 0, done.stdout
    assert "installing mariadb-server-core-10.6" in done.stdout
    assert "installing mariadb-client-core-10.6" in done.stdout


def test_old_java_is_not_enough(machine: Machine) -> None:
    machine.add_java("11.0.2")
    done = machine.set_up(KNOWN="openjdk-17-jre-headless", INSTALLS="17.0.1")
    assert done.returncode == 0, done.stdout
    assert len(machine.packages) == 2


def test_java_home_comes_before_the_path(machine: Machine, tmp_path: Path) -> None:
    machine.add_java("17")
    home = tmp_path / "java8"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="1.8.0_292"\n')
    shutil.copy(machine.programs / "java", home / "bin" / "java")
    assert machine.set_up(JAVA_HOME=str(home)).returncode == 1


def test_a_system_without_the_package_is_told(machine: Machine) -> None:
    done = machine.set_up(KNOWN="")
    assert done.returncode == 1
    assert "none of these packages is available" in done.stdout


def test_an_installation_that_did_not_help_is_told(machine: Machine) -> None:
    done = machine.set_up(KNOWN="openjdk-17-jre-headless", INSTALLS="11")
    assert done.returncode == 1
    assert "still missing" in done.stdout


def test_sudo_is_used_by_those_who_are_not_root(machine: Machine) -> None:
    machine.add("id", "#!/bin/sh\necho 1000\n")
    machine.add("sudo", '#!/bin/sh\necho "sudo $1" >> "${0%/*}/sudo.log"\nexec "$@"\n')
    done = machine.set_up(KNOWN="openjdk-17-jre-headless", INSTALLS="17")
    assert done.returncode == 0, done.stdout
    assert (machine.programs / "sudo.log").read_text().splitlines() == ["sudo apt-get", "sudo env"]


def test_without_root_and_sudo_the_command_to_run_is_told(machine: Machine) -> None:
    machine.add("id", "#!/bin/sh\necho 1000\n")
    done = machine.set_up(KNOWN="openjdk-17-jre-headless")
    assert done.returncode == 1
    assert "'apt-get update -qq' needs root, and there is no sudo" in done.stdout


def test_a_system_without_a_package_manager_is_told_what_to_install(machine: Machine) -> None:
    (machine.programs / "apt-get").unlink()
    done = machine.set_up()
    assert done.returncode == 1
    assert "yourself: openjdk-17-jre-headless" in done.stdout


def test_a_changed_pin_is_installed_once(machine: Machine) -> None:
    machine.add_java("17")
    constraints = machine.project / "constraints.txt"
    constraints.write_text(constraints.read_text().replace("==", "==1."))
    assert "installing Lakesweep and its tools" in machine.set_up().stdout
    assert [line.split()[-1] for line in machine.installed] == ["pip", "check"]
    assert machine.set_up().stdout == "setup: everything is installed\n"
    assert len(machine.installed) == 2


def test_no_address_of_an_index_is_in_the_project() -> None:
    files = ["pyproject.toml", "constraints.txt", "Makefile", ".ci/run"]
    for file in [*(_ROOT / name for name in files), *(_ROOT / "scripts").iterdir()]:
        text = file.read_text()
        assert "://" not in text
        assert "@ file" not in text
