from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import shlex
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.operations.catalogs.tokens import CreateTokenRequest, create_token, revoke_token
from lakesweep.operations.schedules.jobs import command_of
from lakesweep.server.api.routes import ROUTES
from lakesweep.server.application import Service, ServiceOptions, create_app
from lakesweep.server.console.plans import _defused
from lakesweep.server.console.routes import EVENTS, PAGES
from tests.console_lake import HOSTILE, ConsoleLake
from tests.service import make_service, tokens_of

_MOST_BYTES = 200_000
_EXPLAINED = 4
pytestmark = pytest.mark.xdist_group("console")


class Page(HTMLParser):
    """What a page holds: links, forms, and tags that should not be there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag in ("a", "link") and given.get("href"):
            self.links.append(given["href"] or "")
        if tag == "form":
            self.forms.append(given)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        if tag == "script" and "src" not in given:
            self.inline.append("script")


class Browser:
    """A client with cookies, as a browser is."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cookies = httpx.Cookies()

    def _send(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.service, client=("127.0.0.1", 50_000))
            url = "http://127.0.0.1:8080"
            async with httpx.AsyncClient(
                transport=transport, base_url=url, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, **given)
                self.cookies = client.cookies
                return answer

        return asyncio.run(send())

    def get(self, path: str) -> httpx.Response:
        return self._send("GET", path)

    def post(self, url: str, *, key: str | None = None, **fields: Any) -> httpx.Response:
        """Send a form, with the key that the browser was given unless told otherwise."""
        if key is None:
            found = re.search(r'name="form_key" value="(\w+)"', self.get("/sign-in").text)
            assert found
            key = found[1]
        return self._send("POST", url, data={"form_key": key, **fields})

    def sign_in(self, token: str) -> httpx.Response:
        return self.post("/sign-in", token=token, next="/runs")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ConsoleLake:
    return ConsoleLake.make(tmp_path_factory.mktemp("console") / "lake")


@pytest.fixture(scope="module")
def tokens(lake: ConsoleLake) -> dict[ServiceRole, str]:
    return dict(tokens_of(lake.service))


def _signed_in(lake: ConsoleLake, token: str) -> Browser:
    browser = Browser(lake.service)
    assert browser.sign_in(token).status_code == 303
    return browser


def _walk(browser: Browser) -> Iterator[tuple[str, httpx.Response]]:
    """Every page that links lead to, each once; of files only some are explained."""
    seen, waiting, explained = set(), ["/"], 0
    while waiting:
        path = waiting.pop()
        is_plain = "/explain?" in path and "script" not in path
        explained += is_plain
        if path in seen or (is_plain and explained > _EXPLAINED):
            continue
        seen.add(path)
        answer = browser.get(path)
        yield path, answer
        if answer.headers["content-type"].startswith("text/html"):
            found = (
                urlsplit(link)._replace(fragment="").geturl() for link in Page(answer.text).links
            )
            waiting += [link for link in found if link]


def _names(lake: ConsoleLake) -> dict[str, str]:
    run = next(iter(lake.app.known_runs.list())).run
    return {
        "lake": "prod",
        "plan": lake.waiting,
        "run": run,
        "name": "nightly",
        "token": "none",
        "table": "lake.shop.orders",
    }


def _path(lake: ConsoleLake, template: str) -> str:
    names = _names(lake)
    if template.startswith("/quarantine"):
        names["plan"] = lake.applied
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], template)


@pytest.fixture(scope="module")
def answers(lake: ConsoleLake, tokens: dict[ServiceRole, str]) -> dict[str, httpx.Response]:
    """Every page that an admin can reach."""
    create_token(lake.app, CreateTokenRequest(HOSTILE, ServiceRole.VIEWER))
    return dict(_walk(_signed_in(lake, tokens[ServiceRole.ADMIN])))


def _is_page(path: str, answer: httpx.Response) -> bool:
    is_html = answer.headers["content-type"].startswith("text/html")
    return is_html and not path.startswith("/api")


def test_every_link_of_every_page_answers(
    lake: ConsoleLake, answers: dict[str, httpx.Response]
) -> None:
    wrong = {path: each.status_code for path, each in answers.items() if each.status_code != 200}
    assert wrong == {}
    found = {path.partition("?")[0] for path in answers}
    wanted = {
        _path(lake, each.path)
        for each in PAGES
        if each.method == "GET" and each.media_types != (EVENTS,) and "repository" not in each.path
    }
    assert wanted <= found


