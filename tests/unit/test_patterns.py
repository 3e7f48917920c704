"""URLs by shape: the common shape of a trap's URLs, and a regular expression that matches them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cli_case import Terminal
from hypothesis import given
from hypothesis import strategies as st

import docstore
from docstore.model.keys import canonical_url
from docstore.reports.dedup import dedup_stats
from docstore.reports.patterns import PatternCounts, shape_of
from docstore.reports.survey import survey
from tools.crawl_demo.sites import trap

HTML = (("Content-Type", "text/html"),)


@pytest.mark.parametrize(
    ("url", "shape"),
    [
        ("https://a.example/article/17", "article/{number}"),
        ("https://a.example/article-17.html", "article-{number}.html"),
        ("https://a.example/2024/05/01/x", "{y/m/d}/x"),
        ("https://a.example/log/2024-05-01", "log/{date}"),
        ("https://a.example/log/20240501.txt", "log/{date}.txt"),
        ("https://a.example/s/9f86d081884c7d65/", "s/{id}/"),
        ("https://a.example/s/123e4567-e89b-12d3-a456-426614174000", "s/{id}"),
        ("https://a.example/gone/3/deeper/deeper/", "gone/{number}/(deeper/)+/"),
        ("https://a.example/a/b/a/b/a/b", "(a/b/)+"),
        ("https://a.example/blog/why-we-moved-house", "blog/{name}"),
        ("https://a.example/blog/Why_we_moved_house.html?page=2", "blog/{name}.html?page={number}"),
        ("https://a.example/list?sid=9f86d081884c7d65&sort=up&empty=&flag", "list?sid={id}&sort={value}&empty=&flag"),
        ("https://a.example/", ""),
    ],
)
def test_numbers_dates_and_ids_become_placeholders(url: str, shape: str) -> None:
    found, expression = shape_of(url)
    assert found == f"https://a.example/{shape}" and re.search(expression, url)


PARTS = st.sampled_from(
    ["a", "b", "deeper", "", "7", "2024", "05", "31", "2024-05-01", "why-we-moved-house", "x.html", "%E0%A6",
     "9f86d081884c7d65",
     "a7", "mp3", "20240501", "(", "+", "c++", "a.b", "index.php", "it's", "Q7", "123e4567-e89b-12d3-a456-426614174000"]
)  # fmt: skip
QUERIES = st.lists(st.tuples(st.sampled_from("pqr"), PARTS), max_size=3).map(lambda q: "&".join(map("=".join, q)))
URLS = st.builds(
    lambda parts, query: canonical_url(f"https://a.example:8080/{'/'.join(parts)}{'?' * bool(query)}{query}"),
    st.lists(PARTS, max_size=7),
    QUERIES,
)


@given(st.lists(URLS, max_size=8), st.booleans())
def test_an_expression_matches_every_url_of_its_shape(urls: list[str], any_name: bool) -> None:
    expressions: dict[str, set[str]] = {}
    for url in urls:
        shape, expression = shape_of(url, any_name=any_name)
        expressions.setdefault(shape, set()).add(expression)
        assert re.search(expression, url), (url, expression)
    assert all(len(found) == 1 for found in expressions.values())


@given(st.lists(URLS, min_size=1, max_size=30, unique=True))
def test_every_url_of_a_group_is_counted_once_and_matched(urls: list[str]) -> None:
    counts = PatternCounts()
    for url in urls:
        counts.add(url, url.encode(), False)
    patterns, same = counts.done()
    assert not same
    for pattern in patterns:
        assert re.search(pattern.expression, pattern.example)
        assert sum(bool(re.search(pattern.expression, url)) for url in urls) >= pattern.urls == pattern.texts


def test_a_trap_is_listed_with_its_pattern(run: Terminal, tmp_path: Path) -> None:
    site = trap(20)
    urls = [f"https://trap.example/article/{n}" for n in range(20)]
    urls += [f"https://trap.example/calendar?month={n}" for n in range(36)]
    urls += [f"https://trap.example/gone/{n}/{'deeper/' * depth}" for n in range(3) for depth in range(5)]
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        for number, url in enumerate(urls):
            parts = urlsplit(url)
            answer = site(parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()})
            policies = {"exact": "reject"} if number % 2 else {}
            store.put_page(url, answer.body.encode(), headers=HTML, policies=policies)
        stats = dedup_stats(store, "pattern")
    shapes = {pattern.shape: pattern for pattern in stats.patterns}
    calendar = shapes["https://trap.example/calendar?month={number}"]
    assert calendar.urls == 36 and calendar.texts <= 12 and calendar.duplicates > 20
    assert re.search(calendar.expression, "https://trap.example/calendar?month=99")
    articles = shapes["https://trap.example/article/{number}"]
    assert (articles.urls, articles.duplicates, articles.texts) == (20, 0, 20)
    [gone] = [same for same in stats.same_texts if "/gone/" in same.example]
    assert gone.urls == 15 and gone.host == "trap.example"
    matched = [url for url in urls if any(re.search(expression, url) for expression in gone.expressions)]
    assert matched == [url for url in urls if "/gone/" in url]
    shown = run("stats", "--dedup", "--by", "pattern").out
    assert calendar.expression in shown and "15 URLs of trap.example show one text" in shown
    fields = run("stats", "--dedup", "--by", "pattern", "--json").object()
    assert fields["patterns"][0]["share"] > 0.5 and fields["same_texts"][0]["urls"] == 15


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 200])
def test_redirects_make_no_pattern(tmp_path: Path, status: int) -> None:
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        for number in range(12):
            url, body = f"https://a.example/out?to={number}", b"<title>Moved</title><p>The page has moved."
            store.put_page(url, body, status=status, headers={"Location": f"/{number}", "Content-Type": "text/html"})
            store.put_page(f"https://a.example/page/{number}", b"<p>page %d" % number)
        found = [pattern.expression for pattern in dedup_stats(store, by="pattern").patterns]
        surveyed = [pattern.expression for pattern in survey(store).patterns]
    trap = r"a\.example/out\?to="
    assert any(trap in one for one in found) == any(trap in one for one in surveyed) == (status == 200), (
        found,
        surveyed,
    )
