"""Answers of TimeGate and TimeMap, and mementos: which capture a request leads to.

Knows mementos and their replay; must not know CDX.
"""

from __future__ import annotations

from threading import Lock

from docstore.model import capture
from docstore.model.errors import InvalidArgument
from docstore.model.types import ReadSpec
from docstore.server.archive.addresses import Asked, spellings
from docstore.server.archive.answers import Answer, plain
from docstore.server.archive.budget import TooLong
from docstore.server.archive.captures import ALWAYS
from docstore.server.archive.mementos import Links, Memento, TimeLines
from docstore.server.archive.replay import RAW, Replay
from docstore.server.archive.settings import ArchiveSettings
from docstore.server.archive.times import END_OF_TIMES, SECOND, digits14, earliest, http_date, parse_http_date
from docstore.store import DocumentStore

_LINK_FORMAT = "application/link-format"
_VARY = ("Vary", "accept-datetime")


SHORT_BYTES = 128 << 10
"""A body that is read without changing threads."""


class Sending:
    """Bytes of bodies that are being read or sent, all answers together.  Thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._lock = Lock()

    def take(self, count: int) -> bool:
        """Whether there is room for a body; one alone always has room."""
        with self._lock:
            if self._held_bytes and self._held_bytes + count > self._most_bytes:
                return False
            self._held_bytes += count
            return True

    def give_back(self, count: int) -> None:
        """A body is sent, or will not be."""
        with self._lock:
            self._held_bytes -= count


class MementoAnswers:
    """Answers about the captures of one URL.  Thread-safe.

    Args:
        store: to show.
        settings: bounds.
        sending: bodies on their way.
        is_short: raise `TooLong` for a URL with many captures, and for a long body.
    """

    def __init__(
        self, store: DocumentStore, settings: ArchiveSettings, sending: Sending, *, is_short: bool = False
    ) -> None:
        self._store = store
        self._is_short = is_short
        self._most_mementos = settings.timemap_mementos
        self._most_bytes = settings.answer_bytes
        self._lines = TimeLines(store.table, settings.row_captures, is_short=is_short)
        self._replay = Replay(store)
        self._sending = sending

    def timegate(self, page: Asked, accept_datetime: str, links: Links) -> Answer:
        """A redirect to the capture nearest to the time asked for; to the newest where none is."""
        wanted = parse_http_date(accept_datetime) if accept_datetime else END_OF_TIMES - SECOND
        if wanted is None:
            raise InvalidArgument(
                f"Accept-Datetime {accept_datetime[:60]!r} is no HTTP date; write one like {http_date(0)!r}"
            )
        line = self._lines.find(page, wanted)
        if not line.mementos:
            return self._unknown(page, links, (_VARY,))
        one = line.closest(wanted, page.row_key)
        return Answer(302, (("Location", links.memento(one)), _VARY, *links.header(page.url, line, one)))

    def timemap(self, page: Asked, begin: str, links: Links) -> Answer:
        """All captures of a URL from a time on, as many as one answer may list, and where the list goes on."""
        start = earliest(begin) if begin else ALWAYS.start
        most = max(1, min(self._most_mementos, self._most_bytes // (len(page.url) + 200)))
        mementos, following = self._lines.between(page, ALWAYS._replace(start=start), most)
        if not mementos:
            return self._unknown(page, links)
        lines = links.of_url(page.url, is_timemap=True)
        if following is not None:
            lines.append(links.next_timemap(page.url, following))
        is_first = not begin
        for number, one in enumerate(mementos):
            rels = ["first"] * (is_first and number == 0)
            rels += ["last"] * (following is None and number == len(mementos) - 1)
            lines.append(links.link(one, *rels))
        return Answer(200, (("Content-Type", _LINK_FORMAT),), ",\n".join(lines).encode() + b"\n")

    def memento(self, page: Asked, digits: str, modifier: str, links: Links, *, with_body: bool) -> Answer:
        """The capture of that second, or a redirect to the nearest one."""
        if modifier not in ("", RAW):
            return plain(404, f"{modifier} is not served: write {digits}id_/ for the capture as recorded, or {digits}/")
        wanted = earliest(digits)
        for spelling in spellings(page):
            line = self._lines.find(spelling, wanted)
            if line.mementos:
                break
        else:
            return self._unknown(page, links)
        # A redirect from http to https leads to the same SURT: it must not lead to itself.
        one = line.of_row(spelling.row_key).closest(wanted, spelling.row_key)
        if digits14(one.timestamp) != digits or one.row_key != spelling.row_key:
            return Answer(302, (("Location", links.memento(one, modifier)),))
        held = self._replay.body_bytes(one) if with_body else 0
        if self._is_short and held > SHORT_BYTES:
            raise TooLong
        if not self._sending.take(held):
            return plain(503, "too many large captures are being sent; ask again", (("Retry-After", "2"),))
        try:
            answer = self._replay.answer(one, line, links, modifier=modifier, with_body=with_body)
        except BaseException:
            self._sending.give_back(held)
            raise
        return answer._replace(held_bytes=held)

    def _unknown(self, page: Asked, links: Links, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        """Nothing is archived; of a capture whose body was not kept, why, and which page it repeats."""
        family, qualifier = capture.VERDICT
        row = self._store.cells.read_row(page.row_key, ReadSpec((family,), qualifier, end=ALWAYS.end, versions=1))
        if row is None:
            return plain(404, f"nothing is archived for {page.url}", headers)
        verdict = capture.decode_verdict(row.cells[0].value)
        said = f"{page.url} was captured at {digits14(row.cells[0].timestamp)}, and its body was not kept"
        if verdict.of_row_key:
            original = Memento(verdict.of_timestamp, verdict.of_row_key)
            said += (
                f": its verdict was {verdict.kind}, of {original.url}, which is replayed at {links.memento(original)}"
            )
        return plain(404, said, headers)
