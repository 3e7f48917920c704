"""Every protocol on disk, stopped after each call that changes a file: what is left is opened, looked at, and used.

    python -m tests.crash.states --states 10000                       # all protocols; `make crash-states`
    python -m tests.crash.states --seed 7 --protocol purge --keep /tmp/kept

A protocol runs once in a process that is recorded (`tests.crash.disk`), over a store that `fill` made, and writes down
what the store has acknowledged and what is in flight.  Of each state that a crash may leave is asked: it opens, and
nothing is reported lost; every acknowledged page reads back byte for byte with its verdict, what was deleted is gone,
a page in flight is as before or as after, and no other page is there; `check` finds nothing; the work that was stopped
can be done again, and ends as if it had not been stopped; a page is stored, and found near to one that was there; after
a compaction all that still holds.  Only public calls are used, so that the inside of the store may change.

LevelDB applies a plan as a whole.  A protocol whose name ends in "row by row" applies each row of a plan on its own, in
the order of the plan, as a backend without batches does: a stop behind any row must leave garbage alone.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, redirect_stdout
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import docstore
from docstore import GCPolicy, Page, Policy, Schema, VerdictKind
from docstore.archives.copying import copy
from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.cli.main import main as run_command
from docstore.dedup.runs import RunIndex
from docstore.model import capture
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError
from docstore.model.format import SET_ASIDE_DIRECTORY
from docstore.model.types import (
    Append,
    ColumnFamily,
    Condition,
    DeleteFamily,
    DeleteRow,
    RowMutations,
    SetCell,
    Verdict,
)
from docstore.notes.annotate import Annotator, annotate
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex
from docstore.tablets.backup import restore
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.engines.rowfilter import RowFilter
from docstore.tablets.manifest import Manifest
from docstore.tablets.segment import ValueLog
from tests.crash.disk import Disk, Event, State, begin_record, lay_out, read_events, recorder
from tests.pages import changed, page, words
from tests.stores import contents, everything_on_disk

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000
REFER = dict.fromkeys((VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR), Policy.REFERENCE)
MARKER = b"unspeakable-7f3a"
PROMISES, EXPECTED = "promises", "expected"
"""Files beside the store: what it has acknowledged, one write each; what the work ends in if it is not stopped."""
NEAR_PROBE = page(changed(words(4, 300), 1, 6), title="Page 4")
PROBE = page(changed(changed(words(4, 300), 1, 6), 77, 2), title="Page 4")
"""Near to a page that most states hold."""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where states are laid out: what a sync costs is not asked here."""

DEEP_SHARE = 1 / 3
"""Of the states, that are compacted too: that takes twice as long as all else."""

Known = tuple[bytes, str, str]
"""Body, verdict and the URL that it names, of a stored page."""


class Promise(NamedTuple):
    """What the store has acknowledged.

    Attributes:
        pages: by URL; None for a deleted one.
        in_flight: pages that may be so as before or so as after: bodies by URL, None for no page.
        is_synced: else a power loss may take back the pages of `at_flush`, each as a whole, and says so.
        at_flush: bodies that each of them may have then.
        is_posted: else pages may lack postings, which are made anew.
        purged: the marker must be in no file after the next compaction.
        gone: files that must not be there again.
        done: what has ended: "made", "backup", "restored".
    """

    pages: dict[str, Known | None] = {}  # noqa: RUF012 never changed
    in_flight: dict[str, tuple[bytes | None, ...]] = {}  # noqa: RUF012
    is_synced: bool = True
    at_flush: dict[str, tuple[bytes | None, ...]] = {}  # noqa: RUF012
    is_posted: bool = True
    purged: bool = False
    gone: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


