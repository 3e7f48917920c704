"""The operator's page: what it shows, to whom, and that nothing stored becomes markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from docstore.cli.main import main
from docstore.model.choices import VerdictKind
from docstore.model.types import Page, Previous, PutResult, Verdict
from docstore.reports.survey import survey
from docstore.serving.page import side_by_side
from docstore.serving.telemetry import MINUTES, Metrics
from tests.serving import Serving, http_client, serving

TEMPLATES = Path(__file__).parent.parent.parent / "docstore" / "serving" / "templates"
TYPE = (("Content-Type", "text/html"),)
A = "https://a.example/docs/one"
EVIL = "https://evil.example/x?q=%22%3E<script>alert(1)</script>&'\"=javascript:alert(2)"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>"
TIME = 1_700_000_000_000_000
DAY = 86_400_000_000
VIEWS = ("/", "/list", "/list?verdict=exact", "/hosts", "/clusters", "/jobs", f"/page?url={A}", f"/diff?a={A}")


def body(words: str, number: int = 60) -> bytes:
    text = " ".join(f"Line {index} of a long text about rain." for index in range(number))
    return f"<html><title>{words}</title><main><p>{words} are said at first. {text}</p></main></html>".encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("page") / "webtable") as found:
        pages = [
            Page(A, body("First words"), 200, TYPE, TIME),
            Page(A, body("Second words"), 200, TYPE, TIME + DAY),
            Page(A, b"", 304, (), TIME + 2 * DAY),
            Page("https://a.example/docs/copy", body("First words"), 200, TYPE, TIME + DAY),
            *(Page(f"https://a.example/many/{n:03}", b"<p>short", 200, TYPE, TIME) for n in range(130)),
        ]
        escaped = MARKUP.replace("<", "&lt;")
        headers = (*TYPE, ("X-<b>Evil</b>", MARKUP))
        pages.append(Page(EVIL, body(escaped), 200, headers, TIME))
        results = list(found.store.put_pages(pages))
        assert {result.stored for result in results} <= {"body", "confirmed"}, results
        found.store.add_anchor(EVIL, f"https://evil.example/{MARKUP}", MARKUP, TIME)
        yield found


class Reader(HTMLParser):
    """Tags, links and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(served: Serving, path: str, status: int = 200, **parameters: Any) -> Reader:
    answer = served.http.get(path, params=parameters or None)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Reader(answer.text)


def test_the_first_view_has_totals_verdicts_and_tablets(served: Serving) -> None:
    page = shown(served, "/")
    for words in ("134", "webtable", "exact", "same text", "Tablets", "the beginning", "pages a minute"):
        assert words in page.text, words


def test_what_is_written_through_the_server_is_in_the_rate(served: Serving) -> None:
    before = served.server  # the module's pages went past the server
    assert before is not None
    written = {"page": {"url": "https://rate.example/", "body": {"text": "<p>x"}, "status": 200}}
    answer = served.http.put("/v1/page", params={"url": "https://rate.example/"}, content=b"<p>x")
    assert answer.status_code == 200, (written, answer.text)
    assert "1 page since then" in shown(served, "/").text


def test_a_page_has_its_captures_text_and_duplicates(served: Serving) -> None:
    page = shown(served, "/page", url="a.example/docs/one")
    assert page.text.count("compare") >= 2
    for words in (
        "Second words",
        "changed",
        "the first",
        "confirmed",
        "https://a.example/docs/copy",
        "2023-11-15 22:13:20",
    ):
        assert words in page.text, words
    then = shown(served, "/page", url=A, at=TIME)
    assert "First words" in then.text
    assert sum(tag == "circle" for tag, _ in page.tags) == 3


def test_what_is_not_stored_is_said_with_where_to_look(served: Serving) -> None:
    assert "Not stored" in shown(served, "/page", 404, url="https://a.example/nothing").text
    assert "https://a.example/docs/one" in shown(served, "/page", 404, url="http://www.a.example/docs/one").text
    assert "up to 2001-09-09" in shown(served, "/page", 404, url=A, at=1_000_000_000_000_000).text
    assert "not two captures" in shown(served, "/diff", 404, a="https://a.example/many/001").text


