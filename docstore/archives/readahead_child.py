"""The reading process: reads archives and sends analysed pages on a pipe, a bounded number of bytes ahead.

It does not open the store, which its parent process has open.

Three stages run in parallel: one thread reads, several analyse (in native code, without the GIL), and the main thread
sends in input order.  The process ends when the pipe breaks or when its stdin ends, which the parent keeps open while
it lives: if either process is killed, the other ends too.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from io import BufferedReader
from queue import SimpleQueue
from typing import IO, Any, Final, Literal, TypeAlias

from docstore.archives.readahead import HELLO, Portion, ReadingJob, portions
from docstore.dedup.kernel import Kernel, bin_order
from docstore.model.analysis import Analysis
from docstore.model.types import Page
from docstore.storage.writes import Anchor, Prepared
from docstore.writing.prepare import Preparer
from docstore.writing.stream import CHUNK_BYTES, CHUNK_PAGES

AHEAD_BYTES = 16 << 20
"""Limit of bodies that are read and not yet sent; a longer one is in flight alone."""
EXIT_LEFT = 1
"""The parent has ended, so nobody reads this exit code."""


class Allowance:
    """Bounds the bytes that are read and not yet sent: the reader waits above the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._used_bytes = 0
        self._changed = threading.Condition()

    def take(self, count_bytes: int) -> None:
        """Wait until this many bytes are free; for more than the limit, until all are."""
        with self._changed:
            self._changed.wait_for(lambda: self._used_bytes == 0 or self._used_bytes + count_bytes <= self._limit_bytes)
            self._used_bytes += count_bytes

    def wait(self) -> None:
        """Wait until any bytes are free."""
        with self._changed:
            self._changed.wait_for(lambda: self._used_bytes < self._limit_bytes)

    def release(self, count_bytes: int) -> None:
        """Free bytes that have been sent."""
        with self._changed:
            self._used_bytes -= count_bytes
            self._changed.notify()


def serve(job: ReadingJob, output: IO[bytes]) -> None:
    """Read the files of a job and send their pages.

    Raises:
        OSError: the parent has ended.
    """
    try:
        for parts in _frames(job):
            write(output, parts)
            del parts  # frees a long page before the next one is read
    except BrokenPipeError:
        raise
    except BaseException as error:
        error.add_note("".join(traceback.format_exception(error)).rstrip())
        write(output, encode(error))
    else:
        write(output, encode(END))


def _frames(job: ReadingJob) -> Iterator[Parts]:
    """The frames of a job, in order."""
    # Each page of an archive has a time, so the clock only serves to refuse times in the future.
    order = bin_order(job.band_secret)
    schema = job.schema
    kernel = Kernel(schema.extractor, schema.shingle_words, order=order, vocabulary=schema.vocabulary)
    preparer = Preparer(kernel, lambda: time.time_ns() // 1000)
    allowance = Allowance(AHEAD_BYTES)
    waiting: SimpleQueue[tuple[Future[Parts], int] | BaseException | None] = SimpleQueue()

    def ready(portion: Portion[Page]) -> Parts:
        prepared = preparer.prepare(portion.pages, anchors=job.anchors, any_time=job.any_time)
        return encode_portion(portion, prepared)

    def read_ahead() -> None:
        try:
            portions_read = portions(
                job.files,
                most_pages=CHUNK_PAGES,
                most_bytes=CHUNK_BYTES,
                options=job.options,
                strip_passwords=job.strip_passwords,
                first=job.number,
                step=job.jobs,
            )
            for portion in portions_read:
                count_bytes = sum(len(page.body) for page in portion.pages)
                count_bytes += sum(len(record.value) for record in portion.recorded if record)
                count_bytes += sum(len(record.recorded.value) for record in portion.records)
                allowance.take(count_bytes)
                waiting.put((pool.submit(ready, portion), count_bytes))
                del portion
                allowance.wait()  # a long page is sent before the next one is read
        except BaseException as error:
            waiting.put(error)
        else:
            waiting.put(None)

    with ThreadPoolExecutor(job.threads, thread_name_prefix="docstore-analyse") as pool:
        threading.Thread(target=read_ahead, name="docstore-read", daemon=True).start()
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            future, count_bytes = item
            yield future.result()
            del future, item
            allowance.release(count_bytes)


def main() -> None:
    """Write `HELLO` to stdout, read one job from stdin, and write its frames to stdout."""
    # Ctrl-C goes to both processes; the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # stdout becomes stderr, so that nothing prints between two frames.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        output.write(HELLO)
        output.flush()
        job: ReadingJob = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_exit_with_parent, args=(sys.stdin.fileno(),), daemon=True).start()
        serve(job, output)
    except (OSError, EOFError):
        os._exit(EXIT_LEFT)
    os._exit(0)  # without joining the threads, which may be blocked


