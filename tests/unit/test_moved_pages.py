"""A page that moved: the one that stands for a cluster is where its content is now, not a URL that leads there."""

from __future__ import annotations

from pathlib import Path

import pytest

import docstore
from docstore.model.capture import decode_cluster_place
from docstore.model.keys import url_of
from docstore.sweep.job import SweepOptions, sweep

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0, DAY = 1_600_000_000_000_000, 86_400_000_000
PAGE = f"<title>P</title><main><p>{' '.join(f'word{number}' for number in range(120))}</p></main>".encode()
OTHER = PAGE.replace(b"word1", b"another")
OLD, NEW, THIRD = "https://old.example/x", "https://new.example/x", "https://third.example/x"


def put(store: docstore.DocumentStore, url: str, day: int, body: bytes = PAGE) -> None:
    store.put_page(url, body, headers=HTML, fetched_at=T0 + day * DAY)


def redirect(store: docstore.DocumentStore, url: str, day: int, to: str, status: int) -> None:
    store.put_page(url, b"", status=status, headers=(("Location", to),), fetched_at=T0 + day * DAY)


def canonical_of(store: docstore.DocumentStore, url: str) -> str:
    sweep(store, SweepOptions(threshold=0.8, pairs=None))
    row = store.cells.read_row(url, docstore.ReadSpec(("dedup",), b"canonical", versions=1))
    return url_of(decode_cluster_place(row.cells[0].value).row_key) if row and row.cells else url


@pytest.fixture
def store(tmp_path: Path) -> docstore.DocumentStore:
    with docstore.open(tmp_path / "store", create=True, durability="none") as made:
        yield made  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "status", "moves"),
    [
        ("http://a.example/x", "https://a.example/x", 301, True),
        ("https://a.example/x", "https://www.a.example/x", 301, True),
        ("https://www.a.example/x", "https://a.example/x", 302, True),
        ("https://m.a.example/x", "https://www.a.example/x", 303, True),
        ("https://a.example/old", "https://a.example/new/longer", 307, True),
        ("https://a.example:8080/x", "https://a.example/x", 308, True),
        (OLD, NEW, 301, True),
        (OLD, NEW, 308, True),
        (OLD, NEW, 302, False),
        (OLD, NEW, 303, False),
        (OLD, NEW, 307, False),
        ("https://one.github.io/x", "https://two.github.io/x", 302, False),
        ("https://one.github.io/x", "https://two.github.io/x", 301, True),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_the_page_stands_where_it_moved(
    store: docstore.DocumentStore, old: str, new: str, status: int, moves: bool, order: int
) -> None:
    steps = [(put, old, 0), (redirect, old, 1), (put, new, 2)]
    for step, url, day in steps[::order]:
        step(store, url, day, *((new, status) if step is redirect else ()))  # type: ignore[operator]
    assert canonical_of(store, new) == (new if moves else old)


def test_a_chain_of_moves_ends_where_the_page_is(store: docstore.DocumentStore) -> None:
    put(store, OLD, 0)
    put(store, NEW, 1)
    redirect(store, OLD, 2, NEW, 301)
    redirect(store, NEW, 3, THIRD, 308)
    put(store, THIRD, 4)
    assert canonical_of(store, OLD) == canonical_of(store, THIRD) == THIRD


def test_a_login_on_the_way_ends_a_chain(store: docstore.DocumentStore) -> None:
    put(store, OLD, 0)
    put(store, NEW, 1)
    redirect(store, OLD, 2, NEW, 301)
    redirect(store, NEW, 3, THIRD, 302)
    put(store, THIRD, 4)
    assert canonical_of(store, THIRD) == NEW


def test_a_move_counts_more_than_what_the_page_once_said(store: docstore.DocumentStore) -> None:
    linked = PAGE.replace(b"<title>", b'<link rel="canonical" href="https://old.example/y"><title>')
    put(store, OLD, 0, linked)
    put(store, "https://old.example/y", 1)
    redirect(store, OLD, 2, "https://old.example/z", 301)
    redirect(store, "https://old.example/y", 2, "https://old.example/z", 301)
    put(store, "https://old.example/z", 3)
    assert canonical_of(store, OLD) == "https://old.example/z"


def test_a_move_to_another_page_or_to_none_changes_nothing(store: docstore.DocumentStore) -> None:
    put(store, OLD, 0)
    put(store, THIRD, 1)
    redirect(store, OLD, 2, NEW, 301)
    assert canonical_of(store, THIRD) == OLD
    put(store, NEW, 3, b"<title>Welcome</title><p>" + b"front page " * 90)
    assert canonical_of(store, THIRD) == OLD


def test_a_page_that_came_back_stands_again(store: docstore.DocumentStore) -> None:
    put(store, OLD, 0)
    redirect(store, OLD, 1, NEW, 301)
    put(store, NEW, 2)
    put(store, OLD, 3)
    assert canonical_of(store, NEW) == OLD


def test_a_hostile_page_gets_no_age_from_others(store: docstore.DocumentStore) -> None:
    put(store, OLD, 0)
    put(store, NEW, 1)
    redirect(store, "https://spam.example/", 2, NEW, 301)
    assert canonical_of(store, OLD) == OLD
