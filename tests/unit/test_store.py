"""The store as a crawler uses it: verdicts, previous versions, policies, reopening."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import InvalidArgument, Page, Policy, Previous, StoreUnavailable, VerdictKind
from docstore.reports.check import check
from docstore.store import DocumentStore

HTML = (("Content-Type", "text/html; charset=utf-8"),)
DAY = 86_400_000_000
T0 = 1_700_000_000_000_000


def put(store: docstore.DocumentStore, url: str, body: bytes, at: int = T0, **more: object) -> docstore.PutResult:
    return store.put_page(url, body, headers=HTML, fetched_at=at, **more)  # type: ignore[arg-type]


def test_verdicts_name_the_oldest_page_and_an_exact_similarity(store: docstore.DocumentStore) -> None:
    text = words(2, 300)
    put(store, "https://a.example/1", page(text), T0)
    put(store, "https://b.example/1", page(text), T0 + DAY)
    exact = put(store, "https://c.example/1", page(text), T0 + 2 * DAY)
    assert exact.verdict.kind is VerdictKind.EXACT
    assert (exact.verdict.of_url, exact.verdict.of_timestamp) == ("https://a.example/1", T0)
    same_text = put(store, "https://d.example/1", page(text).replace(b"<p>", b"<p class=x>"), T0)
    assert same_text.verdict.kind is VerdictKind.SAME_TEXT
    near = put(store, "https://e.example/1", page(changed(text, 5, 4)), T0)
    assert near.verdict.kind is VerdictKind.NEAR
    mine, theirs = shingle_sets(changed(text, 5, 4), text)
    assert near.verdict.similarity == len(mine & theirs) / len(mine | theirs)
    contained = put(store, "https://f.example/1", page(text[100:200]), T0)
    assert contained.verdict.kind is VerdictKind.CONTAINED
    assert contained.verdict.similarity == 1.0
    larger = put(store, "https://g.example/1", page(words(9, 300) + text[100:200]), T0)
    assert (larger.verdict.kind, larger.verdict.contains_url) == (VerdictKind.NEW, "https://f.example/1")


def shingle_sets(first: list[str], second: list[str]) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    one, two = ({tuple(text[i : i + 5]) for i in range(len(text) - 4)} for text in (first, second))
    return one, two


def test_a_title_that_differs_makes_the_same_text_near(store: docstore.DocumentStore) -> None:
    text = words(3, 100)
    put(store, "https://a.example/", page(text, "One"))
    other = put(store, "https://b.example/", page(text, "One more"))
    assert (other.verdict.kind, other.verdict.similarity) == (VerdictKind.NEAR, 1.0)


def test_short_texts_and_non_html_are_not_judged_by_text(store: docstore.DocumentStore) -> None:
    put(store, "https://a.example/login", page("please log in to go on", "Shop"))
    other = put(store, "https://b.example/login", page("please log in to go on ", "Shop").replace(b"p>", b"div>"))
    assert (other.verdict.kind, other.verdict.reason) == (VerdictKind.NEW, "short_text")
    image = store.put_page(
        "https://a.example/x.png", b"\x89PNG\r\n" + os.urandom(900), headers={"Content-Type": "image/png"}
    )
    assert (image.verdict.kind, image.verdict.reason) == (VerdictKind.NEW, "no_text")


def test_empty_bodies_are_never_exact(store: docstore.DocumentStore) -> None:
    put(store, "https://a.example/", b"")
    assert put(store, "https://b.example/", b"").verdict.kind is VerdictKind.NEW


def test_previous_goes_by_timestamp_and_a_page_is_no_duplicate_of_itself(store: docstore.DocumentStore) -> None:
    url, text = "https://a.example/", words(4, 200)
    assert put(store, url, page(text), T0).previous is Previous.NONE
    again = put(store, url, page(text), T0 + DAY)
    assert (again.previous, again.previous_similarity, again.stored) == (Previous.SAME_BYTES, 1.0, "confirmed")
    assert again.verdict.kind is VerdictKind.NEW
    retitled = put(store, url, page(text).replace(b"<p>", b"<p >"), T0 + 2 * DAY)
    assert (retitled.previous, retitled.verdict.kind) == (Previous.SAME_TEXT, VerdictKind.NEW)
    edited = put(store, url, page(changed(text, 6, 3)), T0 + 3 * DAY)
    assert edited.previous is Previous.CHANGED
    assert 0.8 < edited.previous_similarity < 1.0
    late = put(store, url, page(words(5, 100)), T0 - DAY)
    assert late.previous is Previous.NONE
    newest = store.get(url)
    assert newest is not None and newest.body == page(changed(text, 6, 3))
    versions = store.get(url, versions=10)
    assert versions is not None and len(versions.captures) == 5
    then = store.get(url, at=T0 + DAY)
    assert then is not None and (then.body, then.timestamp) == (page(text), T0 + DAY)
    assert then.text is not None and then.text.split() == text


def test_reference_stores_a_near_duplicate_as_a_delta_and_outlives_its_canonical(
    store: docstore.DocumentStore,
) -> None:
    text = words(11, 2000)
    put(store, "https://a.example/", page(text))
    edited = page(changed(text, 1, 10))
    result = put(store, "https://b.example/", edited, policies={VerdictKind.NEAR: Policy.REFERENCE})
    assert (result.verdict.kind, result.stored) == (VerdictKind.NEAR, "reference")
    assert store.delete("https://a.example/")
    found = store.get("https://b.example/")
    assert found is not None and found.body == edited
    promoted = put(store, "https://c.example/", edited)
    assert (promoted.verdict.kind, promoted.verdict.of_url) == (VerdictKind.EXACT, "https://b.example/")


def test_an_error_page_is_never_the_canonical_of_a_good_one(store: docstore.DocumentStore) -> None:
    body = page(words(14, 100))
    put(store, "https://a.example/gone", body, status=404)
    good = put(store, "https://b.example/", body)
    assert good.verdict.kind is VerdictKind.NEW
    other_error = put(store, "https://c.example/gone", body, status=404)
    assert other_error.verdict.kind is VerdictKind.EXACT


def test_any_number_of_threads_gives_the_same_store(tmp_path: Path) -> None:
    text = words(15, 150)
    pages = []
    for n in range(300):
        body = page(changed(text, n, n % 60) if n % 3 else words(n, 120))
        pages.append(Page(f"https://h{n % 7}.example/{n % 250}", body, 200, HTML, T0 + n % 5 * DAY))
    dumps = []
    for threads in (1, 2, 8):
        with docstore.open(tmp_path / str(threads), create=True) as store:
            results = list(store.put_pages(pages, threads=threads))
            dumps.append((results, list(store.cells.scan())))
    assert dumps[0] == dumps[1] == dumps[2]


def test_a_verdict_longer_than_a_cell_takes_comes_back_and_so_do_long_headers(store: DocumentStore) -> None:
    url = "https://a.example/" + "x" * 700
    headers = (*HTML, ("x-long", "y" * 700))
    text = words(17, 120)
    pages = [Page(url, page(text), 200, headers, T0), Page("https://b.example/", page(text), 200, headers, T0)]
    results = list(store.put_pages(pages))
    assert (results[1].verdict.kind, results[1].verdict.of_url) == (VerdictKind.EXACT, url)
    known = list(store.put_pages(pages))
    assert [(r.stored, r.verdict) for r in known] == [("known", r.verdict) for r in results]
    found = store.get("https://b.example/")
    assert found is not None and found.newest.headers == headers
    assert list(check(store.backend)) == []


@pytest.mark.parametrize("stored", ["rejected", "confirmed"])
def test_a_row_holds_no_fingerprints_of_a_body_that_it_does_not(tmp_path: Path, stored: str) -> None:
    text = words(18, 120)
    policies = {VerdictKind.EXACT: Policy.REJECT_ANY}
    second = "https://b.example/" if stored == "rejected" else "https://a.example/"
    with docstore.open(tmp_path / "s", create=True) as store:
        pages = [Page("https://a.example/", page(text), 200, HTML, T0), Page(second, page(text), 200, HTML, T0 + DAY)]
        assert [r.stored for r in store.put_pages(pages, policies=policies)] == ["body", stored]
        found = {(c.family, c.qualifier) for row in store.cells.scan() for c in row.cells if c.timestamp == T0 + DAY}
    always = {("dedup", b"checksum"), ("dedup", b"verdict")}
    if stored == "rejected":
        assert found == always
    else:
        assert always | {("http", b"status"), ("http", b"headers"), ("page", b"body"), ("text", b"main")} <= found


def test_of_many_threads_with_one_body_exactly_one_is_new(store: docstore.DocumentStore) -> None:
    body = page(words(30, 300))
    kinds: list[str] = []

    def write(number: int) -> None:
        for turn in range(5):
            kinds.append(put(store, f"https://h{number}.example/{turn}", body).verdict.kind)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(kinds), kinds.count(VerdictKind.NEW), kinds.count(VerdictKind.EXACT)) == (40, 1, 39)


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(store: docstore.DocumentStore) -> None:
    put(store, "https://a.example/", page(words(32, 60)))
    child = os.fork()
    if child == 0:
        try:
            store.get("https://a.example/")
        except StoreUnavailable:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert store.get("https://a.example/") is not None
    assert put(store, "https://b.example/", page(words(33, 60))).stored == "body"


def test_another_schema_is_refused(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, schema=docstore.Schema(near_threshold=0.9)) as store:
        assert store.schema.near_threshold == 0.9
    with pytest.raises(InvalidArgument, match="schema"):
        docstore.open(tmp_path / "s", schema=docstore.Schema())