def test_pages_are_small_and_allow_nothing_foreign(answers: dict[str, httpx.Response]) -> None:
    for path, each in answers.items():
        if _is_page(path, each):
            policy = each.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert each.headers["x-frame-options"] == "DENY"
            assert len(each.content) < _MOST_BYTES, path


def test_the_script_is_compared_with_its_hash(
    lake: ConsoleLake, answers: dict[str, httpx.Response]
) -> None:
    told = re.search(r'<script src="([^"]+)" integrity="sha384-([^"]+)"', answers["/"].text)
    assert told
    script = Browser(lake.service).get(told[1]).content
    assert base64.b64encode(hashlib.sha384(script).digest()).decode() == told[2]


def test_pages_tell_of_checks_catalogs_and_who_did_what(
    answers: dict[str, httpx.Response],
) -> None:
    checked = answers["/lakes/prod"].text
    assert "The last check" in checked
    assert "0 files missing in 0 tables" in checked
    assert "s3://shop" in answers["/store"].text
    inside = answers["/store/catalog?realm=default&within=shop"].text
    assert "shop.first" in inside
    assert "Grants" in inside
    access = answers["/access"].text
    assert "made a token, viewer" in access
    assert "changed a schedule" in access
    assert "&lt;script&gt;alert(1)" in access


def test_hostile_names_are_shown_as_text_on_every_page(
    answers: dict[str, httpx.Response],
) -> None:
    showing = 0
    for path, answer in answers.items():
        if _is_page(path, answer):
            page, text = Page(answer.text), answer.text
            assert page.tags.count("script") == 1, path
            assert page.inline == [], path
            assert not set("\x1b\u202e") & set(text), path
            showing += "&lt;script&gt;alert(1)" in text
    assert showing > 5


def test_a_viewer_sees_no_form_that_changes_something_and_is_refused(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.VIEWER])
    for path, answer in _walk(browser):
        assert answer.status_code == 200, path
        forms = [each for each in Page(answer.text).forms if each.get("method") == "post"]
        assert [each["action"] for each in forms] in ([], ["/sign-out"]), path
        assert not path.startswith(("/store", "/access"))
    for page in PAGES:
        if page.role is not ServiceRole.VIEWER:
            send = browser.get if page.method == "GET" else browser.post
            assert send(_path(lake, page.path)).status_code == 403, page.path


def test_each_role_may_send_its_forms_and_no_others(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    for role in ServiceRole:
        browser = _signed_in(lake, tokens[role])
        key = re.search(r'name="form_key" value="(\w+)"', browser.get("/sign-in").text)
        assert key
        for page in PAGES:
            if page.method == "POST" and page.role is not None and not role.covers(page.role):
                path = _path(lake, page.path)
                assert browser.post(path, key=key[1]).status_code == 403, (role, path)


def test_a_form_without_the_key_of_its_session_changes_nothing(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.ADMIN])
    other = _signed_in(lake, tokens[ServiceRole.ADMIN])
    found = re.search(r'name="form_key" value="(\w+)"', other.get("/").text)
    assert found
    for page in PAGES:
        if page.method == "POST":
            for key in ("", "x", "ü", found[1]):
                assert browser.post(_path(lake, page.path), key=key).status_code == 403
    assert browser.post("/sign-out", key="").status_code == 403
    assert Browser(lake.service).post("/sign-in", key="", token="x").status_code == 403
    state = lake.app.known_schedules.state("nightly")
    assert state is None or state.paused_by is None


def test_a_page_of_another_site_may_send_no_form(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.ADMIN])
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = browser._send("POST", "/schedules/nightly:pause", headers=headers)
        assert answer.status_code == 403


def test_strangers_are_sent_to_sign_in_and_come_back(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    stranger = Browser(lake.service)
    answer = stranger.get("/plans")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fplans")
    assert stranger.post("/schedules/nightly:pause").status_code == 401
    assert stranger.get("/nothing").status_code == 404
    wrong = stranger.sign_in("lsw_wrong_token")
    assert wrong.status_code == 401
    assert "not valid" in wrong.text
    cookie = stranger.sign_in(tokens[ServiceRole.VIEWER]).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert tokens[ServiceRole.VIEWER] not in cookie


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil", "x", "/\r\nx"]
)
def test_a_sign_in_leads_to_no_other_site(
    lake: ConsoleLake, tokens: dict[ServiceRole, str], target: str
) -> None:
    browser = Browser(lake.service)
    answer = browser.post("/sign-in", token=tokens[ServiceRole.VIEWER], next=target)
    assert answer.headers["location"] == "/"


