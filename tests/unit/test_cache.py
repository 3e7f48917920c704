"""Caches that are bounded."""

from __future__ import annotations

import random

from docstore.storage.cache import LruCache, SequenceCache


def test_the_least_recently_used_goes_first() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    for name in "abc":
        cache.put(name, name.encode() * 3)
    assert cache.get("a") == b"aaa"
    cache.put("d", b"dddd")
    assert cache.get("b") is None
    assert [cache.get(name) for name in "acd"] == [b"aaa", b"ccc", b"dddd"]


def test_a_key_is_held_once() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    for _ in range(5):
        cache.put("a", b"12345")
    cache.put("b", b"67890")
    assert (cache.get("a"), cache.get("b"), len(cache)) == (b"12345", b"67890", 2)


def test_a_value_that_costs_more_than_all_is_not_held_and_drops_no_other() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    cache.put("a", b"12345")
    cache.put("b", bytes(11))
    assert cache.get("b") is None and cache.get("a") == b"12345"


def test_without_costs_values_are_counted() -> None:
    cache: LruCache[int, str] = LruCache(2)
    for number in range(3):
        cache.put(number, "x")
    assert (0 in cache, 1 in cache, 2 in cache) == (False, True, True)


def test_what_is_dropped_gives_its_room_back() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    cache.put("a", bytes(10))
    cache.drop("a")
    cache.drop("a")
    cache.put("b", bytes(6))
    cache.put("c", bytes(4))
    assert "b" in cache and "c" in cache
    cache.clear()
    cache.put("d", bytes(10))
    assert len(cache) == 1


def test_sequences_are_bounded_by_their_items_and_the_oldest_go() -> None:
    rng = random.Random(20261122)
    cache: SequenceCache[int, list[int]] = SequenceCache(500)
    model: dict[int, list[int]] = {}
    for turn in range(5000):
        key = rng.randrange(300)
        if rng.randrange(5):
            model[key] = [turn] * rng.choice((0, 1, 1, 1, 64))
            cache.put(key, model[key])
        else:
            popped = cache.pop(key)
            assert popped is None or popped is model[key]
            model.pop(key, None)
        held = {key: found for key in model if (found := cache.get(key)) is not None}
        assert all(found is model[key] for key, found in held.items())
        assert cache.used == sum(len(found) + 1 for found in held.values()) <= 500
        assert set(cache.missing(model)) == model.keys() - held.keys()
        assert len(cache) == len(held)
    assert cache.get(key) is not None or key not in model
    cache.clear()
    assert (len(cache), cache.used) == (0, 0)


def test_a_sequence_that_is_put_is_held_while_older_ones_are_there() -> None:
    cache: SequenceCache[int, list[int]] = SequenceCache(20)
    for number in range(100):
        cache.put(number, [number])
        assert cache.get(number) == [number]
    assert cache.get(0) is None
    assert 10 >= len(cache) >= 8
