"""Caches that are bounded."""

from __future__ import annotations

import random

from docstore.storage.cache import LruCache


def test_the_least_recently_used_goes_first() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    for name in "abc":
        cache.put(name, name.encode() * 3)
    assert cache.get("a") == b"aaa"
    cache.put("d", b"dddd")
    assert cache.get("b") is None
    assert [cache.get(name) for name in "acd"] == [b"aaa", b"ccc", b"dddd"]


def test_a_key_is_cached_once() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    for _ in range(5):
        cache.put("a", b"12345")
    cache.put("b", b"67890")
    assert (cache.get("a"), cache.get("b"), len(cache)) == (b"12345", b"67890", 2)


def test_a_value_above_the_capacity_is_not_cached_and_evicts_no_other() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    cache.put("a", b"12345")
    cache.put("b", bytes(11))
    assert cache.get("b") is None and cache.get("a") == b"12345"


def test_without_costs_values_are_counted() -> None:
    cache: LruCache[int, str] = LruCache(2)
    for number in range(3):
        cache.put(number, "x")
    assert (0 in cache, 1 in cache, 2 in cache) == (False, True, True)


def test_a_dropped_value_frees_its_capacity() -> None:
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


def test_the_cache_is_bounded_by_cost_and_evicts_the_least_recently_used() -> None:
    rng = random.Random(20261122)
    cache: LruCache[int, list[int]] = LruCache(500, lambda found: len(found) + 1)
    model: dict[int, list[int]] = {}
    for turn in range(5000):
        key = rng.randrange(300)
        if rng.randrange(5):
            model[key] = [turn] * rng.choice((0, 1, 1, 1, 64))
            cache.put(key, model[key])
        else:
            cache.drop(key)
            model.pop(key, None)
        missing = {key for key in model if key not in cache}
        held = {key: found for key in model if (found := cache.get(key)) is not None}
        assert all(found is model[key] for key, found in held.items())
        assert sum(len(found) + 1 for found in held.values()) <= 500
        assert missing == model.keys() - held.keys()
        assert len(cache) == len(held)
    cache.clear()
    assert len(cache) == 0
