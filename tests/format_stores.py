"""Small stores of every kind, kept in `tests/fixtures/stores/format-1.tar.xz`, and all that they answer.

    python -m tests.format_stores            # makes all of them anew: only for another format or kind of store

The kept stores are not made again: they are what a released docstore wrote.  The archive has the folder of each, and a
file of all answers as JSON: those that a store gave when it was made, and those after pages were written and a
compaction has run.  `tests/unit/test_format_stores.py` asks today's code.

Those named "killed in" or "power loss in" and a protocol of `tests/crash/states.py` are what a kill leaves after one of
its calls, or what was synced then.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from docstore import GCPolicy, Page, Policy, Schema, VerdictKind
from docstore.archives.copying import copy
from docstore.archives.ingest import IngestOptions, ingest
from docstore.backends import open_backend
from docstore.model.capture import PAYLOAD_DIGEST
from docstore.model.choices import Durability
from docstore.model.errors import DocstoreError
from docstore.model.format import BACKUP_FILE, RESERVE_FILE
from docstore.model.types import Append, ColumnFamily, DeleteFamily, Increment, SetCell
from docstore.notes.annotate import Annotator, annotate
from docstore.reports.check import check
from docstore.reports.dedup import known_duplicates
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex
from docstore.tablets.backup import restore
from docstore.tablets.rebuild import rebuild
from tests.crash import states
from tests.crash.disk import Disk, State, lay_out
from tests.pages import changed, page, words
from tests.stores import contents

ARCHIVE = Path(__file__).parent / "fixtures" / "stores" / "format-1.tar.xz"
ANSWERS = "answers.json"
DAY = 86_400 * 10**6
T0 = 1_700_000_000 * 10**6
NOW = T0 + 40 * DAY
"""Of every clock."""
HTML = (("Content-Type", "text/html"),)
REFER = dict.fromkeys((VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR), Policy.REFERENCE)
REJECT = dict.fromkeys(REFER, Policy.REJECT)
ODD_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Date", "Tue, 14 Nov 2023 22:13:20 GMT"),
    ("etag", '"one"'),
    ("X-Odd \udcff", "value \udc80 of bytes"),
    ("Set-Cookie", "a=" + "b" * 600),
    ("Server", "nginx"),
)
MD5 = "md5:" + "0f" * 16
COLUMNS = (
    page(_LONG := words(17, 100), title=" ".join(_LONG))
    .replace(
        b"</head>",
        b"<link rel=canonical href='http://c.example/canonical'><meta name=description content='%s'>"
        b"<meta name=keywords content='%s'></head>" % ((" ".join(_LONG).encode(),) * 2),
    )
    .replace(b"<body>", b"<body><h1>%s</h1><h2>Two</h2>" % " ".join(_LONG).encode())
    .replace(b"<html>", b"<html lang=en>")
)
"""Long values of every column of text."""
ENTRY = b"---\ntitle: An entry\ndate: 2024-05-01\n---\n" + " ".join(words(18, 100)).encode()
LINKS = b'<a href="http://a.example/near">first of all</a> <a href="http://b.example/">another one</a> '
FEED = (
    b"<rss><channel><title>List</title><item><title>One</title><link>http://a.example/1</link></item></channel></rss>"
)
WARC_BODY = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"


@contextmanager
def opened(
    path: Path, schema: Schema | None = None, durability: Durability = Durability.SYNC
) -> Iterator[DocumentStore]:
    """A store with a fixed clock, which is made if it is not there."""
    backend = open_backend(path, create=schema is not None, schema=schema)
    with DocumentStore(backend, durability, clock=lambda: NOW) as store:
        yield store


# --- what a store answers


def answers(store: DocumentStore) -> dict[str, Any]:
    """All that a store says of its pages, as JSON; long values by a digest."""
    urls = list(store.urls())
    found: dict[str, Any] = {"urls": urls, "cells": _cells(store)}
    found["documents"] = {url: _asked(lambda url=url: _document(store, url)) for url in urls}
    found["history"] = {url: _asked(lambda url=url: len(store.history(url))) for url in urls}
    found["similar"] = {url: _asked(lambda url=url: _similar(store, url)) for url in urls[::4]}
    found["validators"] = {url: _asked(lambda url=url: store.validators(url)) for url in urls[::3]}
    found["anchors"] = {url: len(list(store.anchors(url))) for url in urls}
    found["rejected"] = [[url, time, verdict.of_url] for url, time, verdict in store.rejected()]
    found["orphans"] = [[orphan.url, str(orphan.loss)] for orphan in store.orphans()]
    found["duplicates"] = [[*map(str, known)] for known in known_duplicates(store)]
    found["named"] = [
        [document.url for document in store.find(**name)]
        for name in ({"docno": "GX-1"}, {"payload_digest": "sha1:" + "A2" * 16}, {"payload_digest": MD5})
    ]
    found["totals"] = dict(sorted(store.stats()["totals"].items()))
    found["tablets"] = [tablet["start"] for tablet in store.stats()["tablets"]]
    found["lost"] = [_placeless(store, finding.where, finding.what) for finding in store.lost]
    found["check"] = sorted(_placeless(store, finding.where, finding.what) for finding in check(store.backend))
    return dict(json.loads(json.dumps(found)))


def _asked(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except DocstoreError as error:
        return type(error).__name__


def _digest(value: object) -> str | None:
    if value is None:
        return None
    raw = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
    return blake2b(raw, digest_size=6).hexdigest()


def _cells(store: DocumentStore) -> dict[str, str | None]:
    """A digest of the cells of each row, by row key and family."""
    rows: dict[str, list[Any]] = {}
    for (row_key, family, *place), value in contents(store).items():
        rows.setdefault(f"{row_key.decode()} {family}", []).append((*place, value))
    return {name: _digest(cells) for name, cells in rows.items()}


def _document(store: DocumentStore, url: str) -> list[Any]:
    document = store.get(url, versions=1000)
    assert document is not None
    return [
        [
            *(one.timestamp, one.status, one.title, one.lang, one.crawl, one.docno, one.payload_digest),
            *(one.media_type, one.charset, one.ip, one.served_from, one.fetched_url, one.published, one.canonical),
            *map(_digest, (one.body, one.text, one.headers, one.description, one.keywords, one.headings, one.entries)),
            *map(_digest, (one.checksum, one.text_checksum, one.simhash, one.sketch)),
            None if one.verdict is None else [*map(str, one.verdict)],
        ]
        for one in document.captures
    ]


def _similar(store: DocumentStore, url: str) -> list[list[Any]]:
    return [[one.url, str(one.kind), round(one.similarity, 6)] for one in store.similar(url)]


def _placeless(store: DocumentStore, where: str, what: str) -> str:
    return re.sub(r" ?\(found [^)]*\)", "", f"{where}: {what}".replace(str(store.backend.path), "STORE"))


def written(store: DocumentStore) -> list[list[str]]:
    """Write pages that are new, near, exact and part of others, and say what came of them."""
    known = next((url for url in store.urls() if (found := store.get(url)) and found.body and found.text), None)
    body = b"" if known is None else store.get(known).body or b""  # type: ignore[union-attr]
    pages = [
        Page("http://later.example/new", page(words(900, 120), title="Later"), 200, HTML, NOW - DAY),
        Page("http://later.example/near", page(changed(words(900, 120), 1, 3), title="Later"), 200, HTML, NOW - DAY),
        Page("http://later.example/exact", body, 200, HTML, NOW - DAY),
        Page("http://later.example/near-known", states.PROBE, 200, HTML, NOW - DAY),
    ]
    results = store.put_pages(pages, threads=1, any_time=True)
    return [[*map(str, result.verdict), str(result.previous), result.stored] for result in results]


def asked_twice(path: Path) -> dict[str, Any]:
    """What a store answers as it is, what comes of pages that are written, and what it answers after a compaction."""
    with opened(path, durability=Durability.NONE) as store:
        found: dict[str, Any] = {"before": answers(store), "written": written(store)}
        store.compact()
        return found | {"after": answers(store)}


# --- the stores


def _put(store: DocumentStore, *pages: Page, **options: Any) -> None:
    list(store.put_pages(pages, threads=1, any_time=True, **options))


def _page(url: str, body: bytes, day: int = 0, **fields: Any) -> Page:
    return Page(f"http://{url}", body, **{"headers": HTML, "fetched_at": T0 + day * DAY, **fields})


def _long(seed: int) -> list[str]:
    return words(seed, 100)


NOTED = Annotator("first", of_document=lambda document: {"first": (document.text or "")[:20] * 40})
FAMILIES = (
    ColumnFamily("mark", GCPolicy(max_versions=2)),
    ColumnFamily("aged", GCPolicy(max_age_seconds=39 * 86_400)),
    ColumnFamily("warc"),
)


def fill(store: DocumentStore) -> None:
    """Every kind of row, value, codec and field of a capture."""
    _put(
        store,
        _page("a.example/", page(_long(1), title="First"), headers=ODD_HEADERS, crawl="one", ip="192.0.2.7"),
        _page("a.example/near", page(changed(_long(1), 1, 2), title="First")),
        _page("a.example/near2", page(changed(_long(1), 2, 2), title="First"), crawl="two"),
        _page("b.example/", page(_long(1), title="First")),
        _page("b.example/part", page(_long(1)[:70], title="Part")),
        _page("b.example/other", page(_long(2), title="Other \u00e9"), payload_digest="sha1:" + "A2" * 16),
        _page("c.example/docno", page(_long(3), title="Number"), docno="GX-1", payload_digest=MD5),
        _page("c.example/feed", FEED, headers=(("Content-Type", "application/rss+xml"),)),
        _page("c.example/bytes", Random(7).randbytes(700), headers=(("Content-Type", "image/png"),)),
        _page("c.example/large", page(words(4, 40) * 300, title="Large")),
        _page("c.example/" + "long" * 80, page(_long(5), title="A long address")),
        _page("c.example/gone", page(_long(6), title="Gone"), status=404),
        _page("c.example/moved", b"", status=301, headers=(("Location", "/"),)),
        _page("c.example/blank", b"\xef\xbb\xbf \n\t"),
        _page("c.example/short", page(words(7, 5), title="Short")),
        _page("c.example/late", page(_long(8), title="Late"), -5),
        _page("c.example/odd-micros", page(_long(9), title="Odd"), fetched_at=T0 + 7),
        _page("c.example/columns", COLUMNS),
        _page("c.example/entry", ENTRY, headers=(("Content-Type", "text/markdown"),)),
        _page("b.example/same-text", page(_long(2), title="Other \u00e9").replace(b"<p>", b"<p class=other>")),
        _page("c.example/links", page(_long(10)).replace(b"<body>", b"<body>" + LINKS)),
        Page("HTTP://Odd.example:8080/%7euser/../x", page(_long(11), title="Odd"), 200, HTML, T0),
        Page("http://user:word@odd.example/", page(_long(12), title="User"), 200, HTML, T0),
        Page("http://[2001:db8::1]/six", page(_long(13), title="Six"), 200, HTML, T0),
        Page("urn:isbn:0451450523", page(_long(14), title="Book"), 200, HTML, T0),
        anchors=True,
    )
    _put(
        store,
        _page("d.example/copy", page(_long(1), title="First"), 1),
        _page("d.example/near", page(changed(_long(2), 4, 2), title="Other \u00e9"), 1),
        policies=REFER,
    )
    _put(store, _page("e.example/copy", page(_long(3), title="Number"), 2), policies=REJECT)
    _put(store, _page("e.example/text", page(_long(15), title="Text alone"), 2), keep_body=False)
    again = page(_long(8), title="Late").replace(b"<p>", b"<p class=again>")
    _put(
        store, _page("c.example/late", again, 1), _page("b.example/", page(_long(1), title="First"), payload_digest=MD5)
    )
    for day in (2, 3, 4):  # the same bytes, others, and a visit
        _put(store, _page("a.example/", page(_long(1), title="First"), day, crawl=f"day {day}"))
        _put(store, _page("c.example/docno", page(changed(_long(3), day, day), title="Number"), day))
        _put(store, _page("b.example/other", b"", day, status=304, headers=(("ETag", f'"{day}"'),), crawl="visit"))
    _put(store, _page("f.example/never-stored", b"", 1, status=304))
    _put(store, _page("c.example/late", b"", -6, status=304))
    store.add_anchor("http://b.example/", "http://x.example/", "See", T0)
    store.add_anchor("http://b.example/", "http://x.example/", "See again " + "and " * 200, T0 + DAY)
    cells = [SetCell("mark", b"a\0b", T0 + n * DAY, b"%d" % n) for n in range(4)]
    cells += [SetCell("aged", b"a", T0 + n * DAY, b"v" * (400 * n)) for n in range(4)]
    store.cells.apply("http://a.example/", cells)
    store.cells.apply("http://nowhere.example/", [*cells[:1], cells[-1]])
    store.cells.apply("http://nowhere.example/", [DeleteFamily("aged")])
    store.cells.read_modify_write(
        "http://b.example/", [Append("mark", b"log", b"line"), Increment("mark", b"count", 3)]
    )
    near = store.cells.row_key("http://a.example/near")
    store.cells.set_computed([(near, T0, {PAYLOAD_DIGEST: b"sha1:" + b"B3" * 16})])  # as the archive API does
    kept = page(_long(16), title="Kept")
    warc = io.BytesIO(
        _record("request", b"GET / HTTP/1.1\r\nHost: w.example\r\n\r\n", b"application/http;msgtype=request")
        + _record("response", WARC_BODY % (len(kept), kept), b"application/http;msgtype=response")
    )
    ingest(store, [warc], IngestOptions(keep_encoded=True, threads=1, reader=False))
    annotate(store, NOTED)


def _record(kind: str, block: bytes, media_type: bytes) -> bytes:
    fields = [
        *(b"WARC/1.1", b"WARC-Type: %s" % kind.encode(), b"WARC-Date: 2023-11-15T00:00:00Z"),
        b"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-00000000000%d>" % len(kind),
        *(b"WARC-Target-URI: http://w.example/", b"Content-Type: " + media_type),
        b"Content-Length: %d" % len(block),
    ]
    return b"\r\n".join([*fields, b"", block, b"", b""])


def _every_value(path: Path) -> None:
    with opened(path, Schema(families=FAMILIES)) as store:
        fill(store)


def _killed(path: Path) -> None:
    """A process died: the filter of rows is not valid, LevelDB's log is full, nothing was closed."""
    with opened(path.with_name("open"), Schema(families=FAMILIES)) as store:
        fill(store)
        shutil.copytree(path.with_name("open"), path)