class Work:
    """A store that is worked on, and what it has acknowledged."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.promise = Promise()
        self.store: DocumentStore = None  # type: ignore[assignment]

    def open(self, **options: Any) -> None:
        self.store = docstore.open(self.root / "s", create=True, **options)

    def promised(self, **fields: Any) -> None:
        self.promise = self.promise._replace(**fields)
        descriptor = os.open(self.root / PROMISES, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, pickle.dumps(self.promise))
        os.close(descriptor)

    def _allowed(self, after: dict[str, bytes | None]) -> dict[str, tuple[bytes | None, ...]]:
        known = self.promise.pages
        return {url: ((known.get(url) or (None,))[0], body) for url, body in after.items()}

    def put(self, *pages: Page, policies: dict[VerdictKind, Policy] | None = None) -> None:
        allowed = self._allowed({one.url: one.body for one in pages})
        if not self.promise.is_synced:
            flushed = {url: (*self.promise.at_flush.get(url, ()), *bodies) for url, bodies in allowed.items()}
            self.promise = self.promise._replace(at_flush=self.promise.at_flush | flushed)
        self.promised(in_flight=allowed)
        results = list(self.store.put_pages(pages, policies=policies, threads=1))
        stored = {one.url: _known(page.body, one.verdict) for page, one in zip(pages, results, strict=True)}
        self.promised(pages=self.promise.pages | stored, in_flight={})

    def delete(self, url: str, *, purge: bool = False, compact: bool = True) -> None:
        self.promised(in_flight=self._allowed({url: None}))
        self.store.delete(url, purge=purge, compact=compact)
        self.promised(pages=self.promise.pages | {url: None}, in_flight={})


def _known(body: bytes, verdict: Verdict) -> Known:
    return body, str(verdict.kind), verdict.of_url


def a_page(name: str, body: bytes, day: int = 0, crawl: str = "") -> Page:
    return Page(f"https://{name}", body, 200, HTML, T0 + day * 86_400_000_000, crawl=crawl)


def near(number: int, seed: int) -> bytes:
    return page(changed(words(number, 300), seed, 6), title=f"Page {number}")


def site_pages(count: int) -> list[Page]:
    """Pages of one site, 26 KB each: six of them get it a dictionary, which later ones use."""
    source = Random(1)
    own = [bytes(source.choices(b"abcdefghijklmnopqrstuvwxyz", k=10)) for _ in range(400)]
    return [a_page(f"d.example/{n}", b" ".join(Random(n).choices(own, k=2400))) for n in range(count)]


# --- protocols


SECRET_URL = "https://a.example/secret"


def fill(work: Work) -> None:
    """Deltas, a body that two pages share, pages by reference, versions, a page to purge with a page near it."""
    secret = page([*words(50, 200), MARKER.decode(), *words(51, 100)], title="Secret")
    work.open()
    work.put(*(a_page(f"h{n % 3}.example/{n}", near(n // 3, n)) for n in range(9)))
    work.put(a_page("a.example/", near(4, 1)), a_page("b.example/", near(4, 1)), policies=REFER)
    work.put(a_page("b.example/near", near(4, 2)), policies=REFER)
    work.put(a_page("c.example/", near(5, 1)))
    work.put(a_page("c.example/", near(5, 2), 1))
    work.put(a_page(SECRET_URL[8:], secret), a_page("b.example/secret", near(9, 1)))
    work.store.close()


def fill_and_kill(work: Work) -> None:
    """LevelDB's log is full, and a segment has half of a record behind its committed length."""
    fill(work)
    run_killed("tests.crash.states:put_and_die", work.root)
    work.promise = list(_promises(work.root))[-1]
    segment = max((work.root / "s" / "segments").glob("*.seg"))
    raw = segment.read_bytes()
    segment.write_bytes(raw + raw[-200:-50])


def run_killed(function: str, folder: Path) -> None:
    """Call `module:function` with a folder in a process that is no fork of this one, which has used a store."""
    module, _, name = function.partition(":")
    program = f"import sys; from pathlib import Path; from {module} import {name}; {name}(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, folder], check=True)


def put_and_die(root: Path) -> None:
    work = Work(root)
    work.promise = list(_promises(root))[-1]
    work.open()
    work.put(*(a_page(f"k.example/{n}", near(n, 30 + n)) for n in range(6)))
    os._exit(0)


def nothing(work: Work) -> None:
    """A folder without a store."""


def make(work: Work) -> None:
    work.open()
    work.promised(done=("made",))
    work.put(a_page("a.example/", near(4, 1)))


def put_groups(work: Work) -> None:
    work.open()
    work.put(a_page("d.example/1", near(0, 40)), a_page("d.example/2", near(20, 0)), a_page("d.example/3", near(20, 1)))
    work.put(a_page("c.example/", near(5, 3), 2), a_page("d.example/4", near(4, 1)), policies=REFER)


def put_at_flush(work: Work) -> None:
    work.promise = work.promise._replace(is_synced=False)
    work.open(durability="flush")
    work.put(a_page("d.example/1", near(0, 40)), a_page("d.example/2", near(20, 0)))
    work.put(a_page("c.example/", near(5, 3), 2), a_page("d.example/3", near(20, 1)))
    work.store.close()
    work.promised(is_synced=True)


def roll_segments(work: Work) -> None:
    work.open()
    for number in range(4):
        work.put(*(a_page(f"r.example/{number}-{n}", near(60 + 3 * number + n, 0)) for n in range(3)))
    assert work.store.stats()["segments"] > 2


