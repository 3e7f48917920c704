"""Compaction of several tablets at once: what one thread writes, another must not name before it is durable."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import changed, page, words

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.model.errors import StorageError
from docstore.reports.check import check
from docstore.tablets.compaction import relocation, segments
from docstore.tablets.manifest import Manifest

HTML = (("content-type", "text/html"),)
AT = 1_700_000_000_000_000


@pytest.fixture
def small_tablets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Manifest.__init__, "__defaults__", (150_000,))
    monkeypatch.setattr(Manifest.load.__func__, "__defaults__", (150_000,))  # type: ignore[attr-defined]
    yield


def pages(host: str, count: int) -> list[Page]:
    return [
        Page(f"https://{host}.example/{n}", page(words(n + ord(host[0]) * 1000, 900)), 200, HTML, AT)
        for n in range(count)
    ]


@pytest.mark.usefixtures("small_tablets")
def test_a_tablet_that_fails_takes_no_shared_body_of_another_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    policies = {VerdictKind.EXACT: Policy.REFERENCE}
    shared = page(words(4, 1500))
    bodies: dict[str, bytes] = {}
    with docstore.open(tmp_path / "store", create=True) as store:
        for host in "abcdefgh":
            first = [Page("https://a.example/0-first", shared, 200, HTML, AT)] if host == "a" else []
            for one in (*first, *pages(host, 12), Page(f"https://{host}.example/zz", shared, 200, HTML, AT)):
                store.put_page(one.url, one.body, headers=HTML, fetched_at=AT, policies=policies)
                bodies[str(one.url)] = bytes(one.body)
    with docstore.open(tmp_path / "store") as store:
        tablets = [tablet.number for tablet in store.backend.manifest.tablets()]
        assert len(tablets) > 4
        others, publish = threading.Event(), relocation.Relocator.publish

        def fail_late(self: relocation.Relocator) -> None:
            if self.tablet.number == tablets[1] and self.mover.segment_bytes:
                others.wait(60)  # as on a slow disk that is full: the other thread has gone on
                raise StorageError(28, "the disk is full")
            publish(self)
            if self.tablet.number == tablets[2]:
                others.set()

        monkeypatch.setattr(relocation.Relocator, "publish", fail_late)
        with pytest.raises(StorageError, match="the disk is full"):
            store.compact()
    monkeypatch.undo()
    with docstore.open(tmp_path / "store") as store:
        assert list(check(store.backend)) == []
        assert {url: store.get(url).body for url in bodies} == bodies  # type: ignore[union-attr]


@pytest.mark.usefixtures("small_tablets")
def test_a_tablet_may_split_while_rows_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with docstore.open(tmp_path / "store", create=True) as store:
        list(store.put_pages([*pages("a", 8), *pages("z", 3)]))
        survey, waiting = segments.survey, [pages("m", 30)]

        def split_then_survey(*given: Any, **named: Any) -> None:
            if waiting:
                list(store.put_pages(waiting.pop()))
            survey(*given, **named)

        monkeypatch.setattr(segments, "survey", split_then_survey)
        store.compact()
        assert not waiting and list(check(store.backend)) == []
        assert sum(store.get(one.url) is not None for one in pages("m", 30)) == 30


@pytest.mark.usefixtures("small_tablets")
def test_an_interrupt_is_not_hidden_by_tablets_that_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        list(store.put_pages([one for host in "abcd" for one in pages(host, 20)]))
        publish = relocation.Relocator.publish

        handled, main_thread = threading.Event(), threading.get_ident()

        def interrupt(*_: object) -> None:
            handled.set()
            raise KeyboardInterrupt

        def interrupted(self: relocation.Relocator) -> None:
            if not handled.is_set():
                # To the main thread: one that any other thread gets does not wake the main thread from its wait.
                signal.pthread_kill(main_thread, signal.SIGUSR1)
                handled.wait(60)
            publish(self)

        monkeypatch.setattr(relocation.Relocator, "publish", interrupted)
        before = signal.signal(signal.SIGUSR1, interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                store.compact()
        finally:
            signal.signal(signal.SIGUSR1, before)
        monkeypatch.undo()
        assert list(check(store.backend)) == []


@pytest.mark.parametrize("size", [3_000_000, 5_000_000, 9_000_000])
def test_similar_pages_of_any_length_are_written_in_one_group(tmp_path: Path, size: int) -> None:
    filler = bytes(range(32, 48)).hex() * (size // 32)
    body = f"<title>big</title><p>{' '.join(words(3, 400))}</p><!--{filler}-->".encode()
    bodies = [body, body.replace(b"<p>", b"<p>added words here ", 1), body.replace(b"</p>", b" at the end</p>", 1)]
    with docstore.open(tmp_path / "store", create=True) as store:
        made = [Page(f"https://a.example/{n}", one, 200, HTML, AT + n * 1000) for n, one in enumerate(bodies)]
        assert [result.stored for result in store.put_pages(made)] == ["body"] * 3
        assert [store.get(one.url).body for one in made] == bodies  # type: ignore[union-attr]
        assert list(check(store.backend)) == []


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Compaction waits before its first segment is published: events that say that it waits, and that it may go on."""
    waits, may_go_on, publish = threading.Event(), threading.Event(), relocation.Relocator.publish

    def wait_and_publish(self: relocation.Relocator) -> None:
        waits.set()
        may_go_on.wait(60)
        publish(self)

    monkeypatch.setattr(relocation.Relocator, "publish", wait_and_publish)
    return waits, may_go_on