def _compacted(path: Path) -> None:
    """Clusters of a sweep, dictionaries, a purge, segments of compaction with their names, then later writes."""
    with opened(path, Schema(families=FAMILIES)) as store:
        fill(store)
        sweep(store, SweepOptions(threads=1))
        own = [" ".join(words(20 + n, 30)).encode() for n in range(30)]
        text = [b" ".join(Random(n).choices(own, k=90)) for n in range(10)]
        _put(store, *(_page(f"g.example/{n}", body) for n, body in enumerate(text)))
        store.delete("http://c.example/gone")
        store.delete("http://g.example/3", purge=True, compact=False)
        store.compact(level="best")
        _put(store, _page("g.example/later", b" ".join(Random(3).choices(own, k=85)), 5))
        _put(store, _page("a.example/near", page(changed(_long(1), 1, 4), title="First"), 5))
        store.delete("http://a.example/near2")
        store.compact(level="fast")
        store.delete("http://c.example/short")
        _put(store, *(_page(f"k.example/{n}", body) for n, body in enumerate(text[::-1], 6)))
        _put(store, _page("h.example/", page(_long(30), title="After"), 6), anchors=True)


def _purged(path: Path) -> None:
    """A page is deleted for good, and no compaction has rewritten its bytes yet."""
    with opened(path, Schema()) as store:
        _put(store, *(_page(f"q.example/{n}", page(changed(_long(50), n, 2))) for n in range(3)))
        store.delete("http://q.example/0", purge=True, compact=False)


