"""Native code and the readable reference pack, merge and look up the same postings, bit for bit.

`tests/unit/test_runs.py` holds native code to a plain dict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import LIST_LIMIT, Run, index_of, merged_run, pruned_run, run_bytes

from docstore.compiled import docstore_native
from docstore.dedup import kernel
from docstore.model.errors import CorruptionError
from tests.queries import text_under
from tests.reference import postings as reference
from tests.reference.postings import RunView, bound_buckets, key_count, mix, pack, shape_of

SEED = 20261121


CODES: tuple[Any, Any] = reference, docstore_native


def unmixed(mixed: np.ndarray) -> np.ndarray:
    """Keys that `mix` gives these of: it may be undone, but for the bits that it cuts off."""
    keys = mixed << np.uint64(24)
    for factor in (0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15):
        keys ^= keys >> np.uint64(32)
        keys *= np.uint64(pow(factor, -1, 1 << 64))
    return keys


def view_of(run: Run) -> RunView:
    return RunView(run.buffer, run.layout, *run.shape)


def slices_of(run: Run) -> tuple[bytes, int, int]:
    """The bytes of its slices, and how many keys and postings they have."""
    return run.buffer[run.layout[1] : run.layout[2]].tobytes(), run.keys, run.postings


def find(code: Any, runs_of: list[Run], mixed: np.ndarray, limit: int, batch: Any = None) -> list[list[int]]:
    if code is reference:
        owner, texts = reference.Postings(list(map(view_of, runs_of))).find(unmixed(mixed), limit, batch)
    else:
        owner, texts = index_of(runs_of, limit).find(unmixed(mixed), batch)
    return [np.frombuffer(owner, np.int64).tolist(), np.frombuffer(texts, np.uint64).tolist()]


def drawn_postings(seed: int, count: int, texts: int, spread: int) -> np.ndarray:
    """Sorted postings: `spread` bits of key tell keys apart, low ones meet in many texts."""
    rng = np.random.default_rng([SEED, seed])
    keys = rng.zipf(1.3, count).astype(np.uint64) % np.uint64(1 << spread)
    places = rng.integers(0, texts, count, dtype=np.uint64)
    mixed = mix(keys) if seed % 3 else keys << np.uint64(40 - spread)  # even, or all in few buckets
    return bound_buckets(np.unique(pack(mixed, places)), LIST_LIMIT - 1)


def texts_of(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng([SEED, seed]).integers(0, 1 << 48, count, dtype=np.uint64)


def every_posting(run: Run) -> np.ndarray:
    return view_of(run).postings_between(0, 1 << run.shape.slice_bits, run.shape.slice_bits)


drawn = st.tuples(
    st.integers(0, 1 << 20), st.integers(0, 4000), st.integers(1, 1 << 12), st.sampled_from([1, 4, 12, 30])
)


@settings(max_examples=few(60), deadline=None)
@given(drawn)
def test_slices_have_the_same_bytes(options: tuple[int, int, int, int]) -> None:
    postings = drawn_postings(*options)
    run = Run(run_bytes(postings, texts_of(options[0], options[2])))
    assert run.shape == shape_of(key_count(postings), options[2])
    raw, _, keys, count = reference.encode_slices(postings, *run.shape)
    assert slices_of(run) == (raw, keys, count) == (raw, key_count(postings), len(postings))


@settings(max_examples=few(40), deadline=None)
@given(st.lists(st.tuples(drawn, st.integers(1, 3000), st.booleans()), min_size=1, max_size=4), st.integers(1, 64))
def test_merges_and_look_ups_are_the_same(
    options: list[tuple[tuple[int, int, int, int], int, bool]], limit: int
) -> None:
    runs_of = []
    for (seed, count, _, spread), texts, is_pruned in options:
        run = Run(run_bytes(drawn_postings(seed, count, texts, spread), texts_of(seed, texts)))
        if is_pruned:  # of nearly all texts, so it is cut into more slices than its keys ask for
            live = np.sort(texts_of(seed, texts)[: texts // 20])
            run = pruned_run(run, live, LIST_LIMIT - 1)
        runs_of.append(run)
    if len(runs_of) > 1:
        numbers = [run.texts for run in runs_of]
        shape = shape_of(sum(run.keys for run in runs_of), sum(numbers))
        views = list(map(view_of, runs_of))
        raw, _, *counts = reference.merge_slices(views, numbers, shape, limit, 0, 1 << shape.slice_bits)
        merged = merged_run(runs_of, limit)
        assert (merged.damaged_parts(), slices_of(merged)) == ([], (raw, *counts))

    held = np.concatenate([every_posting(run) for run in runs_of])
    asked = np.concatenate([np.unique(held >> np.uint64(24))[:500], np.arange(40, dtype=np.uint64) << np.uint64(20)])
    batches = [code.Postings() for code in CODES]
    rng = np.random.default_rng([SEED, len(held)])
    for text in range(30):
        keys = unmixed(np.unique(rng.choice(asked, min(len(asked), 7))))
        batches[0].post(text, keys)
        batches[1].post(text_under(text, keys))
    assert len(batches[0]) == len(batches[1]) == 30
    expected, found = (find(code, runs_of, asked, limit, batch) for code, batch in zip(CODES, batches, strict=True))
    assert found == expected
    cells = [batch.log(len(held), 7) for batch in batches]
    assert cells[0] == cells[1] and len(cells[0]) == 5
    index = docstore_native.Runs(limit)
    assert index.add(0, cells[0]) == 30
    assert index.recent_texts() == batches[0].texts() and index.log(1024) == batches[1].log(0, 1024)
    parts = index.flush()
    assert parts is not None
    flushed = Run(np.frombuffer(b"".join(parts), np.uint8))
    assert every_posting(flushed).tobytes() == batches[0].sorted(limit)
    with pytest.raises(CorruptionError, match="ends inside a text"):
        index.add(1, [cells[0][0][:-1]])


@settings(max_examples=few(60), deadline=None)
@given(drawn, st.integers(1, 600), st.integers(1, 64), st.integers(0, 6))
def test_runs_without_removed_texts_have_the_same_bytes(
    options: tuple[int, int, int, int], texts: int, limit: int, keeps: int
) -> None:
    seed, count, _, spread = options
    run = Run(run_bytes(drawn_postings(seed, count, texts, spread), texts_of(seed, texts)))
    is_live = np.random.default_rng([SEED, seed]).integers(0, 6, texts) < keeps
    live = int(is_live.sum())
    places = np.where(is_live, np.cumsum(is_live) - 1, -1).astype(np.uint64)
    pruned = pruned_run(run, np.unique(run.text_numbers()[is_live]), limit)
    assert pruned.shape == shape_of(run.keys, live + min(limit, texts - live))
    asked_of = pruned.shape, limit, 0, 1 << pruned.shape.slice_bits
    raw, _, *counts = reference.prune_slices(view_of(run), places, live, *asked_of)
    assert slices_of(pruned) == (raw, *counts)


def test_a_long_cell_of_the_log_is_posted_alike() -> None:
    """Native code posts a cell of more than 8 KB without the GIL."""
    rng = np.random.default_rng([SEED, 8])
    posted = CODES[0].Postings()
    for text in range(60):
        posted.post(text, np.unique(rng.integers(0, 5000, 90, np.uint64)))
    (cell,) = posted.log(3, 1024)
    assert len(cell) > 16_384
    index = docstore_native.Runs(64)
    index.add(0, [cell])
    every = np.arange(5000, dtype=np.uint64)
    assert index.find(every) == posted.find(every, 64) and index.log(1024) == posted.log(0, 1024)
    with pytest.raises(CorruptionError, match="ends inside a text"):
        index.add(1, [cell[:-1]])


def test_no_key_and_no_run_are_answered_with_nothing() -> None:
    nothing = np.empty(0, np.uint64)
    for code in CODES:
        for keys in (nothing, np.array([5], np.uint64)):
            assert find(code, [], keys, 64) == find(code, [], keys, 64, code.Postings()) == [[], []]
        assert code.Postings().log(300, 8) == [b"\xac\x02"]
    keys = np.random.default_rng(SEED).integers(0, 1 << 40, 100, dtype=np.uint64)
    assert mix(unmixed(keys)).tolist() == keys.tolist()


@pytest.mark.parametrize("title", ["", "Red Hats", "red  hats!", "Straße ﬁ", "帽子", "\udc80 hat", "a\ud800\u0301b"])
@pytest.mark.parametrize("text_checksum", [b"", b"\x01", bytes(range(33))])
def test_rows_of_postings_are_the_same(title: str, text_checksum: bytes) -> None:
    body_checksum = bytes(range(7, 40))
    rows = kernel.posting_rows(body_checksum, text_checksum, title)
    assert rows == reference.posting_rows(body_checksum, text_checksum, title.encode("utf-8", "surrogatepass"))
    assert len(rows) == (3 if text_checksum else 1)


def test_a_damaged_run_gives_an_error_or_an_answer_and_never_a_crash() -> None:
    rng = np.random.default_rng([SEED, 7])
    postings = drawn_postings(1, 4000, 900, 12)
    whole = run_bytes(postings, texts_of(1, 900))
    asked = np.unique(postings >> np.uint64(24))
    errors = 0
    for _ in range(400):
        damaged = whole.copy()
        at = rng.integers(5400, len(whole) - 70, 3)
        damaged[at] = rng.integers(0, 256, 3)
        try:
            find(docstore_native, [Run(damaged)], asked, 64)
        except CorruptionError:
            errors += 1
    assert errors


@settings(max_examples=few(60), deadline=None)
@given(st.integers(0, 1 << 20), st.integers(0, 60))
def test_keys_that_are_not_there_are_looked_up_alike(seed: int, count: int) -> None:
    """Few keys: most are absent, those before the first and behind the last too."""
    rng = np.random.default_rng([SEED, seed])
    texts = texts_of(seed, 9)
    keys = rng.integers(0, 1 << 40, 6, np.uint64)
    postings = np.unique(pack(rng.choice(keys, count), rng.integers(0, 9, count, np.uint64)))
    buffer = run_bytes(postings, texts)
    asked = np.concatenate([keys, rng.integers(0, 1 << 40, 30, np.uint64), np.array([0, (1 << 40) - 1], np.uint64)])
    expected = {(key, int(texts[int(each) & 0xFFFFFF])) for each in postings for key in [int(each) >> 24]}
    for code in CODES:
        owner, found = find(code, [Run(buffer)], asked, 64)
        assert {(int(asked[place]), int(text)) for place, text in zip(owner, found, strict=True)} == expected
        assert every_posting(Run(buffer)).tolist() == postings.tolist()
