"""Ctrl-C in any operation: what is stored is in the index and in the totals, and the store is sound."""

from __future__ import annotations

import io
import shutil
import signal
import sys
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from counts import few
from pages import changed, page, words

import docstore
from docstore import VerdictKind
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex

HTML = (("content-type", "text/html"),)


def interrupted_put(store: DocumentStore, number: int, call: int) -> bool:
    """Put a page, with Ctrl-C at a call after the engine wrote its commit; whether there was one so late."""
    left = -1

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal left
        if event == "call" and left > 0:
            left -= 1
            if not left:
                sys.setprofile(None)
                raise KeyboardInterrupt

    engine = store.backend.engine
    write = engine.mutate_rows

    def written(*given: Any) -> None:
        nonlocal left
        write(*given)
        if any(row.table == "pages" for row in given[0]):
            left = call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "mutate_rows", written)
        sys.setprofile(count)
        try:
            store.put_page(f"https://a.example/{number}", page(words(number, 120)), headers=HTML)
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
    return False


def test_an_interrupt_while_a_line_is_logged_does_not_stop_the_log() -> None:
    telemetry = pytest.importorskip("docstore.serving.telemetry")
    steps = is_interrupted = 1
    while is_interrupted:
        stream = io.StringIO()
        log, left = telemetry.Log(stream), steps

        def trace(_frame: object, _event: str, _argument: object) -> Any:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt
            return trace

        is_interrupted = 0
        sys.settrace(trace)
        try:
            log.write("first")
        except KeyboardInterrupt:
            is_interrupted = 1
        finally:
            sys.settrace(None)
        log.write("second")
        log.close()
        assert '"second"' in stream.getvalue(), steps
        steps += 1
    assert steps > 3


def test_an_interrupt_after_a_commit_leaves_index_and_totals_whole(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store:
        store.put_page("https://b.example/", page(words(9999, 120)), headers=HTML)
        calls = 0
        while interrupted_put(store, calls, calls + 1):
            calls += 1
        assert calls > 30
        store.delete("https://b.example/")  # it is subtracted from the totals
        totals = store.stats()["totals"]
        assert (totals["urls"], totals["captures"]) == (calls + 1, calls + 1)
    with docstore.open(tmp_path / "store") as store:
        assert list(check(store.backend)) == [] and store.stats()["totals"] == totals
        for number in range(calls + 1):
            near = page(changed(words(number, 120), number, 1))
            verdict = store.put_page(f"https://c.example/{number}", near, headers=HTML).verdict
            assert (verdict.kind, verdict.of_url) == (VerdictKind.NEAR, f"https://a.example/{number}")


# --- Ctrl-C anywhere in any operation: the store can be closed, opened and checked


class Interrupt:
    """Sends SIGINT to this process at the n-th call of docstore's code at which CPython looks for signals.

    That is when a function in Python begins, and when one in C has returned: the exception comes out of the call.

    Args:
        after: n.
        within: names of functions; calls in others do not count.  None: all count.
    """

    def __init__(self, after: int, within: Container[str] | None = None) -> None:
        self.left = after
        self._within = within

    def __enter__(self) -> None:
        sys.setprofile(self._profile)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        is_counted = self._within is None or frame.f_code.co_qualname in self._within
        if event in ("call", "c_return") and is_counted and "docstore" in frame.f_code.co_filename:
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)


