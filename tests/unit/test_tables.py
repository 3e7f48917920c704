"""Tables of texts: rows with columns of any names, and rows without URLs, whose pages are named by their ids."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.archives.entries import DamagedEntry, PageEntry, ReadOptions, TableColumns
from docstore.archives.export import WRITERS, export
from docstore.archives.ingest import IngestOptions, ingest
from docstore.archives.reader import read
from docstore.archives.selection import Selection
from docstore.model.choices import VerdictKind
from docstore.model.keys import row_key, same_site, table_url, url_of
from docstore.model.types import Policy
from tests.cli_case import Terminal
from tests.pages import words

BOOKS = TableColumns(text="content", id="doc_id", source="books")


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path / "store", capsys)


def text(number: int) -> str:
    return " ".join(words(number, 120))


def table(kind: str, rows: list[dict[str, Any]]) -> bytes:
    """Rows as JSON Lines or Parquet."""
    if kind == "jsonl":
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"doc_id": number, "content": text(number), "text": "not this"} for number in range(first, first + count)]


def save(path: Path, raw: bytes) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw)
    return str(path)


both_kinds = pytest.mark.parametrize("kind", ["jsonl", "parquet"])


@pytest.mark.parametrize("row_id", ["1", "a/b c", "é:?#%", "https://x.example/"])
def test_the_url_of_a_row_is_canonical_and_has_a_site_for_each_source(row_id: str) -> None:
    key = row_key(table_url("books", row_id))
    assert url_of(key) == table_url("books", row_id)
    assert same_site(key, row_key(table_url("books", "2")))
    assert not same_site(key, row_key(table_url("book", row_id)))
    assert not same_site(row_key("urn:isbn:1"), row_key("urn:isbn:2"))


@both_kinds
@pytest.mark.parametrize(
    ("row", "columns", "url", "body", "docno"),
    [
        ({"id": "7", "text": "x"}, TableColumns(), "urn:docstore:table:7", "x", "7"),
        ({"id": 7, "text": "x"}, TableColumns(source="s"), "urn:docstore:s:7", "x", "7"),
        ({"docno": "d", "id": "7", "text": "x"}, TableColumns(), "urn:docstore:table:d", "x", "d"),
        ({"url": "https://a.example/", "id": "7", "text": "x"}, TableColumns(), "https://a.example/", "x", "7"),
        (
            {"key": 3, "story": "x", "text": "y", "id": "7"},
            TableColumns("", "story", "key"),
            "urn:docstore:table:3",
            "x",
            "3",
        ),
        (
            {"link": "https://a.example/", "url": "https://b.example/", "text": "x"},
            TableColumns("link"),
            "https://a.example/",
            "x",
            "",
        ),
    ],
)
def test_a_row_becomes_a_page(
    kind: str, row: dict[str, Any], columns: TableColumns, url: str, body: str, docno: str
) -> None:
    (entry,) = read(io.BytesIO(table(kind, [row])), ReadOptions(columns=columns))
    assert isinstance(entry, PageEntry), entry
    assert (entry.page.url, entry.page.body.decode(), entry.page.docno) == (url, body, docno)


@both_kinds
@pytest.mark.parametrize(
    ("columns", "missing"), [(TableColumns("x"), "x"), (TableColumns("", "y"), "y"), (TableColumns(id="z"), "z")]
)
def test_a_missing_column_is_named_with_those_that_there_are(kind: str, columns: TableColumns, missing: str) -> None:
    (entry,) = read(io.BytesIO(table(kind, rows(1))), ReadOptions(columns=columns))
    assert isinstance(entry, DamagedEntry)
    assert f" {missing}; " in entry.reason and "are doc_id, content, text" in entry.reason


@both_kinds
def test_rows_without_urls_go_in_and_out_and_back(tmp_path: Path, kind: str) -> None:
    file = save(tmp_path / f"in.{kind}", table(kind, rows(20)))
    exported = tmp_path / "out.jsonl"
    with docstore.open(tmp_path / "one", create=True, durability="none") as store:
        report = ingest(store, [file], IngestOptions(columns=BOOKS))
        assert (report.pages, report.stored, report.error_count) == (20, 20, 0)
        assert ingest(store, [file], IngestOptions(columns=BOOKS)).known == 20
        found = store.get(table_url("books", "3"))
        assert found is not None and found.text == text(3)
        with exported.open("wb") as stream:
            export(store, WRITERS["jsonl"](stream, True), Selection(versions=None))
    again = io.BytesIO()
    with docstore.open(tmp_path / "two", create=True, durability="none") as store:
        assert ingest(store, [str(exported)]).pages == 20
        export(store, WRITERS["jsonl"](again, True), Selection(versions=None))
    assert again.getvalue() == exported.read_bytes()


@pytest.mark.parametrize("kind", ["warc", "wacz", "trecweb"])
def test_archives_have_rows_of_tables_too(tmp_path: Path, kind: str) -> None:
    file = save(tmp_path / "in.jsonl", table("jsonl", rows(3)))
    raw = io.BytesIO()
    with docstore.open(tmp_path / "one", create=True, durability="none") as store:
        ingest(store, [file], IngestOptions(columns=BOOKS))
        export(store, WRITERS[kind](raw, True))
    with docstore.open(tmp_path / "two", create=True, durability="none") as store:
        assert ingest(store, [save(tmp_path / "out", raw.getvalue())]).pages == 3
        assert sorted(store.urls()) == [table_url("books", str(number)) for number in range(3)]


@both_kinds
@pytest.mark.parametrize("reader", [False, True])
def test_another_file_with_another_text_for_an_id_is_an_error(tmp_path: Path, kind: str, reader: bool) -> None:
    first = save(tmp_path / "en" / "train", table(kind, rows(5)))
    changed = rows(5)
    changed[2]["content"] = text(99)
    second = save(tmp_path / "de" / "train", table(kind, changed))
    options = IngestOptions(columns=BOOKS, reader=reader)
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        report = ingest(store, [first, second], options)
        assert (report.pages, report.skipped) == (9, {"refused": 1})
        (error,) = report.errors
        assert error.file == second and error.url == table_url("books", "2")
        assert error.reason.startswith("en/train has another text for this id") and "--source" in error.reason
        (again,) = ingest(store, [second], options).errors
        assert again.reason == error.reason
        kept = store.get(table_url("books", "2"))
        assert kept is not None and kept.text == text(2)
        other = IngestOptions(columns=BOOKS._replace(source="magazines"), reader=reader)
        assert ingest(store, [second], other).error_count == 0


def test_a_changed_file_gives_new_versions(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        ingest(store, [save(file, table("jsonl", [{"id": 1, "text": text(1), "date": 1_600_000_000}]))])
        report = ingest(store, [save(file, table("jsonl", [{"id": 1, "text": text(2), "date": 1_700_000_000}]))])
        assert (report.error_count, report.previous["changed"]) == (0, 1)


def test_a_policy_takes_the_rows_of_a_source_as_one_site(tmp_path: Path) -> None:
    copies = [{"id": number, "text": text(5)} for number in range(3)]
    options = IngestOptions({VerdictKind.EXACT: Policy.REJECT}, columns=TableColumns(source="a"))
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        file = save(tmp_path / "a.jsonl", table("jsonl", copies))
        assert ingest(store, [file], options).rejected == 2
        other = IngestOptions(options.policies, columns=TableColumns(source="b"))
        assert ingest(store, [save(tmp_path / "b.jsonl", table("jsonl", copies))], other).rejected == 2


def test_the_command_names_columns_and_data_set(tmp_path: Path, terminal: Terminal) -> None:
    file = save(tmp_path / "train.jsonl", table("jsonl", rows(3)))
    refused = terminal("ingest", file, "--create", "--id-column", "key")
    assert refused.code == 8 and "the object has no field key; its fields are doc_id, content, text" in refused.err
    answer = terminal(
        "ingest", file, "--id-column", "doc_id", "--text-column", "content", "--source", "books", "--json"
    )
    assert (answer.code, answer.object()["stored"]) == (0, 3)
    assert terminal("get", "urn:docstore:books:1").out.strip() == text(1)
    assert terminal("ingest", file, "--source", "links").code == terminal("ingest", file, "--source", "").code == 2
