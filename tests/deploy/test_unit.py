"""The unit of systemd, verified by systemd's own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path


def test_systemd_accepts_the_unit(project: Path, tmp_path: Path) -> None:
    text = (project / "deploy" / "systemd" / "lakesweep.service").read_text()
    unit = tmp_path / "lakesweep.service"
    # The program is not installed there on this machine.
    unit.write_text(text.replace("/opt/lakesweep/bin/lakesweep", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ours = [line for line in done.stdout.splitlines() if "lakesweep.service" in line]
    assert not ours