def split_tablets(work: Work) -> None:
    work.open()
    for number in range(4):
        work.put(*(a_page(f"t{n}.example/{number}", near(60 + 6 * number + n, 0)) for n in range(6)))
    assert len(work.store.stats()["tablets"]) > 2


def dictionaries(work: Work) -> None:
    """A site gets a dictionary; a compaction puts others in its place."""
    pages = site_pages(10)
    work.open()
    work.put(*pages[:6])
    work.put(*pages[6:])
    work.store.compact(level="best")


def filter_rows(work: Work) -> None:
    """The filter of rows is saved by each close, and not valid from the next write on."""
    for number in range(2):
        work.open()
        work.put(a_page(f"f.example/{number}", near(70 + number, 0)))
        work.store.close()


def index_runs(work: Work) -> None:
    """More texts than are flushed at a time, several times, so that runs are merged; then the index is pruned."""
    work.open()
    for start in range(0, 40, 5):
        work.put(*(a_page(f"i.example/{n}", page(words(100 + n, 60))) for n in range(start, start + 5)))
    work.delete("https://i.example/3")
    work.store.compact()


def fill_with_garbage(work: Work) -> None:
    """Captures and bodies that a policy has dropped, visits, deleted pages that others lean on, a page to purge."""
    work.open(schema=Schema(captures=GCPolicy(max_versions=2), bodies=GCPolicy(max_versions=1)))
    work.store.close()
    fill(work)
    work.open()
    for day in (2, 3, 4):
        work.put(a_page("c.example/", near(5, day), day))
    for url, headers in (("https://a.example/", HTML), ("https://b.example/", (*HTML, ("X-Long", "h" * 700)))):
        work.store.put_page(url, status=304, headers=headers, fetched_at=T0 + 1_000_000)
    for url in ("https://h0.example/0", "https://h2.example/5", "https://a.example/"):
        work.delete(url)
    work.promised(in_flight={SECRET_URL: ((work.promise.pages[SECRET_URL] or (None,))[0], None)})
    work.store.close()


def compact(work: Work) -> None:
    work.open()
    work.store.compact()


def compact_again(root: Path) -> object:
    """After another compaction no file belongs to nobody, nor is a page there that was purged after the first one."""
    with docstore.open(root / "s") as store:
        before = contents(store)
        report = store.compact()
        assert report.kept_segments == report.left_values == 0
        assert contents(store) == before
        assert len(list((root / "s" / "segments").iterdir())) == store.stats()["segments"]
        store.delete(SECRET_URL, purge=True, compact=False)
        _assert_purged(store)
        return contents(store)


def _assert_purged(store: DocumentStore) -> None:
    store.compact()
    assert not any(MARKER in piece for piece in everything_on_disk(store))


def sweep_and_apply(work: Work) -> None:
    work.open()
    _sweep(work.store)


def _sweep(store: DocumentStore) -> None:
    sweep(store, SweepOptions(threads=1))
    sweep(store, SweepOptions(threads=1, apply="reference", any_host=True))


def sweep_again(root: Path) -> object:
    with docstore.open(root / "s") as store:
        _sweep(store)
        return contents(store)


def fill_and_expect_rejection(work: Work) -> None:
    """Pages of one host that are near to others of it: a sweep rejects some of them."""
    fill(work)
    work.open()
    work.put(a_page("b.example/same", near(4, 2)), a_page("b.example/other", near(9, 1)))
    work.store.close()
    on_host = {url: known[0] for url, known in work.promise.pages.items() if known and "//b.example/" in url}
    work.promised(in_flight={url: (body, None) for url, body in on_host.items()})


def sweep_and_reject(work: Work) -> None:
    work.open()
    _reject(work.store)
    assert len(list(work.store.rejected())) > 1


def _reject(store: DocumentStore) -> None:
    sweep(store, SweepOptions(threads=1, apply="reject", kinds=("exact", "same_text", "near")))
    assert not list(store.orphans())


def reject_again(root: Path) -> object:
    with docstore.open(root / "s") as store:
        _reject(store)
        return contents(store)


def purge(work: Work) -> None:
    """A page whose bytes are in a segment, and one that a dictionary was sampled from."""
    work.open()
    work.put(*site_pages(6))
    before = set((work.root / "s" / "dictionaries").iterdir())
    assert before
    work.delete("https://d.example/2", purge=True, compact=False)
    work.delete(SECRET_URL, purge=True, compact=False)
    work.promised(purged=True)
    work.store.compact()
    gone = before - set((work.root / "s" / "dictionaries").iterdir())
    work.promised(gone=tuple(path.relative_to(work.root).as_posix() for path in gone))


