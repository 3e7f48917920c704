"""The index of rows, on which each look-up is a call to another machine: what it reads, and how often."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory_hbase import key_rows, open_store, use
from queries import IndexQuery, text_under

import docstore
from docstore import Page
from docstore.cluster.rowindex import KeyRows, RowIndex
from docstore.dedup.index import BUCKET_LIMIT, NewPostings
from docstore.model.choices import Durability, VerdictKind
from docstore.model.errors import StorageError
from docstore.model.types import PutResult
from tests.pages import changed, page, words

T0 = 1_700_000_000_000_000
NONE = np.empty(0, np.uint64)


class Counting(KeyRows):
    """Counts reads and keys."""

    def __init__(self) -> None:
        self.__dict__.update(key_rows().__dict__)
        self.calls = self.keys = 0

    def read(self, keys: Iterable[int]) -> dict[int, list[int]]:
        asked = list(keys)
        self.calls, self.keys = self.calls + bool(asked), self.keys + len(asked)
        return super().read(asked)


def query(number: int, *fingerprints: int) -> IndexQuery:
    band = np.array([(number << 20) + 1], np.uint64)
    return IndexQuery(band, np.array(sorted(fingerprints), np.uint64), NONE, number)


def put(texts: RowIndex, *queries: IndexQuery) -> None:
    """Look up and post texts as a writer does."""
    new = NewPostings()
    texts.read_ahead(queries, new)
    for one in queries:
        proposal = texts.propose(one, new)
        if not proposal.has_own:
            texts.post(new, one, proposal)
    texts.log(new)
    texts.write(Durability.SYNC)


def test_a_group_reads_its_buckets_together_and_a_full_one_never_again() -> None:
    keys = Counting()
    texts = RowIndex(keys)
    put(texts, *(query(number, 12, 24 + 12 * number) for number in range(1, BUCKET_LIMIT + 1)))
    assert (keys.calls, keys.keys) == (1, 2 * BUCKET_LIMIT + 1)
    for number in (500, 600):
        put(texts, query(number, 12))
    assert keys.calls == 3
    before = keys.keys
    put(texts, query(700, 12))
    assert keys.keys == before + 1  # the band


def test_a_text_that_was_posted_in_part_is_posted_again() -> None:
    texts = RowIndex(key_rows())
    put(texts, query(1, 12))
    assert texts.propose(query(1, 12)).has_own
    assert not texts.propose(query(1, 12, 24)).has_own
    put(texts, query(1, 12, 24))
    assert texts.propose(query(2, 24)).numbers == [1]
    assert texts.propose(query(1, 12, 24)).has_own


def test_buckets_that_a_large_page_does_not_ask_for_are_not_read_and_stay_bounded() -> None:
    keys = Counting()
    texts = RowIndex(keys)
    many = [12 * (2 * number + 1) for number in range(40)] + [24 * (2 * number + 1) for number in range(40)]
    for number in range(1, 2 * BUCKET_LIMIT):
        put(texts, query(number, *many))
    assert {len(keys.read([key])[key]) for key in many} == {BUCKET_LIMIT}
    assert {len(held) for key, held in keys.scan() if key in many} == {BUCKET_LIMIT}
    assert keys.keys < 2 * BUCKET_LIMIT * 45 + 2 * len(many)


def test_keys_are_scanned_in_order_with_all_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.cluster.rowindex.CELLS_A_SCAN", 4)
    last = (1 << 64) - 1
    held = {0: [1, 2, (1 << 48) - 1], 1: [0], 0x4D << 56: [3, 5, 7, 9], (0x4D << 56) + 39: [3], last: [1, 2]}
    keys = key_rows()
    keys.write([(key, text) for key, texts in held.items() for text in texts], Durability.SYNC)
    assert list(keys.scan()) == list(held.items())
    assert [key for key, _ in keys.scan(1)] == list(held)[1:]
    assert [key for key, _ in keys.scan((0x4D << 56) + 1)] == list(held)[3:]
    assert keys.read([*held, 7]) == held
    postings = [(0, 2), (0, 3), (last, 2)]
    assert keys.held(postings) == [True, False, True]
    keys.remove(postings, Durability.SYNC)
    assert keys.read([0, last]) == {0: [1, (1 << 48) - 1], last: [1]}
    keys.write(postings, Durability.SYNC)
    assert keys.read([0, last]) == {0: [1, 2, 3, (1 << 48) - 1], last: [1, 2]}


def test_removed_texts_take_no_room_in_a_bucket() -> None:
    keys = key_rows()
    keys.write([(7, text) for text in range(2 * BUCKET_LIMIT)], Durability.SYNC)
    keys.remove([(7, text) for text in range(BUCKET_LIMIT + 10)], Durability.SYNC)
    assert keys.read([7]) == {7: list(range(BUCKET_LIMIT + 10, 2 * BUCKET_LIMIT))}


def test_a_bucket_that_is_known_to_be_full_gets_no_further_texts() -> None:
    keys = key_rows()
    texts = RowIndex(keys)
    full = int(query(1, 12).first_keys()[0][0])
    keys.write([(full, text) for text in range(100, 100 + BUCKET_LIMIT)], Durability.SYNC)
    new = NewPostings()
    texts.read_ahead([query(1, 12)], new)
    texts.read_ahead([], new)  # of the next batch, which does not ask for the bucket
    texts.post(new, text_under(1, np.array([full], np.uint64)))
    assert new.buckets == {}


def test_a_look_up_of_another_thread_does_not_disturb_a_batch() -> None:
    keys = Counting()
    texts = RowIndex(keys)
    put(texts, query(1, 12))
    new = NewPostings()
    texts.read_ahead([query(2, 12)], new)
    texts.propose(query(3, 12))
    before = keys.calls
    assert texts.propose(query(2, 12), new).numbers == [1]
    assert keys.calls == before


def answers(store: docstore.DocumentStore) -> list[PutResult]:
    """Of large pages, and of parts and changed copies of them."""
    large = [words(number, 900) for number in range(6)]
    parts = [text[100 + 20 * number : 300] for number, text in enumerate(large)]
    copies = [changed(text, number, 45) for number, text in enumerate(large)]
    pages = [
        Page(f"https://h{number}.example/{kind}", page(text, f"Page {number}"), 200, (), T0)
        for kind, texts in (("whole", large), ("part", parts), ("copy", copies))
        for number, text in enumerate(texts)
    ]
    return list(store.put_pages(pages, threads=1))


def test_contained_and_similar_pages_are_found_as_in_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch)
    with docstore.open(tmp_path / "store", create=True) as here, open_store() as there:
        expected, found = answers(here), answers(there)
    assert [result.verdict for result in found] == [result.verdict for result in expected]
    kinds = {result.verdict.kind for result in expected}
    assert {VerdictKind.CONTAINED, VerdictKind.SIMILAR} <= kinds


def test_what_judging_reads_of_a_page_is_read_for_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    pages = [
        Page(f"https://h{number}.example/", page(words(number, 60), f"Page {number}"), 200) for number in range(120)
    ]
    with open_store() as store:
        store.put_page("https://first.example/", page(words(999, 60)))
        client: Any = store.backend.client  # type: ignore[attr-defined]
        reads: list[int] = []
        get_many = client.get_many
        monkeypatch.setattr(client, "get_many", lambda table, gets: reads.append(len(gets)) or get_many(table, gets))
        list(store.put_pages(pages, threads=1))
        assert len(reads) < len(pages) < sum(reads)


def test_texts_of_a_group_that_failed_are_not_posted_with_another_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = use(monkeypatch)
    with open_store() as store:
        store.put_page("https://first.example/", page(words(1, 60)))
        keys: KeyRows = store.backend.keys  # type: ignore[attr-defined]
        before = list(keys.scan())

        def fail(what: str) -> None:
            if what == "put postings":
                raise StorageError(errno.EIO, "no answer")

        cluster.before_write = fail
        with pytest.raises(StorageError):
            store.put_page("https://second.example/", page(words(2, 60)))
        cluster.before_write = lambda _: None
        assert store.delete("https://first.example/")
        assert list(keys.scan()) == before
