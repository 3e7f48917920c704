"""Cached rows of the index equal the engine's, whatever is added, commits or fails."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from heapq import merge

import numpy as np
import pytest
from committed import commit_postings
from memory_engine import MemoryEngine
from memory_hbase import key_rows

from docstore.cluster.rowindex import RowIndex
from docstore.dedup import index as index_module
from docstore.dedup.index import (
    BODY_ROW,
    NOTHING_NEW,
    POINTER_SLICE,
    TEXT_ROW,
    HashIndex,
    NewPostings,
    Oldest,
    Posted,
)
from docstore.model.analysis import Analysis
from docstore.model.capture import PagePointer, body_head, text_number
from docstore.model.choices import Durability
from docstore.model.types import Cell, ReadSpec, RowMutations
from docstore.storage.cache import MB, SHARES, Memory

SEED = 20261123
BODIES = 12
TEXTS = 6


def checksum(kind: int, number: int) -> bytes:
    return bytes((1, kind, number)) + bytes(30)


def page(body: int, text: int) -> Analysis:
    return Analysis(True, checksum(1, body), text_checksum=checksum(2, text), band_keys=np.array([text], np.uint64))


def pages_of(
    index: HashIndex, texts: dict[PagePointer, int], new: NewPostings = NOTHING_NEW
) -> list[list[PagePointer]]:
    """Of each text the pages that it leads to and that have it, then those of each body."""
    found = [
        [each for each in index.pages(TEXT_ROW + text_number(checksum(2, text)), new) if texts[each] == text]
        for text in range(TEXTS)
    ]
    return found + [list(index.pages(BODY_ROW + body_head(checksum(1, body)), new)) for body in range(BODIES)]


class Posting:
    """An index over rows, and pages that are posted in it."""

    def __init__(self, *, caches: bool) -> None:
        self.engine = MemoryEngine()
        self.buckets = RowIndex(key_rows())
        self.index = HashIndex(self.engine, self.buckets, Memory() if caches else None)

    def commit(self, pages: Iterable[tuple[PagePointer, Analysis]]) -> None:
        new = NewPostings()
        for pointer, analysis in pages:
            self.index.add(new, pointer, analysis, status=200)
        commit_postings(self.engine, self.buckets, new, self.index)


@pytest.mark.parametrize("has_room", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_cached_rows_equal_stored_rows_and_those_in_flight(
    seed: int, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_room:
        monkeypatch.setitem(SHARES, "postings", (6 * 600 / MB, 0))
    rng = np.random.default_rng([SEED, seed])
    engine = MemoryEngine()
    buckets = RowIndex(key_rows())
    cached = HashIndex(engine, buckets, Memory())
    texts: dict[PagePointer, int] = {}
    for group in range(12):
        plain, new = HashIndex(engine, buckets), NewPostings()
        drawn = [(int(rng.integers(BODIES)), int(rng.integers(TEXTS))) for _ in range(rng.integers(1, 7))]
        if group % 3:
            cached.prepare(page(*each) for each in drawn)
        for number, (body, text) in enumerate(drawn):
            is_text = bool(rng.integers(4))
            pointer = PagePointer(group * 100 + number, b"row%d" % number)
            texts[pointer] = text
            cached.add(new, pointer, page(body, text), status=200 if is_text else 404)
            assert pages_of(cached, texts, new) == pages_of(plain, texts, new)
        if rng.integers(3):
            known, is_applied = bool(rng.integers(3)), bool(rng.integers(3))
            commit_postings(engine, buckets, new, cached, known=known, is_applied=known or is_applied)
        assert pages_of(cached, texts) == pages_of(HashIndex(engine, buckets), texts)
        gone = [PagePointer(group * 100, b"row0"), PagePointer(group * 100 - 99, b"row1")]
        rows: list[RowMutations] = []
        for pointer in gone if group % 4 == 3 else ():
            posted = [Posted(pointer.timestamp, checksum(1, body), b"", "", "", "") for body in range(BODIES)]
            rows += cached.remove(pointer.row_key, posted)
        engine.mutate_rows(rows, Durability.NONE)
        cached.follow(rows, bool(rng.integers(2)))
        assert pages_of(cached, texts) == pages_of(HashIndex(engine, buckets), texts)
    assert sum(map(len, pages_of(cached, texts))) >= BODIES


def test_a_body_of_very_many_pages_is_read_in_slices() -> None:
    posting = Posting(caches=True)
    index = posting.index
    pointers = [PagePointer(number, b"row%d" % number) for number in range(700)]
    new = NewPostings()
    for pointer in pointers:
        index.add(new, pointer, page(3, 1), status=200)
    assert list(index.pages(BODY_ROW + body_head(checksum(1, 3)), new)) == pointers
    commit_postings(posting.engine, posting.buckets, new, index)
    assert list(index.pages(BODY_ROW + body_head(checksum(1, 3)))) == pointers
    assert list(index.pages(TEXT_ROW + text_number(checksum(2, 1)))) == pointers


def test_a_body_of_very_many_pages_costs_later_pages_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 11: the whole cached row was sorted again for every page of the body."""
    merged: list[int] = []

    def noted(*lists: list[bytes]) -> Iterator[bytes]:
        merged.append(max(map(len, lists)))
        return merge(*lists)

    monkeypatch.setattr(index_module, "merge", noted)
    posting = Posting(caches=True)
    index = posting.index
    for group in range(10):
        new = NewPostings()
        for number in range(group * 100, group * 100 + 100):
            index.add(new, PagePointer(number, b"row%d" % number), page(3, 1), status=200)
            assert next(iter(index.pages(BODY_ROW + body_head(checksum(1, 3)), new))) == PagePointer(0, b"row0")
        commit_postings(posting.engine, posting.buckets, new, index)
    assert max(merged) == POINTER_SLICE


