"""A real service over a real lake, and Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.config.file import load_config
from lakesweep.operations.catalogs.tokens import CreateTokenRequest, create_token
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.lakes.apply import ApplyPlanRequest, apply_plan
from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake
from lakesweep.operations.schedules.schedules import add_schedule
from lakesweep.runs.schedules import JobKind, Schedule
from tests.console_lake import HOSTILE
from tests.processes import running
from tests.small_lake import SmallLake

_LARGE_PLAN = 100_000
# Long enough for a machine that does something else as well; nothing waits that long if it is well.
_PATIENCE = 60_000
expect.set_options(timeout=_PATIENCE)


class ConsoleService:
    """A service with a plan that was applied, one that is new, schedules and two tokens.

    The lake has a file with a hostile name. `large` is a plan of 100,000 files, of another lake.
    """

    def __init__(self, folder: Path) -> None:
        self.lake = SmallLake.make(folder, orphans=3)
        (self.lake.data / HOSTILE.replace("/", "-")).write_bytes(b"hostile")
        large = folder / "large"
        large.mkdir()
        for number in range(_LARGE_PLAN):
            (large / f"file-{number:06}.parquet").touch()
        extra = (
            f'engine = "local"\n[lakes.large]\nlocations = ["{large}"]\ngrace = "0s"\nroots = []\n'
        )
        self.lake.config.write_text(f"{extra}\n{self.lake.config.read_text()}")
        app = App(load_config(self.lake.config, {}), folder=folder)
        app.prepare_store()
        self.applied = self._plan(app)
        guards = ("first-run", "share")
        request = ApplyPlanRequest(
            self.applied, engine=EngineName.LOCAL, quarantine=True, overridden=guards
        )
        apply_plan(app, request, lambda _: None)
        self.lost = self.lake.data / "orphan-00001.parquet"
        self.lake.add_orphans(1)
        self.plan = self._plan(app)
        self.large = self._plan(app, "large")
        nightly = Schedule(name="nightly", job=JobKind.MAINTAIN, every=86_400)
        add_schedule(app, nightly)
        self.tokens = {
            role: create_token(app, CreateTokenRequest(f"a {role}", role)).text
            for role in (ServiceRole.ADMIN, ServiceRole.VIEWER)
        }
        create_token(app, CreateTokenRequest(HOSTILE, ServiceRole.VIEWER))
        self.url = ""

    @staticmethod
    def _plan(app: App, lake: str = "prod") -> str:
        return plan_lake(app, PlanLakeRequest(lake, engine=EngineName.LOCAL)).plan

    def sign_in(self, page: Page, role: ServiceRole) -> None:
        """Sign in with the token of a role."""
        page.goto(self.url)
        page.get_by_label("Token").fill(self.tokens[role])
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleService]:
    made = ConsoleService(tmp_path_factory.mktemp("console") / "lake")
    config = made.lake.config
    words = ["-m", "lakesweep", "--config", str(config), "serve", "--port", "0"]
    log = config.with_name("serve.log")
    with running(
        [sys.executable, *words], log, r"listening on (\S+)", stop=signal.SIGTERM
    ) as found:
        made.url = found[1]
        yield made


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium")
    assert found, "there is no chromium; run scripts/setup-console"
    with sync_playwright() as playwright:
        # Root cannot use its sandbox.
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def open_page(browser: Browser) -> Iterator[Page]:
    """A page of a browser of its own. AssertionError if its console shows an error."""
    context = browser.new_context(timezone_id="Asia/Kolkata")
    context.set_default_timeout(_PATIENCE)
    page, errors = context.new_page(), list[str]()
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with open_page(browser) as page:
        yield page
