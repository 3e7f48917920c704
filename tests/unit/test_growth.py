"""What a write does as its kind becomes many: work is counted, not timed.  Issue 11, B1 to B4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from counts import share
from pages import page, words

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.model.choices import Durability
from docstore.model.format import POSTING_BODY, POSTING_TEXT
from docstore.model.types import GCPolicy, PutResult, Schema
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.tablets.layout import StoreDirectory

T0 = 1_700_000_000_000_000
STEP = 1000
ONE = page(words(1, 80))
OTHER = page(words(2, 80))
HTML = (("Content-Type", "text/html"),)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with docstore.open(tmp_path / "s", create=True, durability="none") as opened:
        yield opened
        assert list(check(opened.backend)) == []


class Reads:
    """Counts what is read of an engine while it is used: calls, and cells or qualifiers given."""

    def __init__(self, store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = self.given = 0
        engine = store.backend.engine
        for name in ("read_row", "qualifiers", "qualifiers_of_rows", "newest", "value_at"):
            monkeypatch.setattr(engine, name, self._counted(getattr(engine, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            found = real(*args, **named)
            self.calls += 1
            self.given += 1 if isinstance(found, bytes) else len(found or ())
            return found

        return counted

    def of(self, work: Callable[[], object]) -> tuple[int, int]:
        """Calls and cells of one piece of work."""
        before = self.calls, self.given
        work()
        return self.calls - before[0], self.given - before[1]


def put(store: docstore.DocumentStore, pages: list[Page], policy: Policy = Policy.FLAG) -> list[PutResult]:
    return list(store.put_pages(pages, threads=1, policies={VerdictKind.EXACT: policy, VerdictKind.NEAR: policy}))


def many(store: docstore.DocumentStore, count: int, begin: int = 0) -> list[PutResult]:
    return put(
        store, [Page(f"https://{n}.example/", ONE, 200, HTML, T0 + n * STEP) for n in range(begin, begin + count)]
    )


def test_deleted_pages_cost_the_next_one_nothing(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """B2: postings of a deleted page go with it."""
    reads = Reads(store, monkeypatch)
    first = reads.of(lambda: many(store, 1))
    for result in many(store, 150, 1):
        store.delete(result.url)
    store.delete("https://0.example/")
    assert _bodies(store) == []
    again = reads.of(lambda: many(store, 1, 500))
    assert again[0] <= first[0] + 4 and again[1] <= first[1] + 8


def _bodies(store: docstore.DocumentStore) -> list[Any]:
    kinds = (POSTING_BODY, POSTING_TEXT)
    return [row for row in store.backend.engine.scan("postings") if row.row_key[0] in kinds]


def test_a_delete_takes_the_names_of_its_page_away_and_leaves_those_of_others(store: Any) -> None:
    pages = [Page(f"https://{n}.example/", ONE, 200, HTML, T0, "", "sha1:ABC", f"doc {n}") for n in range(3)]
    put(store, pages)
    store.delete("https://0.example/")
    assert [found.url for found in store.find(payload_digest="sha1:ABC")] == [f"https://{n}.example/" for n in (1, 2)]
    assert list(store.find(docno="doc 0")) == [] and len(list(store.find(docno="doc 1"))) == 1
    result = put(store, [Page("https://3.example/", ONE, 200, HTML, T0 + STEP, "", "sha1:ABC")])[0]
    assert (result.verdict.kind, result.verdict.of_url) == (VerdictKind.EXACT, "https://1.example/")
    for n in (1, 2, 3):
        store.delete(f"https://{n}.example/")
    assert list(store.backend.engine.scan("postings")) == []
    assert store.put_page("https://4.example/", ONE, headers=dict(HTML)).verdict.kind is VerdictKind.NEW
    assert store.put_page("https://5.example/", ONE, headers=dict(HTML)).verdict.kind is VerdictKind.EXACT


def test_pages_deleted_by_a_mutation_are_passed_once(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """B2, its relative: cells set by hand know nothing of postings, compaction prunes them."""
    many(store, 150)
    for n in range(149):
        store.cells.apply(f"https://{n}.example/", [docstore.model.types.DeleteRow()])
    assert many(store, 1, 500)[0].verdict.of_url == "https://149.example/"
    reads = Reads(store, monkeypatch)
    calls, _ = reads.of(lambda: many(store, 1, 501))
    assert calls <= 40


def test_bodies_at_one_time_are_not_gone_through(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """B3: the next free millisecond, and the same body again, are found without a look at each that is taken."""
    url = "https://a.example/"
    put(store, [Page(url, b"body %d" % n, fetched_at=T0) for n in range(120)])
    reads = Reads(store, monkeypatch)
    calls, cells = reads.of(lambda: put(store, [Page(url, b"one more", fetched_at=T0)]))
    assert calls <= 40 and cells <= 200
    results = put(store, [Page(url, b"body %d" % n, fetched_at=T0) for n in (0, 3, 60, 119)])
    assert [result.stored for result in results] == ["known"] * 4
    assert [result.timestamp for result in results] == [T0 + n * STEP for n in (0, 3, 60, 119)]
    assert put(store, [Page(url, b"last", fetched_at=T0)])[0].timestamp == T0 + 121 * STEP


def test_taken_times_are_told_apart_from_later_captures_and_visits(store: Any) -> None:
    url = "https://a.example/"
    put(store, [Page(url, b"later", fetched_at=T0 + 20 * STEP), Page(url, b"", 304, (), T0 + 30 * STEP)])
    results = put(store, [Page(url, b"body %d" % n, fetched_at=T0) for n in range(40)])
    taken = [n for n in range(42) if n not in (20, 30)]
    assert [(result.timestamp - T0) // STEP for result in results] == taken
    store.delete(url)
    assert put(store, [Page(url, b"again", fetched_at=T0)])[0].timestamp == T0


def test_a_body_of_errors_and_pages_is_not_gone_through(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: a good page is compared with good ones, whatever errors there are with its body."""
    errors = [Page(f"https://{n}.example/", ONE, 404, HTML, T0 + n * STEP) for n in range(150)]
    put(store, errors)
    good = put(store, [Page("https://good.example/", ONE, 200, HTML, T0 + 9**9 * STEP)])[0]
    assert good.verdict.kind is VerdictKind.NEW
    reads = Reads(store, monkeypatch)
    for n in range(3):
        later = Page(f"https://later{n}.example/", ONE, 200, HTML, T0 + 10**9 * STEP + n * STEP)
        calls, cells = reads.of(lambda later=later: put(store, [later]))  # type: ignore[misc]
    assert calls <= 40 and cells <= 200
    assert put(store, [later])[0].verdict.of_url == "https://good.example/"


