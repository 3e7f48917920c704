"""The reading process: archives in, analysed pages out on a pipe, ahead of the store by a bounded number of bytes.

Knows portions, the kernel and frames.  Must not open a store: the process that started this one holds it.

Three stages run side by side: one thread reads, some analyse (without the GIL, in native code), and the main thread
sends, in input order.  The process ends when the pipe breaks, or when its stdin does, which the other side holds open
as long as it lives: kill either of the two, and neither stays behind.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import IO

from docstore.archives.readahead import frames
from docstore.archives.readahead.frames import End, Failure
from docstore.archives.readahead.portions import Portion, portions
from docstore.archives.readahead.process import HELLO, Job
from docstore.dedup.kernel import Kernel
from docstore.reference import fingerprints
from docstore.writing.prepare import Preparer
from docstore.writing.stream import BATCH_BYTES, BATCH_PAGES

AHEAD_BYTES = 16 << 20
"""Bodies that have been read and wait to be sent; a longer one passes alone."""
EXIT_LEFT = 1
"""The other process has ended, so the value of this exit code does not matter."""


class Allowance:
    """Bounds the bytes that are read and not yet sent; a reader that wants more waits."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._changed = threading.Condition()

    def take(self, count_bytes: int) -> None:
        """Wait until so many bytes can be had; more than all of them, until none is out."""
        with self._changed:
            self._changed.wait_for(lambda: self._held_bytes == 0 or self._held_bytes + count_bytes <= self._limit_bytes)
            self._held_bytes += count_bytes

    def wait(self) -> None:
        """Wait until anything can be had."""
        with self._changed:
            self._changed.wait_for(lambda: self._held_bytes < self._limit_bytes)

    def give_back(self, count_bytes: int) -> None:
        """The bytes have been sent."""
        with self._changed:
            self._held_bytes -= count_bytes
            self._changed.notify()


def serve(job: Job, answers: IO[bytes]) -> None:
    """Read everything that a job names, and send it.

    Raises:
        OSError: the other process has ended.
    """
    try:
        for parts in _frames(job):
            frames.write(answers, parts)
            del parts  # a long page must not be held until the next one is there
    except BrokenPipeError:
        raise
    except BaseException as error:
        error.add_note("".join(traceback.format_exception(error)).rstrip())
        frames.write(answers, frames.encode(Failure(error)))
    else:
        frames.write(answers, frames.encode(End()))


def _frames(job: Job) -> Iterator[frames.Parts]:
    """The frames of a job, in order."""
    # Nothing in an archive is without its time: the clock only says what lies too far ahead.
    order = fingerprints.order_of(job.band_secret)
    kernel = Kernel(job.extractor, job.shingle_words, job.checksum, order=order, vocabulary=job.vocabulary)
    preparer = Preparer(kernel, lambda: time.time_ns() // 1000)
    allowance = Allowance(AHEAD_BYTES)
    waiting: SimpleQueue[tuple[Future[frames.Parts], int] | BaseException | None] = SimpleQueue()

    def ready(portion: Portion) -> frames.Parts:
        prepared = preparer.prepare(portion.pages, anchors=job.anchors, any_time=job.any_time)
        return frames.encode_portion(portion, prepared)

    def read_ahead() -> None:
        try:
            found = portions(
                job.files,
                most_pages=BATCH_PAGES,
                most_bytes=BATCH_BYTES,
                body_limit_bytes=job.body_limit_bytes,
                salvage=job.salvage,
                strip_passwords=job.strip_passwords,
            )
            for portion in found:
                count_bytes = sum(len(page.body) for page in portion.pages)
                allowance.take(count_bytes)
                waiting.put((pool.submit(ready, portion), count_bytes))
                del portion
                allowance.wait()  # a long page is not held beside the next one
        except BaseException as error:
            waiting.put(error)
        else:
            waiting.put(None)

    with ThreadPoolExecutor(job.threads, thread_name_prefix="docstore-analyse") as pool:
        threading.Thread(target=read_ahead, name="docstore-read", daemon=True).start()
        while (one := waiting.get()) is not None:
            if isinstance(one, BaseException):
                raise one
            future, count_bytes = one
            yield future.result()
            del future, one
            allowance.give_back(count_bytes)


def main() -> None:
    """Say hello, take one job from stdin, and answer on what was stdout."""
    # Ctrl-C goes to both processes; the other one says when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever prints must not print between two frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        answers.write(HELLO)
        answers.flush()
        job: Job = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_end_with, args=(sys.stdin.fileno(),), daemon=True).start()
        serve(job, answers)
    except (OSError, EOFError):
        os._exit(EXIT_LEFT)
    os._exit(0)  # threads that wait for more need not be waited for


def _end_with(lifeline: int) -> None:
    """End when the process at the other end of a pipe ends, whatever this one is doing."""
    while os.read(lifeline, 1):
        pass
    os._exit(EXIT_LEFT)
