"""The console in a real browser, over a real service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from lakesweep.catalog.access.service_tokens import ServiceRole
from tests.browser.conftest import ConsoleService, open_page

_SERIOUS = ("serious", "critical")
#: Pages of which there are many alike: one of each is enough.
_ALIKE = re.compile(r"/explain|/store/log|after=|cursor=|/runs\?lake=|measure=")


def _check_access(page: Page) -> None:
    """No serious fault for people who use a keyboard or a screen reader."""
    found = Axe().run(page).response["violations"]
    serious = [
        (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in _SERIOUS
    ]
    assert serious == [], page.url


def _walk(page: Page, start: str) -> Iterator[str]:
    """Go to every page that links lead to; of pages that are alike, to one of each kind."""
    seen, alike, waiting = set[str](), set[str](), [start]
    while waiting:
        path = waiting.pop()
        kind = re.sub(r"[^/?&=]*-[^/?&=]*|=[^&]*", "", path) if _ALIKE.search(path) else None
        if path in seen or kind in alike:
            continue
        seen.add(path)
        alike |= {kind} if kind else set()
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        yield path
        links = page.locator("a[href]:not([download])").evaluate_all(
            "all => all.map(a => a.getAttribute('href'))"
        )
        found = (urlsplit(urljoin(path, each))._replace(fragment="") for each in links)
        waiting += [each.geturl() for each in found if not each.path.startswith("/api")]


def test_the_whole_story(page: Page, service: ConsoleService) -> None:
    service.sign_in(page, ServiceRole.ADMIN)
    _see_a_run(page)
    _review_a_large_plan(page, service)
    _decide(page, service)
    _restore_a_file(page, service)
    page.get_by_role("link", name="Schedules", exact=True).click()
    page.get_by_role("button", name="Pause nightly").click()
    expect(page.get_by_role("status")).to_contain_text("paused")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("signed out")
    page.goto(f"{service.url}/plans")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def _see_a_run(page: Page) -> None:
    """A check is queued; its job becomes a run, and the page shows it without being loaded."""
    page.get_by_role("link", name="Lakes", exact=True).click()
    page.get_by_role("link", name="prod", exact=True).click()
    page.get_by_role("button", name="Check now").click()
    expect(page.get_by_role("status")).to_contain_text("waits for the next free worker")
    run = page.get_by_role("link", name=re.compile(r"^check-"))
    run.first.click()
    expect(page.locator("main .state").first).to_have_text(re.compile("running|done"))
    expect(page.locator("main .state").first).to_have_text("done")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()


def _review_a_large_plan(page: Page, service: ConsoleService) -> None:
    page.get_by_role("link", name="Plans", exact=True).click()
    page.get_by_role("link", name=service.large).click()
    expect(page.get_by_text("100,000 files").first).to_be_visible()
    expect(page.get_by_role("heading", name="zero-live")).to_be_visible()
    page.get_by_label("Path contains").fill("FILE-099999")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("link", name="Explain")).to_have_count(1)
    page.get_by_role("link", name="Explain").click()
    expect(page.get_by_text("No root references it.")).to_be_visible()


def _decide(page: Page, service: ConsoleService) -> None:
    """Approve a plan, apply it from its page, and watch it."""
    page.get_by_role("link", name="Plans", exact=True).click()
    page.get_by_role("link", name=service.plan).click()
    page.get_by_label("Why (optional)").fill("only a leftover")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("The plan is approved")
    page.get_by_role("button", name="Apply into quarantine").click()
    expect(page.get_by_role("status")).to_contain_text("set aside, not deleted")
    run = page.get_by_role("link", name=re.compile(r"^apply-"))
    expect(run.first).to_be_visible()
    expect(page.locator("main > p .state").first).to_have_text("applied")
    run.first.click()
    expect(page.locator("main .state").first).to_have_text("done")


def _restore_a_file(page: Page, service: ConsoleService) -> None:
    page.get_by_role("link", name="Quarantine", exact=True).click()
    page.get_by_role("link", name=service.applied, exact=True).click()
    page.get_by_label("Path of one file").fill(str(service.lost))
    page.get_by_role("button", name="Restore file").click()
    expect(page.get_by_role("status")).to_contain_text("restored")
    assert service.lost.exists()


def test_a_viewer_is_offered_nothing_to_change(page: Page, service: ConsoleService) -> None:
    service.sign_in(page, ServiceRole.VIEWER)
    for path in _walk(page, f"{service.url}/"):
        forms = page.locator("form[method=post]").evaluate_all(
            "all => all.map(form => form.getAttribute('action'))"
        )
        assert forms == ["/sign-out"], path
        assert not urlsplit(path).path.startswith(("/store", "/access")), path


def test_two_browsers_work_at_once(browser: Browser, service: ConsoleService) -> None:
    """One pauses a schedule; the other sees it, and its own session goes on when the first ends."""
    with open_page(browser) as one, open_page(browser) as other:
        service.sign_in(one, ServiceRole.ADMIN)
        service.sign_in(other, ServiceRole.VIEWER)
        one.goto(f"{service.url}/schedules/nightly")
        if one.get_by_role("button", name="Resume").count():
            one.get_by_role("button", name="Resume").click()
        one.get_by_role("button", name="Pause").click()
        expect(one.get_by_role("status")).to_contain_text("paused")
        other.goto(f"{service.url}/schedules")
        expect(other.get_by_text("by a admin")).to_be_visible()
        one.get_by_role("button", name="Sign out").click()
        other.goto(f"{service.url}/runs")
        expect(other.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_reached_and_read(
    page: Page, service: ConsoleService, scheme: str
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{service.url}/sign-in")
    _check_access(page)
    service.sign_in(page, ServiceRole.ADMIN)
    found = 0
    for path in _walk(page, f"{service.url}/"):
        _check_access(page)
        assert page.locator("script").count() == 1, path
        assert not page.evaluate("() => document.documentElement.innerText.includes('\u202e')")
        found += 1
    assert found >= 20


def test_times_are_shown_in_the_zone_of_the_viewer(page: Page, service: ConsoleService) -> None:
    service.sign_in(page, ServiceRole.VIEWER)
    page.goto(f"{service.url}/runs")
    shown = page.locator("td time").first
    expect(shown.locator("small")).to_have_text(re.compile(r"^\d\d:\d\d UTC$"))
    utc, local = shown.get_attribute("datetime"), shown.inner_text()
    assert utc is not None
    minute = (int(utc[14:16]) + 30) % 60  # five and a half hours ahead
    assert re.search(rf":{minute:02}", local)