def test_a_rejected_page_is_said_with_the_one_that_it_repeats(served: Serving) -> None:
    url = "https://rejected.example/M%C3%BCnchen"
    for one, at in ((url, TIME), ("https://rejected.example/copy", TIME + DAY)):
        served.store.put_page(one, body("Rejected words"), headers=TYPE, fetched_at=at, policies={"exact": "reject"})
    found = shown(served, "/page", 404, url="https://rejected.example/copy")
    assert "Rejected" in found.text and "2023-11-15 22:13:20" in found.text
    assert "https://rejected.example/M\u00fcnchen" in found.text
    assert any(
        url.replace("%", "%25") in (attrs.get("href") or "").replace("%3A", ":").replace("%2F", "/")
        for _, attrs in found.tags
    )
    assert "Rejected words" in shown(served, "/page", url="https://rejected.example/Mu\u0308nchen").text
    assert "Not stored" in shown(served, "/page", 404, url="https://rejected.example/copy", at=TIME).text


@pytest.mark.parametrize(
    ("path", "parameters", "words"),
    [
        ("/page", {}, "URL"),
        ("/page", {"url": "http://[::1"}, "URL"),
        ("/page", {"url": A, "at": "yesterday"}, "microseconds"),
        ("/page", {"url": A, "at": "9" * 40}, "microseconds"),
        ("/page", {"url": A, "at": "٣"}, "microseconds"),
        ("/list", {"after": "no hex"}, "hexadecimal"),
        ("/list", {"prefix": "a.example:81/"}, "port"),
        ("/list", {"verdict": "nearly"}, "similar"),
        ("/list", {"since": "yesterday"}, "2026-11-25"),
        ("/page", {"url": "x" * 60_000}, ""),
    ],
)
def test_a_wrong_question_gets_a_page_that_says_why(
    served: Serving, path: str, parameters: dict[str, str], words: str
) -> None:
    answer = served.http.get(path, params=parameters)
    assert 400 <= answer.status_code < 500
    assert words in answer.text
    assert "Traceback" not in answer.text


def test_a_listing_goes_on_behind_a_page(served: Serving) -> None:
    first = shown(served, "/list", prefix="https://a.example/many/")
    urls = [attrs["href"] for tag, attrs in first.tags if tag == "a" and "many" in (attrs.get("href") or "")]
    (following,) = [attrs["href"] for tag, attrs in first.tags if tag == "a" and "after=" in (attrs.get("href") or "")]
    assert following is not None
    second = shown(served, following)
    assert first.text.count("/many/") + second.text.count("/many/") >= 130
    assert "https://a.example/many/129" in second.text
    assert "https://a.example/many/000" not in second.text
    assert urls


def links(page: Reader) -> list[str]:
    return [attrs.get("href") or "" for tag, attrs in page.tags if tag == "a"]


def test_the_bars_of_verdicts_lead_to_the_pages_behind_them(served: Serving) -> None:
    assert links(shown(served, "/")).count("/list?verdict=exact") == 2
    exact = shown(served, "/list", verdict="exact", prefix="https://a.example/docs")
    assert "https://a.example/docs/copy" in exact.text
    assert exact.text.count("1.000") == 1 and A in exact.text
    assert shown(served, "/list", verdict="contained").text.count("has the verdict contained") == 1


def test_a_list_by_verdict_has_rejected_captures_and_one_of_all_pages_does_not(served: Serving) -> None:
    for name, at in (("one", TIME), ("two", TIME + DAY)):
        url = f"https://refused.example/{name}"
        served.store.put_page(url, body("Refused"), headers=TYPE, fetched_at=at, policies={"exact": "reject"})
    found = shown(served, "/list", verdict="exact", prefix="refused.example")
    assert "https://refused.example/two" in found.text and "rejected" in found.text
    assert "https://refused.example/two" not in shown(served, "/list", prefix="refused.example").text


def test_pages_are_listed_by_the_time_at_which_they_were_written(served: Serving) -> None:
    """The time of the commit, not that of the fetch, which is years earlier here."""
    assert A in shown(served, "/list", since="2026-01-01", prefix="a.example/docs").text
    none = shown(served, "/list", since="2199-12-31 23:59", prefix="a.example/docs")
    assert A not in none.text and "was written since 2199-12-31 23:59" in none.text


