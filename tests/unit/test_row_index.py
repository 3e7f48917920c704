"""The index of rows, on which each look-up is a call to another machine: what it reads, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory_engine import MemoryEngine
from memory_hbase import open_store, use

import docstore
from docstore import Page
from docstore.cluster.rowindex import RowIndex
from docstore.dedup.index import BUCKET_LIMIT, IndexQuery, NewPostings
from docstore.model.types import Durability, PutResult, VerdictKind
from tests.pages import changed, page, words

T0 = 1_700_000_000_000_000
NONE = np.empty(0, np.uint64)


class CountingEngine(MemoryEngine):
    """Counts calls and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.rows = 0

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        self.calls, self.rows = self.calls + 1, self.rows + len(row_keys)
        return super().qualifiers_of_rows(table, row_keys, limit)


def query(number: int, *fingerprints: int) -> IndexQuery:
    band = np.array([(number << 20) + 1], np.uint64)
    return IndexQuery(band, np.array(sorted(fingerprints), np.uint64), NONE, number)


def put(engine: MemoryEngine, texts: RowIndex, *queries: IndexQuery) -> None:
    """Look up and post texts as a writer does."""
    new = NewPostings()
    texts.read_ahead(queries, new)
    for one in queries:
        proposal = texts.propose(one, new)
        if not proposal.has_own:
            texts.post(new, one.own_number, *one.first_keys(), proposal.further_keys)
    engine.mutate_rows(new.mutations(), Durability.SYNC)


def test_a_group_reads_its_rows_in_one_call_and_a_full_row_never_again() -> None:
    engine = CountingEngine()
    texts = RowIndex(engine)
    put(engine, texts, *(query(number, 12, 24 + 12 * number) for number in range(1, BUCKET_LIMIT + 1)))
    assert (engine.calls, engine.rows) == (1, 2 * BUCKET_LIMIT + 1)
    for number in (500, 600):
        put(engine, texts, query(number, 12))
    assert engine.calls == 3
    before = engine.rows
    put(engine, texts, query(700, 12))
    assert engine.rows == before + 1  # the band


def test_a_text_that_was_posted_in_part_is_posted_again() -> None:
    engine = MemoryEngine()
    texts = RowIndex(engine)
    put(engine, texts, query(1, 12))
    assert texts.propose(query(1, 12)).has_own
    assert not texts.propose(query(1, 12, 24)).has_own
    put(engine, texts, query(1, 12, 24))
    assert texts.propose(query(2, 24)).numbers == [1]
    assert texts.propose(query(1, 12, 24)).has_own


def test_rows_that_a_large_page_does_not_ask_for_are_not_read_and_stay_bounded() -> None:
    engine = CountingEngine()
    texts = RowIndex(engine)
    many = [12 * (2 * number + 1) for number in range(40)] + [24 * (2 * number + 1) for number in range(40)]
    for number in range(1, 2 * BUCKET_LIMIT):
        put(engine, texts, query(number, *many))
    rows = engine.qualifiers_of_rows("postings", [b"\3" + key.to_bytes(8, "big") for key in many], 1 << 20)
    assert {len(row) for row in rows} == {BUCKET_LIMIT}
    assert engine.rows < 2 * BUCKET_LIMIT * 45 + len(many)


def test_a_look_up_of_another_thread_does_not_disturb_a_batch() -> None:
    engine = CountingEngine()
    texts = RowIndex(engine)
    put(engine, texts, query(1, 12))
    new = NewPostings()
    texts.read_ahead([query(2, 12)], new)
    texts.propose(query(3, 12))
    before = engine.calls
    assert texts.propose(query(2, 12), new).numbers == [1]
    assert engine.calls == before


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