def delete(work: Work) -> None:
    work.open()
    work.delete("https://a.example/")
    work.delete("https://h0.example/0")


def delete_crawl(work: Work) -> None:
    """A page of one crawl alone, and one that another crawl had fetched before."""
    work.open()
    before = work.promise.pages
    urls = ("https://x.example/1", "https://c.example/")
    work.put(*(a_page(url[8:], near(30 + n, 1), 3, "x") for n, url in enumerate(urls)))
    now = work.promise.pages
    after = {url: before.get(url) for url in urls}
    work.promised(in_flight={url: tuple(one and one[0] for one in (now[url], after[url])) for url in urls})
    work.store.delete_crawl("x")
    work.promised(pages=now | after, in_flight={})


def back_up(work: Work) -> None:
    """Two backups into one folder."""
    work.open()
    work.store.backup(work.root / "b")
    work.promised(done=("backup",))
    work.put(a_page("d.example/1", near(0, 40)))
    work.store.backup(work.root / "b")


def back_up_again(root: Path) -> object:
    if "backup" in list(_promises(root))[-1].done:
        restore(root / "b", root / "old")
        with docstore.open(root / "old") as old:
            assert old.get("https://a.example/") is not None
            assert list(check(old.backend)) == []
    with docstore.open(root / "s") as store:
        store.backup(root / "b")
        right = contents(store)
    restore(root / "b", root / "again")
    with docstore.open(root / "again") as again:
        return contents(again) == right and list(check(again.backend)) == []


def fill_and_back_up(work: Work) -> None:
    fill(work)
    with docstore.open(work.root / "s") as store:
        store.backup(work.root / "b")


def restore_backup(work: Work) -> None:
    restore(work.root / "b", work.root / "r")
    work.promised(done=("restored",))


def restore_again(root: Path) -> object:
    if not (root / "r" / "FORMAT").exists():
        assert "restored" not in list(_promises(root))[-1].done
        restore(root / "b", root / "r")
    with docstore.open(root / "r") as store, docstore.open(root / "s") as right:
        return contents(store) == contents(right) and list(check(store.backend)) == []


def salvage(work: Work) -> None:
    _salvage(work.root)
    work.promised(done=("salvaged",))


def _salvage(root: Path) -> None:
    output = str(root / "out.warc.gz")
    with redirect_stdout(io.StringIO()):
        status = run_command(["tool", "salvage", "--store", str(root / "s"), "--output", output])
    assert status == 0


def salvage_again(root: Path) -> object:
    """Its output is there as a whole, or not at all."""
    output = root / "out.warc.gz"
    found = [_entries(output)] if output.exists() else []
    assert found or "salvaged" not in list(_promises(root))[-1].done
    output.unlink(missing_ok=True)
    _salvage(root)
    found.append(_entries(output))
    assert found[0] == found[-1]
    return found[-1]


def _entries(archive: Path) -> list[tuple[str, int | None, bytes]]:
    return sorted(
        (one.page.url, one.page.fetched_at, one.page.body) for one in read(archive) if isinstance(one, PageEntry)
    )


ANNOTATOR = Annotator("first", of_document=lambda document: {"first": (document.text or "")[:20] * 200})


def write_notes(work: Work) -> None:
    work.open()
    annotate(work.store, ANNOTATOR)


def write_notes_again(root: Path) -> object:
    with docstore.open(root / "s") as store:
        annotate(store, ANNOTATOR)
        assert annotate(store, ANNOTATOR).written == 0
        return contents(store)


def search_index(work: Work) -> None:
    """Made, then updated after pages were added, changed and removed."""
    work.open()
    work.store.search_index().update()
    work.put(a_page("c.example/", near(5, 3), 2), a_page("d.example/1", near(0, 40)))
    work.delete("https://h0.example/0")
    work.store.search_index().update()


def search_again(root: Path) -> object:
    """A damaged index says so, and is made anew; one that answers is right after an update."""
    with docstore.open(root / "s") as store:
        try:
            store.search_index().update()
            found = _search(store)
        except CorruptionError:
            store.search_index().update(full=True)
            found = _search(store)
        shutil.rmtree(root / "s" / "search", ignore_errors=True)  # tantivy may still remove merged segments
        store.search_index(root / "fresh").update()
        return found == _search(store, root / "fresh")


def _search(store: DocumentStore, index: Path | None = None) -> list[str]:
    return sorted(hit.url for hit in store.search("page", index=index, limit=50).hits)


def copy_store(work: Work) -> None:
    work.open()
    copy(work.store, work.root / "t", threads=1)