def test_a_long_url_is_cut_in_the_middle_and_whole_in_its_title(served: Serving) -> None:
    url = f"https://long.example/{'x' * 200}/end.html"
    served.store.put_page(url, b"<p>long", headers=TYPE, fetched_at=TIME)
    page = shown(served, "/list", prefix="long.example")
    assert url not in page.text and "\u2026" in page.text and "/end.html" in page.text
    assert url in [attrs.get("title") for tag, attrs in page.tags if tag == "a"]


def test_two_captures_are_shown_side_by_side(served: Serving) -> None:
    page = shown(served, "/diff", a=A, a_at=TIME + DAY)
    assert "1 word went, 1 came" in page.text
    assert {tag for tag, _ in page.tags} >= {"ins", "del"}
    assert "the same" in shown(served, "/diff", a=A, a_at=TIME, b="https://a.example/docs/copy").text


def test_blocks_stand_beside_each_other_and_equal_ones_are_folded() -> None:
    same = [f"block {number}" for number in range(10)]
    rows = side_by_side("\n".join([*same, "old words here", *same]), "\n".join([*same, "new words here", *same]))
    assert [row.unchanged for row in rows] == [9, 0, 0, 0, 9]
    assert [piece.text for piece in rows[2].old] == ["old", "words here"]
    assert [piece.text for piece in rows[2].new] == ["new", "words here"]
    assert [row.unchanged for row in side_by_side("a\nb", "a\nb")] == [2]
    assert side_by_side("", "") == []


@pytest.mark.parametrize("path", ["/page", "/diff", "/list", "/hosts", "/clusters", "/report"])
def test_nothing_stored_becomes_markup(served: Serving, path: str) -> None:
    """Titles, texts, URLs, headers and words of links of strangers."""
    asked = {"/page": {"url": EVIL}, "/diff": {"a": EVIL, "b": A}, "/list": {"prefix": "evil.example"}}
    served.http.post("/v1/jobs", json={"kind": "report", "options": {}})
    wait_for_jobs(served)
    found = [shown(served, path, **asked.get(path, {}))]
    if path == "/page":
        found.append(shown(served, path, 400, url="javascript:alert(3)"))
        found.append(shown(served, path, 404, url=f"https://b.example/{MARKUP}"))
    if path == "/list":
        found.append(shown(served, path, prefix=f"b.example/{MARKUP}"))
    for page in found:
        for tag, attrs in page.tags:
            assert tag not in {"script", "img", "iframe", "object"}
            assert not [name for name in attrs if name.startswith("on") or name == "style"]
            for name in ("href", "src", "action"):
                target = attrs.get(name)
                assert target is None or target.startswith(("/", "#")), target
    if path == "/page":
        assert MARKUP in found[0].text
        assert "X-<b>Evil</b>" in found[0].text


@pytest.mark.parametrize("path", [*VIEWS, "/page?url=https://nowhere.example/", "/page?at=x", "/page.css"])
def test_a_browser_may_only_show_it(served: Serving, path: str) -> None:
    answer = served.http.get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    if path != "/page.css":
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert [attrs["href"] for tag, attrs in Reader(answer.text).tags if tag == "link"] == ["/page.css"]


def wait_for_jobs(served: Serving) -> None:
    for job in served.http.get("/v1/jobs").json()["jobs"]:
        while job["state"] == "running":
            job = served.http.get(
                f"/v1/jobs/{job['id']}", params={"wait_seconds": 30, "revision": job["revision"]}
            ).json()
        assert job["state"] == "done", job


def few_and_many() -> list[Page]:
    """Two equal pages of one host, five of another."""
    texts = {"few": body("Few"), "many": " ".join(f"<p>Point {n} is about snow." for n in range(99)).encode()}
    return [
        Page(f"https://{host}.example/{n}", texts[host], 200, TYPE, TIME + n)
        for host, count in (("few", 2), ("many", 5))
        for n in range(count)
    ]


def test_a_small_store_is_counted_while_its_page_is_made(tmp_path: Path) -> None:
    with serving(tmp_path / "s") as found:
        assert "0 pages in 0 clusters" not in shown(found, "/clusters").text
        list(found.store.put_pages(few_and_many()))
        assert [link for link in links(shown(found, "/hosts")) if "prefix" in link] == [
            "/list?prefix=many.example%2F", "/list?prefix=few.example%2F"]  # fmt: skip
        clusters = shown(found, "/clusters")
        assert "just now" in clusters.text and "7 pages in 2 clusters" in clusters.text
        assert "many.example" in found.http.get("/report").text
        assert found.http.get("/v1/jobs").json()["jobs"] == []


