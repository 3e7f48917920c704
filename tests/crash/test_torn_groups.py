"""A plan applied row by row, in any order inside a stage, and stopped behind each row: the store stays sound.

LevelDB applies a plan as a whole; here it is told that it does not.  After each stop the store is opened again: what
was acknowledged is exact, `check` is silent, no answer names a page that is not there, and the same input again ends in
the store that an undisturbed run makes.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faulty_files import SimulatedCrash
from pages import changed, page, words
from stores import Contents, contents

import docstore
from docstore import Page, Policy, Schema, VerdictKind
from docstore.model import capture
from docstore.model.format import PURGED_ROW
from docstore.model.types import (
    Append,
    ColumnFamily,
    Condition,
    DeleteFamily,
    DeleteRow,
    Durability,
    GCPolicy,
    RowMutations,
    SetCell,
)
from docstore.reports.check import ACKNOWLEDGE, check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex
from docstore.tablets import layout
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.layout import Layout

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
NOW = T0 + 100 * DAY
STOPS = 2
"""Stops of one kind of plan that are tried where time is short; the slow test tries all."""
BY_REFERENCE = dict.fromkeys((VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR), Policy.REFERENCE)
BY_REJECTION = dict.fromkeys((VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR), Policy.REJECT)

Act = Callable[[DocumentStore], object]


class Tearing:
    """Applies rows one by one, in their order, and stops behind so many."""

    def __init__(self, store: DocumentStore, stop_at: int | None) -> None:
        engine: Any = store.opened.engine
        self.applied = 0
        self._real = engine.mutate_rows
        self._stop_at = stop_at
        engine.mutate_rows = self.mutate_rows

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        for row in rows:
            if self.applied == self._stop_at:
                raise SimulatedCrash(f"stopped behind row {self.applied}")
            self._real([row], Durability.NONE)
            self.applied += 1


class Kind(NamedTuple):
    """A kind of plan.

    Attributes:
        before: makes what is there.
        act: what is done, and done again.
        gone: URLs that it takes away.
        schema: of the store.
        is_sound: whether `check` finds nothing before it is done.
    """

    before: Act
    act: Act
    gone: tuple[str, ...] = ()
    schema: Schema | None = None
    is_sound: bool = True


def near(number: int, seed: int) -> bytes:
    return page(changed(words(number, 300), seed, 6), title=f"Near {number}")


def a_page(url: str, body: bytes, days: int = 0, **fields: Any) -> Page:
    return Page(f"https://{url}", body, 200, HTML, T0 + days * DAY, **fields)


def put(store: DocumentStore, pages: Sequence[Page], **options: Any) -> None:
    results = list(store.put_pages(pages, threads=1, **options))
    assert not any(result.error for result in results)


LINKS = b'<a href="https://a.example/0">first of all</a> <a href="https://b.example/1">another one</a> '


def linking(number: int, seed: int = 0) -> bytes:
    return near(number, seed).replace(b"<body>", b"<body>" + LINKS)


OLD = [a_page(f"a.example/{n}", page(words(n, 300), title=f"Page {n}")) for n in range(6)]


def fill(store: DocumentStore) -> None:
    put(store, OLD)


NEW_PAGES = [
    a_page("b.example/0", page(words(20, 300), title="Alone"), payload_digest="sha1:AAAA", docno="D-1"),
    a_page("b.example/1", near(0, 1)),
    a_page("b.example/2", near(0, 2)),
    a_page("b.example/3", page(words(1, 300), title="Page 1")),
    a_page("b.example/4", near(20, 3)),
    a_page("b.example/5", near(20, 4), docno="D-2"),
    a_page("b.example/6", page(words(21, 30))),
    a_page("b.example/7", page(words(20, 300), title="Alone")),
    a_page("b.example/8", page(words(2, 200), title="A part")),
]


def crawl_again(store: DocumentStore) -> None:
    put(
        store,
        [
            a_page("a.example/0", OLD[0].body, 1),
            a_page("a.example/1", near(1, 1), 1),
            a_page("a.example/2", page(words(2, 300), title="Another title"), 1),
            a_page("a.example/3", OLD[3].body, -1),
            Page("https://a.example/4", b"", 304, (), T0 + DAY),
            Page("https://none.example/", b"", 304, (), T0 + DAY),
            Page("https://a.example/5", b"gone", 404, HTML, T0 + DAY),
        ],
    )


def refer(store: DocumentStore) -> None:
    fill(store)
    put(store, NEW_PAGES, policies=BY_REFERENCE)


def with_links(store: DocumentStore) -> None:
    fill(store)
    put(store, [a_page(f"l.example/{n}", linking(30 + n)) for n in range(3)], anchors=True)


def purge(store: DocumentStore) -> None:
    store.delete("https://l.example/0", purge=True)


def two_crawls(store: DocumentStore) -> None:
    """Pages of a crawl that goes: with links, a delta and a base, and one that a visit of another crawl confirms."""
    with_links(store)
    pages = [
        a_page("a.example/1", near(1, 1), 1, crawl="x"),
        a_page("a.example/2", near(2, 1), 1, crawl="x"),
        a_page("l.example/0", linking(30, 2), 1, crawl="x"),
        a_page("l.example/9", linking(9), crawl="x"),
    ]
    put(store, pages, anchors=True)
    visit = Page("https://a.example/2", b"", 304, (), T0 + 2 * DAY, crawl="y")
    put(store, [visit, a_page("b.example/9", near(1, 2))])


OF_CRAWL = ("https://a.example/1", "https://l.example/0", "https://l.example/9")


def interrupted_compaction(store: DocumentStore) -> None:
    with_links(store)
    row = RowMutations("meta", PURGED_ROW, [SetCell("m", b"", 0, b"an earlier purge")])
    store.opened.engine.mutate_rows([row], Durability.NONE)


def worn(store: DocumentStore) -> None:
    """A store that compaction finds something to do in: deltas, dead bases, hidden versions, references."""
    refer(store)
    put(store, [a_page("a.example/1", near(1, seed), 1 + seed) for seed in range(3)])
    store.delete("https://b.example/0")
    put(store, [a_page("c.example/0", near(3, 1)), a_page("c.example/1", near(3, 2))])
    store.delete("https://a.example/3")


def compact_all(store: DocumentStore) -> None:
    store.compact()


def cells_by_hand(store: DocumentStore) -> None:
    own = "https://a.example/0"
    store.cells.apply_many(
        [
            (own, [SetCell("mark", b"a", 1000, b"short"), SetCell("mark", b"long", 1000, b"x" * 5000)]),
            ("https://a.example/1", [SetCell("mark", b"a", 1000, b"other"), DeleteFamily("anchor")]),
            ("https://nowhere.example/", [SetCell("mark", b"a", 1000, b"alone")]),
        ]
    )
    store.cells.check_and_mutate(own, Condition("mark", b"b", None), [SetCell("mark", b"b", 2000, b"once")])
    rows = store.cells.read_row("https://a.example/2", docstore.ReadSpec(families=("mark",)))
    if rows is None:
        store.cells.read_modify_write("https://a.example/2", [Append("mark", b"log", b"line")])


def take_the_original(store: DocumentStore) -> None:
    store.cells.apply("https://a.example/0", [DeleteRow()])
    store.cells.check_and_mutate("https://a.example/1", Condition("mark", b"b", None), [DeleteRow()])


def sweep_and(policy: str) -> Act:
    kinds = ("exact", "same_text", "near")
    return lambda store: sweep(store, SweepOptions(apply=policy, kinds=kinds, any_host=policy == "reference"))


def unposted(store: DocumentStore) -> None:
    fill(store)
    put(store, NEW_PAGES)
    rows = [RowMutations("postings", row.row_key, [DeleteRow()]) for row in store.opened.engine.scan("postings")]
    store.opened.engine.mutate_rows(rows, Durability.NONE)


def every_page(store: DocumentStore) -> None:
    fill(store)
    put(store, NEW_PAGES)


TWO_VERSIONS = Schema(captures=GCPolicy(max_versions=2), bodies=GCPolicy(max_versions=1))
NOTES = Schema(families=(ColumnFamily("mark", GCPolicy()),))

KINDS = {
    "pages": Kind(fill, lambda store: put(store, NEW_PAGES)),
    "first pages": Kind(lambda store: None, lambda store: put(store, OLD)),
    "pages and anchors": Kind(fill, lambda store: put(store, [a_page("l.example/1", linking(9))], anchors=True)),
    "again and visits": Kind(fill, crawl_again),
    "by reference": Kind(fill, lambda store: put(store, NEW_PAGES, policies=BY_REFERENCE)),
    "by rejection": Kind(fill, lambda store: put(store, NEW_PAGES, policies=BY_REJECTION)),
    "delete": Kind(with_links, lambda store: store.delete("https://a.example/0"), ("https://a.example/0",)),
    "delete an original": Kind(refer, lambda store: store.delete("https://a.example/0"), ("https://a.example/0",)),
    "purge": Kind(interrupted_compaction, purge, ("https://l.example/0",)),
    "delete a crawl": Kind(two_crawls, lambda store: store.delete_crawl("x"), OF_CRAWL),
    "purge a crawl": Kind(two_crawls, lambda store: store.delete_crawl("x", purge=True), OF_CRAWL),
    "compaction": Kind(worn, compact_all),
    "compaction and policies": Kind(worn, compact_all, schema=TWO_VERSIONS),
    "sweep": Kind(every_page, sweep),
    "sweep that rejects": Kind(every_page, sweep_and("reject"), ("https://b.example/7",)),
    "sweep that refers": Kind(every_page, sweep_and("reference")),
    "cells by hand": Kind(fill, cells_by_hand, schema=NOTES),
    "delete originals by hand": Kind(
        refer, take_the_original, ("https://a.example/0", "https://a.example/1"), schema=NOTES
    ),
    "reindex": Kind(unposted, reindex, is_sound=False),
    "an anchor": Kind(fill, lambda store: store.add_anchor("https://a.example/0", "https://x.example/", "See", T0)),
}


def open_store(folder: Path, schema: Schema | None = None) -> DocumentStore:
    return DocumentStore(Layout(folder).open(create=True, schema=schema), Durability.FLUSH, clock=lambda: NOW)


def run_torn(folder: Path, act: Act, stop_at: int | None) -> int:
    """Do something row by row; the process is gone behind the stop.  -> rows applied."""
    store = open_store(folder)
    opened = store.opened
    tearing = Tearing(store, stop_at)
    try:
        act(store)
        assert stop_at is None, "it did not stop"
    except SimulatedCrash:
        pass
    finally:
        opened.engine.close()
        if opened.index is not None:
            opened.index.close()
        opened.lock.release()
    return tearing.applied


def bodies(store: DocumentStore) -> dict[tuple[str, int], bytes]:
    """Every capture with its body."""
    return {
        (document.url, version): document.body or b""
        for row in store.cells.scan(spec=docstore.ReadSpec(families=("page",), keys_only=True))
        for version in {cell.timestamp for cell in row.cells}
        if (document := store.get(row.url, at=version)) is not None
    }


def named(found: Contents) -> set[tuple[bytes, int]]:
    """The captures that verdicts name, but those of captures that were rejected."""
    pointers = set()
    for (_, family, qualifier, _), value in found.items():
        if (family, qualifier) == capture.VERDICT:
            verdict = capture.decode_verdict(value)
            if verdict.of_row_key:
                pointers.add((verdict.of_row_key, verdict.of_timestamp))
    return pointers


def captures(found: Contents) -> set[tuple[bytes, int]]:
    return {(row_key, at) for (row_key, family, qualifier, at) in found if (family, qualifier) == capture.BODY}


def comparable(found: Contents) -> Contents:
    """Contents without what a verdict counted on its way: a stop may leave a posting that leads to nothing."""
    result = dict(found)
    for key, value in found.items():
        if key[1:3] == capture.VERDICT:
            result[key] = capture.encode_verdict(capture.decode_verdict(value)._replace(candidates=0, verified=0))
    return result


def postings(store: DocumentStore) -> set[tuple[bytes, bytes]]:
    return {(row.row_key, cell.qualifier) for row in store.opened.engine.scan("postings") for cell in row.cells}


class Case:
    """One kind of plan: the store before it, and what an undisturbed run makes of it."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.kind = kind
        self.before = folder / "before"
        with open_store(self.before, kind.schema) as store:
            kind.before(store)
            self.acknowledged = {key: body for key, body in bodies(store).items() if key[0] not in kind.gone}
            self.dangling = named(contents(store)) - captures(contents(store))
        done = folder / "done"
        shutil.copytree(self.before, done)
        with open_store(done) as store:
            kind.act(store)
            self.dangling |= named(contents(store)) - captures(contents(store))
            self.after = comparable(contents(store))
            store.compact()
            self.postings = postings(store)
            self.compacted = comparable(contents(store))
        shutil.rmtree(done)

    def rows(self, folder: Path) -> int:
        shutil.copytree(self.before, folder)
        try:
            return run_torn(folder, self.kind.act, None)
        finally:
            shutil.rmtree(folder)

    def assert_sound_when_stopped(self, folder: Path, stop_at: int) -> None:
        where = f"stopped behind row {stop_at}"
        shutil.copytree(self.before, folder)
        run_torn(folder, self.kind.act, stop_at)
        with open_store(folder) as store:
            assert store.lost == () and store.opened.lost_commits == (), where
            assert store.opened.set_aside == (), where
            assert not self.kind.is_sound or list(check(store.opened)) == [], where
            self.assert_acknowledged(store, where)
            found = contents(store)
            assert named(found) - captures(found) <= self.dangling, where
            for body in (near(0, 9), near(20, 9), page(words(1, 300), title="Page 1")):
                for one in store.similar(body):
                    assert store.get(one.url, at=one.timestamp) is not None, where
        with open_store(folder) as store:
            self.kind.act(store)
            assert list(check(store.opened)) == [], where
            assert comparable(contents(store)) == self.after, where
            store.compact()
            assert comparable(contents(store)) == self.compacted, where
            assert postings(store) == self.postings, where
            assert list(check(store.opened)) == [], where
        shutil.rmtree(folder)

    def assert_acknowledged(self, store: DocumentStore, where: str) -> None:
        for (url, timestamp), body in self.acknowledged.items():
            document = store.get(url, at=timestamp)
            if self.kind.schema is TWO_VERSIONS and (document is None or document.body is None):
                continue  # a policy hides it, or its body
            assert document is not None and document.body == body, f"{where}: {url}"


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    made: dict[str, Case] = {}

    def get(name: str) -> Case:
        if name not in made:
            made[name] = Case(tmp_path_factory.mktemp("torn"), KINDS[name])
        return made[name]

    return get


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_is_stopped_behind_some_of_its_rows(tmp_path: Path, case: Callable[[str], Case], name: str) -> None:
    rows = case(name).rows(tmp_path / "s")
    for stop_at in random.Random(len(name)).sample(range(rows), min(STOPS, rows)):
        case(name).assert_sound_when_stopped(tmp_path / "s", stop_at)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_plan_is_stopped_behind_each_of_its_rows(tmp_path: Path, case: Callable[[str], Case], name: str) -> None:
    for stop_at in range(case(name).rows(tmp_path / "s")):
        case(name).assert_sound_when_stopped(tmp_path / "s", stop_at)


