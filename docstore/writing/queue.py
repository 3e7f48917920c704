"""Group commit: what waits while one group is committed is the next group.

Knows the sequencer.  Must not know how pages are prepared, nor where they come from.

The first caller that waits leads: it commits for all that wait until its own pages are answered, then hands over to the
next one.  So the queue has no thread: an idle store has none, and a lone caller hands nothing over.  Requests are taken
in the order in which they came, and whole: the pages of one are in one group.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from docstore.model.errors import CommitUnknown, StorageError, StoreUnavailable
from docstore.model.types import PutResult
from docstore.writing.fields import body_bytes
from docstore.writing.judge import Policies
from docstore.writing.prepare import Prepared
from docstore.writing.sequencer import Sequencer
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES

_FAIL_A_GROUP = (StorageError, CommitUnknown, StoreUnavailable)
"""What is wrong with the disk or the store; anything else is wrong with one page."""
_CLOSED = "the store was closed before this page was written, and does not hold it; open it again"
_FORKED = "this process is a fork of the one that opened the store; open the store here again"


class Request:
    """Pages that are written in one group, and what became of them.

    Args:
        pages: in order; the request gives them up once it is answered.
        policies: what to do per verdict, for each page.
        in_order: nothing is written after a page that cannot be; else each page stands for itself.
    Attributes:
        outcomes: a page's result once it is committed, or why it is not written; for the first pages, or all.
        is_answered: whether the outcomes are all there.
        is_queued: whether the queue has taken it.
        turn: released once, when the request is answered or its caller is to lead.
    """

    __slots__ = ("body_bytes", "in_order", "is_answered", "is_queued", "outcomes", "pages", "policies", "turn")

    def __init__(self, pages: Sequence[Prepared], policies: Sequence[Policies], *, in_order: bool = True) -> None:
        self.pages = pages
        self.policies = policies
        self.in_order = in_order
        self.body_bytes = sum(body_bytes(one.page) for one in pages)
        self.outcomes: list[PutResult | Exception] = []
        self.is_answered = self.is_queued = False
        self.turn = threading.Lock()
        self.turn.acquire()


class _Entry(NamedTuple):
    """A page of a group, and whose it is."""

    request: Request
    page: Prepared
    policies: Policies


class WriteQueue:
    """The one way of pages to the sequencer.  Thread-safe; a caller may be interrupted anywhere."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._lock = threading.Lock()
        self._waiting: deque[Request] = deque()
        """Requests without an answer; those of the group that is being written are at the head."""
        self._leader: Request | None = None
        """Whose caller commits."""
        self._writing = threading.RLock()
        """Held while a group is written; reentrant, for a signal handler may close the store meanwhile."""
        self._is_closed = False
        self._process = os.getpid()

    def check(self) -> None:
        """Refuse a caller who must not write.

        Raises:
            StoreUnavailable: the store is closed, or belongs to the parent process.
        """
        if os.getpid() != self._process:
            raise StoreUnavailable(_FORKED)
        if self._is_closed:
            raise StoreUnavailable(_CLOSED)

    def add(self, request: Request) -> None:
        """Give a request its place; whoever does so goes on to `write`, which a signal must not keep it from."""
        self.check()
        with self._lock:
            request.is_queued = True
            self._waiting.append(request)

    def write(self, request: Request) -> None:
        """Write a request, and return when it is answered; one that has its place is, whoever closes the store.

        Raises:
            StoreUnavailable: the store is closed, or belongs to the parent process.
        """
        if not request.is_queued:
            self.check()
        try:
            if not request.is_queued:
                self.add(request)
            with self._lock:
                leads = self._leader is None
                if leads:
                    self._leader = request
            if not leads:
                request.turn.acquire()
            while not request.is_answered:
                self._write_group()
        finally:
            self._leave(request)

    def _leave(self, request: Request) -> None:
        """Let the next one lead; a KeyboardInterrupt that comes meanwhile is raised when that is done."""
        interrupt: KeyboardInterrupt | None = None
        is_done = False
        while not is_done:
            try:
                # Python looks for signals after a call: none can part handing over from waking the heir.
                with self._lock:
                    if not request.is_answered or (self._waiting and self._waiting[0].is_answered):  # interrupted
                        self._waiting = deque(one for one in self._waiting if not (one is request or one.is_answered))
                    if self._leader is request:
                        self._leader = heir = self._waiting[0] if self._waiting else None
                        if heir is not None:
                            heir.turn.release()
                is_done = True
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def close(self) -> None:
        """Let the group that is being written be finished, and fail what waits behind it."""
        self._is_closed = True
        with self._writing:
            pass

    def _write_group(self) -> None:
        """Write what waits, up to the bounds of a group; the caller leads."""
        with self._writing:
            group = self._next_group()
            entries = [
                _Entry(request, *one)
                for request in group
                for one in list(zip(request.pages, request.policies, strict=True))[len(request.outcomes) :]
            ]
            if self._is_closed:
                for entry in entries:
                    entry.request.outcomes.append(StoreUnavailable(_CLOSED))
            else:
                self._write(entries)
        with self._lock:
            for request in group:
                request.pages = request.policies = ()
                request.is_answered = True
                if request is not self._leader:
                    request.turn.release()
            while self._waiting and self._waiting[0].is_answered:
                self._waiting.popleft()

    def _next_group(self) -> list[Request]:
        """The first requests, as many as fit; one that fits in no group is one."""
        group: list[Request] = []
        pages = body_bytes = 0
        with self._lock:
            for request in self._waiting:
                pages += len(request.pages)
                body_bytes += request.body_bytes
                if group and (pages > GROUP_PAGES or body_bytes > GROUP_BYTES):
                    break
                group.append(request)
        return group

    def _write(self, entries: Sequence[_Entry]) -> None:
        """Write pages, so that one that cannot be written fails with those of its own request alone."""
        results, error = self._sequencer.write([entry.page for entry in entries], [entry.policies for entry in entries])
        for entry, result in zip(entries, results, strict=False):
            entry.request.outcomes.append(result)
        rest = entries[len(results) :]
        if error is None:
            return
        if not isinstance(error, Exception):
            raise error  # KeyboardInterrupt: the next leader writes what is left
        borders = [
            number
            for number in range(1, len(rest))
            if rest[number].request is not rest[number - 1].request or not rest[number].request.in_order
        ]
        if isinstance(error, _FAIL_A_GROUP) or not borders:
            for entry in rest:
                entry.request.outcomes.append(error)
        else:
            middle = borders[len(borders) // 2]
            self._write(rest[:middle])
            self._write(rest[middle:])
