"""The report: its figures are those of the store, in bounded memory, and its page shows them and does nothing else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import changed, page, words
from stores import damage_value

import docstore
from docstore.model.capture import TITLE
from docstore.model.types import Page
from docstore.reports import survey as surveys
from docstore.reports.html import report_html
from docstore.reports.survey import Survey, survey
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
STORY = words(7, 200)
EVIL = "</title><script>alert(1)</script>\u202egpj.exe\u202c\x00\u200f<img src=x onerror=alert(2)>"


class Reader(HTMLParser):
    """Tags and the text of a page; the style sheet is no text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += "" if self.tags and self.tags[-1][0] == "style" else data


@pytest.fixture
def store(tmp_path: Path) -> DocumentStore:
    opened = docstore.open(tmp_path / "webtable", create=True)
    yield opened  # type: ignore[misc]
    opened.close()


def put(store: DocumentStore, url: str, body: bytes, day: int = 0, **more: object) -> str:
    kind = store.put_page(url, body, headers=HTML, fetched_at=T0 + day * DAY, **more).verdict.kind  # type: ignore[arg-type]
    return str(kind)


def fill(store: DocumentStore) -> None:
    """Three hosts: a story with copies on a second one, and an other page with a visit."""
    assert put(store, "https://a.example/story", page(STORY, "A story")) == "new"
    assert put(store, "https://b.example/1", page(STORY, "A story"), 1) == "exact"
    assert put(store, "https://b.example/2", page(changed(STORY, 1, 4), "A story"), 40) == "near"
    assert put(store, "https://b.example/3", page(STORY, "A story"), 41, policies={"exact": "reject-any"}) == "exact"
    assert put(store, "https://c.example/", page(words(8, 300), "Other")) == "new"
    store.put_page("https://c.example/", b"", status=304, fetched_at=T0 + 2 * DAY)


def test_the_figures_are_those_of_the_store(store: DocumentStore) -> None:
    fill(store)
    made = survey(store)
    assert (made.urls, made.host_count, made.visits, made.damaged) == (4, 3, 1, 0)
    assert {kind: count for kind, count in made.totals.verdicts.items() if count} == {"exact": 2, "near": 1, "new": 2}
    assert made.stored == {"body": 4, "rejected": 1}
    assert [(one.host, one.urls, one.captures, one.duplicates) for one in made.hosts] == [
        ("b.example", 2, 3, 3), ("a.example", 1, 1, 0), ("c.example", 1, 1, 0)]  # fmt: skip
    assert (made.oldest, made.newest) == (T0, T0 + 41 * DAY)
    assert sum(sum(one.verdicts.values()) for one in made.periods) == made.totals.captures == 5
    assert sum(count for _, count in made.text_bytes) == 4
    assert all(length & (length - 1) == 0 for length, _ in made.text_bytes)
    assert made.media_types == {"text/html": 4} and made.statuses == {"200": 4}
    stored = sum(room.stored_bytes for room in made.room.values())
    assert stored == store.stats()["directory_bytes"]
    assert made.room["bodies"].raw_bytes == sum(len(store.get(url).body) for url in (  # type: ignore[union-attr,arg-type]
        "https://a.example/story", "https://b.example/1", "https://b.example/2", "https://c.example/"))  # fmt: skip


def test_clusters_are_those_of_verdicts_until_a_sweep_has_seen_the_pages(store: DocumentStore) -> None:
    fill(store)
    made = survey(store)
    assert (made.cluster_count, made.clustered, made.swept) == (1, 4, 0)
    [cluster] = made.clusters
    assert (cluster.url, cluster.title, cluster.pages) == ("https://a.example/story", "A story", 4)
    assert {(one.url, one.similarity == 1.0) for one in cluster.members} == {
        ("https://b.example/1", True), ("https://b.example/2", False), ("https://b.example/3", True)}  # fmt: skip
    report = sweep(store, SweepOptions(threads=1))
    assert put(store, "https://d.example/", page(STORY, "A story"), 50) == "exact"
    made = survey(store)
    assert made.cluster_count == report.clusters == 1
    assert made.clusters[0].pages == report.largest_cluster + 2, "and the rejected page, and the one written since"
    assert made.swept == report.largest_cluster == 3


def test_a_page_that_is_a_copy_of_a_copy_is_in_the_cluster_of_the_first(store: DocumentStore) -> None:
    """By verdict alone each names the page most like it, so that links of three pages make one cluster."""
    text = STORY
    for number in range(3):
        put(store, f"https://a.example/{number}", page(text, "A story"), number)
        text = changed(text, number, 3)
    third = store.get("https://a.example/2", families=("dedup",))
    assert third is not None and third.newest.shown_verdict is not None
    assert third.newest.shown_verdict.of_url == "https://a.example/1"
    made = survey(store)
    assert [(one.url, one.pages) for one in made.clusters] == [("https://a.example/0", 3)]
    assert (made.cluster_count, made.clustered) == (1, 3)


