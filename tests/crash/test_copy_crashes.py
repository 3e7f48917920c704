"""A copy that is killed anywhere resumes, and its result is that of an uninterrupted copy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pages import changed, page, words
from stores import contents

import docstore
from docstore import Page
from docstore.archives.copying import copy
from docstore.reports.check import check
from docstore.writing.importing import is_unfinished

T0 = 1_700_000_000_000_000
PAGES = 300
SCRIPT = """
import sys
import docstore
from docstore.archives import copying
from docstore.writing import importing
copying.RANGE_ROWS, copying.GROUP_PORTIONS, importing.GROUP_TEXTS = 20, 7, 10
source, target, left, wanted = *sys.argv[1:3], int(sys.argv[3]), sys.argv[4]
def said(what, done):
    global left
    left -= what == wanted
    if left == 0:
        print("here", flush=True)
        sys.stdin.read()  # until it is killed
real = copying.RowImporter.write
def write(self, rows, find_base):
    real(self, rows, find_base)
    said("written", 0)
copying.RowImporter.write = write
with docstore.open(source, read_only=True) as store:
    copying.copy(store, target, on_progress=said)
"""


def body_of(number: int) -> bytes:
    return page(changed(words(number // 3, 150), number, number % 9), f"Title {number // 3}")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "source"
    pages = [Page(f"https://h{number % 7}.example/{number}", body_of(number), 200, (), T0) for number in range(PAGES)]
    with docstore.open(path, create=True, schema=docstore.Schema(policies={"near": "reference"})) as store:
        list(store.put_pages(pages))
    return path


def run_until(source: Path, target: Path, times: int, what: str) -> None:
    """Copy in another process, and kill it after a number of events."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(source), str(target), str(times), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline().startswith("here")  # threads of a copy may say it at once
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_killed_copy_resumes_and_is_complete(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    for times, what in ((3, "written"), (5, "rows"), (6, "written"), (4, "texts")):
        run_until(source, target, times, what)
        with docstore.open(target) as store:
            assert is_unfinished(store.opened)
            problems = [problem.where for problem in check(store.opened) if "band key" not in problem.what]
            assert problems == ["copy"]
    with docstore.open(source, read_only=True) as store:
        report = copy(store, target)
        expected = contents(store)
    assert report.resumed_rows == report.rows == PAGES
    assert report.cells == len(expected)
    with docstore.open(target) as store, docstore.open(source) as original:
        assert contents(store) == expected
        assert list(check(store.opened)) == []
        assert store.stats()["totals"] == original.stats()["totals"]
        for number in range(0, PAGES, 17):
            like = page(changed(words(number // 3, 150), 7777, 5), f"Title {number // 3}")
            assert store.similar(like) == original.similar(like)
