"""Rows and pages that the index keeps at hand: the answers of the engine, whatever is added, commits or fails."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from heapq import merge

import numpy as np
import pytest
from memory_engine import MemoryEngine

from docstore.dedup import index as index_module
from docstore.dedup.buckets import RowBuckets
from docstore.dedup.index import POINTER_SLICE, HashIndex, Oldest
from docstore.model.analysis import Analysis
from docstore.model.pointers import PagePointer, body_head, text_number
from docstore.model.types import Cell, Durability, ReadSpec, RowMutations

SEED = 20261123
BODIES = 12
TEXTS = 6


def checksum(kind: int, number: int) -> bytes:
    return bytes((1, kind, number)) + bytes(30)


def page(body: int, text: int) -> Analysis:
    return Analysis(True, checksum(1, body), text_checksum=checksum(2, text), band_keys=np.array([text], np.uint64))


def pages_of(index: HashIndex, texts: dict[PagePointer, int]) -> list[list[PagePointer]]:
    """Of each text the pages that it leads to and that have it, then those of each body."""
    found = [
        [each for each in index.pages_with_text(text_number(checksum(2, text))) if texts[each] == text]
        for text in range(TEXTS)
    ]
    return found + [list(index.pages_with_body(body_head(checksum(1, body)))) for body in range(BODIES)]


@pytest.mark.parametrize("has_room", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_at_hand_is_what_is_stored_and_in_flight(
    seed: int, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_room:
        monkeypatch.setattr(index_module, "ROWS_HELD", 12)
    rng = np.random.default_rng([SEED, seed])
    engine = MemoryEngine()
    held = HashIndex(engine, RowBuckets(engine), remembers=True)
    texts: dict[PagePointer, int] = {}
    for group in range(12):
        plain = HashIndex(engine, RowBuckets(engine))
        drawn = [(int(rng.integers(BODIES)), int(rng.integers(TEXTS))) for _ in range(rng.integers(1, 7))]
        if group % 3:
            held.prepare(page(*each) for each in drawn)
        mutations: list[RowMutations] = []
        for number, (body, text) in enumerate(drawn):
            is_text = bool(rng.integers(4))
            pointer = PagePointer(group * 100 + number, b"row%d" % number)
            texts[pointer] = text
            for index in (held, plain):
                added = index.add(pointer.row_key, pointer.timestamp, page(body, text), status=200 if is_text else 404)
            mutations += added
            assert pages_of(held, texts) == pages_of(plain, texts)
        committed = bool(rng.integers(3))
        if committed:
            engine.mutate_rows(mutations, Durability.NONE)
        held.end_group(committed=committed)
        assert pages_of(held, texts) == pages_of(HashIndex(engine, RowBuckets(engine)), texts)
        if group == 8:
            held.forget()
    assert sum(map(len, pages_of(held, texts))) > BODIES


def test_a_body_of_very_many_pages_is_read_in_slices() -> None:
    engine = MemoryEngine()
    index = HashIndex(engine, RowBuckets(engine), remembers=True)
    pointers = [PagePointer(number, b"row%d" % number) for number in range(700)]
    for pointer in pointers:
        engine.mutate_rows(index.add(pointer.row_key, pointer.timestamp, page(3, 1), status=200), Durability.NONE)
    assert list(index.pages_with_body(body_head(checksum(1, 3)))) == pointers
    index.end_group(committed=True)
    assert list(index.pages_with_body(body_head(checksum(1, 3)))) == pointers
    assert list(index.pages_with_text(text_number(checksum(2, 1)))) == pointers


def test_a_body_of_very_many_pages_costs_later_pages_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """11.B1: the row at hand was sorted anew, whole, for every page of the body."""
    merged: list[int] = []

    def noted(*lists: list[bytes]) -> Iterator[bytes]:
        merged.append(max(map(len, lists)))
        return merge(*lists)

    monkeypatch.setattr(index_module, "merge", noted)
    engine = MemoryEngine()
    index = HashIndex(engine, RowBuckets(engine), remembers=True)
    for group in range(10):
        for number in range(group * 100, group * 100 + 100):
            added = index.add(b"row%d" % number, number, page(3, 1), status=200)
            engine.mutate_rows(added, Durability.NONE)
            assert next(iter(index.pages_with_body(body_head(checksum(1, 3))))) == PagePointer(0, b"row0")
        index.end_group(committed=True)
    assert max(merged) == POINTER_SLICE


def test_whether_a_page_is_posted_is_asked_of_one_posting(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    index = HashIndex(engine, RowBuckets(engine))
    for number in range(300):
        engine.mutate_rows(index.add(b"row%d" % number, 5, page(3, 1), status=200), Durability.NONE)
    index.end_group(committed=True)
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


def test_rows_at_hand_are_bounded_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, rows were counted, of which each may have 64 pages."""
    bodies, copies = 40, 50
    monkeypatch.setattr(index_module, "ROWS_HELD", 10 * copies)
    engine = MemoryEngine()
    index = HashIndex(engine, RowBuckets(engine), remembers=True)
    for number in range(copies):
        analyses = [page(body, body) for body in range(bodies)]
        index.prepare(analyses)
        for body, analysis in enumerate(analyses):
            added = index.add(b"row%d-%d" % (number, body), number, analysis, status=200)
            engine.mutate_rows(added, Durability.NONE)
        index.end_group(committed=True)
    asked: list[bytes] = []
    real = engine.qualifiers

    def noted(table: str, row_key: bytes, limit: int) -> list[bytes]:
        asked.append(row_key)
        return real(table, row_key, limit)

    monkeypatch.setattr(engine, "qualifiers", noted)
    for body in range(bodies):
        assert len(list(index.pages_with_body(body_head(checksum(1, body))))) == copies
    assert len(asked) >= bodies - 10


def test_questions_of_bodies_of_very_many_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, what was asked of each such body was held for ever."""
    bodies, most = 30, 8
    monkeypatch.setattr(index_module, "OLDEST_HELD", most)
    engine = MemoryEngine()
    index = HashIndex(engine, RowBuckets(engine), remembers=True)
    for body in range(bodies):
        for number in range(POINTER_SLICE + 1):
            added = index.add(b"row%d" % number, number, page(body, body), status=200)
            engine.mutate_rows(added, Durability.NONE)
    index.end_group(committed=True)
    gc.collect()
    before = sum(isinstance(one, Oldest) for one in gc.get_objects())
    for _ in range(3):
        for body in range(bodies):
            for condition in ("one", "other"):
                found = index.oldest_with_body(checksum(1, body), b"row0", lambda _: True, condition)
                assert found == PagePointer(1, b"row1")
                held = sum(isinstance(one, Oldest) for one in gc.get_objects()) - before
                assert 0 < held <= most