def some_pages(first: int, count: int) -> list[docstore.Page]:
    return [
        docstore.Page(f"https://h{n % 3}.example/{n}", page(words(n // 2, 150)), 200, HTML, 10**15 + n * 10**6)
        for n in range(first, first + count)
    ]


OPERATIONS: dict[str, Callable[[DocumentStore, Path], object]] = {
    "put": lambda store, _: store.put_page("https://new.example/", page(words(77, 150)), headers=HTML),
    "put many": lambda store, _: list(store.put_pages(some_pages(100, 40), threads=1)),
    "visit": lambda store, _: store.put_page("https://h0.example/0", status=304),
    "delete": lambda store, _: store.delete("https://h1.example/1", purge=True),
    "get": lambda store, _: [store.get(url) for url in store.urls()],
    "similar": lambda store, _: store.similar("https://h0.example/0"),
    "compact": lambda store, _: store.compact(full=True),
    "sweep": lambda store, _: sweep(store, SweepOptions(threads=1)),
    "apply": lambda store, _: sweep(store, SweepOptions(threads=1, apply="reject", any_host=True)),
    "reindex": lambda store, _: reindex(store),
    "repair": lambda store, _: store.repair(),
    "backup": lambda store, folder: store.backup(folder / "backup"),
    "dry run": lambda store, _: store.dry_run().close(),
    "close": lambda store, _: store.close(),
}


ENTERED = frozenset(
    (
        "BaseRows.cached",
        "Compaction._free_space",
        "Relocator.move",
        "Reserve.spend",
        "RunningJobs.one",
        "SiteDictionaries.recording_use",
        "UnreadableValues.collecting",
        "ValueLog.pinned",
        "_Pruning.run",
        "_state",
        "_state.<locals>.release",
    )
)
"""Functions that mark something for as long as they run: a job, a follower of commits, a held lock."""


def calls_of(operation: str, source: Path, folder: Path, within: Container[str] | None = None) -> int:
    """How many calls an operation makes at which it may be interrupted."""
    shutil.copytree(source, folder / "s")
    counted = Interrupt(1 << 60, within)
    with docstore.open(folder / "s") as store, counted:
        OPERATIONS[operation](store, folder)
    shutil.rmtree(folder)
    return (1 << 60) - counted.left


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "s"
    with docstore.open(folder, create=True) as store:
        list(store.put_pages(some_pages(0, 30)))
        store.delete("https://h2.example/2", purge=True)
    return folder


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupt_anywhere_leaves_a_store_that_closes_opens_and_is_sound(
    made: Path, tmp_path: Path, operation: str
) -> None:
    points = Random(operation)
    calls = calls_of(operation, made, tmp_path / "counted")
    for number in range(few(2000 // len(OPERATIONS), 20)):
        folder, point = tmp_path / str(number), points.randint(1, calls)
        shutil.copytree(made, folder / "s")
        store = docstore.open(folder / "s")
        with suppress(KeyboardInterrupt), Interrupt(point):
            OPERATIONS[operation](store, folder)
        where = f"{operation}, call {point} of {calls}"
        kept = {f"https://h{n % 3}.example/{n}" for n in range(30)} - {"https://h2.example/2", "https://h1.example/1"}
        try:
            store.close()
            with docstore.open(folder / "s") as again:
                assert list(check(again.backend)) == [], where
                # While a new segment is synced, an interrupt leaves a part of it, whose commit was not made.
                aside = [path.name for path in (folder / "s" / "set-aside").glob("*")]
                assert all("-unfinished" in name for name in aside), where
                assert operation == "apply" or all(again.get(url) is not None for url in kept), where
                again.compact()
                assert list(check(again.backend)) == [], where
        except docstore.DocstoreError as error:
            raise AssertionError(f"{where}: {error}") from error
        shutil.rmtree(folder)


@pytest.mark.parametrize("operation", ["compact", "sweep", "backup", "reindex"])
def test_an_interrupt_leaves_no_mark_of_its_operation_in_an_open_store(
    made: Path, tmp_path: Path, operation: str
) -> None:
    """Once, Ctrl-C at the start of a compaction left its follower of commits: later commits failed, if applied."""
    calls = calls_of(operation, made, tmp_path / "counted", ENTERED)
    assert calls > 3
    shutil.copytree(made, tmp_path / "s")
    with docstore.open(tmp_path / "s") as store:
        for point in range(1, min(calls, few(400, 60)) + 1):
            folder = tmp_path / str(point)
            folder.mkdir()
            with suppress(KeyboardInterrupt), Interrupt(point, ENTERED):
                OPERATIONS[operation](store, folder)
            OPERATIONS[operation](store, folder)
            store.compact()
            url = f"https://new.example/{point}"
            assert store.put_page(url, page(words(point, 50)), headers=HTML).stored == "body", point
        assert list(check(store.backend)) == []