def copy_again(root: Path) -> object:
    with docstore.open(root / "s") as store:
        copy(store, root / "t")
        with docstore.open(root / "t") as target:
            return contents(target) == contents(store) and list(check(target.backend)) == []


NOTES = Schema(families=(ColumnFamily("mark", GCPolicy()),))
LINKS = b'<a href="https://a.example/">first of all</a> <a href="https://b.example/">another one</a> '


def fill_with_families(work: Work) -> None:
    work.open(schema=NOTES)
    work.store.close()
    fill(work)
    bodies = {one.url: one.body for one in _written()}
    touched = (*bodies, "https://h2.example/8", "https://nowhere.example/")
    known = {url: known[0] for url, known in work.promise.pages.items() if known}
    work.promised(in_flight={url: (known.get(url), bodies.get(url), None) for url in touched})


def every_write(work: Work) -> None:
    """Every other kind of plan: anchors, visits, rejected and late captures, cells of users, an index made anew."""
    work.open()
    _write_all(work.store)
    rows = [RowMutations("postings", row.row_key, [DeleteRow()]) for row in work.store.backend.engine.scan("postings")]
    work.promised(is_posted=False)
    work.store.backend.engine.mutate_rows(rows, Durability.NONE)
    reindex(work.store)
    work.promised(is_posted=True)


def _written() -> list[Page]:
    """Pages with links, a visit, a capture before the one that is there, a changed page, duplicates."""
    linking = near(30, 1).replace(b"<body>", b"<body>" + LINKS)
    return [
        a_page("l.example/1", linking, crawl="x"),
        Page("https://b.example/", b"", 304, HTML, T0 + 86_400_000_000),
        a_page("c.example/", near(5, 9), -1),
        a_page("h0.example/0", near(0, 41), 1, crawl="x"),
        a_page("l.example/2", near(4, 7)),
        a_page("l.example/3", near(4, 1)),
        a_page("l.example/4", page(words(2, 200), title="A part")),
    ]


def _write_all(store: DocumentStore) -> Any:
    list(store.put_pages(_written()[:4], threads=1, anchors=True))
    list(store.put_pages(_written()[4:], threads=1, policies=dict.fromkeys(REFER, Policy.REJECT)))
    store.add_anchor("https://c.example/", "https://x.example/", "See", T0)
    own = "https://c.example/"
    cells = [SetCell("mark", b"a", 1000, b"short"), SetCell("mark", b"long", 1000, b"x" * 5000)]
    other = [SetCell("mark", b"a", 1000, b"other"), DeleteFamily("anchor")]
    store.cells.apply_many([(own, cells), ("https://b.example/near", other), ("https://nowhere.example/", cells[:1])])
    store.cells.check_and_mutate(own, Condition("mark", b"b", None), [SetCell("mark", b"b", 2000, b"once")])
    if store.cells.read_row("https://h1.example/1", docstore.ReadSpec(families=("mark",))) is None:
        store.cells.read_modify_write("https://h1.example/1", [Append("mark", b"log", b"line")])
    store.delete_crawl("x", purge=True)
    store.cells.apply("https://h2.example/8", [DeleteRow()])
    reindex(store)
    found: dict[Any, bytes] = {}
    for (row_key, family, qualifier, timestamp), value in contents(store).items():
        if (family, qualifier) == capture.VERDICT:  # its counts depend on postings that lead to nothing
            value = capture.encode_verdict(capture.decode_verdict(value)._replace(candidates=0, verified=0))
        found[row_key, family, qualifier, 0 if qualifier == b"log" else timestamp] = value  # it is of the clock
    return found


def write_all_again(root: Path) -> object:
    with docstore.open(root / "s") as store:
        return _write_all(store)


class Protocol(NamedTuple):
    """What is recorded.

    Attributes:
        run: the work.
        prepare: what is there before, which is not recorded.
        again: does the work again in a state that a crash left; returns what is as after an undisturbed run.
        limits: sizes that are made small, by their names in `LIMITS`.
        is_torn: each row of a plan is applied on its own.
    """

    run: Callable[[Work], None]
    prepare: Callable[[Work], None] = fill
    again: Callable[[Path], object] | None = None
    limits: dict[str, int] = {}  # noqa: RUF012 never changed
    is_torn: bool = False


