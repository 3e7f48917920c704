"""What compaction counts of rows in native code is what the rules in Python say of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from pages import page, words

import docstore
from docstore import Page
from docstore.model.choices import Durability
from docstore.model.format import CAPTURE_FAMILY
from docstore.model.types import Cell, ColumnFamily, DeleteCells, GCPolicy, Mutation, RowMutations, Schema, SetCell
from docstore.notes.annotate import Note
from docstore.store import DocumentStore
from docstore.tablets.compaction import segments

T0 = 1_700_000_000_000_000
LATER = T0 + 1_000_000
ROW = "https://h1.example/1"
HTML = (("content-type", "text/html"),)
FAMILIES = (
    ColumnFamily("counted", GCPolicy(max_versions=1)),
    ColumnFamily("aging", GCPolicy(max_age_seconds=60)),
    ColumnFamily("plain"),
)
LONG = " ".join(words(9, 400)).encode()


def filled(folder: Path, **policies: GCPolicy) -> DocumentStore:
    """Pages that are crawled twice, some changed, some with the body of another page, all with cells of users."""
    store = docstore.open(folder, create=True, schema=Schema(families=FAMILIES, **policies))
    bodies = [page(words(number % 7, 400)) for number in range(20)]
    made = [Page(f"https://h{number % 3}.example/{number}", body, 200, HTML, T0) for number, body in enumerate(bodies)]
    list(store.put_pages(made, anchors=True))
    again = [one._replace(body=one.body + b"!" * (number % 2), fetched_at=LATER) for number, one in enumerate(made)]
    list(store.put_pages(again))
    for family in ("counted", "plain"):
        store.cells.apply(ROW, [SetCell(family, b"long", T0, LONG), SetCell(family, b"long", LATER, LONG + b"!")])
    store.cells.put_notes([Note(one.url, T0, "lang", b"en") for one in made[::2]])
    return store


def counts(store: DocumentStore, *, one_by_one: bool) -> Sequence[object]:
    """What a survey of all rows has found, with native code or without."""
    names = dict(store.backend.base_rows.scan())
    found = segments.surveyor(names.values(), store.table)
    values_of = partial(segments.live_values, store.table)
    segments.survey(found, store.backend.engine, values_of, collects=one_by_one or store.table.collects)
    lists = sorted(found.unused_bases()), sorted(found.shared_bases())
    return found.segments(), found.rows, found.values, found.raw_bytes, found.body_bytes, *lists


def change(store: DocumentStore, *mutations: Mutation) -> None:
    row_key = store.cells.row_key(ROW)
    store.backend.engine.mutate_rows([RowMutations("pages", row_key, list(mutations))], Durability.NONE)


def test_plain_rows_are_counted_as_the_policies_say(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        found = counts(store, one_by_one=False)
        assert found == counts(store, one_by_one=True)
        assert found[0] and found[1] == 20
        store.compact()
        assert counts(store, one_by_one=False) == counts(store, one_by_one=True)


@pytest.mark.parametrize("policy", ["captures", "bodies"])
def test_captures_and_bodies_that_a_policy_hides_are_not_counted(tmp_path: Path, policy: str) -> None:
    with filled(tmp_path / "s") as all_of_it, filled(tmp_path / "t", **{policy: GCPolicy(max_versions=1)}) as store:
        assert counts(store, one_by_one=False)[4] < counts(all_of_it, one_by_one=False)[4]  # type: ignore[operator]


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param([Cell(CAPTURE_FAMILY, b"", T0 + 1, b"\x00\x01")], id="a damaged record"),
        pytest.param(
            [Cell("dedup", b"cluster", T0 + 1, b"\x00of no capture")], id="a column that outlived its capture"
        ),
        pytest.param([Cell("aging", b"", T0, b"\x00old")], id="a cell that is too old"),
        pytest.param([Cell("page", b"body", T0, b"\x00a body of its own")], id="a body as a cell"),
    ],
)
def test_an_odd_row_is_counted_as_the_policies_say(tmp_path: Path, cells: list[Cell]) -> None:
    with filled(tmp_path / "s") as store:
        change(store, *(SetCell(*cell) for cell in cells))
        assert counts(store, one_by_one=False) == counts(store, one_by_one=True)


def test_a_version_that_a_policy_hides_is_not_counted(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        before = counts(store, one_by_one=False)
        change(store, DeleteCells("counted", b"long", T0, T0 + 1))
        assert counts(store, one_by_one=False) == before
        change(store, DeleteCells("counted", b"long", LATER, LATER + 1))
        assert counts(store, one_by_one=False) != before
