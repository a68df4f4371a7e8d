"""Make the pictures of the console for the README and docs, from the demo's own data.

Run `python -m tests.browser.screenshots` after `scripts/setup-console`.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.processes import running

_IMAGES = Path(__file__).parents[2] / "docs" / "images"
_SIZE: ViewportSize = {"width": 1120, "height": 760}


def main() -> None:
    """Run the demo, keep its console up, and take pictures of three pages."""
    with tempfile.TemporaryDirectory(prefix="lakesweep-pictures-") as folder:
        words = ["demo", "--engine", "local", "--keep", f"{folder}/demo", "--serve"]
        command = [sys.executable, "-m", "lakesweep", *words]
        log, wanted = Path(folder) / "demo.log", r"listening on (\S+)"
        with running(command, log, wanted, stop=signal.SIGINT) as found:
            _take(found[1])


def _take(url: str) -> None:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = chromium.new_context(viewport=_SIZE, timezone_id="UTC").new_page()
        page.goto(url)
        _picture(page, "console-overview")
        page.get_by_role("link", name=re.compile("^plan-")).first.click()
        _picture(page, "console-plan")
        page.goto(f"{url}/runs")
        page.get_by_role("link", name=re.compile("^plan-")).last.click()
        _picture(page, "console-run")
        chromium.close()


def _picture(page: Page, name: str) -> None:
    page.wait_for_load_state("load")
    page.screenshot(path=_IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
