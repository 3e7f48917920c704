"""Captures that were rejected: what the versions behind them are, and how they come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import page, words

import docstore
from docstore import Policy, Previous, VerdictKind

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
SECOND = 1_000_000
A, B, C = (f"https://h.example/{name}" for name in "abc")
REJECT = {VerdictKind.EXACT: Policy.REJECT}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[docstore.DocumentStore]:
    with docstore.open(tmp_path / "store", create=True, durability="none") as opened:
        yield opened


def put(
    store: docstore.DocumentStore, url: str, body: bytes, second: int, policies: dict[VerdictKind, Policy] = REJECT
) -> docstore.PutResult:
    return store.put_page(url, body, headers=HTML, fetched_at=T0 + second * SECOND, policies=policies)


@pytest.mark.parametrize("rejected", [0, 1, 2, 3])
def test_the_version_before_is_found_behind_rejected_captures(store: docstore.DocumentStore, rejected: int) -> None:
    own = page(words(0, 80))
    put(store, A, own, 0)
    for number in range(rejected):
        other = page(words(number + 1, 80))
        put(store, B, other, 10 + 2 * number)
        assert put(store, A, other, 11 + 2 * number).stored == "rejected"
    again = put(store, A, own, 90)
    assert (again.previous, again.previous_similarity, again.stored) == (Previous.SAME_BYTES, 1.0, "confirmed")


def test_a_rejected_capture_is_known_only_while_it_would_be_rejected_again(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    assert put(store, B, body, 1).stored == "rejected"
    assert put(store, B, body, 1).stored == "known"
    store.delete(A)
    again = put(store, B, body, 1)
    assert (again.verdict.kind, again.stored, again.timestamp) == (VerdictKind.NEW, "body", T0 + SECOND)
    found = store.get(B)
    assert found is not None and found.body == body
    assert found.text is not None and found.text.split() == words(1, 80)
    assert list(store.rejected()) == []
    assert put(store, C, body, 2).verdict.of_url == B


def test_a_rejected_capture_names_the_page_that_is_left(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, C, body, 1, {})
    put(store, B, body, 2)
    store.delete(A)
    again = put(store, B, body, 2)
    assert (again.stored, again.verdict.of_url) == ("rejected", C)
    assert [(url, verdict.of_url) for url, _, verdict in store.rejected()] == [(B, C)]


def test_a_rejected_capture_is_stored_under_another_policy(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, body, 1)
    assert put(store, B, body, 1, {}).stored == "body"
    assert put(store, B, body, 1, {}).stored == "known"
