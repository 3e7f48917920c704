"""`docstore annotate` is killed in the middle: the next run resumes, with the result of an uninterrupted run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pages import page, words
from stores import contents

import docstore
from docstore import Page, ReadSpec
from docstore.notes.annotate import GROUP, annotate, load_annotator
from docstore.reports.check import check

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000
PAGES = 4 * GROUP
ANNOTATOR = """
import os
def beginning(document):
    if os.environ.get("TELL"):
        print(document.url, flush=True)
    return {"first": document.text[:9], "long": document.text * 3}
"""


def test_a_killed_run_resumes_with_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "annotator_told.py").write_text(ANNOTATOR)
    with docstore.open(tmp_path / "whole", create=True, durability="none") as store:
        pages = (
            Page(f"https://h{n % 7}.example/{n}", page(words(n, 60)), 200, HTML, T0 + n * 1000) for n in range(PAGES)
        )
        list(store.put_pages(pages))
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    command = [sys.executable, "-m", "docstore.cli", "annotate", "--python", "annotator_told:beginning"]
    running = subprocess.Popen(
        [*command, "--store", str(tmp_path / "killed")],
        cwd=tmp_path,
        env={**os.environ, "TELL": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    for _ in range(2 * GROUP + GROUP // 2):  # two groups are committed, a third is being made
        running.stdout.readline()
    os.kill(running.pid, signal.SIGKILL)
    running.stdout.read()
    running.wait()
    with docstore.open(tmp_path / "killed") as store:
        before = sum(1 for _ in store.cells.scan(spec=ReadSpec(("note",))))
        assert 2 * GROUP <= before < PAGES
    monkeypatch.chdir(tmp_path)
    annotator = load_annotator("annotator_told:beginning")
    with docstore.open(tmp_path / "whole") as whole, docstore.open(tmp_path / "killed") as killed:
        assert annotate(whole, annotator).written == PAGES
        assert annotate(killed, annotator).written == PAGES - before
        assert contents(killed) == contents(whole)
        assert annotate(killed, annotator).written == 0 and list(check(killed.opened)) == []
