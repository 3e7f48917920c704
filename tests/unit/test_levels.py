"""The levels of runs against a plain dict: look-ups, bounds, merging in slices, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from counts import share
from made_runs import LIST_LIMIT, Levels
from numpy.typing import NDArray

from docstore.dedup.runs import Span
from docstore.model.errors import InvalidArgument

SEED = 20261120
LIMIT = LIST_LIMIT


class HeapStorage:
    """Runs in memory that outlive the `Levels` over them; merges end when `work` is called, or at once."""

    def __init__(self, lazy: bool = False) -> None:
        self.runs: dict[Span, NDArray[np.uint8]] = {}
        self.removed: list[Span] = []
        self.waiting: dict[Span, Iterator[memoryview]] = {}
        self.ready: list[Span] = []
        self.lazy = lazy

    def names(self) -> list[Span]:
        return list(self.runs)

    def write(self, name: Span, parts: Iterable[memoryview]) -> NDArray[np.uint8]:
        self.runs[name] = np.frombuffer(b"".join(parts), np.uint8)
        return self.runs[name]

    def merge(self, name: Span, parts: Iterator[memoryview], size_bytes: int) -> None:
        assert name not in self.runs and name not in self.waiting
        assert size_bytes > 0
        self.waiting[name] = parts
        if not self.lazy:
            self.finish_merges()

    def merged(self) -> list[Span]:
        names, self.ready = self.ready, []
        return names

    def open(self, name: Span) -> NDArray[np.uint8]:
        return self.runs[name]

    def remove(self, name: Span, mapped: object = None) -> None:
        self.removed.append(name)
        del self.runs[name]

    def finish_merges(self, largest_bytes: int = 1 << 63) -> None:
        for name, parts in self.waiting.items():
            self.write(name, parts)
            self.ready.append(name)
        self.waiting.clear()


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


def play(levels: Levels, groups: Load, first: int = 0) -> None:
    for number, group in enumerate(groups, start=first):
        for text, keys in group:
            levels.batch.post(text, keys)
        levels.end_group(number)


def expected_of(groups: Load, limit: int = LIMIT) -> dict[int, list[int]]:
    expected: dict[int, list[int]] = {}
    for group in groups:
        for text, keys in group:
            for key in keys.tolist():
                expected.setdefault(key, []).append(text)
    return {key: texts[:limit] for key, texts in expected.items()}


def found_in(levels: Levels, keys: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {key: [] for key in keys}
    owner, texts = levels.find(np.array(keys, np.uint64))
    for place, text in zip(owner.tolist(), texts.tolist(), strict=True):
        found[keys[place]].append(text)
    return found


def small(storage: HeapStorage, **options: int) -> Levels:
    return Levels(storage, flush_texts=16, **{"fan_in": 3, "limit": LIMIT, **options})


@pytest.mark.parametrize("every", [0, 1, 7])
def test_look_ups_give_every_text_in_order_of_arrival_whenever_merges_end(every: int) -> None:
    groups = load(share(300, 2))
    storage = HeapStorage(lazy=every > 0)
    levels = small(storage)
    most = 0
    for number in range(0, len(groups), 20):
        play(levels, groups[number : number + 20], first=number)
        if every and number // 20 % every == 0:
            storage.finish_merges()
        most = max(most, len(levels.runs.runs))
        expected = expected_of(groups[: number + 20])
        absent = [key + 1 for key in expected]
        assert found_in(levels, list(expected)) == expected
        assert not any(found_in(levels, absent).values())
    assert storage.removed
    assert len(levels.runs.runs) < (20 if every < 7 else 60)
    levels.finish_merges()
    expected = expected_of(groups)
    assert found_in(levels, list(expected)) == expected
    assert len(levels.runs.runs) == len(storage.runs) < 10


def test_a_crash_before_the_sources_are_removed_leaves_the_merged_run_valid() -> None:
    class KeepsAll(HeapStorage):
        def remove(self, name: Span, mapped: object = None) -> None:
            self.removed.append(name)

    groups = load(150, seed=4)
    storage = KeepsAll()
    play(small(storage), groups)
    kept = HeapStorage()
    kept.runs = dict(storage.runs)
    again = small(kept)
    assert len(kept.removed) >= len(storage.removed) > 0
    play(again, groups[again.runs.end :], first=again.runs.end)
    expected = expected_of(groups)
    assert found_in(again, list(expected)) == expected


def test_few_texts_with_very_many_keys_become_a_run_too() -> None:
    levels = Levels(HeapStorage(), flush_texts=1000, postings=5000)
    for group in range(4):
        levels.batch.post(group, np.arange(3000, dtype=np.uint64) + np.uint64(3000 * group))
        levels.end_group(group)
    assert (len(levels.runs.runs), levels.runs.end) == (2, 4)
    assert found_in(levels, [1, 11_999]) == {1: [0], 11_999: [3]}


def test_keys_of_one_text_that_agree_after_mixing_are_one_posting() -> None:
    levels = small(HeapStorage())
    key = np.array([7], np.uint64)
    for group in range(30):
        levels.batch.post(group, np.repeat(key, 3))
        levels.end_group(group)
    levels.flush()
    levels.finish_merges()
    assert found_in(levels, [7]) == {7: list(range(30))}


def test_groups_out_of_order_and_runs_that_nobody_makes_are_refused() -> None:
    levels = small(HeapStorage())
    levels.end_group(1)  # the commit of group 0 failed
    assert levels.runs.next == 2
    for group in (0, 1):
        with pytest.raises(InvalidArgument, match="does not follow"):
            levels.end_group(group)
    levels.flush()
    (run,) = levels.storage.names()
    with pytest.raises(InvalidArgument, match="is being made"):
        levels.runs.adopt(5, 9, levels.storage.open(run))
    with pytest.raises(InvalidArgument, match="fan_in"):
        small(HeapStorage(), fan_in=1)
