"""Runs of postings against a plain dict: building, merging, bounds and damage."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from made_runs import LIST_LIMIT, Run, index_of, joined, merged_run, named, pruned_run, run_bytes
from queries import text_under

from docstore.compiled import docstore_native
from docstore.model import format as disk
from docstore.model.errors import CorruptionError, InvalidArgument, UnsupportedFormat
from docstore.model.format import RUN_FOOTER_BYTES, RUN_KEY_BITS, RUN_TEXT_GONE
from tests.reference.postings import RunView, bound_buckets, entry_bits, mix, pack, shape_of, tag_bits

SEED = 20261120


def postings_of(keys: np.ndarray, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted postings of (key, text number) in order of arrival, at most LIST_LIMIT of a key, and the text table."""
    table, first, place = np.unique(texts, return_index=True, return_inverse=True)
    arrival = np.argsort(np.argsort(first))
    postings = np.sort(pack(mix(keys), arrival[place].astype(np.uint64)))
    return bound_buckets(postings, LIST_LIMIT), table[np.argsort(first)]


def bytes_of(keys: np.ndarray, texts: np.ndarray) -> np.ndarray:
    return run_bytes(*postings_of(keys, texts))


def build(keys: np.ndarray, texts: np.ndarray) -> Run:
    return Run(bytes_of(keys, texts))