def test_hosts_and_clusters_of_a_large_store_are_those_of_the_last_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstore.serving.page.COUNTED_AT_ONCE", -1)
    with serving(tmp_path / "s") as found:
        assert "not been counted" in shown(found, "/hosts").text
        assert "not been counted" in shown(found, "/clusters").text
        shown(found, "/report", 404)
        list(found.store.put_pages(few_and_many()))
        started = found.http.post("/jobs", data={"proof": proof_of(found), "start": "report"})
        assert started.status_code == 303
        wait_for_jobs(found)
        hosts = shown(found, "/hosts")
        assert [link for link in links(hosts) if "prefix" in link] == [
            "/list?prefix=many.example%2F", "/list?prefix=few.example%2F"]  # fmt: skip
        assert "nothing written since" in hosts.text
        clusters = shown(found, "/clusters").text
        assert clusters.index("https://many.example/0") < clusters.index("https://few.example/0")
        assert "7 pages in 2 clusters" in clusters and "and 1 more" in clusters
        found.store.put_page("https://late.example/", b"<p>late", headers=TYPE)
        assert "1 capture written since" in shown(found, "/hosts").text
        report = found.http.get("/report")
        assert "'unsafe" not in report.headers["content-security-policy"]
        assert "sha256-" in report.headers["content-security-policy"]
        assert "many.example" in report.text


def test_the_report_of_a_served_store_is_that_of_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path / "s") as found:
        list(found.store.put_pages([Page(f"https://a.example/{n}", body("Same"), 200, TYPE, TIME) for n in range(3)]))
        assert main(["report", "--json", "--store", found.server.url]) == 0
        served_figures = json.loads(capsys.readouterr().out)
        own = survey(found.store).asdict()
        for name in ("made", "seconds", "room"):  # times, and files that grow
            assert served_figures.pop(name) is not None and own.pop(name)
        assert served_figures == json.loads(json.dumps(own))


def test_jobs_say_what_they_found_in_words(tmp_path: Path) -> None:
    with serving(tmp_path / "s") as found:
        list(found.store.put_pages([Page(f"https://a.example/{n}", body("Same"), 200, TYPE, TIME) for n in range(3)]))
        for kind in ("check", "compact", "sweep", "report", "reindex", "dedup-stats", "delete-crawl"):
            options = {"crawl": "none"} if kind == "delete-crawl" else {}
            found.http.post("/v1/jobs", json={"kind": kind, "options": options})
            wait_for_jobs(found)
        text = shown(found, "/jobs").text
        for words in (
            "no damage",
            "3 captures, 3 pairs, 1 cluster",
            "3 pages of 1 host, 1 cluster of 3 pages",
            "0 rows",
            "3 captures, 3 pages in clusters",
        ):
            assert words in text, words
        assert re.search(r"3 rows, \d+ values moved, .* freed", text)
        assert "no damage at the check of" in shown(found, "/").text


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nope", 404), ("GET", "/a/b", 404), ("POST", "/list", 405)]
)
def test_a_path_that_there_is_not_is_html_for_a_browser_alone(
    served: Serving, method: str, path: str, status: int
) -> None:
    as_browser = served.http.request(method, path, headers={"accept": "text/html,*/*;q=0.8"})
    assert as_browser.status_code == status and "That did not work" in as_browser.text
    assert as_browser.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in as_browser.headers["content-security-policy"]
    for answer in (
        served.http.request(method, path),
        served.http.request(method, f"/v1{path}", headers={"accept": "text/html"}),
    ):
        assert answer.headers["content-type"] == "application/json"
        assert "message" in answer.json()["error"]


def test_no_template_marks_a_value_as_safe() -> None:
    templates = sorted(TEMPLATES.glob("*.html"))
    assert len(templates) > 8
    for template in templates:
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup|<script|style=|https?://", text), template


# --- who may look


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text("read reading-reading-reading reader\nadmin admining-admining-admin boss\n")
    tokens.chmod(0o600)
    with serving(folder / "s", token_file=tokens) as found:
        yield found


READER, BOSS = ("anyone", "reading-reading-reading"), ("", "admining-admining-admin")


def proof_of(served: Serving, **named: Any) -> str:
    html = served.http.get("/jobs", **named).text
    found = re.search(r'name="proof" value="([0-9a-f]+)"', html)
    return found[1] if found else ""


