"""`reject` asks the site of a page, whatever pages of other sites have the same content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import memory_hbase
import pytest

import docstore
from docstore.model.keys import row_key, same_site
from docstore.sweep.job import SweepOptions, sweep

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_600_000_000_000_000
SECOND = 1_000_000
WORDS = [f"word{number}" for number in range(120)]


def page(*changed: int, comment: object = "", count: int = 120) -> bytes:
    """The trap page, with some words changed."""
    words = [f"other{number}" if number in changed else word for number, word in enumerate(WORDS[:count])]
    return f"<html><title>Session</title><main><!-- {comment} --><p>{' '.join(words)}</p></main></html>".encode()


BODIES: dict[str, Callable[[int], bytes]] = {
    "exact": lambda number: page(),
    "same_text": lambda number: page(comment=number),
    "near": page,
}
SITES = {
    "one host": lambda number: f"https://site.example/?sid={number}",
    "with and without www": lambda number: f"https://{'www.' * (number % 2)}site.example/?sid={number}",
    "mobile": lambda number: f"http://{'m.' * (number % 2)}site.example/?sid={number}",
    "ports": lambda number: f"https://site.example:{8000 + number}/",
    "github.io": lambda number: f"https://me.github.io/?sid={number}",
}


@pytest.fixture(params=["directory", "hbase"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if request.param == "hbase":
        memory_hbase.use(monkeypatch)
        with memory_hbase.open_store() as made:
            yield made
    else:
        with docstore.open(tmp_path / "store", create=True, durability="none") as made:
            yield made


def put(store: Any, url: str, body: bytes, second: int, **policies: str) -> docstore.PutResult:
    result: docstore.PutResult = store.put_page(
        url, body, headers=HTML, fetched_at=T0 + second * SECOND, policies=policies
    )
    return result


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("foreign", [0, 1, 3])
def test_copies_of_one_site_are_rejected_whoever_had_the_page_first(
    store: Any, kind: str, site: str, foreign: int
) -> None:
    for number in range(foreign):
        put(store, f"https://stranger{number}.example/", BODIES[kind](number), number)
    results = [put(store, SITES[site](n), BODIES[kind](n), 10 + n, **{kind: "reject"}) for n in range(6)]
    assert [result.stored for result in results] == ["body", *["rejected"] * 5]
    own = results[0].url
    assert {(one.verdict.kind, one.verdict.of_url) for one in results[1:]} == {(docstore.VerdictKind(kind), own)}
    assert {verdict.of_url for _, _, verdict in store.rejected()} == {own}
    if foreign:
        assert results[0].verdict.of_url == "https://stranger0.example/"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://h.example/a", "http://h.example:8080/b?c", True),
        ("https://h.example/", "https://www.h.example/", True),
        ("https://m.h.example/", "https://www.h.example/", True),
        ("https://h.example/", "https://h.example2/", False),
        ("https://one.github.io/", "https://two.github.io/", False),
        ("https://one.blogspot.com/", "https://blogspot.com/", False),
        ("https://shop.h.example/", "https://h.example/", False),
        ("https://www.com/", "https://com/", False),
        ("urn:a:b", "urn:a:c", False),
    ],
)
def test_a_site_is_a_host_without_www(store: Any, one: str, other: str, same: bool) -> None:
    put(store, one, page(), 0)
    assert same_site(row_key(one), row_key(other)) is same_site(row_key(other), row_key(one)) is same
    assert (put(store, other, page(), 1, exact="reject").stored == "rejected") == same


def test_other_policies_stay_as_they_are(store: Any) -> None:
    put(store, "https://stranger.example/", page(), 0)
    put(store, "https://site.example/1", page(), 1)
    flagged = put(store, "https://site.example/2", page(), 2)
    shared = put(store, "https://site.example/3", page(), 3, exact="reference")
    anywhere = put(store, "https://site.example/4", page(), 4, exact="reject-any")
    assert [one.stored for one in (flagged, shared, anywhere)] == ["body", "reference", "rejected"]
    assert {one.verdict.of_url for one in (flagged, shared, anywhere)} == {"https://stranger.example/"}


def test_a_page_of_the_site_that_shows_it_no_more_rejects_nothing(store: Any) -> None:
    put(store, "https://stranger.example/", page(), 0)
    put(store, "https://site.example/1", page(), 1)
    put(store, "https://site.example/1", page(*range(60)), 2)
    assert put(store, "https://site.example/2", page(), 3, exact="reject").stored == "body"
    result = put(store, "https://site.example/3", page(), 4, exact="reject")
    assert (result.stored, result.verdict.of_url) == ("rejected", "https://site.example/2")


def test_the_kind_of_the_own_page_needs_a_policy_of_its_own(store: Any) -> None:
    put(store, "https://stranger.example/", page(comment=1), 0)
    put(store, "https://site.example/1", page(comment=2), 1)
    assert put(store, "https://site.example/2", page(comment=1), 2, exact="reject").stored == "body"
    store.delete("https://site.example/2")
    result = put(store, "https://site.example/2", page(comment=1), 3, exact="reject", same_text="reject")
    assert (result.stored, result.verdict.kind) == ("rejected", "same_text")


def test_the_same_fetch_again_is_known(store: Any) -> None:
    put(store, "https://stranger.example/", page(), 0)
    put(store, "https://site.example/1", page(), 1)
    first, again = (put(store, "https://site.example/2", page(), 2, exact="reject") for _ in range(2))
    assert (first.stored, again.stored, again.known_as) == ("rejected", "known", "rejected")
    assert [one.url for one in store.orphans()] == []


@pytest.mark.parametrize("kind", ["exact", "same_text"])
def test_an_own_page_is_found_behind_very_many_foreign_ones(tmp_path: Path, kind: str) -> None:
    foreign = (docstore.Page(f"https://f{n}.example/", BODIES[kind](n), 200, HTML, T0 + n * 1000) for n in range(3000))
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        for _ in store.put_pages(foreign):
            pass
        stored = [
            put(store, f"https://site.example/{n}", BODIES[kind](-n), 9 + n, **{kind: "reject"}) for n in range(3)
        ]
        assert [one.stored for one in stored] == ["body", "rejected", "rejected"]


@pytest.mark.parametrize("any_host", [False, True])
def test_a_sweep_rejects_the_copies_of_each_site(tmp_path: Path, any_host: bool) -> None:
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        put(store, "https://stranger.example/old", page(), 0)
        for number in range(6):
            put(store, SITES["with and without www"](number), page(comment=number % 2), 1 + number)
            put(store, f"https://second.example/{number}", page(), 10 + number)
        put(store, "https://alone.example/", page(), 30)
        options = SweepOptions(threshold=0.8, pairs=None, apply="reject", any_host=any_host)
        report = sweep(store, options)
        kept = sorted(url for url in store.urls())
        if any_host:
            assert kept == ["https://stranger.example/old"]
        else:
            assert kept == [
                "https://alone.example/",
                "https://second.example/0",
                "https://site.example/?sid=0",
                "https://stranger.example/old",
            ]
            assert report.left == {"other_host": 3}
        assert sum(report.applied.values()) == 14 - len(kept)
        assert sweep(store, options).applied == {}, "the same again"
