"""The levels of runs against a plain dict: look-ups, bounds, merging in slices, and what a crash leaves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from docstore.dedup.levels import RunLevels, Span
from docstore.errors import CorruptionError, InvalidArgument

SEED = 20261120


class HeapStorage:
    """Runs in memory that outlive the `RunLevels` over them; keeps an account of what was asked."""

    def __init__(self) -> None:
        self.runs: dict[Span, NDArray[np.uint8]] = {}
        self.removed: list[Span] = []

    def names(self) -> list[Span]:
        return list(self.runs)

    def create(self, name: Span, size_bytes: int) -> NDArray[np.uint8]:
        self.runs[name] = np.zeros(size_bytes, np.uint8)
        return self.runs[name]

    def seal(self, name: Span) -> NDArray[np.uint8]:
        return self.runs[name]

    def open(self, name: Span) -> NDArray[np.uint8]:
        return self.runs[name]

    def remove(self, name: Span) -> None:
        self.removed.append(name)
        del self.runs[name]

    def settle(self) -> None:
        pass


Load = list[list[tuple[int, NDArray[np.uint64]]]]


def load(groups: int, seed: int = 0) -> Load:
    """Groups of texts with their keys: most keys fresh, some common to many texts."""
    rng = np.random.default_rng([SEED, seed])
    result: Load = []
    for _ in range(groups):
        group = []
        for _ in range(int(rng.integers(0, 8))):
            fresh = rng.integers(0, 1 << 62, 12, dtype=np.uint64)
            common = rng.choice(40, 5, replace=False).astype(np.uint64) * np.uint64(14)
            group.append((int(rng.integers(0, 1 << 48)), np.concatenate([fresh, common])))
        result.append(group)
    return result


def play(levels: RunLevels, groups: Load, first: int = 0) -> None:
    for number, group in enumerate(groups, start=first):
        for text, keys in group:
            levels.post(text, keys)
        levels.end_group(number)


def expected_of(groups: Load) -> dict[int, list[int]]:
    expected: dict[int, list[int]] = {}
    for group in groups:
        for text, keys in group:
            for key in keys.tolist():
                expected.setdefault(key, []).append(text)
    return expected


def found_in(levels: RunLevels, keys: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {key: [] for key in keys}
    owner, texts = levels.find(np.array(keys, np.uint64))
    for place, text in zip(owner.tolist(), texts.tolist(), strict=True):
        found[keys[place]].append(text)
    return found


def small(storage: HeapStorage, **options: float) -> RunLevels:
    return RunLevels(storage, flush_texts=16, **{"fan_in": 3, "bucket_limit": 1 << 20, "bits_per_key": 4.0, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("bits_per_key", [0, 4])
def test_look_ups_give_every_text_in_order_of_arrival_while_runs_merge(bits_per_key: float) -> None:
    groups = load(300)
    storage = HeapStorage()
    levels = small(storage, bits_per_key=bits_per_key)
    most = 0
    for number in range(0, len(groups), 20):
        play(levels, groups[number : number + 20], first=number)
        most = max(most, levels.run_count)
        expected = expected_of(groups[: number + 20])
        absent = [key + 1 for key in expected]
        assert found_in(levels, list(expected)) == expected
        assert not any(found_in(levels, absent).values())
    assert levels.run_count < 20 < len({name.first for name in storage.removed})
    assert (levels.memory_bytes > 0) is (bits_per_key > 0)
    assert levels.storage_bytes > 0


def test_a_rebuild_in_large_groups_gives_what_posting_one_by_one_gives() -> None:
    groups = load(120, seed=8)
    levels = small(HeapStorage())
    play(levels, groups[:40])
    rest = [entry for group in groups[40:] for entry in group]
    for number, begin in enumerate(range(0, len(rest), 50), start=40):
        part = rest[begin : begin + 50]
        counts = np.array([len(keys) for _, keys in part])
        levels.load(
            number, np.array([text for text, _ in part], np.uint64), np.concatenate([k for _, k in part]), counts
        )
    expected = expected_of(groups)
    assert found_in(levels, list(expected)) == expected


def test_a_posted_text_is_seen_before_its_group_ends() -> None:
    levels = small(HeapStorage())
    levels.post(77, np.array([5, 6], np.uint64))
    assert found_in(levels, [5, 7]) == {5: [77], 7: []}
    assert levels.find_stored(np.array([5], np.uint64))[1].tolist() == []


def test_a_bucket_keeps_its_first_texts_and_the_bound_holds_across_runs() -> None:
    groups = load(200, seed=1)
    levels = small(HeapStorage(), bucket_limit=4)
    play(levels, groups)
    levels.flush()
    expected = expected_of(groups)
    owner, _ = levels.find(np.array(list(expected), np.uint64))
    assert np.bincount(owner).max() < 8
    found = found_in(levels, list(expected))
    assert all(found[key][:4] == texts[:4] for key, texts in expected.items())


def test_opening_again_needs_only_the_groups_behind_the_last_run() -> None:
    groups = load(120, seed=2)
    storage = HeapStorage()
    first = small(storage)
    play(first, groups)
    assert 0 < first.end < 120
    again = small(storage)
    assert again.end == first.end
    play(again, groups[again.end :], first=again.end)
    expected = expected_of(groups)
    assert found_in(again, list(expected)) == expected


def test_a_crash_in_the_middle_of_a_merge_leaves_the_sources_in_force() -> None:
    groups = load(150, seed=3)
    expected = expected_of(groups)
    seen = 0
    for stop in range(20, 150, 5):
        storage = HeapStorage()
        play(small(storage), groups[:stop])
        unfinished = [name for name, buffer in storage.runs.items() if not buffer[:8].any()]
        seen += len(unfinished)
        again = small(storage)
        play(again, groups[again.end :], first=again.end)
        assert found_in(again, list(expected)) == expected
    assert seen


def test_a_crash_before_the_sources_went_leaves_one_run_in_force() -> None:
    class KeepsAll(HeapStorage):
        def remove(self, name: Span) -> None:
            self.removed.append(name)

    groups = load(150, seed=4)
    storage = KeepsAll()
    play(small(storage), groups)
    kept = HeapStorage()
    kept.runs = dict(storage.runs)
    again = small(kept)
    assert len(kept.removed) >= len(storage.removed) > 0
    play(again, groups[again.end :], first=again.end)
    expected = expected_of(groups)
    assert found_in(again, list(expected)) == expected


def test_a_checkpoint_of_the_filter_may_be_older_than_the_runs() -> None:
    groups = load(150, seed=5)
    storage = HeapStorage()
    levels = small(storage)
    play(levels, groups[:60])
    checkpoint = levels.checkpoint()
    play(levels, groups[60:], first=60)
    again = small(storage, checkpoint=checkpoint)  # type: ignore[arg-type]
    play(again, groups[again.end :], first=again.end)
    expected = expected_of(groups)
    assert found_in(again, list(expected)) == expected
    assert small(HeapStorage(), bits_per_key=0).checkpoint() is None


def test_a_missing_or_damaged_run_is_named_not_passed_over() -> None:
    storage = HeapStorage()
    play(small(storage, fan_in=100), load(100, seed=6))
    names = sorted(storage.runs)
    assert len(names) > 3
    lost = storage.runs.pop(names[1])
    with pytest.raises(CorruptionError, match="missing"):
        small(storage)
    storage.runs[names[1]] = lost.copy()
    storage.runs[names[1]][20] ^= 1
    with pytest.raises(CorruptionError, match="damaged"):
        small(storage)


def test_few_texts_with_very_many_keys_become_a_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.dedup.levels.FLUSH_POSTINGS", 5000)
    levels = RunLevels(HeapStorage(), flush_texts=1000)
    for group in range(4):
        levels.post(group, np.arange(3000, dtype=np.uint64) + np.uint64(3000 * group))
        levels.end_group(group)
    assert (levels.run_count, levels.end) == (2, 4)
    owner, texts = levels.find(np.array([1, 11_999], np.uint64))
    assert (owner.tolist(), texts.tolist()) == ([0, 1], [0, 3])


def test_groups_out_of_order_and_flushes_inside_a_group_are_refused() -> None:
    levels = small(HeapStorage())
    with pytest.raises(InvalidArgument, match="does not follow"):
        levels.end_group(1)
    levels.end_group(0)
    with pytest.raises(InvalidArgument, match="does not follow"):
        levels.end_group(0)
    levels.post(1, np.array([1], np.uint64))
    with pytest.raises(InvalidArgument, match="under way"):
        levels.flush()
    with pytest.raises(InvalidArgument, match="fan_in"):
        small(HeapStorage(), fan_in=1)


def test_a_level_merges_before_it_is_full_again_so_runs_stay_few() -> None:
    levels = small(HeapStorage())
    most = 0
    for number, group in enumerate(load(900, seed=7)):
        play(levels, [group], first=number)
        most = max(most, levels.run_count)
    assert most <= 3 * 5  # 900 groups of 3.5 texts fill 5 levels of fan-in 3