@pytest.mark.parametrize("path", ["/", "/list", "/page?url=x.example", "/jobs", "/clusters", "/diff?a=x.example"])
def test_without_a_token_a_browser_asks_for_one(guarded: Serving, path: str) -> None:
    answer = guarded.http.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert "token" in answer.text
    assert str(guarded.store.backend.path) not in answer.text
    for wrong in ("Basic", "Basic !!!", "Basic " + "A" * 1000, "Basic OnNob3J0", "Digest x"):
        assert guarded.http.get(path, headers={"Authorization": wrong}).status_code == 401
    assert guarded.http.get(path, auth=READER).status_code in (200, 404)
    assert guarded.local.get(path).status_code in (200, 404)


def test_a_password_is_no_way_into_the_api(guarded: Serving) -> None:
    """What a browser sends by itself must not be enough there."""
    assert guarded.http.get("/v1/stats", auth=BOSS).status_code == 401
    browser = {"accept": "text/html"}
    assert guarded.http.get("/nope", headers=browser).status_code == 401  # as each view
    assert guarded.http.get("/nope", headers=browser, auth=READER).status_code == 404


def test_a_token_stands_in_no_page(guarded: Serving) -> None:
    for path in ("/", "/jobs"):
        html = guarded.http.get(path, auth=BOSS).text
        assert BOSS[1] not in html
        assert "boss" in html


def test_jobs_are_started_and_stopped_by_who_may(guarded: Serving) -> None:
    def post(form: dict[str, str], **named: Any) -> httpx.Response:
        return guarded.http.post("/jobs", data=form, **named)

    proof = proof_of(guarded, auth=BOSS)
    assert proof
    assert proof_of(guarded, auth=READER) == ""
    start = {"proof": proof, "start": "compact", "level": "fast"}
    assert post(start).status_code == 401
    assert post(start, auth=READER).status_code == 403
    assert post({**start, "proof": ""}, auth=BOSS).status_code == 403
    assert post({**start, "proof": "é" * 64}, auth=BOSS).status_code == 403
    assert post(start, auth=BOSS, headers={"Origin": "https://evil.example"}).status_code == 403
    assert post(start, auth=BOSS, headers={"Origin": "null"}).status_code == 403
    assert guarded.http.post("/jobs", json=start, auth=BOSS).status_code == 415
    assert guarded.http.get("/jobs?start=compact", auth=BOSS).status_code == 200
    assert guarded.http.get("/v1/jobs", headers={"Authorization": f"Bearer {BOSS[1]}"}).json()["jobs"] == []
    started = post(start, auth=BOSS)
    assert (started.status_code, started.headers["location"]) == (303, "/jobs")
    assert "compact-1" in guarded.http.get("/jobs", auth=READER).text
    for wrong in (
        {"start": "backup", "folder": "/tmp/x"},
        {"start": "sweep", "threshold": "much"},
        {"start": "compact", "level": "burn"},
        {"cancel": "nothing"},
        {},
    ):
        answer = post({"proof": proof, **wrong}, auth=BOSS)
        assert 400 <= answer.status_code < 500 or "failed" in guarded.http.get("/jobs", auth=BOSS).text
    assert post({"proof": proof, "cancel": "compact-1"}, auth=BOSS).status_code == 303


# --- numbers


def test_the_rate_moves_on_with_the_minutes() -> None:
    seconds = [0.0]
    rate = Metrics(lambda: seconds[0])
    result = PutResult("", 0, Verdict(VerdictKind.NEW), Previous.NONE, 0.0, "body")
    rate.count_results([result] * 5, 0)
    seconds[0] = 61
    rate.count_results([result] * 2, 0)
    assert rate.minutes()[-2:] == [5, 2]
    seconds[0] = 60.0 * MINUTES
    assert rate.minutes()[:2] == [5, 2]
    assert len(rate.minutes()) == MINUTES + 1
    seconds[0] = 1e9
    assert sum(rate.minutes()) == 0


