"""The console in a real browser, over a real service: Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lakesweep.app import App
from lakesweep.catalog.service_tokens import ServiceRole
from lakesweep.config_file import load_config
from lakesweep.operations.catalogs.tokens import CreateTokenRequest, create_token
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.lakes.apply import ApplyPlanRequest, apply_plan
from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake
from lakesweep.operations.schedules.schedules import add_schedule
from lakesweep.runs.schedules import JobKind, Schedule
from tests.processes import running
from tests.small_lake import SmallLake

_SERIOUS = ("serious", "critical")
_PAGES = ("/", "/runs", "/plans", "/quarantine", "/lakes", "/lakes/prod", "/schedules")


class ConsoleService:
    """A service with a plan that was applied, one that is new, a schedule and two tokens."""

    def __init__(self, folder: Path) -> None:
        self.lake = SmallLake.make(folder, orphans=3)
        self.lake.config.write_text(f'engine = "local"\n{self.lake.config.read_text()}')
        app = App(load_config(self.lake.config, {}), folder=folder)
        app.prepare_store()
        self.applied = self._plan(app)
        apply_plan(
            app,
            ApplyPlanRequest(
                self.applied,
                engine=EngineName.LOCAL,
                quarantine=True,
                overridden=("first-run", "share"),
            ),
            lambda _: None,
        )
        self.lost = self.lake.data / "orphan-00001.parquet"
        self.lake.add_orphans(1)
        self.plan = self._plan(app)
        add_schedule(app, Schedule(name="nightly", job=JobKind.MAINTAIN, every=86_400))
        self.tokens = {
            role: create_token(app, CreateTokenRequest(f"a {role}", role)).text
            for role in (ServiceRole.ADMIN, ServiceRole.VIEWER)
        }
        self.url = ""

    @staticmethod
    def _plan(app: App) -> str:
        return plan_lake(app, PlanLakeRequest("prod", engine=EngineName.LOCAL)).plan


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium")
    assert found, "there is no chromium; run scripts/setup-console"
    with sync_playwright() as playwright:
        # Root cannot use its sandbox.
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test if its console shows an error."""
    context = browser.new_context()
    page, errors = context.new_page(), list[str]()
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def _sign_in(page: Page, service: ConsoleService, role: ServiceRole) -> None:
    page.goto(service.url)
    page.get_by_label("Token").fill(service.tokens[role])
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def _check_access(page: Page) -> None:
    """No serious fault for people who use a keyboard or a screen reader."""
    found = Axe().run(page).response["violations"]
    serious = [
        (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in _SERIOUS
    ]
    assert serious == [], page.url


def test_a_plan_is_reviewed_and_approved_and_a_file_restored(
    page: Page, service: ConsoleService
) -> None:
    _sign_in(page, service, ServiceRole.ADMIN)
    page.get_by_role("link", name="Plans", exact=True).click()
    page.get_by_role("link", name=service.plan).click()
    page.get_by_label("Path contains").fill("orphan-00000")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="Explain").first.click()
    expect(page.get_by_text("No root references it.")).to_be_visible()
    page.go_back()
    page.get_by_label("Why (optional)").fill("only a leftover")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("The plan is approved")
    page.get_by_role("link", name="Quarantine", exact=True).click()
    page.get_by_label("Path of one file").fill(str(service.lost))
    page.get_by_role("button", name="Restore file").click()
    expect(page.get_by_role("status")).to_contain_text("restored")
    assert service.lost.exists()
    page.get_by_role("link", name="Schedules", exact=True).click()
    page.get_by_role("button", name="Pause nightly").click()
    expect(page.get_by_role("status")).to_contain_text("paused")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("signed out")
    page.goto(f"{service.url}/plans")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_viewer_is_offered_nothing_to_change(page: Page, service: ConsoleService) -> None:
    _sign_in(page, service, ServiceRole.VIEWER)
    for path in (*_PAGES, f"/plans/{service.plan}"):
        page.goto(service.url + path)
        assert page.locator("form[method=post]").count() == 1  # to sign out


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_for_readers(
    page: Page, service: ConsoleService, scheme: str
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{service.url}/sign-in")
    _check_access(page)
    _sign_in(page, service, ServiceRole.ADMIN)
    for path in (*_PAGES, f"/plans/{service.plan}", "/store", "/access", "/schedules/nightly"):
        page.goto(service.url + path)
        _check_access(page)