PROTOCOLS = {
    "make": Protocol(make, nothing),
    "group commit": Protocol(put_groups),
    "group commit at flush": Protocol(put_at_flush),
    "recovery": Protocol(put_groups, fill_and_kill),
    "segment roll": Protocol(roll_segments, limits={"segment_bytes": 4000}),
    "dictionaries": Protocol(dictionaries),
    "tablet split": Protocol(split_tablets, limits={"tablet_bytes": 50_000}),
    "filter of rows": Protocol(filter_rows, limits={"saved_bytes": 0}),
    "index runs": Protocol(index_runs, limits={"flush_texts": 6}),
    "compaction": Protocol(compact, fill_with_garbage, compact_again, {"flush_texts": 6}),
    "sweep and apply": Protocol(sweep_and_apply, again=sweep_again),
    "sweep that rejects": Protocol(sweep_and_reject, fill_and_expect_rejection, reject_again),
    "purge": Protocol(purge),
    "delete": Protocol(delete),
    "delete of a crawl": Protocol(delete_crawl),
    "backup": Protocol(back_up, again=back_up_again, limits={"flush_texts": 6}),
    "restore": Protocol(restore_backup, fill_and_back_up, restore_again, {"flush_texts": 6}),
    "salvage": Protocol(salvage, again=salvage_again),
    "notes": Protocol(write_notes, again=write_notes_again),
    "search index": Protocol(search_index, again=search_again),
    "copy": Protocol(copy_store, again=copy_again),
}
PROTOCOLS |= {
    f"{name}, row by row": PROTOCOLS[name]._replace(is_torn=True)
    for name in (
        "group commit",
        "compaction",
        "sweep and apply",
        "sweep that rejects",
        "purge",
        "delete",
        "delete of a crawl",
    )
}
PROTOCOLS["every write, row by row"] = Protocol(every_write, fill_with_families, write_all_again, is_torn=True)

LIMITS: dict[str, tuple[Any, str]] = {
    "segment_bytes": (ValueLog.__init__, "limit_bytes"),
    "tablet_bytes": (Manifest.load.__func__, "tablet_bytes"),  # type: ignore[attr-defined]
    "flush_texts": (RunIndex.__init__, "flush_texts"),
    "saved_bytes": (RowFilter.__init__, "saved_bytes"),
}
"""Function and parameter whose default decides when a segment, a tablet or the index's memory is full, or which filters
are saved."""


@contextmanager
def limited(limits: dict[str, int]) -> Iterator[None]:
    """Make limits small while this lasts."""
    with ExitStack() as stack:
        for name, value in limits.items():
            function, parameter = LIMITS[name]
            defaults, named = function.__defaults__, function.__kwdefaults__
            stack.callback(setattr, function, "__defaults__", defaults)
            stack.callback(setattr, function, "__kwdefaults__", named)
            if named and parameter in named:
                function.__kwdefaults__ = named | {parameter: value}
            else:
                parameters = inspect.signature(function).parameters.values()
                names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD][-len(defaults) :]
                function.__defaults__ = tuple(
                    value if one == parameter else old for one, old in zip(names, defaults, strict=True)
                )
        yield


@contextmanager
def row_by_row() -> Iterator[None]:
    """Let LevelDB apply each row of a plan on its own while this lasts."""
    whole = LevelDBEngine.mutate_rows

    def mutate_rows(engine: LevelDBEngine, rows: Sequence[RowMutations], durability: Durability) -> None:
        for row in rows:
            whole(engine, [row], durability)

    LevelDBEngine.mutate_rows = mutate_rows  # type: ignore[method-assign]
    try:
        yield
    finally:
        LevelDBEngine.mutate_rows = whole  # type: ignore[method-assign]


# --- recording


def _promises(root: Path) -> Iterator[Promise]:
    with (root / PROMISES).open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)


def prepare(name: str, root: Path) -> None:
    """Make what is there before a protocol runs."""
    root.mkdir()
    work = Work(root)
    with limited(PROTOCOLS[name].limits):
        PROTOCOLS[name].prepare(work)
        work.promised()


def perform(name: str, folder: str) -> None:
    """Run a protocol over what was prepared."""
    work = Work(Path(folder))
    work.promise = list(_promises(work.root))[-1]
    with limited(PROTOCOLS[name].limits), row_by_row() if PROTOCOLS[name].is_torn else nullcontext():
        PROTOCOLS[name].run(work)
        if work.store is not None:
            work.store.close()


def perform_each() -> None:
    """Run what each line of stdin names, each in a process of its own: protocol, folder, file of its record."""
    for line in sys.stdin:
        name, folder, trace = json.loads(line)
        child = os.fork()
        if not child:
            begin_record(folder, trace)
            perform(name, folder)
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)


