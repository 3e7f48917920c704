"""Ctrl-C while a page is written: what is stored is in the index and in the totals."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import changed, page, words

import docstore
from docstore import VerdictKind
from docstore.reports.check import check
from docstore.store import DocumentStore

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