def load(seed: int, count: int, texts: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Postings in order of arrival: each text with different keys, some keys common."""
    rng = np.random.default_rng([SEED, seed])
    numbers = rng.choice(1 << 48, texts, replace=False).astype(np.uint64)
    pool = rng.integers(0, 1 << 60, keys, dtype=np.uint64) * np.uint64(14)
    drawn = np.stack(
        [
            np.repeat(np.arange(texts), -(-count // texts))[:count],
            np.where(rng.random(count) < 0.5, rng.integers(0, keys, count), rng.zipf(1.6, count) % keys),
        ]
    )
    place, key = np.unique(drawn, axis=1)
    return pool[key], numbers[place]


def expected_of(keys: np.ndarray, texts: np.ndarray) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key, text in zip(keys.tolist(), texts.tolist(), strict=True):
        found.setdefault(key, []).append(text)
    return found


def found_in(opened: list[Run], keys: np.ndarray, limit: int = LIST_LIMIT) -> list[list[int]]:
    found = index_of(opened, limit).find(keys)
    owner, texts = np.frombuffer(found[0], np.int64), np.frombuffer(found[1], np.uint64)
    assert (np.diff(owner) >= 0).all()
    result: list[list[int]] = [[] for _ in range(len(keys))]
    for key, text in zip(owner.tolist(), texts.tolist(), strict=True):
        result[key].append(text)
    return result


@pytest.mark.parametrize("keys", [1, 700, 30_000])
def test_a_run_gives_the_first_texts_of_a_key_in_order_of_arrival(keys: int) -> None:
    named = load(1, 40_000, 300, keys)
    run = build(*named)
    expected = expected_of(*named)
    assert run.postings == sum(min(len(texts), LIST_LIMIT) for texts in expected.values())
    assert (run.keys, run.texts) == (len(expected), len(set(named[1].tolist())))
    asked = np.concatenate([np.array(list(expected), np.uint64), np.arange(500, dtype=np.uint64)])
    assert found_in([run], asked) == [expected.get(key, [])[:LIST_LIMIT] for key in asked.tolist()]
    assert found_in([run], asked[:0]) == []
    assert np.array_equal(
        RunView(run.buffer, run.layout, *run.shape).postings_between(
            0, 1 << run.shape.slice_bits, run.shape.slice_bits
        ),
        postings_of(*named)[0],
    )


@pytest.mark.parametrize("limit", [LIST_LIMIT, 5])
def test_merged_runs_equal_a_run_of_all_their_postings(limit: int) -> None:
    parts = [load(seed, 300 * seed**3, 80, 20_000) for seed in range(1, 5)]
    pieces = [build(*part) for part in parts]
    assert len({piece.shape.slice_bits for piece in pieces}) > 1
    merged = merged_run(pieces, limit)
    expected = expected_of(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    asked = np.array(list(expected), np.uint64)
    first = [texts[:limit] for texts in expected.values()]
    assert found_in([merged], asked) == first
    assert found_in(pieces, asked, limit) == first, "merged or not, a look-up gives the same"
    assert (merged.postings, merged.keys) == (sum(map(len, first)), len(first))
    assert merged.damaged_parts() == []


@pytest.mark.parametrize("limit", [4, LIST_LIMIT])
@pytest.mark.parametrize("left", [0, 1, 30, 60, 100])
def test_a_pruned_run_lacks_removed_texts_and_full_buckets_stay_full(limit: int, left: int) -> None:
    keys, texts = load(left, 3000, 100, 200)
    postings, table = postings_of(keys, texts)
    run = Run(run_bytes(bound_buckets(postings, limit), table))
    every = np.unique(keys)
    before = found_in([run], every)
    live = np.sort(table[:: max(1, 100 // left)][:left]) if left else table[:0]
    alive = set(live.tolist())
    for _ in range(2):  # a second time changes nothing
        run = pruned_run(run, live, limit)
        assert not run.damaged_parts()
        assert run.texts == len(live) + min(limit, 100 - len(live))
        stay = [[text for text in texts if text in alive] for texts in before]
        gone = [RUN_TEXT_GONE] * limit
        expected = [(its + gone)[:limit] if len(was) >= limit else its for was, its in zip(before, stay, strict=True)]
        assert found_in([run], every) == expected
    assert sum(map(len, expected)) == run.postings


@pytest.mark.parametrize("left", [0, 3, 60])
def test_runs_that_lost_most_of_their_keys_are_merged_and_pruned_again(left: int) -> None:
    parts = [load(seed, 20_000, 200, 1 << 20) for seed in (1, 2)]
    live = np.sort(np.concatenate([np.unique(texts)[:left] for _, texts in parts]))
    runs_left = []
    for keys, texts in parts:
        runs_left.append(pruned_run(build(keys, texts), live, LIST_LIMIT))
    assert runs_left[0].shape.slice_bits > shape_of(runs_left[0].keys + runs_left[1].keys, 1).slice_bits
    merged = merged_run(runs_left, LIST_LIMIT)
    again = pruned_run(runs_left[1], live, LIST_LIMIT)
    expected = expected_of(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    roomy = {key: texts for key, texts in expected.items() if len(texts) < LIST_LIMIT}
    asked = np.array(list(roomy), np.uint64)
    alive = set(live.tolist())
    stay = [[text for text in texts if text in alive] for texts in roomy.values()]
    assert found_in([merged], asked) == found_in([runs_left[0], again], asked) == stay


def test_runs_with_the_same_keys_are_merged_with_one_of_few_keys() -> None:
    keys = np.arange(5000, dtype=np.uint64)
    pieces = [build(keys, np.full(5000, text, np.uint64)) for text in (1, 2)]
    both = merged_run(pieces, LIST_LIMIT)
    few = build(keys[:10], np.full(10, 3, np.uint64))
    assert both.shape.slice_bits > shape_of(both.keys + few.keys, 3).slice_bits
    merged = merged_run([both, few], LIST_LIMIT)
    assert found_in([merged], keys) == [[1, 2, 3]] * 10 + [[1, 2]] * 4990


def test_a_run_of_texts_without_keys_is_a_run() -> None:
    nothing = np.empty(0, np.uint64)
    texts = np.array([1 << 47, 5], np.uint64)
    run = Run(run_bytes(nothing, texts))
    assert (run.postings, run.text_numbers().tolist()) == (0, texts.tolist())
    merged = merged_run([run, run], 64)
    assert merged.text_numbers().tolist() == texts.tolist() * 2


def test_sources_that_a_merged_run_covers_are_not_opened() -> None:
    """A crash may leave them beside it."""
    pieces = [build(*load(seed, 500, 20, 100)) for seed in (1, 2, 3)]
    index = docstore_native.Runs(LIST_LIMIT)
    assert index.open(0, 2, named(merged_run(pieces[:2], LIST_LIMIT).buffer, 0, 2))
    names = [(number, number + 1) for number in range(3)]
    assert [index.open(*name, named(pieces[name[0]].buffer, *name)) for name in names] == [False, False, True]


def test_groups_out_of_order_and_runs_that_nobody_makes_are_refused() -> None:
    index = docstore_native.Runs(LIST_LIMIT)
    nothing = docstore_native.Postings().log(0, 1024)
    index.add(1, nothing)  # the commit of group 0 failed
    assert index.next == 2
    for group in (0, 1):
        with pytest.raises(InvalidArgument, match="does not follow"):
            index.add(group, nothing)
    with pytest.raises(InvalidArgument, match="is being made"):
        index.adopt(5, 9, named(bytes_of(*load(1, 500, 20, 100)), 5, 9))
    with pytest.raises(InvalidArgument, match="fan_in"):
        docstore_native.Runs(LIST_LIMIT, 16, 1 << 17, 1)


def test_a_memtable_of_few_texts_with_very_many_keys_is_full() -> None:
    index = docstore_native.Runs(LIST_LIMIT, 1000, 5000)
    for group, is_full in enumerate((False, True)):
        posted = docstore_native.Postings()
        posted.post(text_under(group, np.arange(3000, dtype=np.uint64) + np.uint64(3000 * group)))
        index.add(group, posted.log(0, 1024))
        assert index.is_full == is_full


def test_keys_of_one_text_that_agree_after_mixing_are_one_posting() -> None:
    index = docstore_native.Runs(LIST_LIMIT)
    posted = docstore_native.Postings()
    posted.post(text_under(5, np.repeat(np.uint64(7), 3)))
    index.add(0, posted.log(0, 1024))
    parts = index.flush()
    assert parts is not None and Run(joined(parts)).postings == 1


def test_the_bound_keeps_the_first_texts_of_each_key() -> None:
    postings = pack(np.array([1, 1, 1, 2, 3, 3], np.uint64), np.array([0, 1, 2, 0, 4, 5], np.uint64))
    assert bound_buckets(postings, 2).tolist() == postings[[0, 1, 3, 4, 5]].tolist()
    assert bound_buckets(postings, 9).tolist() == postings.tolist()
    assert bound_buckets(postings[[0, 0, 0, 1, 2, 2, 3]], 2).tolist() == postings[[0, 1, 3]].tolist()


def test_mixed_keys_are_even_in_their_head_and_tail_though_fingerprints_share_low_bits() -> None:
    keys = np.arange(200_000, dtype=np.uint64) * np.uint64(16)
    mixed = mix(keys)
    assert int(mixed.max()) < 1 << RUN_KEY_BITS
    for shift in (0, RUN_KEY_BITS - 8):
        counts = np.bincount((mixed >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
        assert abs(counts - 200_000 / 256).max() < 6 * (200_000 / 256) ** 0.5


def test_a_run_takes_no_more_bytes_than_promised_per_posting() -> None:
    rng = np.random.default_rng(SEED)
    postings = np.sort(pack(mix(rng.integers(0, 1 << 60, 300_000, dtype=np.uint64)), np.uint64(0)))
    postings |= rng.integers(0, 16_384, 300_000, dtype=np.uint64)
    raw = run_bytes(np.unique(postings), np.arange(16_384, dtype=np.uint64))
    # bits: 14 of place, 1, 25 of tag, 32 of fence for 9 keys
    assert len(raw) < 300_000 * 5.5 + 16_384 * 6 + 5000


def test_a_flipped_byte_in_a_part_is_named_and_no_merge_takes_it_over() -> None:
    whole = bytes_of(*load(3, 1000, 50, 400))
    raw = whole.copy()
    layout = Run(raw).layout
    assert Run(raw).damaged_parts() == []
    for name, begin, end in zip(("texts", "slices", "index"), layout, layout[1:], strict=False):
        for at in (begin, end - 1):
            damaged = Run(raw)
            index = index_of([Run(whole)])
            second = named(whole, 1, 2).copy()
            assert index.open(1, 2, read_only(second))
            raw[at] ^= 1
            second[at] ^= 1
            assert damaged.damaged_parts() == [name], "damage after the open"
            with pytest.raises(CorruptionError, match=f"the {name} of a run of postings is damaged"):
                Run(raw.copy())
            (parts,) = index.merge()
            with pytest.raises(CorruptionError, match=f"the {name} of a run of postings are damaged"):
                joined(parts)
            raw[at] ^= 1


def read_only(raw: np.ndarray) -> np.ndarray:
    """A view that cannot be written through."""
    view = raw.view()
    view.flags.writeable = False
    return view


def test_a_damaged_or_unfinished_run_is_refused() -> None:
    raw = bytes_of(*load(4, 500, 20, 100))
    for length in (0, 7, 8, 100, len(raw) - 8):
        with pytest.raises(CorruptionError, match=r"not a run|cut short|damaged"):
            Run(raw[:length])
    with pytest.raises(CorruptionError, match="cut short"):
        Run(np.concatenate([raw[:800], raw[808:]]))
    for at in [*range(8), *range(len(raw) - RUN_FOOTER_BYTES, len(raw))]:
        damaged = raw.copy()
        damaged[at] ^= 4
        with pytest.raises(CorruptionError):
            Run(damaged)


def test_a_run_of_another_format_is_not_reported_as_damaged() -> None:
    raw = bytes_of(*load(4, 500, 20, 100)).copy()
    foot = raw[-RUN_FOOTER_BYTES:]
    foot[8] = 9
    raw = named(raw, 0, 1)
    with pytest.raises(UnsupportedFormat, match="format 9"):
        Run(raw)


def test_large_runs_have_entries_that_eight_bytes_hold() -> None:
    for keys in (0, 1, 5000, 1 << 20, 1 << 28, 1 << 33):
        for texts in (1, 2048, 1 << 24):
            shape = shape_of(keys, texts)
            assert entry_bits(shape) <= 57 and tag_bits(shape) > 7


def test_the_bytes_of_a_run_are_pinned() -> None:
    """Another sum means another layout: raise RUN_FORMAT_VERSION and describe it in docs/format.md."""
    raw = bytes_of(*load(5, 20_000, 100, 9000)).tobytes()
    assert (disk.RUN_FORMAT_VERSION, len(raw), crc32(raw)) == (3, 40656, 4092199037)
