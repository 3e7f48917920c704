"""Pages whose bodies are kept elsewhere: `keep_body=False`."""

from __future__ import annotations

from pathlib import Path

import pytest

import docstore
from docstore.archives.export import pages
from docstore.archives.selection import Selection
from docstore.model.choices import VerdictKind
from docstore.model.types import Page, Policy
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex

AT = 1_700_000_000_000_000
DAY = 86_400_000_000
WORDS = [f"word{number}" for number in range(200)]
HEADERS = (("Content-Type", "text/html"),)


def body(skip: int = -1) -> bytes:
    """A page of 200 words, or of all but one."""
    text = " ".join(word for number, word in enumerate(WORDS) if number != skip)
    return f"<html><title>The title</title><body><p>{text}</p></body></html>".encode()


def page(url: str, raw: bytes, at: int = AT) -> Page:
    return Page(url, raw, 200, HEADERS, at)


def put(store: DocumentStore, url: str, raw: bytes, at: int = AT, *, keep: bool = True, **policies: str) -> str:
    (result,) = store.put_pages([page(url, raw, at)], keep_body=keep, policies=policies or None)
    return result.stored


def test_text_and_fingerprints_are_stored_and_the_body_is_not(store: DocumentStore) -> None:
    assert put(store, "https://a.example/", body(), keep=False) == "text"
    found = store.get("https://a.example/")
    assert found is not None and found.body is None and found.title == "The title"
    assert found.text == " ".join(WORDS) and found.status == 200
    assert store.get("https://a.example/", families=("page",)).body is None  # type: ignore[union-attr]
    assert next(store.get_many(["https://a.example/"])).body is None  # type: ignore[union-attr]
    assert "https://a.example/" in store and len(store.history("https://a.example/")) == 1
    assert store.snippet("https://a.example/", "word7") is not None
    assert list(check(store.backend)) == []
    assert list(pages(store, Selection())) == []


def test_later_pages_are_judged_against_it(store: DocumentStore) -> None:
    put(store, "https://a.example/", body(), keep=False)
    for url, raw, kind in (
        ("https://b.example/", body(), VerdictKind.EXACT),
        ("https://c.example/", body(100), VerdictKind.NEAR),
        ("https://d.example/", body() + b"<!-- 1 -->", VerdictKind.SAME_TEXT),
    ):
        (result,) = store.put_pages([page(url, raw)], keep_body=False)
        assert (result.verdict.kind, result.verdict.of_url, result.stored) == (kind, "https://a.example/", "text")
    (result,) = store.put_pages([page("https://e.example/", body(101))])
    assert result.verdict.kind is VerdictKind.NEAR and result.stored == "body"
    assert store.get("https://e.example/").body == body(101)  # type: ignore[union-attr]
    assert list(check(store.backend)) == []


@pytest.mark.parametrize("policy", [Policy.REFERENCE, Policy.REJECT, Policy.REJECT_ANY])
def test_no_policy_loses_bytes_that_nobody_has(store: DocumentStore, policy: Policy) -> None:
    put(store, "https://a.example/1", body(), keep=False)
    assert put(store, "https://a.example/2", body(), exact=policy) == "body"
    assert put(store, "https://a.example/3", body(50), near=policy) != "text"
    assert store.get("https://a.example/2").body == body()  # type: ignore[union-attr]
    without = put(store, "https://a.example/4", body(), keep=False, exact=policy)
    assert without == ("text" if policy is Policy.REFERENCE else "rejected")
    assert list(check(store.backend)) == []


def test_a_body_that_comes_later_is_stored(store: DocumentStore) -> None:
    put(store, "https://a.example/", body(), keep=False)
    assert put(store, "https://a.example/", body(), keep=False) == "known"
    assert put(store, "https://a.example/", body(), AT + DAY, keep=False) == "confirmed"
    assert store.get("https://a.example/").body is None  # type: ignore[union-attr]
    assert put(store, "https://a.example/", body(), AT + 2 * DAY) == "body"
    assert put(store, "https://a.example/", body()) == "body", "the very capture, with its body"
    assert store.get("https://a.example/", at=AT).body == body()  # type: ignore[union-attr]
    assert put(store, "https://a.example/", body(), AT + 3 * DAY, keep=False) == "confirmed"
    assert store.get("https://a.example/").body == body()  # type: ignore[union-attr]
    assert list(check(store.backend)) == []


def test_a_visit_confirms_it(store: DocumentStore) -> None:
    put(store, "https://a.example/", body(), keep=False)
    result = store.put_page("https://a.example/", status=304, fetched_at=AT + DAY)
    assert result.stored == "confirmed"
    found = store.get("https://a.example/")
    assert found is not None and (found.timestamp, found.body, found.title) == (AT + DAY, None, "The title")
    assert list(check(store.backend)) == []


def test_maintenance_copes(tmp_path: Path) -> None:
    urls = [f"https://s{number}.example/" for number in range(12)]
    with docstore.open(tmp_path / "store", create=True) as store:
        for number, url in enumerate(urls):
            put(store, url, body(number // 2), keep=number % 3 == 0)
        store.delete(urls[0])
        store.compact(level="best")
        report = sweep(store, SweepOptions(threads=1))
        assert report.captures == 11 and report.duplicates == 10
        assert reindex(store).unseen == 0
        assert list(check(store.backend)) == []
        store.backup(tmp_path / "backup")
        assert store.similar(body(3))[0].kind is VerdictKind.EXACT
        for url in urls[1:]:
            found = store.get(url)
            assert found is not None and found.text
            assert (found.body is None) == (urls.index(url) % 3 != 0)


def test_lost_postings_are_made_again_from_the_text(store: DocumentStore) -> None:
    put(store, "https://a.example/", body(), keep=False)
    before = store.get("https://a.example/")
    assert store.post_again([(store.cells.row_key("https://a.example/"), AT)]) == 1
    assert store.get("https://a.example/") == before
    assert put(store, "https://b.example/", body()) == "body"
    assert store.similar("https://b.example/")[0].kind is VerdictKind.EXACT
    assert list(check(store.backend)) == []


def test_a_group_may_hold_both(store: DocumentStore) -> None:
    futures = [
        store.submit_page(page(f"https://a.example/{number}", body(number % 4)), keep_body=number % 2 == 0)
        for number in range(20)
    ]
    assert {future.result().stored for future in futures} == {"body", "text"}
    for number in range(20):
        found = store.get(f"https://a.example/{number}")
        assert found is not None and found.body == (body(number % 4) if number % 2 == 0 else None)
    assert list(check(store.backend)) == []


@pytest.mark.parametrize("policy", ["flag", "reject-any"])
def test_a_body_that_comes_at_the_time_of_a_visit_is_stored(store: DocumentStore, policy: str) -> None:
    url = "https://a.example/"
    for at in (AT, AT + 1_000_000):
        store.put_page(url, body(), fetched_at=at, keep_body=False)
    store.put_page("https://a.example/other", body(), fetched_at=AT)
    again = store.put_page(url, body(), fetched_at=AT + 1_000_000, policies={"exact": policy})
    assert again.stored == "body"
    found = store.get(url)
    assert found is not None and (found.timestamp, found.body) == (AT + 1_000_000, body())
    assert store.put_page(url, body(), fetched_at=AT + 1_000_000).stored == "known"
    assert list(check(store.backend)) == []
