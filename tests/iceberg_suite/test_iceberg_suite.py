"""Iceberg's own tests of catalogs and views, through its REST client, against our server."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from lakesweep.cli.main import run
from tests.processes import running

_JAVA = Path(__file__).parent / "java"
_FOLDER = Path(__file__).parents[2] / ".iceberg-clients" / "suite"
_SECONDS = 1_500
#: Five need tables and views outside of any namespace, which the protocol cannot name; one
#: configures a catalog inside the client's process.
_PASSED, _SKIPPED = 151, 6


def test_all_of_icebergs_own_tests_pass(tmp_path: Path) -> None:
    lake, config = tmp_path / "lake", tmp_path / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/store.db"\n')
    shop = ["catalog", "create", "shop", "--location", f"file://{lake}"]
    # Some tests ask for locations of their own, all of them in temporary folders.
    shop += ["--property", "allowed-locations=file:///tmp", "--allow-overlaps"]
    for words in (["store", "init"], shop):
        assert run(["--config", str(config), *words]) == 0
    command = [sys.executable, "-m", "lakesweep", "--config", str(config), "serve", "--port", "0"]
    log, reports = tmp_path / "serve.log", tmp_path / "reports"
    with running(command, log, r"listening on (\S+)", stop=signal.SIGTERM) as found:
        _run_suites(found[1], reports)
    passed, skipped, failed = _outcomes(reports)
    assert not failed
    assert len(passed) == _PASSED
    assert len(skipped) == _SKIPPED, sorted(skipped)


def _run_suites(url: str, reports: Path) -> None:
    assert (_FOLDER / "jars").is_dir(), "scripts/setup-iceberg-suite has not been run"
    classes, jars = _FOLDER / "classes", f"{_FOLDER}/jars/*"
    programs = [str(path) for path in sorted(_JAVA.glob("*.java"))]
    subprocess.run(["javac", "-cp", jars, "-d", str(classes), *programs], check=True)
    launcher = ["java", "-cp", f"{classes}:{jars}", f"-Dserver={url}/iceberg", "-Dwarehouse=shop"]
    launcher += ["org.junit.platform.console.ConsoleLauncher", "execute", "--details=none"]
    launcher += ["--select-class=TableSuite", "--select-class=ViewSuite"]
    subprocess.run(
        [*launcher, f"--reports-dir={reports}"], check=False, timeout=_SECONDS, cwd=_FOLDER
    )


def _outcomes(reports: Path) -> tuple[set[str], set[str], dict[str, str]]:
    """The names of all tests that passed, those that were skipped, and why others failed."""
    passed, skipped, failed = set(), set(), {}
    for report in reports.glob("TEST-*.xml"):
        for case in ET.parse(report).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            problem = case.find("failure")
            problem = case.find("error") if problem is None else problem
            if problem is not None:
                failed[name] = str(problem.get("message"))
            elif case.find("skipped") is not None:
                skipped.add(name)
            else:
                passed.add(name)
    return passed, skipped, failed