def test_a_session_ends_by_signing_out_and_by_revoking_its_token(lake: ConsoleLake) -> None:
    made = create_token(lake.app, CreateTokenRequest("passing", ServiceRole.VIEWER))
    one, other = _signed_in(lake, made.text), _signed_in(lake, made.text)
    assert one.get("/runs").status_code == 200
    kept = httpx.Cookies(one.cookies)
    assert one.post("/sign-out").status_code == 303
    one.cookies = kept
    assert one.get("/runs").status_code == 303
    assert other.get("/runs").status_code == 200
    revoke_token(lake.app, made.token)
    assert other.get("/runs").status_code == 303


def test_files_of_a_plan_are_searched_page_by_page(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.VIEWER])
    path, found = f"/plans/{lake.waiting}?q=ORPHAN-&verdict=delete", []
    while path:
        text = browser.get(path).text
        found += re.findall(r"<code>[^<]*(orphan-\d+)", text)
        after = re.search(r'<a [^>]*href="([^"]+)">Next page', text)
        path = "" if after is None else after[1].replace("&amp;", "&").partition("#")[0]
    assert sorted(found) == [f"orphan-{number:05}" for number in range(60)]
    assert "No such file" in browser.get(f"/plans/{lake.waiting}?q=nothing&reason=&table=").text


def test_files_of_a_plan_are_downloaded_in_three_formats(
    lake: ConsoleLake, tokens: dict[ServiceRole, str], tmp_path: Path
) -> None:
    import pyarrow.csv
    import pyarrow.parquet as pq

    browser = _signed_in(lake, tokens[ServiceRole.VIEWER])
    base = f"/plans/{lake.waiting}/download?verdict=delete&format="
    lines = browser.get(f"{base}jsonl").text.splitlines()
    for name, read in {"csv": pyarrow.csv.read_csv, "parquet": pq.read_table}.items():
        (tmp_path / name).write_bytes(browser.get(f"{base}{name}").content)
        assert read(str(tmp_path / name)).num_rows == len(lines) == 60


def test_a_cell_of_a_csv_is_never_a_formula(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    batch = pa.record_batch(
        {"path": ["=1+1", "+x", "-x", "@x", "\tx", "a=b", None], "size_bytes": [-1] * 7}
    )
    cells = ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "a=b", None]
    assert _defused(batch).to_pydict() == {"path": cells, "size_bytes": [-1] * 7}
    browser = _signed_in(lake, tokens[ServiceRole.VIEWER])
    text = browser.get(f"/plans/{lake.waiting}/download?format=csv").text
    assert not [line for line in text.splitlines() if line.startswith(('"=', '"+', '"-', '"@'))]


def test_a_plan_says_what_changed_since_the_last_one(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.VIEWER])
    text = browser.get(f"/plans/{lake.waiting}").text
    assert f'<a href="/plans/{lake.applied}">' in text
    assert "+57 files" in text
    assert "Since the last plan" not in browser.get(f"/plans/{lake.applied}").text


def test_a_schedule_is_added_changed_and_removed(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.ADMIN])
    fields = {"job": "sweep", "lake": "prod", "every": "6h", "options": "engine=local"}
    assert browser.post("/schedules", name="six", **fields).status_code == 303
    assert browser.post("/schedules", name="six", **fields).status_code == 400
    changed = {**fields, "every": "", "cron": "5 2 * * *"}
    assert browser.post("/schedules/six", **changed).status_code == 303
    page = browser.get("/schedules/six").text
    assert "5 2 * * *" in page
    assert page.count("schedule six: a admin") == 2
    assert browser.post("/schedules/six", **{**fields, "options": "x"}).status_code == 400
    assert browser.post("/schedules/none", **fields).status_code == 404
    assert browser.post("/schedules/six:remove").status_code == 303
    assert browser.get("/schedules/six").status_code == 404


def test_live_parts_come_as_events_and_end_with_the_run(
    lake: ConsoleLake, tokens: dict[ServiceRole, str]
) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.VIEWER])
    run = next(iter(lake.app.known_runs.list())).run
    answer = browser.get(f"/runs/{run}/events")
    assert answer.headers["content-type"].startswith(EVENTS)
    assert answer.text.startswith("data: ")
    assert answer.text.endswith("event: end\ndata: end\n\n")
    assert "event: end" in browser.get("/events").text


