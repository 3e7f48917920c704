"""The reading process: archives in, analysed pages out on a pipe, ahead of the store by a bounded number of bytes.

Must not open a store: the process that started this one holds it.

Three stages run side by side: one thread reads, some analyse (without the GIL, in native code), and the main thread
sends, in input order.  The process ends when the pipe breaks, or when its stdin does, which the other side holds open
as long as it lives: kill either of the two, and neither stays behind.
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
from io import BufferedReader
from queue import SimpleQueue
from typing import IO, Any, Final, Literal, TypeAlias

import numpy as np

from docstore.archives.readahead import HELLO, Job, Place, Portion, portions
from docstore.dedup.kernel import Kernel
from docstore.model.analysis import Analysis
from docstore.model.types import Page
from docstore.reference import fingerprints
from docstore.writing.anchors import Anchor
from docstore.writing.prepare import Prepared, Preparer
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
            write(answers, parts)
            del parts  # a long page must not be held until the next one is there
    except BrokenPipeError:
        raise
    except BaseException as error:
        error.add_note("".join(traceback.format_exception(error)).rstrip())
        write(answers, encode(error))
    else:
        write(answers, encode(END))


def _frames(job: Job) -> Iterator[Parts]:
    """The frames of a job, in order."""
    # Nothing in an archive is without its time: the clock only says what lies too far ahead.
    order = fingerprints.order_of(job.band_secret)
    schema = job.schema
    kernel = Kernel(schema.extractor, schema.shingle_words, schema.checksum, order=order, vocabulary=schema.vocabulary)
    preparer = Preparer(kernel, lambda: time.time_ns() // 1000)
    allowance = Allowance(AHEAD_BYTES)
    waiting: SimpleQueue[tuple[Future[Parts], int] | BaseException | None] = SimpleQueue()

    def ready(portion: Portion[Page]) -> Parts:
        prepared = preparer.prepare(portion.pages, anchors=job.anchors, any_time=job.any_time)
        return encode_portion(portion, prepared)

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


# --- frames on the pipe between the two processes
#
# A frame is the number of its parts, the length of each, all 8 bytes little-endian, and the parts: a pickle, and the
# long bodies that are not copied into it.  Both ends are the same docstore in the same Python, one started by the
# other, and nothing of it reaches disk.  Named tuples, pages and arrays travel as plain tuples: half the time.

BUFFER_BYTES: Final = 2 << 20
"""Takes most frames."""
LARGEST_KEPT_BYTES: Final = 16 << 20
"""A buffer that grew beyond that is given back."""
LONG_BODY_BYTES: Final = 1 << 20
"""A body as long as that is a part of its own."""

_PAGE, _ANALYSIS, _ANCHORS, _VALUES = map(Prepared._fields.index, ("page", "analysis", "anchors", "values"))
_LENGTH: Final = struct.Struct("<Q")
_ARRAYS: Final = tuple(
    number for number, name in enumerate(Analysis._fields) if isinstance(Analysis._field_defaults.get(name), np.ndarray)
)


END: Final = "end"
"""Everything has been read."""
Message: TypeAlias = Portion[Prepared] | BaseException | Literal["end"]
"""Pages, an unexpected exception with which reading ended, or END."""
Parts: TypeAlias = Sequence[bytes | memoryview]
"""Of a frame."""


def encode_portion(portion: Portion[Page], prepared: list[Prepared]) -> Parts:
    """A portion and its analysed pages as the parts of a frame."""
    plain = [_plain(one) for one in prepared]
    long: list[pickle.PickleBuffer] = []
    places = [tuple(place) for place in portion.places]
    raw = pickle.dumps((plain, places, portion.rest), 5, buffer_callback=long.append)
    return [raw, *[buffer.raw() for buffer in long]]


def encode(message: BaseException | Literal["end"]) -> Parts:
    """Any other message as the parts of a frame."""
    try:
        raw = pickle.dumps(message, 5)
        pickle.loads(raw)  # what cannot be made again at the other end must fail here
    except Exception:
        # An exception of a library that holds a lock, say: its words are what counts.
        raw = pickle.dumps(RuntimeError(repr(message)), 5)
    return [raw]


def decode(parts: Parts) -> Message:
    """The message of a frame."""
    message: Any = pickle.loads(parts[0], buffers=parts[1:])
    if type(message) is not tuple:
        other: BaseException | Literal["end"] = message
        return other
    plain, places, rest = message
    return Portion([_prepared(one) for one in plain], [Place(*place) for place in places], rest)


def write(stream: IO[bytes], parts: Parts) -> None:
    """Send a frame."""
    stream.write(b"".join(map(_LENGTH.pack, (len(parts), *map(len, parts)))))
    for part in parts:
        stream.write(part)
    stream.flush()


class Receiver:
    """The messages that come out of a pipe; one buffer takes them all, for the kernel must clear memory that is new."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._buffer = bytearray(BUFFER_BYTES)

    def take(self) -> Message | None:
        """The next message; None where the other process has ended."""
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
        if len(self._buffer) > LARGEST_KEPT_BYTES:  # one long page must not be remembered by its room
            self._buffer = bytearray(BUFFER_BYTES)
        return message

    def _lengths(self, count: int) -> list[int] | None:
        raw = self._stream.read(count * _LENGTH.size)
        return [length for (length,) in _LENGTH.iter_unpack(raw)] if len(raw) == count * _LENGTH.size else None


def _plain(one: Prepared) -> list[Any]:
    page, analysis = one.page, one.analysis
    plain: list[Any] = list(one)
    is_long = len(page.body) >= LONG_BODY_BYTES
    plain[_PAGE] = (page.url, pickle.PickleBuffer(page.body) if is_long else page.body, *page[2:])
    plain[_ANCHORS] = [tuple(anchor) for anchor in one.anchors]
    plain[_VALUES] = tuple(one.values)
    if analysis is not None:
        fields: list[Any] = list(analysis)
        for number in _ARRAYS:
            fields[number] = fields[number].tobytes()
        plain[_ANALYSIS] = fields
    return plain


def _prepared(plain: list[Any]) -> Prepared:
    plain[_PAGE] = Page(*plain[_PAGE])
    plain[_ANCHORS] = tuple([Anchor(*anchor) for anchor in plain[_ANCHORS]])
    plain[_VALUES] = tuple(plain[_VALUES])
    fields = plain[_ANALYSIS]
    if fields is not None:
        for number in _ARRAYS:
            fields[number] = np.frombuffer(fields[number], np.uint64)
        plain[_ANALYSIS] = Analysis._make(fields)
    return Prepared._make(plain)
