"""A batch: its pages may depend on each other, and it gives what the same pages give one by one."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from counts import share
from memory_backend import MemoryBackend
from pages import changed, page, words
from stores import contents, stored_value

import docstore
from docstore import GCPolicy, Page, Policy, PutResult, Schema, StorageError, VerdictKind
from docstore.dedup.pages import StoredReads
from docstore.model.capture import BODY
from docstore.model.choices import Durability
from docstore.model.format import RUN_LOG_PREFIX
from docstore.model.types import DUPLICATES
from docstore.reports.check import check
from docstore.storage.writes import Prepared
from docstore.store import DocumentStore
from docstore.tablets.layout import StoreDirectory

T0 = 1_700_000_000_000_000
NOW = T0 + 10_000_000_000
HTML = (("Content-Type", "text/html"),)
REFERENCES = dict.fromkeys(DUPLICATES, Policy.REFERENCE)
LINK = b'<p><a href="https://z.example/%d">a link</a> to another page</p></body>'
SCHEMAS = {
    "keeps all": Schema(),
    "one version": Schema(captures=GCPolicy(max_versions=1)),
    "two versions, one body": Schema(captures=GCPolicy(max_versions=2), bodies=GCPolicy(max_versions=1)),
    "by age": Schema(captures=GCPolicy(max_age_seconds=9_995)),
    "bodies by age": Schema(bodies=GCPolicy(max_age_seconds=9_995)),
    "either": Schema(captures=GCPolicy(max_versions=1, max_age_seconds=9_995)),
    "both": Schema(captures=GCPolicy(max_versions=1, max_age_seconds=9_995, intersection=True)),
    "everything": Schema(captures=GCPolicy(max_versions=2), bodies=GCPolicy(max_versions=1, max_age_seconds=9_995)),
}


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """No source counts as slow, so that a busy machine splits no batch; and each batch has several portions."""
    monkeypatch.setattr("docstore.writing.stream.GROUP_SECONDS", 1e9)
    monkeypatch.setattr("docstore.writing.writer.PORTION_PAGES", 3)


def open_store(folder: Path, schema: Schema) -> DocumentStore:
    return DocumentStore(StoreDirectory(folder).open(create=True, schema=schema), Durability.NONE, clock=lambda: NOW)


def some_bodies() -> list[bytes]:
    texts = [words(number, 120) for number in range(3)]
    texts += [changed(text, number, 5) for number, text in enumerate(texts)]
    texts += [texts[0] + words(9, 60), words(4, 30)]
    bodies = [page(text, title) for text in texts for title in ("One", "Two")]
    return [body.replace(b"</body>", LINK % (number % 3)) for number, body in enumerate(bodies)] + [b"", b"small"]


def some_pages(source: random.Random, bodies: list[bytes]) -> list[Page]:
    urls = [f"https://{name}.example/{number}" for name in "ab" for number in range(4)]
    pages = []
    for _ in range(source.randrange(2, 30)):
        status = source.choice((200, 200, 200, 200, 404, 304))
        body = b"" if status == 304 else source.choice(bodies)
        at = T0 + source.randrange(12) * 1_000_000  # ages on both sides of those of the policies
        pages.append(Page(source.choice(urls), body, status, HTML, at, docno=source.choice(("", "D-1"))))
    return pages


def one_by_one(store: DocumentStore, pages: list[Page], **options: Any) -> list[PutResult]:
    return [result for one in pages for result in store.put_pages([one], threads=1, **options)]


@pytest.mark.parametrize("seed", range(share(2, 2)))
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_batch_gives_what_its_pages_give_one_by_one(tmp_path: Path, name: str, seed: int) -> None:
    source = random.Random(f"{name} {seed}")
    bodies = some_bodies()
    with (
        open_store(tmp_path / "batch", SCHEMAS[name]) as batch,
        open_store(tmp_path / "single", SCHEMAS[name]) as single,
    ):
        for _ in range(share(8, 2)):
            pages = some_pages(source, bodies)
            policies = {kind: source.choice(list(Policy)) for kind in DUPLICATES}
            policies[VerdictKind.CONTAINED] = source.choice((Policy.FLAG, Policy.REFERENCE))
            options = {"policies": policies, "anchors": True, "keep_body": source.randrange(5) > 0}
            commits = batch.committer.commits
            assert list(batch.put_pages(pages, threads=1, **options)) == one_by_one(single, pages, **options)
            assert batch.committer.commits <= commits + 1
        assert contents(batch) == contents(single)
        assert list(batch.backend.engine.scan("postings")) == list(single.backend.engine.scan("postings"))
        assert batch.stats()["totals"] == single.stats()["totals"]
        assert list(check(batch.backend)) == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_batch_that_failed_leaves_no_trace_in_later_verdicts(tmp_path: Path, name: str) -> None:
    source, bodies = random.Random(name), some_bodies()
    with open_store(tmp_path / "one", SCHEMAS[name]) as one, open_store(tmp_path / "two", SCHEMAS[name]) as two:
        for _ in range(share(6, 2)):
            pages, others = some_pages(source, bodies), some_pages(source, bodies)
            engine = one.backend.engine
            full = mock.patch.object(engine, "mutate_rows", side_effect=StorageError(28, "no room"))
            with full, pytest.raises(StorageError):
                list(one.put_pages(others, threads=1, policies=REFERENCES))
            assert list(one.put_pages(pages, threads=1)) == list(two.put_pages(pages, threads=1))
        assert contents(one) == contents(two)
        assert list(check(one.backend)) == []


def test_a_page_stored_by_reference_to_a_page_of_its_batch_shares_its_record(tmp_path: Path) -> None:
    body = page(words(1, 300))
    urls = [f"https://{name}.example/" for name in "abc"]
    pages = [Page(url, body, 200, HTML, T0) for url in urls]
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        results = list(store.put_pages(pages, threads=1, policies={VerdictKind.EXACT: Policy.REFERENCE}))
        assert [result.stored for result in results] == ["body", "reference", "reference"]
        first, *others = (stored_value(store, url, BODY) for url in urls)
        assert others == [first, first]
        assert [row.cells[0].value for row in store.backend.engine.scan("bodies")].count(first) == 1
        store.delete(urls[0])
        store.compact()
        assert [store.get(url).body for url in urls[1:]] == [body, body]  # type: ignore[union-attr]
        assert list(check(store.backend)) == []


def test_a_page_is_rejected_against_a_page_of_its_batch_only_while_that_is_current(tmp_path: Path) -> None:
    body, other = page(words(1, 300)), page(words(2, 300))
    pages = [
        Page("https://a.example/1", body, 200, HTML, T0),
        Page("https://a.example/2", body, 200, HTML, T0),
        Page("https://a.example/1", other, 200, HTML, T0 + 1000),
        Page("https://a.example/3", body, 200, HTML, T0),
    ]
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        results = list(store.put_pages(pages, threads=1, policies={VerdictKind.EXACT: Policy.REJECT}))
        assert [result.stored for result in results] == ["body", "rejected", "body", "body"]
        assert results[3].verdict.of_url == pages[0].url


def test_pages_that_an_interrupt_left_in_the_batch_are_not_written_with_the_next_ones(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", Schema()) as store:
        store.put_page("https://a.example/", page(words(1, 120)), headers=HTML)
        full = mock.patch.object(store.backend.engine, "mutate_rows", side_effect=StorageError(28, "no room"))
        interrupted = mock.patch.object(store.committer, "drop_values", side_effect=KeyboardInterrupt)
        with full, interrupted, pytest.raises(KeyboardInterrupt):
            store.put_page("https://a.example/lost", page(words(2, 120)), headers=HTML)
        store.put_page("https://a.example/next", page(words(3, 120)), headers=HTML)
        assert list(store.urls()) == ["https://a.example/", "https://a.example/next"]
        assert list(check(store.backend)) == []


def test_a_committed_batch_is_not_posted_again_after_two_interrupts(tmp_path: Path) -> None:
    """The second one comes before what is left of the batch is dropped."""

    def posted(name: str, *, is_interrupted: bool) -> list[int]:
        with open_store(tmp_path / name, Schema()) as store:
            store.put_page("https://z.example/", page(words(0, 120)), headers=HTML)
            with ExitStack() as around:
                if is_interrupted:
                    around.enter_context(pytest.raises(KeyboardInterrupt))
                    around.enter_context(mock.patch.object(StoredReads, "begin_batch", side_effect=KeyboardInterrupt))
                store.put_page("https://a.example/", page(words(1, 120)), headers=HTML)
            store.put_page("https://b.example/", page(words(2, 120)), headers=HTML)
            logs = (row for row in store.backend.engine.scan("meta") if row.row_key.startswith(RUN_LOG_PREFIX))
            return sorted(len(cell.value) for row in logs for cell in row.cells)

    assert posted("interrupted", is_interrupted=True) == posted("plain", is_interrupted=False)


@pytest.mark.parametrize("name", ["qualifiers_of_rows", "fetch_or_base"])
def test_a_handler_of_a_signal_may_delete_while_a_page_is_judged(tmp_path: Path, name: str) -> None:
    """Once, the delete was committed, then failed, and with it the page that was judged."""
    urls = [f"https://{letter}.example/" for letter in "abcd"]
    pages = [Page(url, page(words(number % 3, 300)), 200, HTML, T0) for number, url in enumerate(urls)]
    pages[2] = Page(urls[2], page(changed(words(1, 300), 1, 3)), 200, HTML, T0)
    with open_store(tmp_path / "store", Schema()) as store:
        one_by_one(store, pages[:2])
    with open_store(tmp_path / "store", Schema()) as store:
        reads: Any = store.backend.values if name == "fetch_or_base" else store.backend.engine
        real = getattr(reads, name)
        deleted: list[str] = []

        def read(*given: Any) -> object:
            if not deleted:
                deleted.append(urls[0])
                assert store.delete(urls[0])
            return real(*given)

        with mock.patch.object(reads, name, read):
            assert [one.verdict.of_url for one in one_by_one(store, pages[2:3])] == [urls[1]]
        assert deleted and list(store.urls()) == urls[1:3]
        assert [one.verdict.kind for one in one_by_one(store, pages[3:])] == [VerdictKind.NEW]
        assert list(check(store.backend)) == []


def test_a_backend_that_gives_a_writer_is_written_through_it() -> None:
    class Refusing(MemoryBackend):
        def group_writer(self, *_: object) -> Any:
            return self

        def write(self, pages: list[Prepared], *_: object) -> tuple[list[PutResult], Exception]:
            return [], StorageError(28, "no room")

    with DocumentStore(Refusing(), Durability.NONE) as store, pytest.raises(StorageError, match="no room"):
        store.put_page("https://a.example/", b"a page")