@pytest.mark.parametrize("blank", [" ", "\n"])
def test_texts_of_words_that_repeat_are_compared_in_bounded_time(blank: str) -> None:
    """All matches are of one word, and each leaves nearly all for the next step: 10 ** 11 steps."""
    old, new = (blank.join(f"a {name}{n}" for n in range(4500)) for name in "xy")
    rows = side_by_side(old, new)
    assert [len(row.old) + len(row.new) for row in rows if not row.unchanged]
    shown = [" ".join(piece.text for row in rows for piece in side(row)) for side in (lambda r: r.old, lambda r: r.new)]
    assert [len(text.split()) for text in shown] == [9000, 9000]


def test_every_link_and_form_of_every_page_leads_somewhere(tmp_path: Path) -> None:
    """From the first page through all links and GET forms; of URLs that differ in numbers alone a few are enough."""
    pytest.importorskip("tantivy")
    with serving(tmp_path / "webtable") as served, http_client(served.server.url, timeout=60) as client:
        pages = [Page(A, body("First words"), 200, TYPE, TIME), Page(A, body("Second words"), 200, TYPE, TIME + DAY)]
        for n in range(25):
            text = " ".join(f"word{n}x{index} rain" for index in range(60))
            pages.append(Page(f"https://a.example/many/{n}", f"<p>{text}".encode(), 200, TYPE, TIME))
        list(served.store.put_pages(pages))
        jobs = client.get("/jobs").text
        proof = re.search(r'name="proof" value="([0-9a-f]+)"', jobs)[1]  # type: ignore[index]
        for kind in re.findall(r'name="start" value="([a-z]+)"', jobs):
            posted = client.post("/jobs", data={"proof": proof, "start": kind}, headers={"Origin": served.server.url})
            assert posted.status_code == 303, (kind, posted.text)
        assert {"index", "report", "sweep"} <= {job["kind"] for job in client.get("/v1/jobs").json()["jobs"]}
        for job in client.get("/v1/jobs").json()["jobs"]:
            while client.get(f"/v1/jobs/{job['id']}", params={"wait_seconds": 30}).json()["state"] == "running":
                pass
        waiting, seen, shapes = ["/", "/search?query=rain&host=a.example"], set[str](), dict[str, int]()
        while waiting:
            address = waiting.pop()
            shape = re.sub(r"\d+", "#", address)
            shapes[shape] = shapes.get(shape, 0) + 1
            if address in seen or shapes[shape] > 3:
                continue
            seen.add(address)
            answer = client.get(address)
            assert answer.status_code == 200, (address, answer.text[-300:])
            assert "notice alarm" not in answer.text
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            tags = Reader(answer.text).tags
            links = [attributes["href"] or "" for tag, attributes in tags if tag == "a"]
            waiting += [link for link in links if link.startswith("/")]
            for tag, attributes in tags:
                if tag == "form" and attributes.get("method", "get") == "get":
                    names = [each["name"] for kind, each in tags if kind == "input" and each.get("name")]
                    values = {"query": "rain", "url": A, "prefix": "a.example", "host": "a.example", "lang": ""}
                    query = "&".join(f"{name}={values.get(name or '', '')}" for name in names if name != "proof")
                    waiting.append(f"{attributes['action']}?{query}")
        assert any("from=20" in address for address in seen)
        second = client.get("/search", params={"query": "rain", "from": "10"}).text
        assert "match" in second and 'class="hit"' in second


def test_the_search_page_says_what_is_wrong_and_agrees_with_the_store(tmp_path: Path) -> None:
    pytest.importorskip("tantivy")
    with serving(tmp_path / "webtable") as served, http_client(served.server.url, timeout=60) as client:
        list(served.store.put_pages([Page(A, body("First words"), 200, TYPE, TIME)]))
        assert "docstore index" in client.get("/search?query=rain").text
        served.store.search_index().update()
        assert "no word in the query" in client.get("/search?query=>>>").text
        assert "no field titel" in client.get("/search?query=titel:rain").text
        assert f'href="/page?url={A.replace(":", "%3A").replace("/", "%2F")}"' in client.get("/search?query=rain").text
        assert "1 page matches" in client.get("/search?query=rain&host=a.example").text
        assert "0 pages match" in client.get("/search?query=rain&host=b.example").text
        assert "0 pages match" in client.get("/search?query=rain&since=2026-01-01").text
        assert "a time is such as" in client.get("/search?query=rain&since=yesterday").text
        list(served.store.put_pages([Page(A, body("First words", 61), 200, TYPE, TIME + DAY)]))
        assert re.search(r"Similarity 0\.\d{3};", client.get(f"/diff?a={A}").text)
