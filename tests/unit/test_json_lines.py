"""JSON Lines in: what is exported reads back, public layouts are read, and a bad line stops nothing."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_case import Terminal, article, html

import docstore
from docstore import Page
from docstore.archives.entries import DamagedEntry, PageEntry, ReadOptions, SkippedEntry
from docstore.archives.export import WRITERS, export, pages
from docstore.archives.ingest import IngestOptions, ingest
from docstore.archives.jsonlines import language_note
from docstore.archives.reader import read
from docstore.archives.selection import Selection
from docstore.model.capture import decode_note, encode_note
from docstore.model.types import Note, ReadSpec

T0 = 1_700_000_000_000_000
URL = "https://a.example/"
PLAIN = ("Content-Type", "text/plain; charset=utf-8")


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path / "other", capsys)


def lines(*records: Any) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in records)


def entries(*records: Any, options: ReadOptions = ReadOptions()) -> list[Any]:
    return list(read(io.BytesIO(lines({"url": URL, "text": "first"}, *records)), options))[1:]


@pytest.mark.parametrize(
    ("record", "page"),
    [
        (
            {"url": URL, "text": "a é", "timestamp": "2023-11-14T22:13:20Z"},
            Page(URL, "a é".encode(), 200, (PLAIN,), T0),
        ),
        (
            {"url": URL, "html": "<p>é", "date": 1_700_000_000, "headers": {"Content-Type": "text/html", "ETag": "x"}},
            Page(URL, "<p>é".encode(), 200, (("ETag", "x"), ("Content-Type", "text/html; charset=utf-8")), T0),
        ),
        (
            {"url": URL, "body_base64": "AP8=", "fetched_at": T0, "headers": [["A", "1"], ["A", "2"]], "status": 404},
            Page(URL, b"\0\xff", 404, (("A", "1"), ("A", "2")), T0),
        ),
        (
            {
                "url": "https://b.example/",
                "fetched_url": URL,
                "raw_content": "x",
                "date_download": "2023-11-14",
                "id": 7,
            },
            Page(URL, b"x", 200, (PLAIN,), 1_699_920_000_000_000, docno="7"),
        ),
        (
            {"url": URL, "text": "x", "date": 1_700_000_000_123.9, "dump": "CC", "ip": "192.0.2.1", "docno": "d"},
            Page(URL, b"x", 200, (PLAIN,), T0 + 123_000, "192.0.2.1", "", "d", "CC"),
        ),
        ({"url": URL, "status": 304, "timestamp": "2023-11-14T22:13:20"}, Page(URL, b"", 304, (), T0)),
        ({"url": URL, "text": "\ud800", "date": 0}, Page(URL, b"?", 200, (PLAIN,), 0)),
    ],
)
def test_a_line_is_a_page(record: dict[str, Any], page: Page) -> None:
    (entry,) = entries(record)
    assert isinstance(entry, PageEntry)
    assert entry.page == page


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'{"url": "https://a.example/", "text": "cut', "line 2 is no JSON"),
        (b"[1, 2]", "line 2: expected an object, found b'[1, 2]'"),
        (b"[" * 100_000, "line 2 is no JSON"),
        (b'{"url": "https://a.example/", "text": "x", "n": ' + b"9" * 5000 + b"}", "line 2 is no JSON"),
        ({"text": "x"}, "line 2: the object has neither url nor id; its fields are text"),
        ({"url": URL, "text": "x", "date": "yesterday"}, "line 2: date is 'yesterday'; expected a time since 1970"),
        ({"url": URL, "text": "x", "date": -5}, "line 2: date is -5"),
        ({"url": URL, "text": "x", "status": "ok"}, "line 2: status must be an integer, not 'ok'"),
        ({"url": URL, "text": "x", "headers": "no"}, "line 2: headers must be a list of pairs or an object"),
        ({"url": URL, "body_base64": "§"}, "line 2: body_base64 is not base64"),
        ({"url": URL, "text": "y" * 300_000}, "line 2 has a body of 300000 bytes, more than the limit of 200000"),
        ({"url": URL, "text": "y" * 500_000}, "line 2 is longer than 400000 bytes"),
        ({"url": URL, "text": None}, "no_body"),
    ],
)
def test_a_bad_line_is_reported_and_the_next_one_is_read(record: Any, reason: str) -> None:
    bad, good = entries(record, {"url": URL, "text": "after", "date": 0}, options=ReadOptions(200_000))
    assert isinstance(bad, DamagedEntry | SkippedEntry)
    assert bad.reason.startswith(reason)
    assert good.page.body == b"after"


def test_a_page_without_a_time_gets_that_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "pages.jsonl.gz"
    file.write_bytes(gzip.compress(lines({"url": URL, "text": "x"})))
    os.utime(file, ns=(0, T0 * 1000))
    (entry,) = read(file)
    assert isinstance(entry, PageEntry)
    assert entry.page.fetched_at == T0


def test_a_cut_gzip_member_loses_its_last_line_alone(tmp_path: Path) -> None:
    packed = gzip.compress(lines(*({"url": f"{URL}{n}", "text": os.urandom(90).hex(), "date": n} for n in range(99))))
    found = list(read(io.BytesIO(packed[:-2000])))
    pages, damage = found[:-1], found[-1]
    assert 50 < len(pages) < 99
    assert all(isinstance(entry, PageEntry) for entry in pages)
    assert isinstance(damage, DamagedEntry)
    assert damage.reason.startswith("the file ends inside a gzip member, after line")


@pytest.mark.parametrize("first", [b"", b"\xef\xbb\xbf", b"\n \n"])
def test_a_file_is_known_by_the_url_in_its_first_line(first: bytes) -> None:
    record = {"text": "long " * 50_000, "url": URL, "date": 0}
    (entry,) = read(io.BytesIO(first + lines(record)))
    assert isinstance(entry, PageEntry)
    (other,) = read(io.BytesIO(b'{"pages": 3}\n'))
    assert isinstance(other, DamagedEntry)
    assert "not a WARC or ARC or TREC Web or JSON Lines" in other.reason


def test_what_is_exported_with_bodies_reads_back(tmp_path: Path) -> None:
    pages = [
        Page(URL, html("One", article(1)), headers=(("Content-Type", "text/html"),), fetched_at=T0, crawl="may"),
        Page(URL, b"", 304, (("ETag", '"two"'),), T0 + 1000),
        Page(f"{URL}latin", b"<p>caf\xe9 ", headers=(("X", "1"), ("X", "2")), fetched_at=T0, ip="192.0.2.1"),
    ]
    file = tmp_path / "all.jsonl"
    with docstore.open(tmp_path / "one", create=True, durability="none") as store, file.open("wb") as stream:
        list(store.put_pages(pages))
        export(store, WRITERS["jsonl"](stream, True), Selection(versions=None))
    again = io.BytesIO()
    with docstore.open(tmp_path / "two", create=True, durability="none") as store:
        report = ingest(store, [str(file)])
        assert (report.pages, report.error_count) == (3, 0)
        assert ingest(store, [str(file)]).known == 3
        export(store, WRITERS["jsonl"](again, True), Selection(versions=None))
    assert again.getvalue() == file.read_bytes()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_notes_and_languages_are_the_same_after_an_export_and_back(tmp_path: Path, kind: str) -> None:
    arrow = pytest.importorskip("docstore.archives.arrow")
    declared = html("One", article(1)).replace(b"<html>", b'<html lang="en">')
    assert b"lang" in declared

    def write(store: docstore.DocumentStore, stream: Any) -> None:
        if kind == "jsonl":
            export(store, WRITERS["jsonl"](stream, True), Selection(versions=None))
        else:
            arrow.write_parquet(store, stream, Selection(versions=None))

    def notes(store: docstore.DocumentStore) -> list[tuple[str, str, bytes]]:
        rows = store.cells.scan(spec=ReadSpec(("note",)))
        return [(row.url, cell.qualifier.decode(), cell.value) for row in rows for cell in row.cells]

    file, again = tmp_path / f"all.{kind}", tmp_path / f"again.{kind}"
    with docstore.open(tmp_path / "one", create=True, durability="none") as store:
        list(store.put_pages([Page(f"{URL}{n}", declared, fetched_at=T0 + 1000 * n) for n in range(3)]))
        store.put_page(f"{URL}0", b"", status=304, fetched_at=T0 + 9000)
        store.cells.put_notes(
            [
                Note(f"{URL}1", T0 + 1000, "lang", encode_note("1", {"lang": "de", "score": 0.9})),
                Note(f"{URL}1", T0 + 1000, "fields", encode_note("", {"topic": ["a"]})),
            ]
        )
        before = notes(store)
        with file.open("wb") as stream:
            write(store, stream)
    if kind == "jsonl":
        assert [json.loads(line)["lang"] for line in file.read_text().splitlines()] == ["en", "en", "de", "en"]
    with docstore.open(tmp_path / "two", create=True, durability="none") as store:
        assert ingest(store, [str(file)]).error_count == 0
        assert notes(store) == before
        with again.open("wb") as stream:
            write(store, stream)
    if kind == "jsonl":
        assert again.read_bytes() == file.read_bytes()


def test_a_note_of_another_program_that_is_no_object_does_not_come_back_as_one(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "one", create=True, durability="none") as store:
        store.put_page(URL, b"<p>One", fetched_at=T0)
        store.cells.put_notes([Note(URL, T0, "mine", b"plain"), Note(URL, T0, "other", encode_note("1", {"a": 1}))])
        stream = io.BytesIO()
        export(store, WRITERS["jsonl"](stream, True))
    assert json.loads(stream.getvalue())["notes"] == {"other": {"version": "1", "a": 1}}


def test_texts_without_bodies_keep_their_language_and_their_own_fields(tmp_path: Path) -> None:
    def selected(store: docstore.DocumentStore, lang: str) -> list[str]:
        return [page.url for page in pages(store, Selection(lang=lang))]

    file, texts = tmp_path / "in.jsonl", io.BytesIO()
    record = {"url": URL, "text": "Ein Text.", "lang": "de", "topic": "ponies", "notes": "mine", "date": T0}
    file.write_bytes(lines(record, {"url": f"{URL}2", "text": "x", "date": T0, "notes": {"": {}, "\ud800": {"a": 1}}}))
    with docstore.open(tmp_path / "one", create=True, durability="none") as store:
        assert ingest(store, [str(file)]).error_count == 0
        assert selected(store, "de") == [URL]
        export(store, WRITERS["jsonl"](texts, False))
    first, second = map(json.loads, texts.getvalue().splitlines())
    assert first["notes"]["fields"] == {"version": "", "topic": "ponies", "notes": "mine"}
    assert second["notes"] == {"?": {"version": "", "a": 1}}
    file.write_bytes(texts.getvalue())
    again = io.BytesIO()
    with docstore.open(tmp_path / "two", create=True, durability="none") as store:
        assert ingest(store, [str(file)]).error_count == 0
        assert selected(store, "de") == [URL]
        export(store, WRITERS["jsonl"](again, False))
    assert again.getvalue() == texts.getvalue()


def test_other_fields_are_notes_of_the_page(tmp_path: Path) -> None:
    record = {
        "url": URL,
        "text": "Some text.",
        "title": "T",
        "lang": "hi",
        "language_score": 0.5,
        "topic": ["a"],
        "x": None,
    }
    file = tmp_path / "pages.jsonl"
    file.write_bytes(lines({"url": f"{URL}2", "text": "no notes"}, record))
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        for reader in (False, True):  # in this process, and in a second one; a repeated run changes nothing
            assert ingest(store, [str(file)], IngestOptions(reader=reader)).error_count == 0
            row = store.cells.read_row(URL, ReadSpec(("note",)))
            assert row is not None
            found = {cell.qualifier.decode(): decode_note(cell.value) for cell in row.cells}
            assert found == {
                "lang": {"version": "", "lang": "hi", "score": 0.5},
                "fields": {"version": "", "title": "T", "topic": ["a"]},
            }
        assert store.cells.read_row(f"{URL}2", ReadSpec(("note",))) is None


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "0.5", None])
def test_a_score_that_json_cannot_say_is_left_out(score: object) -> None:
    assert language_note("sv", score) == {"lang": {"lang": "sv"}}


def test_ingest_takes_lines_of_a_folder_and_leaves_other_json(tmp_path: Path, terminal: Terminal) -> None:
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines({"url": URL, "text": "x"}))
    (folder / "stats.json").write_text('{"pages": 3}')
    answer = terminal("ingest", str(folder), "--create", "--json")
    assert json.loads(answer.out)["pages"] == 1
    assert base64.b64encode(b"x") in terminal("export", "--format", "jsonl", "--body", "--output", "-").out.encode()