@lru_cache(maxsize=1)
def _performer() -> subprocess.Popen[str]:
    """The process that runs `perform_each`: it imports all this once, and ends with this one."""
    program = "from tests.crash.states import perform_each; perform_each()"
    environment = os.environ | {"LD_PRELOAD": str(recorder())}
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _record(name: str, root: Path, trace: Path) -> None:
    process = _performer()
    assert process.stdin is not None and process.stdout is not None
    print(json.dumps([name, str(root), str(trace)]), file=process.stdin, flush=True)
    assert process.stdout.readline() == "0\n", f"{name} fails without a crash"


class Crash(NamedTuple):
    """A state, where it comes from, and what it has to hold."""

    where: str
    state: State
    promise: Promise
    is_kill: bool


class Record:
    """A protocol that was run: the disk before, the calls, and what it ends in."""

    def __init__(self, name: str, folder: Path) -> None:
        self.protocol = PROTOCOLS[name]
        self.name = name
        self._root, trace = folder / "root", folder / "trace"
        prepare(name, self._root)
        self._before = folder / "before"
        shutil.copytree(self._root, self._before)
        _record(name, self._root, trace)
        self.events = list(read_events(self._root, trace))
        self.steps = sum(event.path != PROMISES for event in self.events)
        self.expected: object = None
        if self.protocol.again is not None:
            with limited(self.protocol.limits):
                self.expected = self.protocol.again(self._root)

    def crashes(
        self, seed: int, *, mixes: int, sample: int | None = None, left_out: Callable[[Event], bool] = lambda _: False
    ) -> Iterator[Crash]:
        """States that differ, after each call, or a sample; as if some calls had not been made."""
        disk, source = Disk(self._before), Random(f"{seed} {self.name}")
        promise = list(_promises(self._before))[-1]
        places = range(len(self.events) + 1)
        wanted = None if sample is None else Counter(source.choices(places, k=sample))
        seen: set[bytes] = set()
        for number in places:
            event = self.events[number - 1] if number else Event("", "", "", 0, b"")
            if event.path == PROMISES:
                if event.kind == "w":
                    promise = pickle.loads(event.data)
            elif number and not left_out(event):
                disk.apply(event)
            if wanted is not None and not wanted[number]:
                continue
            found = list(disk.states(source, mixes if wanted is None else wanted[number]))
            for how, state in found if wanted is None else source.sample(found, min(len(found), wanted[number])):
                digest = _digest(state, promise)
                if digest not in seen:
                    seen.add(digest)
                    where = f"{self.name}: after call {number} ({event.kind} {event.path} {event.target}): {how}"
                    yield Crash(where, state, promise, how == "all")


def _digest(state: State, promise: Promise) -> bytes:
    digest = blake2b(pickle.dumps(promise))
    for path, raw in sorted(state.items()):
        if path != PROMISES:
            digest.update(path.encode() + b"\0" + blake2b(b"-" if raw is None else raw).digest())
    return digest.digest()


# --- is it sound?


def fault_of(record: Record, crash: Crash, *, is_deep: bool, keep: Path | None = None) -> str:
    """What is wrong with a state; "" if nothing is."""
    with TemporaryDirectory(prefix="docstore-state-", dir=MEMORY) as folder:
        root = Path(folder) / "root"
        lay_out(crash.state, root)
        (root / PROMISES).write_bytes(pickle.dumps(crash.promise))
        try:
            with limited(record.protocol.limits):
                assert_sound(record, crash, root, is_deep=is_deep)
        except Exception as error:
            if keep is not None:
                lay_out(crash.state, keep / f"{record.name}-{len(list(keep.iterdir()))}")
            return f"{crash.where}: {type(error).__name__}: {str(error)[:500]}"
    return ""


def assert_sound(record: Record, crash: Crash, root: Path, *, is_deep: bool) -> None:
    """Open a state, look at everything, and go on with it; `is_deep` with a compaction too."""
    promise, may_lack = crash.promise, False
    is_made = record.name != "make" or "made" in promise.done
    if not promise.is_synced and not crash.is_kill:
        may_lack, promise = True, promise._replace(in_flight=promise.in_flight | promise.at_flush)
        with docstore.open(root / "s") as store:
            store.acknowledge_lost()
    assert not [path for path in promise.gone if (root / path).exists()]
    with docstore.open(root / "s", create=not is_made) as store:
        assert store.lost == ()
        _assert_kept(store, promise)
        _assert_no_problems(store, promise, may_lack=may_lack)
    if record.protocol.again is not None:
        assert record.protocol.again(root) == record.expected, "doing it again ends in something else"
    with docstore.open(root / "s") as store:
        first = min((url for url, known in promise.pages.items() if known and known[0] == NEAR_PROBE), default=None)
        result = store.put_page("https://z.example/", PROBE, headers=HTML, fetched_at=T0)
        if first is not None and first not in promise.in_flight:
            assert result.verdict.kind is VerdictKind.NEAR, result.verdict
        if is_deep:
            store.compact()
            after = promise.pages | {result.url: _known(PROBE, result.verdict)}
            _assert_kept(store, promise._replace(pages=after), verdicts=not record.name.startswith("sweep"))
            _assert_no_problems(store, promise, may_lack=may_lack)
            if promise.purged:
                _assert_purged(store)


