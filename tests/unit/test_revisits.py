"""Revisits are the pages that they repeat, whatever became of the record that has the body."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

import docstore
from docstore.archives.export import WarcExport, export
from docstore.archives.ingest import IngestOptions, IngestReport, ingest
from docstore.archives.selection import Selection
from docstore.archives.wacz import WaczExport
from docstore.model.types import GCPolicy, Policy, Schema, VerdictKind
from docstore.reading.documents import Document

WORDS = " ".join(f"word{number}" for number in range(200))
PAGES = {
    "page": f"<title>Guide</title><main><p>{WORDS}</p></main>".encode(),
    "same text": f"<title>Guide</title><!-- v2 --><main><p>{WORDS}</p></main>".encode(),
    "near": f"<title>Guide</title><main><p>{WORDS.replace('word7 ', 'other ')}</p></main>".encode(),
    "contained": f"<title>Guide</title><main><p>{WORDS.rpartition(' word150')[0]}</p></main>".encode(),
}
A, B, C, D = (f"https://x.example/{letter}" for letter in "abcd")
DAY = 86_400_000_000
T0 = 1_700_000_000_000_000


def record(url: str, day: int, body: bytes | None = None, name: str = "", **fields: str) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    block = head + (body or b"")
    lines = {
        "WARC-Type": "revisit" if body is None else "response",
        "WARC-Target-URI": url,
        "WARC-Date": date(day),
        "WARC-Record-ID": f"<urn:uuid:{name or next(NAMES)}>",
        "Content-Type": "application/http; msgtype=response",
        **{key.replace("_", "-"): value for key, value in fields.items()},
        "Content-Length": str(len(block)),
    }
    return (
        "\r\n".join(("WARC/1.0", *(f"{key}: {value}" for key, value in lines.items()), "", "")).encode()
        + block
        + b"\r\n\r\n"
    )


NAMES = count()


def date(day: int) -> str:
    return datetime.fromtimestamp((T0 + day * DAY) / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def revisit(url: str, day: int, of: str, of_day: int, **fields: str) -> bytes:
    return record(url, day, WARC_Refers_To_Target_URI=of, WARC_Refers_To_Date=date(of_day), **fields)


class Archive:
    def __init__(self, folder: Path, **schema: GCPolicy) -> None:
        self.folder = folder
        self.store = docstore.open(folder / "store", create=True, schema=Schema(**schema), durability="none")  # type: ignore[arg-type]

    def take(self, *files: bytes, reader: bool | None = None, **policies: str) -> IngestReport:
        names = [self.folder / f"{next(NAMES)}.warc" for _ in files]
        for name, raw in zip(names, files, strict=True):
            name.write_bytes(raw)
        chosen = {VerdictKind(kind): Policy(policy) for kind, policy in policies.items()}
        return ingest(self.store, list(map(str, names)), IngestOptions(policies=chosen, reader=reader))

    def get(self, url: str, day: int) -> Document | None:
        return self.store.get(url, at=T0 + day * DAY)

    def is_rejected(self, url: str) -> bool:
        return any(one.newest.verdict.stored == "rejected" for one in self.store.history(url) if one.newest.verdict)


@pytest.mark.parametrize("other_url", [False, True])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("files", ["one", "two"])
@pytest.mark.parametrize("shown", ["<urn:uuid:first>", "urn:uuid:first"])
def test_a_revisit_finds_its_original_by_the_name_of_its_record(
    tmp_path: Path, other_url: bool, order: int, files: str, shown: str
) -> None:
    url = B if other_url else A
    records = [record(A, 0, PAGES["page"], "first"), record(url, 1, WARC_Refers_To=shown)][::order]
    archive = Archive(tmp_path)
    report = archive.take(*records) if files == "two" else archive.take(b"".join(records))
    document = archive.get(url, 1)
    assert document is not None and (document.body, document.timestamp) == (PAGES["page"], T0 + DAY)
    assert (report.pages, report.errors) == (2, [])


def test_a_revisit_by_name_may_name_a_revisit(tmp_path: Path) -> None:
    records = [
        record(C, 2, WARC_Refers_To="<urn:uuid:second>"),
        record(B, 1, name="second", WARC_Refers_To="<urn:uuid:first>"),
        record(A, 0, PAGES["page"], "first"),
    ]
    archive = Archive(tmp_path)
    assert archive.take(b"".join(records)).errors == []
    assert all(archive.get(url, 9).body == PAGES["page"] for url in (A, B, C))  # type: ignore[union-attr]


@pytest.mark.parametrize("reader", [False, True])
@pytest.mark.parametrize("kind", ["exact", "same_text", "near"])
def test_the_revisit_of_a_rejected_page_is_judged_as_that_page(tmp_path: Path, kind: str, reader: bool) -> None:
    body = PAGES["page" if kind == "exact" else kind.replace("_", " ")]
    raw = (
        record(A, 0, PAGES["page"])
        + record(B, 1, body)
        + revisit(C, 2, B, 1)
        + revisit(D, 3, C, 2)
        + revisit(A, 4, B, 1)
    )
    archive = Archive(tmp_path)
    report = archive.take(raw, reader=reader, **{kind: "reject", "exact": "reject"})
    assert report.errors == [] and report.pages == 5
    assert archive.is_rejected(B) and archive.is_rejected(C) and archive.is_rejected(D)
    assert archive.get(A, 3).body == PAGES["page"]  # type: ignore[union-attr]
    assert archive.take(raw, reader=reader, **{kind: "reject", "exact": "reject"}).errors == [], "the same again"


def test_the_revisit_of_an_exact_copy_that_an_earlier_run_rejected_is_judged(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.take(record(A, 0, PAGES["page"]) + record(B, 1, PAGES["page"]), exact="reject")
    report = archive.take(revisit(C, 2, B, 1))
    assert report.errors == [] and archive.get(C, 2).body == PAGES["page"]  # type: ignore[union-attr]


def test_a_revisit_whose_body_an_earlier_run_rejected_says_so(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.take(record(A, 0, PAGES["page"]) + record(B, 1, PAGES["same text"]), same_text="reject")
    [error] = archive.take(revisit(C, 2, B, 1)).errors
    assert f"revisit of {B}, whose body the store does not have: it was rejected as same_text of {A}" in error.reason
    [error] = archive.take(revisit(C, 2, D, 1)).errors
    assert error.reason == f"revisit of {D}, which neither these files nor the store have at that time"
    [error] = archive.take(record(C, 2, WARC_Refers_To="<urn:uuid:none>")).errors
    assert error.reason == "revisit of the record <urn:uuid:none>, which these files do not have"
    [error] = archive.take(revisit(C, 2, D, 1, WARC_Refers_To_Container="file://first.wacz")).errors
    assert error.reason.endswith("; file://first.wacz has it")


def test_the_files_that_have_the_originals_are_named_and_kept(tmp_path: Path) -> None:
    def packed(raw: bytes, name: str, **package: object) -> str:
        with zipfile.ZipFile(tmp_path / name, "w") as made:
            made.writestr("archive/data.warc", raw)
            made.writestr("datapackage.json", json.dumps(package))
        return str(tmp_path / name)

    requires = [{"filename": "first.wacz", "hash": "9539d"}]
    first = packed(record(A, 0, PAGES["page"]), "first.wacz")
    second = packed(
        revisit(B, 1, A, 0) + revisit(C, 2, A, 0, WARC_Refers_To_Container="file://other.wacz"),
        "second.wacz",
        relation={"requires": requires},
    )
    family = docstore.ColumnFamily("warc")
    with docstore.open(tmp_path / "store", create=True, schema=Schema(families=(family,))) as store:
        keeping = IngestOptions(keep_encoded=True)
        reasons = [error.reason for error in ingest(store, [second], keeping).errors]
        assert [reason.rpartition("; ")[2] for reason in reasons] == ["first.wacz has it", "file://other.wacz has it"]
        assert ingest(store, [second, first], keeping).errors == []
        with (tmp_path / "out.wacz").open("w+b") as stream:
            export(store, WaczExport(stream, "test"), Selection(), keep_encoded=True)
        with (tmp_path / "all.wacz").open("w+b") as stream:
            export(store, WaczExport(stream, "test"), Selection(versions=None), keep_encoded=True)
    with zipfile.ZipFile(tmp_path / "all.wacz") as opened:
        assert json.loads(opened.read("datapackage.json"))["relation"] == {"requires": [{"filename": "other.wacz"}]}
    with zipfile.ZipFile(tmp_path / "out.wacz") as opened:
        assert "relation" not in json.loads(opened.read("datapackage.json"))


def test_a_new_validator_of_a_304_is_kept(tmp_path: Path) -> None:
    head = b'HTTP/1.1 304 Not Modified\r\nETag: "two"\r\n\r\n'
    visited = record(A, 1, WARC_Profile="http://netpreserve.org/warc/1.0/revisit/server-not-modified")
    old = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    raw = visited.replace(old, head).replace(b"Content-Length: %d" % len(old), b"Content-Length: %d" % len(head))
    archive = Archive(tmp_path)
    assert archive.take(record(A, 0, PAGES["page"]) + raw).errors == []
    assert archive.store.validators(A) == {"etag": '"two"', "last_modified": "", "last_visit": T0 + DAY}


@pytest.mark.parametrize("hidden", ["captures", "bodies"])
def test_the_revisit_of_a_hidden_capture_has_its_body(tmp_path: Path, hidden: str) -> None:
    raw = (
        record(A, 0, PAGES["page"])
        + revisit(B, 1, A, 0)
        + revisit(C, 2, B, 1)
        + record(A, 3, PAGES["near"])
        + record(B, 4, PAGES["contained"])
    )
    archive = Archive(tmp_path, **{hidden: GCPolicy(max_versions=1)})
    assert archive.take(raw).errors == []
    assert archive.get(C, 9).body == PAGES["page"]  # type: ignore[union-attr]
    assert archive.get(A, 9).body == PAGES["near"]  # type: ignore[union-attr]
    assert archive.get(B, 9).body == PAGES["contained"]  # type: ignore[union-attr]


@pytest.mark.parametrize("hidden", [{}, {"captures": GCPolicy(max_versions=1)}, {"bodies": GCPolicy(max_versions=2)}])
@pytest.mark.parametrize("policies", [{}, {"exact": "reject"}, {"exact": "reject", "same_text": "reject"}])
def test_an_export_with_all_versions_comes_back_whole(
    tmp_path: Path, hidden: dict[str, GCPolicy], policies: dict[str, str]
) -> None:
    for name in ("source", "again"):
        (tmp_path / name).mkdir()
    bodies = list(PAGES.values())
    urls, days = {A: 1, B: 2, C: 3}, range(6)
    raw = b"".join(record(url, day, bodies[day * step % 4]) for url, step in urls.items() for day in days)
    source, again = Archive(tmp_path / "source"), Archive(tmp_path / "again", **hidden)
    source.take(raw)
    with (tmp_path / "out.warc.gz").open("wb") as stream:
        export(source.store, WarcExport(stream), Selection(versions=None))
    report = again.take((tmp_path / "out.warc.gz").read_bytes(), **policies)
    assert (report.pages, report.errors) == (len(urls) * len(days), [])
    for url, step in urls.items():
        times = [one.timestamp for one in again.store.history(url)]
        if "captures" not in hidden:
            assert times == [T0 + day * DAY for day in reversed(days)], "each is stored, or listed as rejected"
        if not policies:
            assert again.get(url, 9).body == bodies[5 * step % 4]  # type: ignore[union-attr]
