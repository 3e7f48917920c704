"""Every link and form of every view of the operator's page, in a browser, over a store with something for each."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from docstore.cli.main import main
from docstore.model.types import Page
from tests.clients.browser_pipe import Browser, browsing, program
from tests.serving import Serving, serving

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium is installed")

HTML = (("Content-Type", "text/html"), ("Content-Language", "en"))
DAY = 86_400_000_000
FIRST = 1_704_067_200_000_000
"""2024-01-01."""
PAGES = 110
"""More than one part of a list, and of the results of a search."""
SAMPLES = {
    "url": "https://one.example/docs/chapter_3.html",
    "prefix": "one.example/docs/",
    "since": "2024-01-05",
    "until": "2024-02-20 12:00",
    "query": "harbour",
    "host": "one.example",
    "lang": "en",
    "threshold": "0.8",
    "verdict": "near",
    "level": "best",
}
"""What a person gives each field of a form."""
REJECTED = "https://two.example/copy"
TIMES_OF_A_SHAPE = 2
"""Links with the same path, parameters and text lead to the same view: so many of them are followed."""
BROKEN_WORDS = r"""(() => {
  const broken = [], range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    if (texts.currentNode.parentElement.closest('.text, .hidden, script, style')) continue;
    for (const word of texts.currentNode.data.matchAll(/[^\s/?&=_-]+/g)) {
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter(box => box.width > 0).map(box => Math.round(box.top)));
      if (lines.size > 1) broken.push(word[0]);
    }
  }
  return broken;
})()"""


def body_of(number: int, version: int = 0) -> bytes:
    chooser = random.Random(number // 2)
    words = [f"word{chooser.randrange(5000)}" for _ in range(120)]
    if number % 2:  # a near copy of the page before
        words[60] = f"changed{number}"
    text = " ".join(words)
    return (
        f'<html lang="{"en" if number % 3 else "fr"}"><title>Harbour chapter {number // 2}</title><main>'
        f'<p>Harbour {version} {text}.</p><a href="/docs/chapter_{number + 1}.html">next chapter</a></main>'
    ).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("walk") / "webtable", archive_port=0) as found:
        pages = [
            Page(
                f"https://{'one' if number % 4 < 2 else 'two'}.example/docs/chapter_{number}.html",
                body_of(number),
                200,
                HTML,
                FIRST + number * DAY,
            )
            for number in range(PAGES)
        ]
        list(found.store.put_pages(pages, anchors=True))
        for version in (1, 2):
            found.store.put_page(SAMPLES["url"], body_of(3, version), headers=HTML, fetched_at=FIRST + version * DAY)
        found.store.put_page(REJECTED, body_of(8), policies={"exact": "reject-any"})
        yield found


@pytest.fixture(scope="module")
def browser(served: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser, after each job was started by its form."""
    with browsing(tmp_path_factory.mktemp("profile")) as found:
        found.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        found.go(served.server.url + "/search?query=harbour")
        found.follow("document.querySelector('.notice a')")
        assert found.value("location.pathname") == "/jobs", "a search without an index leads to the jobs"
        for number in range(found.value("document.querySelectorAll('.starts form').length")):
            submit(found, f"document.querySelectorAll('.starts form')[{number}]")
            assert found.status == 200
            while "running" in served.http.get("/v1/jobs").text:
                found.go(served.server.url + "/jobs")
        assert [one["state"] for one in served.http.get("/v1/jobs").json()["jobs"]] == ["done"] * 5
        yield found


def submit(browser: Browser, form: str) -> dict[str, str]:
    """Fill a form in as a person would, and send it; -> what was filled in."""
    names = browser.value(f"[...{form}.elements].filter(e => e.name && e.type != 'hidden').map(e => e.name)")
    filled = {name: SAMPLES[name] for name in names if name in SAMPLES}
    for name, value in filled.items():
        browser.value(f"{form}.elements[{json.dumps(name)}].value = {json.dumps(value)}")
    browser.follow(f"{form}.querySelector('button')")
    return filled


def looks_right(browser: Browser, address: str, status: int = 200) -> None:
    assert browser.status == status, address
    assert browser.value("document.documentElement.scrollWidth <= innerWidth") is True, address
    assert browser.value(BROKEN_WORDS) == [], address
    assert [said for said in browser.said if str(status) not in said] == [], address
    browser.said.clear()


def text_of(browser: Browser, selector: str) -> str:
    return str(browser.value(f"document.querySelector({json.dumps(selector)}).innerText"))