def test_without_tokens_it_is_open_to_this_machine_until_the_first_one(tmp_path: Path) -> None:
    browser = Browser(make_service(tmp_path, has_console=True))
    assert browser.get("/").status_code == 200
    made = browser.post("/access", name="ci", role="viewer", expires="1d")
    assert re.search(r"lsw_\w+", made.text)
    assert browser.get("/").status_code == 303


def test_forms_do_what_the_commands_do(lake: ConsoleLake, tokens: dict[ServiceRole, str]) -> None:
    browser = _signed_in(lake, tokens[ServiceRole.ADMIN])
    assert browser.post("/schedules/nightly:pause").status_code == 303
    state = lake.app.known_schedules.state("nightly")
    assert state is not None
    assert state.paused_by == "a admin"
    assert browser.post(f"/plans/{lake.waiting}:reject", why="").status_code == 400
    assert browser.post(f"/plans/{lake.waiting}:reject", why="too much").status_code == 303
    assert "too much" in browser.get(f"/plans/{lake.waiting}").text
    lost = lake.lake.data / "orphan-00001.parquet"
    lost.unlink()
    path = "shop/orders/data/orphan-00001.parquet"
    assert browser.post(f"/quarantine/{lake.applied}:restore", path=path).status_code == 303
    assert lost.exists()
    assert browser.post(f"/quarantine/{lake.applied}:empty").status_code == 400
    assert browser.post("/lakes/prod:plan").status_code == 303
    run = next(each.run for each in lake.app.known_runs.list() if each.kind == "plan")
    assert browser.post(f"/runs/{run}:again").status_code == 303
    forms = [
        (f"/quarantine/{lake.applied}:restore", {"prefix": "shop/orders"}),
        (f"/quarantine/{lake.applied}:restore", {"table": "lake.shop.orders"}),
        (f"/quarantine/{lake.applied}:empty", {"sure": "yes"}),
        (f"/plans/{lake.applied}:apply", {"hold": "7d", "override": "share"}),
    ]
    for path, fields in forms:
        assert browser.post(path, **fields).status_code == 303, path
    commands = sorted(shlex.join(command_of(job)) for job in lake.app.known_schedules.open_jobs())
    assert commands == [
        f"apply --yes --quarantine --hold=7d --override=share -- {lake.applied}",
        "plan -- prod",
        "plan --engine=local -- prod",
        f"quarantine empty --yes -- {lake.applied}",
        f"quarantine restore --prefix=shop/orders -- {lake.applied}",
        f"quarantine restore --table=lake.shop.orders -- {lake.applied}",
    ]
    assert "restore" in browser.get(f"/quarantine/{lake.applied}").text


def test_a_form_needs_the_role_that_the_same_request_needs_in_the_api() -> None:
    roles = {(each.method, each.path): each.role for each in ROUTES}
    compared = 0
    for page in PAGES:
        same = roles.get((page.method, f"/api/v1{page.path}"))
        if page.method == "POST" and same is not None:
            assert page.role == same, page.path
            compared += 1
    assert compared >= 8


def test_what_goes_wrong_inside_is_told_on_a_page_and_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    app = make_service(tmp_path).app
    service = create_app(app, ServiceOptions(has_console=True, log=said.append))

    def fail(*_: object) -> None:
        raise ValueError("inside")

    monkeypatch.setattr("lakesweep.server.api.lakes.lakes.list_lakes", fail)
    answer = Browser(service).get("/lakes")
    assert answer.status_code == 500
    assert "an unexpected error" in answer.text
    assert "inside" not in answer.text
    assert "unexpected ValueError at /lakes: inside" in said


def test_a_lake_has_its_page_when_the_files_of_its_plan_are_gone(tmp_path: Path) -> None:
    lake = ConsoleLake.make(tmp_path / "lake")
    for each in (lake.lake.folder).rglob(lake.waiting):
        shutil.rmtree(each)
    browser = Browser(lake.service)
    assert browser.get(f"/plans/{lake.waiting}").status_code == 404
    answer = browser.get("/lakes/prod")
    assert answer.status_code == 200
    assert "lake.shop.orders" in answer.text


def test_a_query_of_too_many_fields_is_a_wrong_request(lake: ConsoleLake) -> None:
    query = "&".join(f"a{number}=1" for number in range(200))
    assert Browser(lake.service).get(f"/?{query}").status_code == 400
