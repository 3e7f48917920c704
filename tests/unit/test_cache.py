"""The LRU cache."""

from __future__ import annotations

from docstore.storage.cache import LruCache


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