def test_every_link_leads_to_a_view_that_looks_right(served: Serving, browser: Browser) -> None:
    base = served.server.url
    waiting, seen, shapes = [base + "/", base + "/search?query=harbour"], set[str](), Counter[object]()
    paths = set()
    while waiting:
        address = waiting.pop(0)
        browser.go(address)
        looks_right(browser, address, 404 if dict(parse_qsl(urlsplit(address).query)).get("url") == REJECTED else 200)
        paths.add(urlsplit(address).path)
        for link, text in browser.value("[...document.links].map(a => [a.href, a.textContent.trim()])"):
            target, _, fragment = link.partition("#")
            parts = urlsplit(target)
            named = {name for name, _ in parse_qsl(parts.query)}
            shape = parts.path, *sorted(named), text if text in ("Next", "From the beginning", "compare") else ""
            if fragment:
                assert browser.value(f"document.getElementById({json.dumps(fragment)}) !== null"), link
            if target in seen or shapes[shape] >= TIMES_OF_A_SHAPE:
                continue
            seen.add(target)
            shapes[shape] += 1
            if target.startswith(base):
                waiting.append(target)
            else:  # the archive
                assert httpx.get(target, follow_redirects=True).status_code == 200, target
    assert paths == {"/", "/page", "/list", "/hosts", "/clusters", "/search", "/diff", "/jobs", "/report"}


def test_every_form_takes_what_its_fields_say_and_shows_it_again(served: Serving, browser: Browser) -> None:
    base = served.server.url
    for view in ("/", "/list", "/hosts", "/clusters", "/search"):  # the fixture sends those of /jobs
        browser.go(base + view)
        for number in range(0 if view == "/" else 1, browser.value("document.forms.length")):  # 0 is on each view
            browser.go(base + view)
            is_get = browser.value(f"document.forms[{number}].method") == "get"
            filled = submit(browser, f"document.forms[{number}]")
            looks_right(browser, f"{view}, form {number}")
            for name, value in filled.items() if is_get else ():
                shown = browser.value(f"document.querySelector('form [name={name}]').value")
                assert shown == value, (view, number, name)
            while "running" in served.http.get("/v1/jobs").text:
                browser.go(base + "/jobs")


def test_the_results_of_a_search_go_on_with_its_words_and_filters(served: Serving, browser: Browser) -> None:
    wanted = {"query": "harbour chapter", "host": "one.example", "lang": "en", "since": "2024-01-02"}
    browser.go(served.server.url + "/search")
    for name, value in wanted.items():
        browser.value(f"document.querySelector('main [name={name}]').value = {json.dumps(value)}")
    browser.follow("document.querySelector('main form button')")
    hits: list[str] = []
    total = int(text_of(browser, "main p.quiet + p.quiet").split()[0])
    while True:
        page = browser.value("[...document.querySelectorAll('.hit .url')].map(a => a.title)")
        assert page and not set(page) & set(hits), "no page of results is empty or repeats another"
        hits += page
        for name, value in wanted.items():
            assert browser.value(f"document.querySelector('main [name={name}]').value") == value
        if not browser.value("[...document.links].some(a => a.textContent == 'Next')"):
            break
        browser.follow("[...document.links].find(a => a.textContent == 'Next')")
    assert {urlsplit(url).hostname for url in hits} == {"one.example"}
    options = {**wanted, "query": [wanted["query"]], "limit": 100}
    found = served.http.get("/v1/search", params={**options, "query": wanted["query"], "since": FIRST + DAY}).json()
    assert [hit["url"] for hit in found["hits"]] == hits and found["total"] == total > 20
    title = text_of(browser, ".hit h2")
    browser.follow("document.querySelector('.hit h2 a')")
    assert text_of(browser, "h1") == title


def test_a_comparison_shows_the_similarity_of_its_cluster(served: Serving, browser: Browser) -> None:
    browser.go(served.server.url + "/clusters")
    similarity = text_of(browser, ".member .quiet")
    browser.follow("document.querySelector('.member a:last-child')")
    assert 0.8 < float(similarity) < 1
    assert f"Similarity {similarity};" in text_of(browser, "main")


def test_the_figures_are_those_of_the_command_line(
    served: Serving, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> dict[str, object]:
        assert main([*words, "--json", "--store", served.server.url]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    browser.go(served.server.url + "/")
    totals: dict[str, int] = run("stats")["totals"]  # type: ignore[assignment]
    urls, captures = map(int, re.findall(r"(?m)^\d+$", text_of(browser, ".figures")))
    assert (urls, captures) == (totals["urls"], totals["captures"])
    rows = browser.value("[...document.querySelectorAll('.two tbody tr')].map(r => [...r.cells].map(c => c.innerText))")
    shown = {row[0].replace(" ", "_"): int(row[1]) for row in rows}
    for name in ("exact", "same_text", "near", "contained", "similar", "new"):
        assert shown[name] == totals.get(f"verdict.{name}", 0), name
    assert shown["Rejected"] == totals["stored.rejected"] == 1
    dedup = run("stats", "--dedup")
    browser.go(served.server.url + "/clusters")
    assert f"the last sweep put {dedup['clustered']} pages there" in text_of(browser, "main")