def test_pages_that_name_each_other_are_one_cluster_of_two(store: DocumentStore) -> None:
    put(store, "https://a.example/", page(STORY, "A story"), 0)
    assert put(store, "https://b.example/", page(STORY, "A story"), 1) == "exact"
    assert put(store, "https://a.example/", page([*STORY, "end"], "A story"), 2) == "near"
    made = survey(store)
    assert (made.cluster_count, made.clustered) == (1, 2) and made.clusters[0].pages == 2


def test_many_clusters_are_counted_within_the_error_that_is_said(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "MOST_CLUSTERS", 3)
    sizes = {number: 12 if number == 5 else 2 for number in range(12)}
    list(
        store.put_pages(
            Page(f"https://h{number:02}.example/{copy}", page(words(number, 90)), 200, HTML, T0)
            for number, size in sizes.items()
            for copy in range(size)
        )
    )
    made = survey(store)
    assert made.clusters[0].url == "https://h05.example/0"
    assert made.cluster_error > 0
    assert 12 - made.cluster_error <= made.clusters[0].pages <= 12
    assert f"may be {made.cluster_error} too small" in Reader(report_html(made)).text


def test_times_of_thirty_years_are_a_bounded_number_of_periods(store: DocumentStore) -> None:
    pages = [Page(f"https://a.example/{n}", b"<p>short", 200, HTML, T0 - n * 36 * DAY) for n in range(300)]
    list(store.put_pages(pages))
    made = survey(store)
    assert 10 < len(made.periods) <= surveys.MOST_PERIODS
    assert sum(sum(one.verdicts.values()) for one in made.periods) == 300
    unit = made.unit_seconds * 1_000_000
    assert made.periods[0].since <= made.oldest and made.newest < made.periods[-1].since + unit
    assert all(one.since % unit == 0 for one in made.periods)


def test_shapes_parameters_and_repeated_texts_are_named(store: DocumentStore) -> None:
    body = page(STORY, "Nothing here")
    pages = [Page(f"https://a.example/gone/{n}?sid={n}", body, 200, HTML, T0) for n in range(20)]
    pages += [Page(f"https://a.example/list?sid={n}", page(words(9, 99)), 200, HTML, T0) for n in range(4)]
    list(store.put_pages(pages))
    made = survey(store)
    assert made.patterns[0].shape == "https://a.example/gone/{number}?sid={number}"
    assert [(one.parameter, one.urls) for one in made.parameters] == [("sid", 24)]
    assert [one.urls for one in made.same_texts] == [20]
    text = Reader(report_html(made)).text
    assert "sid of a.example" in text and "gone/{number}" in text and "One text at many URLs" in text


def test_languages_are_those_of_notes_if_there_are_some(store: DocumentStore) -> None:
    put(store, "https://a.example/", b"<html lang='EN-gb'><p>" + b"some words of a page " * 20)
    assert survey(store).declared == {"en-gb": 1} and survey(store).annotated == {}
    capture = store.get("https://a.example/", families=())
    assert capture is not None
    store.cells.put_notes(
        [docstore.model.types.Note("https://a.example/", capture.timestamp, "lang", b'{"version": "1", "lang": "de"}')]
    )
    made = survey(store)
    assert made.annotated == {"de": 1}
    assert "Language, annotated" in Reader(report_html(made)).text


def test_what_is_damaged_is_counted_and_the_rest_is_shown(store: DocumentStore) -> None:
    fill(store)
    put(store, "https://a.example/long", page(words(3, 300), "x" * 3000))
    damage_value(store, "https://a.example/long", TITLE)
    made = survey(store)
    assert made.damaged == 1 and made.host_count == 3
    assert "1 row could not be read" in Reader(report_html(made)).text


# --- the page


def check_page(html: str) -> Reader:
    """Nothing in it runs, loads or leads elsewhere."""
    found = Reader(html)
    assert html.startswith("<!doctype html>") and html.count("<style>") == html.count("</style>") == 1
    for tag, attrs in found.tags:
        assert tag not in {"script", "img", "iframe", "object", "link", "a", "form", "base", "embed"}, tag
        assert not [name for name in attrs if name.startswith("on") or name in ("style", "href", "src", "action")], (
            attrs
        )
    assert not re.search(r"url\(|@import|https?:", html[html.index("<style>") : html.index("</style>")])
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\x00-\x08]", html)
    return found


