"""Native code and the readable reference pack, merge and look up the same postings, bit for bit.

`tests/unit/test_runs.py` holds native code to a plain dict.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.compiled import docstore_native
from docstore.dedup import kernel, runs
from docstore.dedup.runs import LIST_LIMIT, Run, Shape, merged_parts, pruned_parts, run_parts
from docstore.model.errors import CorruptionError, InvalidArgument
from tests.reference import postings as reference
from tests.reference.postings import RunView, bound_buckets, key_count, mix, pack

SEED = 20261121


CODES: tuple[Any, Any] = reference, docstore_native


def unmixed(mixed: np.ndarray) -> np.ndarray:
    """Keys that `mix` gives these of: it may be undone, but for the bits that it cuts off."""
    keys = mixed << np.uint64(24)
    for factor in (0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15):
        keys ^= keys >> np.uint64(32)
        keys *= np.uint64(pow(factor, -1, 1 << 64))
    return keys


def view_of(code: Any, run: Run) -> Any:
    return RunView(run.buffer, run.layout, *run.shape) if code is reference else run.view()


def find(code: Any, runs_of: list[Run], mixed: np.ndarray, limit: int, batch: Any = None) -> list[list[int]]:
    index = code.Postings([view_of(code, run) for run in runs_of])
    owner, texts = index.find(unmixed(mixed), limit, batch)
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
    view = view_of(reference, run)
    return view.postings_between(0, 1 << run.shape.slice_bits, run.shape.slice_bits)


def buffer_of(postings: np.ndarray, texts: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"".join(run_parts(postings, texts)), np.uint8)


drawn = st.tuples(
    st.integers(0, 1 << 20), st.integers(0, 4000), st.integers(1, 1 << 24), st.sampled_from([1, 4, 12, 30])
)


@settings(max_examples=few(60), deadline=None)
@given(drawn, st.integers(0, 8))
def test_slices_have_the_same_bytes(options: tuple[int, int, int, int], slice_bits: int) -> None:
    postings = drawn_postings(*options)
    shape = Shape(slice_bits, (options[2] - 1).bit_length())
    expected, found = (code.encode_slices(postings, *shape) for code in CODES)
    assert bytes(found[0]) == expected[0]
    assert found[1:] == expected[1:]
    assert found[2:] == (key_count(postings), len(postings))


@settings(max_examples=few(40), deadline=None)
@given(st.lists(st.tuples(drawn, st.integers(1, 3000), st.booleans()), min_size=1, max_size=4), st.integers(1, 64))
def test_merges_and_look_ups_are_the_same(
    options: list[tuple[tuple[int, int, int, int], int, bool]], limit: int
) -> None:
    buffers = []
    for (seed, count, _, spread), texts, is_pruned in options:
        buffer = buffer_of(drawn_postings(seed, count, texts, spread), texts_of(seed, texts))
        if is_pruned:  # of nearly all texts, so it is cut into more slices than its keys ask for
            live = np.sort(texts_of(seed, texts)[: texts // 20])
            parts = pruned_parts(Run(buffer), live, LIST_LIMIT - 1)
            buffer = np.frombuffer(b"".join(parts), np.uint8)
        buffers.append(buffer)
    runs_of = [Run(buffer) for buffer in buffers]
    numbers = [run.texts for run in runs_of]
    shape = runs.shape_of(sum(run.keys for run in runs_of), sum(numbers))
    views = [[view_of(code, run) for run in runs_of] for code in CODES]
    asked_of = shape, limit, 0, 1 << shape.slice_bits
    raw, *counts = docstore_native.merge_slices(views[1], numbers, *asked_of)
    assert (bytes(raw), *counts) == reference.merge_slices(views[0], numbers, *asked_of)
    merged = Run(np.frombuffer(b"".join(merged_parts(runs_of, limit)), np.uint8))
    assert merged.damaged_parts() == [] and merged.postings == counts[2]

    held = np.concatenate([every_posting(run) for run in runs_of])
    asked = np.concatenate([np.unique(held >> np.uint64(24))[:500], np.arange(40, dtype=np.uint64) << np.uint64(20)])
    batches = [code.Postings() for code in CODES]
    rng = np.random.default_rng([SEED, len(held)])
    for text in range(30):
        keys = unmixed(np.unique(rng.choice(asked, min(len(asked), 7))))
        for batch in batches:
            batch.post(text, keys[:3], keys[3:])
    assert len(batches[0]) == len(batches[1]) == 30 and batches[0].postings == batches[1].postings
    expected, found = (find(code, runs_of, asked, limit, batch) for code, batch in zip(CODES, batches, strict=True))
    assert found == expected
    assert batches[0].sorted(limit) == batches[1].sorted(limit) and batches[0].texts() == batches[1].texts()
    cells = [batch.log(len(held), 7) for batch in batches]
    assert cells[0] == cells[1] and len(cells[0]) == 5
    for code in CODES:
        replayed = code.Postings()
        for cell in cells[0]:
            replayed.replay(cell)
        assert (replayed.sorted(65), replayed.texts()) == (batches[0].sorted(65), batches[0].texts())
        with pytest.raises(CorruptionError, match="ends inside a text"):
            replayed.replay(cells[0][0][:-1])


@settings(max_examples=few(60), deadline=None)
@given(drawn, st.integers(1, 600), st.integers(0, 9), st.integers(1, 64), st.integers(0, 6))
def test_runs_without_removed_texts_have_the_same_bytes(
    options: tuple[int, int, int, int], texts: int, slice_bits: int, limit: int, keeps: int
) -> None:
    seed, count, _, spread = options
    run = Run(buffer_of(drawn_postings(seed, count, texts, spread), texts_of(seed, texts)))
    is_live = np.random.default_rng([SEED, seed]).integers(0, 6, texts) < keeps
    live = int(is_live.sum())
    places = np.where(is_live, np.cumsum(is_live) - 1, -1).astype(np.uint64)
    shape = Shape(slice_bits, (texts + limit).bit_length())
    for first, end in ((0, 1 << slice_bits), (1 << slice_bits >> 1, 1 << slice_bits)):
        expected, found = (
            code.prune_slices(view_of(code, run), places, live, shape, limit, first, end - first) for code in CODES
        )
        assert (bytes(found[0]), *found[1:]) == expected


def test_a_long_cell_of_the_log_is_posted_alike() -> None:
    """Native code posts a cell of more than 8 KB without the GIL."""
    rng = np.random.default_rng([SEED, 8])
    posted = CODES[0].Postings()
    for text in range(60):
        posted.post(text, np.unique(rng.integers(0, 5000, 90, np.uint64)))
    (cell,) = posted.log(3, 1024)
    assert len(cell) > 16_384
    for code in CODES:
        replayed = code.Postings()
        replayed.replay(cell)
        assert (replayed.sorted(65), replayed.texts()) == (posted.sorted(65), posted.texts())
        assert replayed.find(np.arange(5000, dtype=np.uint64), 64, None) == posted.find(
            np.arange(5000, dtype=np.uint64), 64, None
        )
        with pytest.raises(CorruptionError, match="ends inside a text"):
            replayed.replay(cell[:-1])


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
    whole = buffer_of(postings, texts_of(1, 900))
    asked = np.unique(postings >> np.uint64(24))
    errors = 0
    for _ in range(400):
        damaged = whole.copy()
        at = rng.integers(5400, len(whole) - 70, 3)
        damaged[at] = rng.integers(0, 256, 3)
        run = Run(damaged)
        try:
            opened = [run.view()]
            find(docstore_native, [run], asked, 64)
            docstore_native.prune_slices(
                opened[0], np.arange(run.texts, dtype=np.uint64), 900, run.shape, 64, 0, 1 << run.shape.slice_bits
            )
            docstore_native.merge_slices(opened, [run.texts], tuple(run.shape), 64, 0, 1 << run.shape.slice_bits)
        except CorruptionError:
            errors += 1
    assert errors


def test_shapes_that_do_not_fit_eight_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="bits a place"):
        docstore_native.encode_slices(np.empty(0, np.uint64), 0, 25)
    with pytest.raises(InvalidArgument, match="texts"):
        next(run_parts(np.empty(0, np.uint64), np.empty((1 << 24) + 1, np.uint8)))  # type: ignore[arg-type]


@settings(max_examples=few(60), deadline=None)
@given(st.integers(0, 1 << 20), st.integers(0, 9), st.integers(0, 60))
def test_keys_of_slices_that_are_not_there_are_looked_up_alike(seed: int, slice_bits: int, count: int) -> None:
    """Few keys and many slices: most are absent, those before the first and behind the last too."""
    rng = np.random.default_rng([SEED, seed])
    texts = texts_of(seed, 9)
    keys = rng.integers(0, 1 << 40, 6, np.uint64)
    postings = np.unique(pack(rng.choice(keys, count), rng.integers(0, 9, count, np.uint64)))
    shape = Shape(slice_bits, 4)
    with mock.patch.object(runs, "shape_of", lambda *_: shape):
        buffer = buffer_of(postings, texts)
    asked = np.concatenate([keys, rng.integers(0, 1 << 40, 30, np.uint64), np.array([0, (1 << 40) - 1], np.uint64)])
    expected = {(key, int(texts[int(each) & 0xFFFFFF])) for each in postings for key in [int(each) >> 24]}
    for code in CODES:
        owner, found = find(code, [Run(buffer)], asked, 64)
        assert {(int(asked[place]), int(text)) for place, text in zip(owner, found, strict=True)} == expected
        assert every_posting(Run(buffer)).tolist() == postings.tolist()