def _policies(schema: Schema) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with opened(path, schema) as store:
            for day in range(6):
                for n in range(6):
                    body = page(changed(_long(40 + n), 1, day // 2 if n % 2 else day), title=f"Page {n}")
                    if day == 3 and n % 3 == 0:
                        _put(store, _page(f"p{n % 2}.example/{n}", b"", day, status=304))
                    else:
                        _put(store, _page(f"p{n % 2}.example/{n}", body, day), policies=REJECT if n == 5 else None)
            _put(store, _page("p0.example/0", b"", 7, status=304))

    return make


def _split(path: Path) -> None:
    with states.limited({"tablet_bytes": 12_000}), opened(path, Schema()) as store:
        for n in range(4):
            _put(store, *(_page(f"t{n}.example/{m}", page(words(60 + 10 * n + m, 300))) for m in range(6)))
        assert len(store.stats()["tablets"]) > 2


def _runs(path: Path) -> None:
    """Runs that were merged, a full bucket, postings in the log alone; and what a stopped merge leaves beside them."""
    before = path.with_name("before")
    with states.limited({"flush_texts": 6}), opened(path, Schema(keyed_bands=True)) as store:
        for n in range(0, 75, 5):
            same = [changed(words(77, 60), m, 3) for m in range(n, n + 5)]
            _put(store, *(_page(f"i{m % 9}.example/{m}", page(text)) for m, text in enumerate(same, n)))
            if n == 30:
                shutil.copytree(path / "index", before)
        store.delete("http://i3.example/3")
    merged = [run for run in before.glob("*.run") if not (path / "index" / run.name).exists()]
    assert merged and list((path / "index").glob("*.run"))
    shutil.copy(merged[0], path / "index")
    shutil.copy(merged[0], path / "index" / f"{merged[0].stem}.part")


def _lost_rows(path: Path) -> None:
    """LevelDB is as it was before the last commits: an open sets their records aside."""
    with opened(path, Schema()) as store:
        _put(store, *(_page(f"l.example/{n}", page(words(200 + n, 100))) for n in range(4)))
    shutil.copytree(path / "engine", path.with_name("old"))
    with opened(path) as store:
        for n in range(3):
            _put(store, *(_page(f"l.example/{n}-{m}", page(words(210 + 5 * n + m, 100))) for m in range(4)))
    shutil.rmtree(path / "engine")
    shutil.move(path.with_name("old"), path / "engine")


def _set_aside(path: Path) -> None:
    _lost_rows(path)
    with opened(path) as store:
        assert store.lost


def _lost_captures(path: Path) -> None:
    """Power was lost below durability `sync`: an open has dropped the captures whose bytes are missing."""
    source = path.with_name("open")
    with DocumentStore(open_backend(source, create=True), Durability.FLUSH, clock=lambda: NOW) as store:
        for n in range(4):
            _put(store, _page(f"l.example/{n}", page(words(200 + n, 100))))
        shutil.copytree(source, path)
    (segment,) = (path / "segments").iterdir()
    os.truncate(segment, segment.stat().st_size * 3 // 5)
    with opened(path) as store:
        assert store.lost


def _rebuilt(path: Path) -> None:
    """LevelDB was made again from its tables; the index is made again by the next open that writes."""
    _split(path)
    rebuild(path)


def _copied(path: Path) -> None:
    """A copy of a store, whose texts were extracted again."""
    _every_value(path.with_name("source"))
    with opened(path.with_name("source")) as source:
        copy(source, path, threads=1)
    with opened(path) as store:
        reindex(store)


def _backup(path: Path) -> None:
    """A backup, which is restored; it was made twice."""
    _every_value(path.with_name("source"))
    with opened(path.with_name("source")) as store:
        store.backup(path)
        _put(store, _page("h.example/", page(_long(30), title="After"), 6))
        store.backup(path)


_ON_DAY = GCPolicy(max_age_seconds=37.5 * 86_400)
STORES: dict[str, Callable[[Path], None]] = {
    "every value": _every_value,
    "every value, killed": _killed,
    "compacted": _compacted,
    "purged": _purged,
    "captures by number": _policies(Schema(captures=GCPolicy(max_versions=2))),
    "captures by age": _policies(Schema(captures=_ON_DAY)),
    "bodies by number": _policies(Schema(bodies=GCPolicy(max_versions=1))),
    "bodies by both": _policies(Schema(bodies=GCPolicy(1, 37.5 * 86_400, True))),
    "split tablet": _split,
    "rebuilt": _rebuilt,
    "copied": _copied,
    "backup": _backup,
    "lost captures": _lost_captures,
    "runs, keyed bands": _runs,
    "lost rows": _lost_rows,
    "set aside": _set_aside,
}
HALF_DONE = {
    "group commit": 2,
    "group commit, row by row": 4,
    "compaction": 7,
    "compaction, row by row": 4,
    "sweep and apply": 4,
    "sweep that rejects": 3,
    "delete": 3,
    "delete of a crawl": 3,
    "notes": 2,
    "copy": 2,
}
"""Protocols of `tests/crash/states.py`, and how many states of each are kept."""
POWER_LOSS = {"group commit at flush": 3, "compaction": 2}
"""The same, of states in which only what was synced is there."""


def half_done(name: str, count: int, kind: str) -> Iterator[State]:
    """States that a kill after evenly spaced calls of a protocol leaves."""
    with TemporaryDirectory() as folder:
        record = states.Record(name, Path(folder))
        disk = Disk(Path(folder) / "before")
        places = {round((n + 1) * len(record.events) / (count + 1)) for n in range(count)}
        removals = (n for n, event in enumerate(record.events) if event.kind == "u" and "/segments/" in event.path)
        places |= {place for place in [next(removals, 0)] if place}  # the segment's row says that it is draining
        for number, event in enumerate(record.events, 1):
            if event.path != states.PROMISES:
                disk.apply(event)
            if number in places:
                found = dict(disk.states(Random(0), 0))
                yield found.get(kind, found["all"])


# --- keeping them


def _clean(path: Path) -> None:
    """Remove what another process makes again, and what only people read."""
    for name in (RESERVE_FILE, "LOCK", "engine/LOG", "engine/LOG.old", "engine/LOCK"):
        (path / name).unlink(missing_ok=True)


def keep(stores: Iterable[tuple[str, Path]]) -> None:
    """Pack stores with their answers."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    all_answers = {}
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as packed:
        for name, path in stores:
            _clean(path)
            with TemporaryDirectory() as folder:
                all_answers[name] = asked_twice(lay_out_store(path, Path(folder) / "store"))
            packed.add(path, name, filter=_nameless)
        raw = json.dumps(all_answers, indent=0).encode()
        member = tarfile.TarInfo(ANSWERS)
        member.size = len(raw)
        packed.addfile(member, io.BytesIO(raw))
    print(f"{len(all_answers)} stores, {ARCHIVE.stat().st_size:,} bytes")


def lay_out_store(path: Path, target: Path) -> Path:
    """Copy a kept store, or restore a kept backup, into a folder that is not there."""
    if (path / BACKUP_FILE).exists():
        restore(path, target)
    else:
        shutil.copytree(path, target)
    return target


def _nameless(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def kept_names() -> list[str]:
    """Names of all kept stores."""
    with tarfile.open(ARCHIVE) as packed:
        return sorted({name.split("/")[0] for name in packed.getnames()} - {ANSWERS})


def unpack(folder: Path, name: str = "") -> dict[str, Any]:
    """Unpack one store, or all, into a folder; gives the answers of all by name."""
    with tarfile.open(ARCHIVE) as packed:
        wanted = [member for member in packed if not name or member.name.split("/")[0] in (name, ANSWERS)]
        packed.extractall(folder, wanted, filter="data")
    return dict(json.loads((folder / ANSWERS).read_bytes()))


def _made(folder: Path) -> Iterator[tuple[str, Path]]:
    for number, (name, make) in enumerate(STORES.items()):
        (folder / str(number)).mkdir()
        make(folder / str(number) / "store")
        yield name, folder / str(number) / "store"
    for kind, how, protocols in (("killed", "all", HALF_DONE), ("power loss", "synced", POWER_LOSS)):
        for protocol, count in protocols.items():
            for number, state in enumerate(half_done(protocol, count, how), 1):
                name = f"{kind} in {protocol}, {number}"
                lay_out(state, folder / name)
                yield name, folder / name / "s"


def main() -> None:
    """Make all stores."""
    with TemporaryDirectory() as folder:
        keep(_made(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
