"""Values at hand."""

from __future__ import annotations

from docstore.tablets.held import HeldValues


def test_what_was_not_used_for_longest_goes_first() -> None:
    held = HeldValues(10)
    for name in b"abc":
        held.put((bytes((name,)), "page"), bytes((name,)) * 3)
    assert held.get((b"a", "page")) == b"aaa"
    held.put((b"d", "page"), b"dddd")
    assert held.get((b"b", "page")) is None
    assert [held.get((name, "page")) for name in (b"a", b"c", b"d")] == [b"aaa", b"ccc", b"dddd"]


def test_a_name_is_held_once_and_families_apart() -> None:
    held = HeldValues(10)
    for _ in range(5):
        held.put((b"a", "page"), b"12345")
    held.put((b"a", "text"), b"67890")
    assert (held.get((b"a", "page")), held.get((b"a", "text"))) == (b"12345", b"67890")


def test_a_value_longer_than_all_is_not_held_and_drops_nothing() -> None:
    held = HeldValues(10)
    held.put((b"a", "page"), b"12345")
    held.put((b"b", "page"), bytes(11))
    assert held.get((b"b", "page")) is None and held.get((b"a", "page")) == b"12345"