def _assert_no_problems(store: DocumentStore, promise: Promise, *, may_lack: bool) -> None:
    """`check` names nothing; or only records whose rows a power loss has taken, if it was allowed to."""
    problems = [f"{one.where}: {one.what}" for one in check(store.backend)]
    if not promise.is_posted:
        problems = [one for one in problems if "no posting leads to it" not in one]
    assert [one for one in problems if not (may_lack and one.startswith(SET_ASIDE_DIRECTORY))] == []


def _assert_kept(store: DocumentStore, promise: Promise, *, verdicts: bool = True) -> None:
    urls = {url for url, known in promise.pages.items() if known is not None} - promise.in_flight.keys()
    assert urls <= set(store.urls()) <= urls | promise.in_flight.keys()
    for url in urls:
        found, known = store.get(url), promise.pages[url]
        assert found is not None and known is not None and found.body == known[0], url
        if verdicts:
            assert found.verdict is not None and _known(known[0], found.verdict) == known, (url, found.verdict)
    for url, allowed in promise.in_flight.items():
        found = store.get(url)
        assert (None if found is None else found.body) in allowed, url


# --- the command


class Tried(NamedTuple):
    """A protocol whose states were tried."""

    name: str
    steps: int
    states: int
    faults: list[str]


def try_protocol(
    name: str, seed: int, states: int, *, sample: bool = False, deep_share: float = DEEP_SHARE, keep: Path | None = None
) -> Tried:
    """Try all states of a protocol, and so many mixed ones that there are `states`; or a sample of so many."""
    source, faults, tried = Random(seed), [], 0
    with TemporaryDirectory(prefix="docstore-protocol-", dir=MEMORY) as folder:
        record = Record(name, Path(folder))
        mixes = 1 if sample else 1 + 6 * states // len(record.events)  # most calls leave nothing to mix
        with closing(record.crashes(seed, mixes=mixes, sample=states if sample else None)) as crashes:
            for crash in crashes:
                tried += 1
                faults.append(fault_of(record, crash, is_deep=source.random() < deep_share, keep=keep))
                if tried % 100 == 0 and not sample:
                    print(f"{name}: {tried} states, {sum(map(bool, faults))} faults, at {crash.where}", flush=True)
    return Tried(name, record.steps, tried, list(filter(None, faults)))


def _try(arguments: tuple[str, int, int, Path | None]) -> Tried:
    name, seed, states, keep = arguments
    return try_protocol(name, seed, states, keep=keep)


def main() -> int:
    """Try the states of all protocols; 1 if one has a fault."""
    parser = argparse.ArgumentParser(description="States that a crash may leave, of every protocol on disk.")
    parser.add_argument("--states", type=int, default=10_000, help="at least so many of all protocols")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append", help="only this one; may be repeated")
    parser.add_argument("--keep", type=Path, help="folder that gets the states with a fault")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = options.protocol or list(PROTOCOLS)
    if options.keep is not None:
        options.keep.mkdir(exist_ok=True)
    jobs = [(name, options.seed, -(-options.states // len(names)), options.keep) for name in names]
    found = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for tried in pool.imap_unordered(_try, jobs):
            found.append(tried)
            print(f"{len(found)} of {len(names)}: {tried.name}: {tried.states} states, {len(tried.faults)} faults")
            print(*tried.faults[:20], sep="\n", flush=True)
    print(f"\nseed {options.seed}\n\n| protocol | steps | states | faults |\n|---|---|---|---|")
    for tried in sorted(found, key=lambda one: names.index(one.name)):
        print(f"| {tried.name} | {tried.steps:,} | {tried.states:,} | {len(tried.faults)} |")
    total = sum(tried.states for tried in found)
    print(f"| all | {sum(one.steps for one in found):,} | {total:,} | {sum(len(one.faults) for one in found)} |")
    return 1 if any(tried.faults for tried in found) or total < options.states else 0


if __name__ == "__main__":
    from tests.crash import states  # what is pickled here is of the module that other processes import

    sys.exit(states.main())