def _exit_with_parent(lifeline: int) -> None:
    """Exit when the parent's end of a pipe is closed."""
    while os.read(lifeline, 1):
        pass
    os._exit(EXIT_LEFT)


# --- frames on the pipe between the two processes
#
#   part count  u64 little-endian
#   length      u64 little-endian, for each part
#   parts       a pickle, then each long body, so that it is not copied into the pickle
#
# A pickle is safe here: both ends are the same docstore in the same Python, one started by the other, and no frame
# reaches disk.  Named tuples, pages and arrays are sent as plain tuples, which takes half the time.

BUFFER_BYTES: Final = 2 << 20
"""Enough for most frames."""
LARGEST_KEPT_BYTES: Final = 16 << 20
"""A buffer that grew larger is freed after its frame."""
LONG_BODY_BYTES: Final = 1 << 20
"""A body of this length or more is a part of its own."""

_PAGE, _ANALYSIS, _ANCHORS = map(Prepared._fields.index, ("page", "analysis", "anchors"))
_LENGTH: Final = struct.Struct("<Q")


END: Final = "end"
"""The message after the last portion."""
Message: TypeAlias = Portion[Prepared] | BaseException | Literal["end"]
"""Pages, an unexpected exception that ended the reading, or END."""
Parts: TypeAlias = Sequence[bytes | memoryview]
"""Of a frame."""


def encode_portion(portion: Portion[Page], prepared: list[Prepared]) -> Parts:
    """A portion and its analysed pages as the parts of a frame."""
    plain = [_plain(page) for page in prepared]
    long: list[pickle.PickleBuffer] = []
    message = (plain, *(getattr(portion, one.name) for one in fields(portion) if one.name != "pages"))
    raw = pickle.dumps(message, 5, buffer_callback=long.append)
    return [raw, *[buffer.raw() for buffer in long]]


def encode(message: BaseException | Literal["end"]) -> Parts:
    """Any other message as the parts of a frame."""
    try:
        raw = pickle.dumps(message, 5)
        pickle.loads(raw)  # fails here rather than in the parent
    except Exception:
        # Not every exception of a library can be pickled: then only its text is sent.
        raw = pickle.dumps(RuntimeError(repr(message)), 5)
    return [raw]


def decode(parts: Parts) -> Message:
    """The message of a frame."""
    message: Any = pickle.loads(parts[0], buffers=parts[1:])
    if type(message) is not tuple:
        other: BaseException | Literal["end"] = message
        return other
    plain, *others = message
    return Portion([_prepared(page) for page in plain], *others)


def write(stream: IO[bytes], parts: Parts) -> None:
    """Send a frame."""
    stream.write(b"".join(map(_LENGTH.pack, (len(parts), *map(len, parts)))))
    for part in parts:
        stream.write(part)
    stream.flush()


class Receiver:
    """Reads messages from a pipe into one reused buffer, because the kernel has to clear new memory."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._buffer = bytearray(BUFFER_BYTES)

    def take(self) -> Message | None:
        """The next message; None if the other process has ended."""
        count = self._lengths(1)
        lengths = self._lengths(count[0]) if count else None
        if lengths is None:
            return None
        if lengths[0] > len(self._buffer):
            self._buffer = bytearray(lengths[0])
        with memoryview(self._buffer)[: lengths[0]] as raw:
            if self._stream.readinto(raw) < lengths[0]:
                return None
            long = [self._stream.read(length) for length in lengths[1:]]
            if sum(map(len, long)) < sum(lengths[1:]):
                return None
            message = decode([raw, *long])
        if len(self._buffer) > LARGEST_KEPT_BYTES:
            self._buffer = bytearray(BUFFER_BYTES)
        return message

    def _lengths(self, count: int) -> list[int] | None:
        raw = self._stream.read(count * _LENGTH.size)
        return [length for (length,) in _LENGTH.iter_unpack(raw)] if len(raw) == count * _LENGTH.size else None


def _plain(prepared: Prepared) -> list[Any]:
    page = prepared.page
    plain: list[Any] = list(prepared)
    is_long = len(page.body) >= LONG_BODY_BYTES
    plain[_PAGE] = (page.url, pickle.PickleBuffer(page.body) if is_long else page.body, *page[2:])
    plain[_ANCHORS] = [tuple(anchor) for anchor in prepared.anchors]
    plain[_ANALYSIS] = prepared.analysis.pack()
    return plain


def _prepared(plain: list[Any]) -> Prepared:
    plain[_PAGE] = tuple.__new__(Page, plain[_PAGE])  # its fields were checked in the other process
    plain[_ANCHORS] = tuple([Anchor(*anchor) for anchor in plain[_ANCHORS]])
    plain[_ANALYSIS] = Analysis.unpack(plain[_ANALYSIS])
    return Prepared._make(plain)