# --- opening after power loss


class TornEngine(LevelDBEngine):
    """Applies rows one by one, as `Tearing`, from its opening on."""

    left = 10**6

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        for row in rows:
            if not TornEngine.left:
                raise SimulatedCrash("stopped")
            TornEngine.left -= 1
            super().mutate_rows([row], Durability.NONE)


def cut(store: DocumentStore, folder: Path) -> None:
    """Copy a store as its writer has it now, without the last half of what it has written to its segment."""
    shutil.copytree(store.opened.path, folder)
    segment = max((folder / "segments").glob("*.seg"))
    os.truncate(segment, segment.stat().st_size // 2)


def lost_of(store: DocumentStore) -> tuple[set[tuple[object, ...]], Contents]:
    return {(lost.url, lost.timestamp, lost.columns) for lost in store.lost}, contents(store)


def test_an_open_that_drops_what_is_lost_is_stopped_behind_every_third_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "s") as store:
        fill(store)
        put(store, [*NEW_PAGES, a_page("a.example/0", near(0, 7), 1)], policies=BY_REFERENCE)
        cut(store, tmp_path / "lost")
    shutil.copytree(tmp_path / "lost", tmp_path / "whole")
    with open_store(tmp_path / "whole") as store:
        expected = lost_of(store)
        assert len(expected[0]) > 3
    monkeypatch.setattr(layout, "LevelDBEngine", TornEngine)
    stop_at = 0
    while True:
        shutil.copytree(tmp_path / "lost", tmp_path / "torn")
        TornEngine.left = stop_at
        try:
            Layout(tmp_path / "torn").open(create=False, schema=None).close()
            break
        except SimulatedCrash:
            pass
        TornEngine.left = 10**6
        with open_store(tmp_path / "torn") as store:
            assert lost_of(store) == expected, stop_at
            assert {one.remedy.split("; ")[-1] for one in check(store.opened)} == {ACKNOWLEDGE}, stop_at
        shutil.rmtree(tmp_path / "torn")
        stop_at += 3
    assert stop_at > 6