def test_whether_a_page_is_posted_reads_one_posting(monkeypatch: pytest.MonkeyPatch) -> None:
    posting = Posting(caches=False)
    engine, index = posting.engine, posting.index
    posting.commit((PagePointer(5, b"row%d" % number), page(3, 1)) for number in range(300))
    assert index.holds(PagePointer(5, b"row299"), checksum(1, 3))
    read: list[int] = []
    real = engine.read_row

    def counted(table: str, row_key: bytes, spec: ReadSpec = ReadSpec()) -> list[Cell]:
        cells = real(table, row_key, spec)
        read.append(len(cells))
        return cells

    monkeypatch.setattr(engine, "read_row", counted)
    assert index.holds(PagePointer(5, b"row299"), checksum(1, 3))
    assert not index.holds(PagePointer(5, b"row300"), checksum(1, 3))
    assert not index.holds(PagePointer(6, b"row29"), checksum(1, 3))
    assert sum(read) <= 2


def test_the_row_cache_is_bounded_by_its_qualifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, rows were counted, of which each may have 64 pages."""
    bodies, copies = 40, 50
    monkeypatch.setitem(SHARES, "postings", (10 * (450 + 100 * copies) / MB, 0))
    posting = Posting(caches=True)
    engine, index = posting.engine, posting.index
    for number in range(copies):
        analyses = [page(body, body) for body in range(bodies)]
        index.prepare(analyses)
        rows = (PagePointer(number, b"row%d-%d" % (number, body)) for body in range(bodies))
        posting.commit(zip(rows, analyses, strict=True))
    asked: list[bytes] = []
    real = engine.qualifiers

    def noted(table: str, row_key: bytes, limit: int) -> list[bytes]:
        asked.append(row_key)
        return real(table, row_key, limit)

    monkeypatch.setattr(engine, "qualifiers", noted)
    for body in range(bodies):
        assert len(list(index.pages(BODY_ROW + body_head(checksum(1, body))))) == copies
    assert len(asked) >= bodies - 10


def test_cached_conditions_of_bodies_of_very_many_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the fix, the conditions of each such body were cached for ever."""
    bodies, most = 30, 8
    monkeypatch.setitem(SHARES, "postings", (most * (450 + 50 * (POINTER_SLICE + 1)) / MB, 0))
    posting = Posting(caches=True)
    index = posting.index
    for body in range(bodies):
        rows = (PagePointer(number, b"row%d" % number) for number in range(POINTER_SLICE + 1))
        posting.commit((pointer, page(body, body)) for pointer in rows)
    gc.freeze()  # `get_objects` then gives those that are made from here on: a quick look at few
    try:
        for _ in range(3):
            for body in range(bodies):
                for condition in ("one", "other"):
                    found = index.oldest(BODY_ROW + body_head(checksum(1, body)), b"row0", lambda _: True, condition)
                    assert found == PagePointer(1, b"row1")
                    cached = sum(isinstance(each, Oldest) for each in gc.get_objects())
                    assert 0 < cached <= most
    finally:
        gc.unfreeze()
