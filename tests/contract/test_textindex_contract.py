"""An index of rows, one of runs, and one over another give the same answers, on every engine, against a plain dict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from committed import commit_postings, texts_under
from hbase_cluster import ADDRESSES, NAMESPACE
from memory_engine import MemoryEngine
from memory_hbase import key_rows
from queries import IndexQuery, text_under

from docstore.cluster.client import Client
from docstore.cluster.engine import HBaseEngine
from docstore.cluster.rowindex import KeyRows, RowIndex
from docstore.dedup.index import BUCKET_LIMIT, NOTHING_NEW, NewPostings, TextIndex
from docstore.dedup.runs import RunIndex
from docstore.storage.engine import Engine

SEED = 20261121


def make_rows(engine: Engine, path: Path) -> TextIndex:
    if isinstance(engine, HBaseEngine):
        return RowIndex(KeyRows(Client(ADDRESSES), NAMESPACE))
    return RowIndex(key_rows())


def make_runs(engine: Engine, path: Path) -> RunIndex:
    return RunIndex(engine, path / "index", list, flush_texts=40)


@pytest.fixture(params=[make_rows, make_runs], ids=["rows", "runs"])
def texts(request: pytest.FixtureRequest, engine: Engine, tmp_path: Path) -> Iterator[TextIndex]:
    make: Callable[[Engine, Path], TextIndex] = request.param
    if make is make_rows and not isinstance(engine, MemoryEngine | HBaseEngine):
        pytest.skip("an index of rows keeps nothing in the engine: it is tried beside one alone")
    made = make(engine, tmp_path)
    yield made
    made.close()


def found_in(texts: TextIndex, keys: np.ndarray, new: NewPostings = NOTHING_NEW) -> list[set[int]]:
    return [set(texts_under(texts, key, new)) for key in keys.tolist()]


def keys_of(rng: np.random.Generator) -> np.ndarray:
    fresh = rng.integers(0, 1 << 63, 9, dtype=np.uint64)
    common = rng.choice(60, 5, replace=False).astype(np.uint64) * np.uint64(16)
    return np.concatenate([fresh, common])


def test_a_text_is_found_from_the_moment_it_is_posted_and_for_good(engine: Engine, texts: TextIndex) -> None:
    rng = np.random.default_rng(SEED)
    expected: dict[int, list[int]] = {}
    asked: list[np.ndarray] = []
    for _ in range(30):
        pages = [keys_of(rng) for _ in range(int(rng.integers(1, 12)))]
        new = NewPostings()
        for keys in pages:
            assert found_in(texts, keys, new) == [set(expected.get(key, [])[:BUCKET_LIMIT]) for key in keys.tolist()]
            # ascending, so that the first posted are those of the smallest numbers, which rows give
            text = len(asked) * 7 + 1
            texts.post(new, text_under(text, keys))
            asked.append(keys)
            for key in keys.tolist():
                expected.setdefault(key, []).append(text)
        commit_postings(engine, texts, new)
    assert max(map(len, expected.values())) < BUCKET_LIMIT
    for keys in asked:
        assert found_in(texts, keys) == [set(expected[key]) for key in keys.tolist()]


def test_a_bucket_gives_the_first_texts_and_no_more(engine: Engine, texts: TextIndex) -> None:
    key = np.array([48], np.uint64)
    for text in range(1, 2 * BUCKET_LIMIT + 40):
        new = NewPostings()
        texts.post(new, text_under(text, key))
        commit_postings(engine, texts, new)
    assert found_in(texts, key) == [set(range(1, BUCKET_LIMIT + 1))]


def test_a_batch_that_is_dropped_leaves_nothing(engine: Engine, texts: TextIndex) -> None:
    keys = np.arange(5, dtype=np.uint64)
    new = NewPostings()
    texts.post(new, text_under(9, keys))
    assert found_in(texts, keys, new) == [{9}] * 5
    assert found_in(texts, keys) == found_in(texts, keys, NewPostings()) == [set()] * 5


def test_a_group_that_failed_may_be_written_again(engine: Engine, texts: TextIndex) -> None:
    keys = np.arange(5, dtype=np.uint64)
    for committed in (False, False, True):
        new = NewPostings()
        texts.post(new, text_under(9, keys))
        commit_postings(engine, texts, new, known=committed, is_applied=committed)
    assert [texts_under(texts, key) for key in keys.tolist()] == [[9]] * 5


def test_no_key_finds_nothing(texts: TextIndex) -> None:
    assert texts.propose(IndexQuery(NONE, NONE, NONE, 1)).numbers == []


def test_a_layer_sees_what_is_below_and_changes_nothing_there(engine: Engine, tmp_path: Path) -> None:
    lower = make_runs(engine, tmp_path)
    key = np.array([32], np.uint64)
    new = NewPostings()
    lower.post(new, text_under(5, key))
    commit_postings(engine, lower, new)
    above = MemoryEngine()
    layer = RunIndex(above, tmp_path / "above", list, lower=lower)
    new = NewPostings()
    layer.post(new, text_under(3, key))
    assert found_in(layer, key, new) == [{3, 5}]
    commit_postings(above, layer, new)
    new = NewPostings()
    for text in range(100, 100 + BUCKET_LIMIT):
        layer.post(new, text_under(text, key))
    found = found_in(layer, key, new)[0]
    assert len(found) == BUCKET_LIMIT and {3, 5} <= found
    assert found_in(lower, key) == [{5}]
    layer.close()
    lower.close()


def test_an_engine_that_fails_leaves_the_buckets_in_order(engine: Engine, texts: TextIndex) -> None:
    for text in range(200):
        new = NewPostings()
        texts.post(new, text_under(text, np.array([text, 1 << 40], np.uint64)))
        fails = text % 3 == 0
        commit_postings(engine, texts, new, known=not fails, is_applied=not fails)
    for text in range(200):
        assert texts_under(texts, text) == ([text] if text % 3 else [])


NONE = np.empty(0, np.uint64)


def asks(number: int) -> IndexQuery:
    """Of a text whose only band has a first key that all share, a second that a hundred share, and a third of its own.

    Its fingerprint is shared by all, and its first run by ten.
    """
    bands = np.zeros(48, np.uint64)
    bands[0::16] = [7, 1000 + number // 100, 100_000 + number]
    bands[1:16] = np.arange(15) + number * 16 + (1 << 40)
    runs = np.array([50_000 + number // 10, 1 << 30, 1 << 31], np.uint64)
    return IndexQuery(bands, np.array([12], np.uint64), runs, number)


def post_as_pages_do(engine: Engine, texts: TextIndex, numbers: range) -> None:
    new = NewPostings()
    for number in numbers:
        query = asks(number)
        proposal = texts.propose(query, new)
        if not proposal.has_own:
            texts.post(new, query, proposal)
        if number % 7 == 0:
            commit_postings(engine, texts, new)
            new = NewPostings()
    commit_postings(engine, texts, new)


def test_what_comes_after_the_first_texts_of_a_full_bucket_is_found_through_it(
    engine: Engine, texts: TextIndex
) -> None:
    post_as_pages_do(engine, texts, range(1, 300))
    for number in range(1, 300, 5 if isinstance(texts, RowIndex) else 1):  # a look-up of rows in Python is slow
        query = asks(number)
        bands = query.band_keys.copy()
        bands[1:16] += np.uint64(1 << 41)  # a copy that shares one band alone
        by_band = query.changed(band_keys=bands, fingerprints=NONE, runs=NONE, own_number=0, more=200)
        assert number in texts.propose(by_band).numbers
        by_run = query.changed(band_keys=NONE, own_number=0, more=200)
        assert isinstance(texts, RowIndex) or number in texts.propose(by_run).numbers
        assert texts.propose(query).has_own


def test_a_layer_posts_under_further_keys_where_the_bucket_below_is_full(engine: Engine, tmp_path: Path) -> None:
    lower = make_runs(engine, tmp_path)
    post_as_pages_do(engine, lower, range(1, 100))
    above = MemoryEngine()
    layer = RunIndex(above, tmp_path / "above", list, lower=lower)
    post_as_pages_do(above, layer, range(100, 120))
    for number in range(100, 120):
        assert number in layer.propose(asks(number).changed(own_number=0, more=200)).numbers
    layer.close()
    lower.close()
