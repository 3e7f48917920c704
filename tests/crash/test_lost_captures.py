"""Power loss at `flush`: a capture is dropped whole or not at all, and is listed until somebody acknowledges it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli_case import Terminal
from faulty_files import SimulatedCrash
from pages import changed, page, words
from stores import contents

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.model.choices import Durability
from docstore.model.types import RowMutations
from docstore.reports.check import check
from docstore.storage.bases import value_name
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets import layout
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.losses import ACKNOWLEDGE
from docstore.tablets.record import decode_ref

HTML = (("content-type", "text/html"),)
LONG = (*HTML, ("X-Long", "h" * 700))
T0 = 1_700_000_000_000_000
URL = "https://a.example/page"
OLD, NEW = words(1, 400), words(2, 400)


def place_of(store: DocumentStore, url: str, column: tuple[str, bytes], timestamp: int) -> int:
    """Offset of the record of a cell."""
    row_key = store.cells.row_key(url)
    for cell in store.table.read_row(row_key):
        if (cell.family, cell.qualifier, cell.timestamp) == (*column, timestamp):
            ref = parse_cell_value(cell.value).ref
            assert ref is not None
            return decode_ref(ref).offset
    raise AssertionError(f"no cell {column} of {url}")


def lose_from(path: Path, offset: int) -> None:
    """What power loss does to bytes that were written and not synced."""
    segment = max((path / "segments").glob("*.seg"))
    os.truncate(segment, offset)


def copied(tmp_path: Path) -> Path:
    """The store as its writer has it now, without an orderly close."""
    shutil.copytree(tmp_path / "s", tmp_path / "lost")
    return tmp_path / "lost"


@pytest.mark.parametrize("column", [("text", b"main"), ("page", b"body")])
def test_a_capture_goes_whole_and_the_one_before_it_is_shown(tmp_path: Path, column: tuple[str, bytes]) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        store.put_page(URL, page(OLD), headers=LONG, fetched_at=T0)
        store.put_page(URL, page(NEW), headers=LONG, fetched_at=T0 + 1_000_000)
        offset = place_of(store, URL, column, T0 + 1_000_000)
        path = copied(tmp_path)
    lose_from(path, offset)
    for _ in range(2):  # the second open tells the same
        with docstore.open(path, durability="flush") as store:
            (lost,) = store.lost
            assert (lost.url, lost.timestamp) == (URL, T0 + 1_000_000)
            assert f"{column[0]}:{column[1].decode()}" in lost.column
            document = store.get(URL)
            assert document is not None
            assert (document.timestamp, document.body) == (T0, page(OLD))
            assert (document.text or "").split() == OLD
            assert dict(document.newest.headers or ())["X-Long"] == "h" * 700
            assert [one.timestamp for one in store.history(URL)] == [T0]
            assert {cell.timestamp for cell in store.table.read_row(store.cells.row_key(URL))} == {T0}
            findings = list(check(store.backend))
            assert len(findings) == 1
            assert "--acknowledge" in findings[0].remedy
    with docstore.open(path, durability="flush") as store:
        result = store.put_page(URL, page(NEW), headers=LONG, fetched_at=T0 + 1_000_000)
        assert (result.stored, result.verdict.kind) == ("body", VerdictKind.NEW)
        assert store.acknowledge_lost() == 1
        assert store.lost == ()
    with docstore.open(path) as store:
        assert store.lost == ()
        assert list(check(store.backend)) == []
        document = store.get(URL)
        assert document is not None
        assert document.body == page(NEW)
        assert (document.text or "").split() == NEW


def test_a_page_that_is_gone_is_nobodys_duplicate(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        store.put_page("https://a.example/first", page(OLD), headers=HTML, fetched_at=T0)
        store.put_page(URL, page(NEW), headers=HTML, fetched_at=T0)
        offset = place_of(store, URL, ("page", b"body"), T0)
        path = copied(tmp_path)
    lose_from(path, offset)
    near = page(changed(NEW, 5, 3))
    with docstore.open(path, durability="flush") as store:
        assert store.get(URL) is None
        assert store.similar(near) == []
        result = store.put_page("https://b.example/near", near, headers=HTML)
        assert result.verdict.kind is VerdictKind.NEW
        exact = store.put_page("https://b.example/exact", page(NEW), headers=HTML)
        assert (exact.verdict.kind, exact.verdict.of_url) == (VerdictKind.NEAR, "https://b.example/near")


@pytest.mark.parametrize("status", [200, 304])
def test_a_visit_goes_with_the_capture_that_it_confirms(tmp_path: Path, status: int) -> None:
    first, second, visit = T0, T0 + 1_000_000, T0 + 2_000_000
    body = page(NEW) if status == 200 else b""
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        store.put_page(URL, page(OLD), headers=HTML, fetched_at=first)
        store.put_page(URL, page(NEW), headers=LONG, fetched_at=second)
        assert store.put_page(URL, body, status=status, headers=HTML, fetched_at=visit).stored == "confirmed"
        offset = place_of(store, URL, ("http", b"headers"), second)
        assert offset > place_of(store, URL, ("page", b"body"), second), "or the body would be lost with it"
        assert offset > place_of(store, URL, ("text", b"main"), second)
        path = copied(tmp_path)
    lose_from(path, offset)
    with docstore.open(path, durability="flush") as store:
        document = store.get(URL)
        assert document is not None
        assert (document.timestamp, document.body) == (first, page(OLD))
        assert {(lost.timestamp, lost.column) for lost in store.lost} == {
            (second, "http:headers"),
            (visit, "http:headers"),
        }
        assert len(list(check(store.backend))) == 2, "what is lost, and no visit that confirms nothing"


def test_a_visit_that_is_lost_leaves_the_capture_that_it_confirms(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        store.put_page(URL, page(OLD), headers=HTML, fetched_at=T0)
        store.put_page(URL, page(OLD), headers=LONG, fetched_at=T0 + 1_000_000)
        offset = place_of(store, URL, ("http", b"headers"), T0 + 1_000_000)
        path = copied(tmp_path)
    lose_from(path, offset)
    with docstore.open(path, durability="flush") as store:
        document = store.get(URL)
        assert document is not None
        assert (document.timestamp, document.body) == (T0, page(OLD))
        assert {lost.timestamp for lost in store.lost} == {T0 + 1_000_000}


def test_a_delta_goes_with_its_base(tmp_path: Path) -> None:
    """The base lies behind its delta where the base's record was moved; here it is made so by cutting it out."""
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        store.put_page("https://a.example/base", page(OLD), headers=HTML, fetched_at=T0)
        offset = place_of(store, "https://a.example/base", ("page", b"body"), T0)
        store.put_page("https://a.example/delta", page(changed(OLD, 5, 3)), headers=HTML, fetched_at=T0)
        store.put_page("https://a.example/plain", page(NEW), headers=HTML, fetched_at=T0)
        assert "page:body delta" in store.codec_stats()
        path = copied(tmp_path)
    (segment,) = (path / "segments").glob("*.seg")
    raw = bytearray(segment.read_bytes())
    raw[offset + 60] ^= 1  # a block that did not reach the disk
    segment.write_bytes(raw)
    with docstore.open(path, durability="flush") as store:
        assert {lost.url for lost in store.lost} == {"https://a.example/base", "https://a.example/delta"}
        assert store.get("https://a.example/delta") is None
        plain = store.get("https://a.example/plain")
        assert plain is not None and plain.body == page(NEW)
        assert value_name(page(OLD)) not in {name for name, _ in store.backend.base_rows.scan()}
        assert len(list(check(store.backend))) == 2
        result = store.put_page("https://a.example/base", page(OLD), headers=HTML, fetched_at=T0)
        assert result.verdict.kind is VerdictKind.NEW
        store.acknowledge_lost()
        assert list(check(store.backend)) == []


