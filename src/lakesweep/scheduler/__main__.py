"""`python -m lakesweep.scheduler [--config FILE] JOB`: supervise one job. Services start it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lakesweep.app import App
from lakesweep.config.file import load_config
from lakesweep.scheduler.supervisor import Supervisor, lakesweep_prefix


def main() -> int:
    """Carry one job out; 0 if this process had it."""
    parser = argparse.ArgumentParser(prog="lakesweep.scheduler")
    parser.add_argument("--config", type=Path)
    parser.add_argument("job")
    given = parser.parse_args()
    folder = given.config.parent if given.config else None
    config = load_config(given.config, os.environ)
    app = App(config, folder=folder, config_file=given.config)
    try:
        status = Supervisor(app.schedules, lakesweep_prefix(given.config)).run(given.job)
    finally:
        app.close()
    return 0 if status is not None else 1


sys.exit(main())