@pytest.mark.parametrize("pages", [0, 1])
def test_a_store_of_no_page_or_one_has_a_report(store: DocumentStore, pages: int) -> None:
    if pages:
        put(store, "https://a.example/", page(STORY))
    made = survey(store)
    found = check_page(report_html(made))
    assert f"{pages}pages of {pages} host" in found.text and "Sizes" in found.text
    assert ("Verdicts over time" in found.text) == bool(pages)


def test_titles_urls_and_headers_of_strangers_become_text(store: DocumentStore) -> None:
    evil = EVIL.replace("<", "&lt;")
    body = page(STORY, evil).replace(b"<html>", b"<html lang='&lt;b&gt;\"&gt;'>")
    for number in range(6):
        url = f"https://evil.example/?q{number}=%22%3E<script>alert(1)</script>&'\"=javascript:alert(2)"
        headers = {"Content-Type": "text/html<script>"} if number else dict(HTML)
        store.put_page(url, body, headers=headers, fetched_at=T0)
    found = check_page(report_html(survey(store)))
    assert "<script>alert(1)</script>" in found.text and "gpj.exe" in found.text


def test_each_reason_of_a_verdict_is_explained(store: DocumentStore) -> None:
    text = "<title>Marmalade cathedrals quarterly</title>" + "".join(
        f"<p>Weather number {n} was fine." for n in range(99)
    )
    doubtful = store.put_page("https://a.example/", text.encode(), headers={"Content-Type": "text/html"})
    short = store.put_page("https://b.example/", b"<p>Two words", headers={"Content-Type": "text/html"})
    assert (doubtful.verdict.reason, short.verdict.reason) == ("doubtful_text", "short_text")
    page = report_html(survey(store))
    assert "few words of the title are in its main text, which may be a menu" in page
    assert "too little text to compare" in page


def test_lists_of_the_page_are_bounded_and_say_what_is_left_out(store: DocumentStore) -> None:
    list(store.put_pages(Page(f"https://h{n}.example/{'x' * 2000}", b"<p>short", 200, HTML, T0) for n in range(450)))
    made = survey(store)
    assert made.host_count == 450 and len(made.hosts) == surveys.SHOWN_HOSTS
    html = report_html(made)
    assert "And 438 more." in check_page(html).text
    assert len(html) < 100_000


def test_the_command_writes_the_page_and_the_figures(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(run.store, create=True) as opened:
        fill(opened)
    out = tmp_path / "out.html"
    assert run("report", str(out)).out == f"wrote {out}: 4 pages of 3 hosts, 1 cluster of 4 pages\n"
    check_page(out.read_text(encoding="utf-8"))
    figures = run("report", "--json").object()
    assert figures["urls"] == 4 and figures["hosts"][0]["host"] == "b.example"
    answer = run("report")
    assert answer.code == 2 and "--json" in answer.err
    answer = run("report", str(tmp_path / "none" / "x.html"))
    assert answer.code == 2 and "cannot write" in answer.err
    assert "100%" in run("report", str(out), "--progress").err


def test_figures_are_the_same_after_their_way_as_json(store: DocumentStore) -> None:
    """A server sends them so."""
    from docstore.serving.wire import from_json, read_report, to_json

    fill(store)
    made = survey(store)
    assert read_report(Survey, from_json(to_json(made))) == made
    assert json.loads(json.dumps(made.asdict()))["periods"]


# --- notebooks

HOOK = "_repr_html_"
"""By this name a notebook asks a result for its HTML."""
PLAIN = {"div", "b", "span", "bdi", "wbr", "p", "table", "thead", "tbody", "tr", "td", "th"}


def test_results_show_themselves_in_a_notebook_as_markup_that_does_nothing(store: DocumentStore) -> None:
    result = store.put_page("https://a.example/", page(STORY, "A story"), headers=HTML)
    copy = store.put_page("https://b.example/?<b>", page(STORY, EVIL.replace("<", "&lt;")), headers=HTML)
    document = store.get("https://b.example/?<b>")
    results = (result, copy, copy.verdict, sweep(store, SweepOptions(threads=1)), survey(store), document)
    shown = [getattr(one, HOOK)() for one in results]
    for html in shown:
        assert {tag for tag, _ in Reader(html).tags} <= PLAIN, html
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", html)
    text = Reader(shown[-1]).text
    assert "<script>alert(1)</script>" in text
    assert f"{copy.verdict.similarity:.3f} of https://a.example/" in text
    assert "https://a.example/" in Reader(shown[0]).text
