"""Native code and the readable reference pack, merge and look up the same postings, bit for bit.

The reference defines every result; `tests/unit/test_runs.py` holds it to a plain dict.  Skipped where native code is
not built.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore import compiled
from docstore.dedup import runs
from docstore.dedup.kernel import Packing
from docstore.dedup.runs import Run, merged_parts, pruned_parts, run_parts
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.reference.postings import (
    LIST_LIMIT,
    RunView,
    Shape,
    bound_buckets,
    key_bytes,
    key_count,
    keys_of_bytes,
    mix,
    pack,
)

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason=f"no native code: {compiled.WHY_NOT}")

SEED = 20261121


def kernels() -> tuple[Packing, Packing]:
    return Packing("reference"), Packing("native")


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
    view = RunView(run.buffer, run.layout, *run.shape)
    return view.postings_between(0, 1 << run.shape.slice_bits, run.shape.slice_bits)


def buffer_of(kernel: Packing, postings: np.ndarray, texts: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"".join(run_parts(kernel, postings, texts)), np.uint8)


drawn = st.tuples(
    st.integers(0, 1 << 20), st.integers(0, 4000), st.integers(1, 1 << 24), st.sampled_from([1, 4, 12, 30])
)


@settings(max_examples=60, deadline=None)
@given(drawn, st.integers(0, 8))
def test_slices_have_the_same_bytes(options: tuple[int, int, int, int], slice_bits: int) -> None:
    reference, native = kernels()
    postings = drawn_postings(*options)
    shape = Shape(slice_bits, (options[2] - 1).bit_length())
    expected, found = reference.encode(postings, shape), native.encode(postings, shape)
    assert found[0] == expected[0]
    assert found[1].tolist() == expected[1].tolist()
    assert found[2:] == expected[2:] == (key_count(postings), len(postings))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(drawn, st.integers(1, 3000), st.booleans()), min_size=1, max_size=4), st.integers(1, 64))
def test_merges_and_look_ups_are_the_same(
    options: list[tuple[tuple[int, int, int, int], int, bool]], limit: int
) -> None:
    reference, native = kernels()
    buffers = []
    for (seed, count, _, spread), texts, is_pruned in options:
        buffer = buffer_of(native, drawn_postings(seed, count, texts, spread), texts_of(seed, texts))
        if is_pruned:  # of nearly all texts, so it is cut into more slices than its keys ask for
            live = np.sort(texts_of(seed, texts)[: texts // 20])
            parts = pruned_parts(native, Run(buffer), live, LIST_LIMIT - 1)
            buffer = np.frombuffer(b"".join(parts), np.uint8)
        buffers.append(buffer)
    runs_of = [Run(buffer) for buffer in buffers]
    opened = [[run.view(kernel) for run in runs_of] for kernel in kernels()]
    merged = [b"".join(merged_parts(kernel, runs_of, limit)) for kernel in kernels()]
    assert merged[0] == merged[1]
    assert Run(np.frombuffer(merged[0], np.uint8)).damaged_parts() == []

    held = np.concatenate([every_posting(run) for run in runs_of])
    asked = np.concatenate([np.unique(held >> np.uint64(24))[:500], np.arange(40, dtype=np.uint64) << np.uint64(20)])
    tables = reference.recent(), native.recent()
    rng = np.random.default_rng([SEED, len(held)])
    for text in range(30):
        keys = np.unique(rng.choice(asked, min(len(asked), 7)))
        for table in tables:
            table.post(text, key_bytes(keys))
    assert len(tables[0]) == len(tables[1]) == 30 and tables[0].postings == tables[1].postings
    expected = reference.find(opened[0], [tables[0]], asked, limit)
    found = native.find(opened[1], [tables[1]], asked, limit)
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    before, after = (np.sort(np.frombuffer(table.packed(), np.uint64)) for table in tables)
    assert before.tolist() == after.tolist() and tables[0].texts() == tables[1].texts()


def test_no_key_and_no_run_are_answered_with_nothing() -> None:
    nothing = np.empty(0, np.uint64)
    for kernel in kernels():
        for keys in (nothing, np.array([5], np.uint64)):
            owner, texts = kernel.find([], [kernel.recent()], keys, 64)
            assert (len(owner), len(texts)) == (0, 0)
        assert kernel.mix(nothing).tolist() == []
    keys = np.random.default_rng(SEED).integers(0, 1 << 63, 100, dtype=np.uint64)
    assert kernels()[0].mix(keys).tolist() == kernels()[1].mix(keys).tolist()
    logged = [kernel.log_keys(keys) for kernel in kernels()]
    assert logged[0] == logged[1]
    assert keys_of_bytes(logged[0]).tolist() == kernel.mix(keys).tolist()
    with pytest.raises(ValueError, match="no keys"):
        kernels()[1].recent().post(1, logged[1][:-1])


def test_a_damaged_run_gives_an_error_or_an_answer_and_never_a_crash() -> None:
    rng = np.random.default_rng([SEED, 7])
    postings = drawn_postings(1, 4000, 900, 12)
    whole = buffer_of(kernels()[0], postings, texts_of(1, 900))
    asked = np.unique(postings >> np.uint64(24))
    errors = 0
    for _ in range(400):
        damaged = whole.copy()
        at = rng.integers(5400, len(whole) - 70, 3)
        damaged[at] = rng.integers(0, 256, 3)
        native = Packing("native")
        run = Run(damaged)
        opened = [run.view(native)]
        try:
            native.find(opened, [native.recent()], asked, 64)
            native.merge(opened, [run.texts], run.shape, 64, 0, 1 << run.shape.slice_bits)
        except CorruptionError:
            errors += 1
    assert errors


def test_shapes_that_do_not_fit_eight_bytes_are_refused() -> None:
    native = Packing("native")
    with pytest.raises(ValueError, match="bits a place"):
        native.encode(np.empty(0, np.uint64), Shape(0, 25))
    with pytest.raises(InvalidArgument, match="texts"):
        next(run_parts(native, np.empty(0, np.uint64), np.empty((1 << 24) + 1, np.uint8)))  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 20), st.integers(0, 9), st.integers(0, 60))
def test_keys_of_slices_that_are_not_there_are_looked_up_alike(seed: int, slice_bits: int, count: int) -> None:
    """Few keys and many slices: most are absent, those before the first and behind the last too."""
    rng = np.random.default_rng([SEED, seed])
    texts = texts_of(seed, 9)
    keys = rng.integers(0, 1 << 40, 6, np.uint64)
    postings = np.unique(pack(rng.choice(keys, count), rng.integers(0, 9, count, np.uint64)))
    shape = Shape(slice_bits, 4)
    with mock.patch.object(runs, "shape_of", lambda *_: shape):
        buffer = buffer_of(kernels()[0], postings, texts)
    asked = np.concatenate([keys, rng.integers(0, 1 << 40, 30, np.uint64), np.array([0, (1 << 40) - 1], np.uint64)])
    expected = {(key, int(texts[int(each) & 0xFFFFFF])) for each in postings for key in [int(each) >> 24]}
    for kernel in kernels():
        owner, found = kernel.find([Run(buffer).view(kernel)], [kernel.recent()], asked, 64)
        assert {(int(asked[place]), int(text)) for place, text in zip(owner, found, strict=True)} == expected
        assert every_posting(Run(buffer)).tolist() == postings.tolist()