def test_a_url_that_flips_is_not_gone_through(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: pages of the URL itself are no duplicates, however many of them come before those of others."""
    url = "https://a.example/"
    flips = [Page(url, (ONE, OTHER)[n % 2], 200, HTML, T0 + n * STEP) for n in range(300)]
    put(store, flips[:298])
    reads = Reads(store, monkeypatch)
    calls, cells = reads.of(lambda: put(store, flips[298:]))
    assert calls <= 80 and cells <= 400
    late = put(store, [Page("https://late.example/", ONE, 200, HTML, T0 + 10**9 * STEP)])[0]
    assert (late.verdict.kind, late.verdict.of_url) == (VerdictKind.EXACT, url)
    next_flip = put(store, [Page(url, ONE, 200, HTML, T0 + 2 * 10**9 * STEP)])[0]
    assert (next_flip.verdict.kind, next_flip.verdict.of_url) == (VerdictKind.EXACT, "https://late.example/")


def test_a_page_that_was_passed_is_seen_when_it_comes_again(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, schema=Schema(), durability="none") as store:
        many(store, 80)  # more than are read at first
        for n in range(79):
            store.delete(f"https://{n}.example/")
        assert many(store, 1, 90)[0].verdict.of_url == "https://79.example/"
        assert many(store, 1, 2)[0].verdict.of_url == "https://79.example/"
        assert many(store, 1, 91)[0].verdict.of_url == "https://2.example/"


def of_one_text(number: int, title: str, url: str = "", text: int = 1) -> Page:
    """A page with bytes and a title of its own, and a text that others have."""
    body = page(words(text, 80), title=title).replace(b"<p>", b'<p class="n%d">' % number)
    return Page(url or f"https://t{number}.example/", body, 200, HTML, T0 + number * STEP)


def near_words(first: str = "near") -> list[str]:
    return [first, *words(1, 80)[1:]]


def title_of(number: int) -> str:
    """A title whose words no text has, and no other title."""
    return "".join("ghijklmnop"[int(digit)] for digit in f"{number:04}") * 2


def test_a_copy_of_each_page_of_a_site_with_one_notice_is_found(store: Any) -> None:
    put(store, [of_one_text(n, title_of(n)) for n in range(150)])
    copies = put(store, [of_one_text(1000 + n, title_of(n)) for n in range(150)])
    found = [(result.verdict.kind, result.verdict.of_url) for result in copies]
    assert found == [(VerdictKind.SAME_TEXT, f"https://t{n}.example/") for n in range(150)]


def test_a_stranger_with_the_text_of_a_page_hides_no_copy_of_it(store: Any) -> None:
    put(store, [of_one_text(0, "Original")])
    put(store, [of_one_text(n, title_of(n)) for n in range(1, 150)])
    copy = put(store, [of_one_text(200, "Original")])[0].verdict
    assert (copy.kind, copy.of_url) == (VerdictKind.SAME_TEXT, "https://t0.example/")
    near = of_one_text(201, "Original")._replace(body=page(near_words(), title="Original"))
    assert put(store, [near])[0].verdict.of_url == "https://t0.example/"
    store.delete("https://t0.example/")
    later = put(store, [near._replace(url="https://later.example/")])[0].verdict
    assert (later.kind, later.of_url) == (VerdictKind.EXACT, near.url)
    store.delete(near.url)
    store.delete("https://later.example/")
    again = put(store, [near._replace(url="https://again.example/")])[0].verdict
    assert (again.kind, again.of_url) == (VerdictKind.NEAR, "https://t1.example/")  # the oldest; its host has one title


@pytest.mark.parametrize("policy", [GCPolicy(1), GCPolicy(3), GCPolicy(None, 10.0)])
def test_versions_that_a_policy_hides_hide_no_live_page(tmp_path: Path, policy: GCPolicy) -> None:
    schema = Schema(captures=policy)
    now = [T0]
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=schema)
    with DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        old = "https://old.example/"
        for n in range(100):
            put(store, [of_one_text(n, "A page", old)])
        put(store, [of_one_text(101 + n, "Other", old, text=2 + n) for n in range(4)])
        now[0] += 20 * 10**6
        live = of_one_text(20_000, "A page")
        put(store, [live._replace(body=live.body + b"<!-- live -->")])
        same = of_one_text(20_001, "A page")
        near = same._replace(url="https://near.example/", body=page(near_words()))
        for one, kind in ((same, VerdictKind.SAME_TEXT), (near, VerdictKind.NEAR)):
            assert live.url in [found.url for found in store.similar(one.body)]
            verdict = put(store, [one])[0].verdict
            assert verdict.kind is kind
            document = store.get(verdict.of_url, at=verdict.of_timestamp)
            assert document is not None and document.timestamp == verdict.of_timestamp
            assert verdict.of_url == live.url
            store.delete(one.url)


@pytest.mark.parametrize("hidden", [False, True])
def test_pages_of_one_text_cost_the_same_however_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    schema = Schema(captures=GCPolicy(1)) if hidden else Schema()
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as store:
        reads, url = Reads(store, monkeypatch), "https://one.example/" if hidden else ""
        cost = []
        for n in range(share(600, 6)):
            near = page(near_words(f"near{n}"), title="Near")
            pair = of_one_text(2 * n, title_of(n), url), Page(f"https://n{n}.example/", near, 200, HTML, T0 + 9**9 + n)
            cost.append(reads.of(lambda pair=pair: [put(store, [one]) for one in pair]))  # type: ignore[misc]
        first, last = (max(sum(one) for one in part) for part in (cost[50:100], cost[-50:]))
        assert last <= 1.5 * first


@pytest.mark.parametrize(
    "schema",
    [
        Schema(),
        Schema(captures=GCPolicy(1)),
        Schema(captures=GCPolicy(3), bodies=GCPolicy(1)),
        Schema(captures=GCPolicy(None, 10.0**9)),
    ],
)
def test_a_url_fetched_again_and_again_costs_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: Schema
) -> None:
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as store:
        reads = Reads(store, monkeypatch)
        own, near = [], []
        for n in range(count := share(180, 2)):
            again = of_one_text(n, "A page", "https://one.example/")
            other = Page("https://near.example/", page(near_words(f"near{n}")), 200, HTML, T0 + (10**6 + n) * STEP)
            own.append(sum(reads.of(lambda again=again: put(store, [again]))))  # type: ignore[misc]
            if n % 3 == 0:
                near.append(sum(reads.of(lambda other=other: put(store, [other]))))  # type: ignore[misc]
                store.delete(other.url)
        assert sum(own[-count // 3 :]) <= 1.5 * sum(own[: count // 3])
        assert sum(near[-count // 9 :]) <= 1.5 * sum(near[: count // 9])
