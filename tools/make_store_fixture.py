"""Make a store for `tests/fixtures/`, and the list of what it holds: what later versions of docstore must read.

    python -m tools.make_store_fixture WARC FOLDER

FOLDER gets `store/` (the directory of a store whose writer died after its last commit: part of it lies in LevelDB's
log) and `expected.jsonl` (one capture a line).  `tests/fixtures/store-v1/` was made by commit d22b691 and is frozen.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docstore
from docstore.archives.ingest import IngestOptions, ingest
from docstore.dedup import levels
from docstore.model.types import Cell, ColumnFamily, GCPolicy, Page, Policy, Schema, SetCell, VerdictKind
from docstore.reading.documents import Document
from docstore.sweep.job import SweepOptions, sweep

HTML = (("Content-Type", "text/html; charset=utf-8"), ("ETag", '"1"'))
DAY = 86_400_000_000
START = 1_700_000_000_000_000
SCHEMA = Schema(
    families=(ColumnFamily("notes", GCPolicy(max_versions=2)), ColumnFamily("http", GCPolicy(max_versions=3)))
)


def page(name: str, words: int, changed: int = 0, title: str = "") -> bytes:
    """A page of its own words, the first `changed` of them replaced."""
    text = [f"{name}{n * 7919 % 1009}" if n >= changed else f"other{n}" for n in range(words)]
    paragraphs = "".join(f"<p>{' '.join(text[at : at + 25])}.</p>" for at in range(0, words, 25))
    return f"<html><head><title>{title or name}</title></head><body><h1>{name}</h1>{paragraphs}</body></html>".encode()


def made_pages() -> Iterator[Page]:
    """Versions, a visit that found nothing new, an error page, a redirect, a large page, near copies."""
    for version in range(4):
        yield Page(
            "https://fixture.example/versions", page("version", 300, version * 3), 200, HTML, START + version * DAY
        )
    yield Page("https://fixture.example/versions", b"", 304, HTML, START + 5 * DAY)
    yield Page("https://fixture.example/gone", page("gone", 80), 404, HTML, START)
    yield Page("https://fixture.example/moved", b"", 301, (("Location", "/versions"),), START)
    yield Page("https://fixture.example/large", page("large", 9000), 200, HTML, START)
    yield Page("https://mirror.example/large?x=1", page("large", 9000, 40), 200, HTML, START + DAY)
    yield Page("https://fixture.example/inner", page("large", 600), 200, HTML, START + DAY)
    yield Page("https://fixture.example/data.bin", bytes(range(256)) * 8, 200, (), START)
    yield Page("https://fixture.example/empty", b"", 200, HTML, START)


def build(warc: Path, folder: Path) -> None:
    """Write the store into a folder and copy it, as it is on disk while it is open, into the fixture's."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    setattr(levels, "FLUSH_POSTINGS", 4096)  # so that a small store has runs  # noqa: B010
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "store"
        with docstore.open(path, create=True, schema=SCHEMA) as store:
            ingest(store, [str(warc)], IngestOptions())
            for _ in store.put_pages(made_pages(), anchors=True):
                pass
            same = page("large", 9000)
            reference = dict.fromkeys((VerdictKind.EXACT, VerdictKind.NEAR), Policy.REFERENCE)
            reject = dict.fromkeys((VerdictKind.EXACT, VerdictKind.NEAR), Policy.REJECT)
            store.put_page(
                "https://copy.example/reference", same, headers=HTML, fetched_at=START + DAY, policies=reference
            )
            store.put_page("https://copy.example/rejected", same, headers=HTML, fetched_at=START + DAY, policies=reject)
            store.add_anchor("https://fixture.example/large", "https://from.example/", "a large page", START)
            for number in range(3):
                store.cells.apply(
                    "https://fixture.example/large", [SetCell("notes", b"n", START + number * 1000, b"%d" % number)]
                )
            sites = sorted({row.url for row in store.cells.scan() if ".example/" not in row.url})
            for url in sites[10:40:3]:
                store.delete(url)
            sweep(store, SweepOptions())
            store.compact()
            for url in sites[40:60:4]:
                store.delete(url)
        with docstore.open(path) as store:  # as a writer leaves it that dies: rows in LevelDB's log
            again = [
                Page(f"https://late.example/{n}", page("version", 300, 3 * n), 200, HTML, START + 9 * DAY)
                for n in range(3)
            ]
            for _ in store.put_pages(again):
                pass
            store.delete("https://fixture.example/inner")
            shutil.copytree(path, folder / "store", ignore=shutil.ignore_patterns("LOCK"))
            with (folder / "expected.jsonl").open("w", encoding="utf-8") as out:
                for row in store.cells.scan():
                    for cell in row.cells:
                        if cell.family in ("anchor", "notes") or cell.qualifier in (b"cluster", b"canonical"):
                            out.write(json.dumps(cell_facts(row.url, cell), sort_keys=True) + "\n")
                    for document in store.history(row.url):
                        full = store.get(row.url, at=document.timestamp)
                        assert full is not None
                        out.write(json.dumps(facts(full), sort_keys=True) + "\n")
                for url, timestamp, verdict in store.rejected():
                    line = {"rejected": url, "timestamp": timestamp, "kind": str(verdict.kind), "of": verdict.of_url}
                    out.write(json.dumps(line, sort_keys=True) + "\n")


def cell_facts(url: str, cell: Cell) -> dict[str, object]:
    """A general cell, an anchor text, or where the sweep put a version."""
    column = f"{cell.family}:{cell.qualifier.decode('utf-8', 'replace')}"
    return {"cell": column, "url": url, "timestamp": cell.timestamp, "value": digest(cell.value)}


def facts(document: Document) -> dict[str, object]:
    """What a later version must still say of a capture."""
    capture = document.newest
    verdict = capture.verdict
    assert verdict is not None
    shown = capture.shown_verdict
    assert shown is not None
    return {
        "url": document.url,
        "timestamp": capture.timestamp,
        "body": None if capture.body is None else digest(capture.body),
        "text": None if capture.text is None else digest(capture.text.encode("utf-8", "surrogatepass")),
        "title": capture.title,
        "status": capture.status,
        "headers": len(capture.headers or ()),
        "kind": str(verdict.kind),
        "of": shown.of_url,
        "similarity": verdict.similarity,
        "previous": str(verdict.previous),
        "stored": verdict.stored,
        "served_from": capture.served_from,
    }


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:16]


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