def test_the_terminal_warns_until_the_loss_is_acknowledged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        store.put_page("https://a.example/first", page(OLD), headers=HTML, fetched_at=T0)
        store.put_page(URL, page(NEW), headers=HTML, fetched_at=T0)
        offset = place_of(store, URL, ("page", b"body"), T0)
        path = copied(tmp_path)
    lose_from(path, offset)
    terminal = Terminal(path, capsys)
    for _ in range(2):
        answer = terminal("get", "https://a.example/first")
        assert answer.code == 0
        assert "1 captures were dropped" in answer.err
        assert URL in answer.err
    assert terminal("check").code == 5
    answer = terminal("check", "--acknowledge")
    assert answer.code == 0
    assert URL in answer.out
    assert "1 loss acknowledged" in answer.err
    assert terminal("check").code == 0
    assert terminal("get", "https://a.example/first").err == ""


def lost_of(store: DocumentStore) -> list[tuple[object, ...]]:
    return [(lost.url, lost.timestamp, lost.column) for lost in store.lost]


class TornEngine(LevelDBEngine):
    """Applies the rows of a plan one by one, and stops behind so many."""

    left = 10**6

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        for row in rows:
            if not TornEngine.left:
                raise SimulatedCrash("stopped")
            TornEngine.left -= 1
            super().mutate_rows([row], Durability.NONE)


def test_an_open_that_drops_what_is_lost_is_stopped_behind_every_third_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refer = dict.fromkeys((VerdictKind.EXACT, VerdictKind.NEAR), Policy.REFERENCE)
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        pages = [(f"https://a.example/{n}", page(changed(words(n % 6, 300), n, n // 6))) for n in range(12)]
        pages += [(f"https://b.example/{n}", pages[n % 6][1]) for n in range(12)]  # by reference
        list(store.put_pages((Page(*one, 200, HTML, T0) for one in pages), policies=refer, threads=1))
        path = copied(tmp_path)
    lose_from(path, max((path / "segments").glob("*.seg")).stat().st_size // 2)
    shutil.copytree(path, tmp_path / "whole")
    with docstore.open(tmp_path / "whole", durability="flush") as store:
        expected = lost_of(store), contents(store)
        assert len(store.lost) > 3
    monkeypatch.setattr(layout, "LevelDBEngine", TornEngine)
    for stop_at in range(0, 1000, 3):
        shutil.copytree(path, tmp_path / "torn")
        TornEngine.left = stop_at
        try:
            layout.StoreDirectory(tmp_path / "torn").open(create=False, schema=None).close()
            break
        except SimulatedCrash:
            TornEngine.left = 10**6
        with docstore.open(tmp_path / "torn", durability="flush") as store:
            assert (lost_of(store), contents(store)) == expected, stop_at
            assert {one.remedy.split("; ")[-1] for one in check(store.backend)} == {ACKNOWLEDGE}, stop_at
        shutil.rmtree(tmp_path / "torn")
    assert stop_at > 6