def test_a_reader_sees_the_base_of_a_page_that_is_written_during_compaction(
    tmp_path: Path, paused: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, may_go_on = paused
    with docstore.open(tmp_path / "store", create=True) as store:
        list(store.put_pages(pages("a", 5)))
        compaction = threading.Thread(target=store.compact)
        compaction.start()
        assert waits.wait(60)
        near, read = page(changed(words(3 + ord("a") * 1000, 900), 1, 5)), []
        committed = store.backend.manifest.committed

        def read_then_follow() -> None:  # the rows are written, and what is in memory does not follow yet
            got = store.get("https://b.example/")
            read.append(None if got is None else got.body)
            committed()

        monkeypatch.setattr(store.backend.manifest, "committed", read_then_follow)
        result = store.put_page("https://b.example/", near, headers=HTML, fetched_at=AT)
        may_go_on.set()
        compaction.join()
        assert result.verdict.kind is VerdictKind.NEAR and read[0] == near


def test_bytes_of_a_purged_page_do_not_come_back_in_a_dictionary(
    tmp_path: Path, paused: tuple[threading.Event, threading.Event]
) -> None:
    waits, may_go_on = paused
    mark = b"MarkOfThePurgedPage"
    with docstore.open(tmp_path / "store", create=True) as store:
        first, *others = pages("a", 6)
        marked = first.body.replace(b"<p>", b"<p>" + b" ".join(b"%s%d" % (mark, n) for n in range(300)), 1)
        list(store.put_pages([first._replace(body=marked), *others]))
        store.delete(first.url, purge=True, compact=False)
        compaction = threading.Thread(target=store.compact)
        compaction.start()
        assert waits.wait(60)
        list(store.put_pages(pages("a", 90)[6:]))  # enough for a dictionary of the site
        may_go_on.set()
        compaction.join()
        names = store.backend.dictionaries.names()
        assert names and not [name for name in names if mark in store.backend.dictionaries.load(name)]


@pytest.mark.usefixtures("small_tablets")
def test_a_page_that_moves_while_another_tablet_makes_it_a_base_leaves_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    planned, moved, publish = threading.Event(), threading.Event(), relocation.Relocator.publish

    def in_turn(self: relocation.Relocator) -> None:
        if self.tablet.start:  # its deltas are made, against pages of the first tablet that have not moved yet
            planned.set()
            moved.wait(60)
            publish(self)
        else:
            planned.wait(60)
            publish(self)
            moved.set()

    monkeypatch.setattr(relocation.Relocator, "publish", in_turn)
    bodies = {f"https://a.example/{n}": page(words(n, 900)) for n in range(16)}
    bodies |= {f"https://z.example/{n}": page(words(n, 900)[:700] + words(n + 10_000, 200)) for n in range(16)}
    with docstore.open(tmp_path / "store", create=True) as store:
        list(store.put_pages([Page(url, body, 200, HTML, AT) for url, body in bodies.items()]))
        assert not list(store.backend.base_rows.scan()) and len(store.backend.manifest.tablets()) == 2
        report = store.compact()
        assert planned.is_set() and moved.is_set() and list(store.backend.base_rows.scan())
        assert (report.removed_segments, report.kept_segments) == (1, 0)
        assert {url: store.get(url).body for url in bodies} == bodies  # type: ignore[union-attr]
        assert list(check(store.backend)) == []
