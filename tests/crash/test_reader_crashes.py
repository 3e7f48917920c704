"""Both processes of an ingest are killed or interrupted: no counted page is lost, and no process stays alive.

The archive is a named pipe that the test keeps open, so that both processes are in the middle of it when they die.
"""

from __future__ import annotations

import gzip
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pages import page, words
from warc_records import message, record

import docstore
from docstore.reports.check import check

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is no child: Linux")

PAGES = 800
"""Enough for several groups, although a pipe is read in pieces of 256 KB."""
PATIENCE_SECONDS = 500
"""A test that waits longer hangs."""
SCRIPT = """
import signal
import subprocess
import sys
import docstore
from docstore.model.errors import DocstoreError
from docstore.archives.ingest import IngestOptions, ingest

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
real = subprocess.Popen
def recording(*arguments, **options):
    reader = real(*arguments, **options)
    print(reader.pid, flush=True)
    return reader
subprocess.Popen = recording

try:
    with docstore.open(sys.argv[1], create=True, durability="flush") as store:
        ingest(store, [sys.argv[2]], IngestOptions(reader=True), lambda report: print(report.pages, flush=True))
except DocstoreError as error:
    print("failed:", error, flush=True)
    sys.exit(error.exit_code)
"""


class Running:
    """An ingest that has counted pages and waits for more."""

    def __init__(self, writer: subprocess.Popen[str], reader: int) -> None:
        self.writer = writer
        self._reader = os.pidfd_open(reader)
        self.reader = reader
        assert writer.stdout is not None
        self.lines = writer.stdout
        self.counted = 0
        while self.counted == 0:
            self.counted = int(self.lines.readline())

    def interrupt(self) -> None:
        """Press Ctrl-C until the reader ends: a signal just before a read is handled only after it."""
        for _ in range(PATIENCE_SECONDS // 20):
            os.kill(self.writer.pid, signal.SIGINT)
            if select.select([self._reader], [], [], 20)[0]:
                break

    def reader_ends(self) -> bool:
        """Whether the reader has ended, or ends in time."""
        ended, _, _ = select.select([self._reader], [], [], PATIENCE_SECONDS)
        os.close(self._reader)
        return bool(ended)

    def rest(self) -> str:
        """The last line that is not a count."""
        last = ""
        for line in self.lines:
            if line.strip().isdigit():
                self.counted = int(line)
            else:
                last = line
        return last


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    pipe = folder / "crawl.warc.gz"
    os.mkfifo(pipe)
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder / "s"), str(pipe)], stdout=subprocess.PIPE, text=True, env=paths
    )
    try:
        assert writer.stdout is not None
        reader = int(writer.stdout.readline())
        with pipe.open("wb") as stream:
            for number in range(PAGES):
                body = page(words(number, 300))
                stream.write(gzip.compress(record(message(body), f"http://h.example/{number}")))
            stream.flush()
            yield Running(writer, reader)
            writer.wait(PATIENCE_SECONDS)
    finally:
        writer.kill()
        writer.wait()


def assert_sound(folder: Path, counted: int) -> None:
    with docstore.open(folder / "s") as store:
        assert store.lost == ()
        assert list(check(store.backend)) == []
        stored = sorted(int(row.url.rsplit("/", 1)[1]) for row in store.cells.scan())
        assert stored == list(range(len(stored)))
        assert len(stored) >= counted > 0


def test_a_reader_whose_writer_is_killed_ends(tmp_path: Path) -> None:
    with running(tmp_path) as both:
        os.kill(both.writer.pid, signal.SIGKILL)
        assert both.reader_ends()
        both.rest()
    assert_sound(tmp_path, both.counted)


def test_an_interrupt_ends_both(tmp_path: Path) -> None:
    with running(tmp_path) as both:
        both.interrupt()
        assert both.reader_ends()
        both.rest()
    assert both.writer.returncode == -signal.SIGINT
    assert_sound(tmp_path, both.counted)
