"""Replay of a capture: its status, its headers made safe, and its body.

Knows the store and what clients need of a replay (docs/archive.md).  A recorded header is never passed on as it is but
for a few that say what the body is; the others are there under `X-Archive-Orig-`, where no browser acts on them.
"""

from __future__ import annotations

import re

from docstore.model import capture, keys
from docstore.model.errors import CorruptionError
from docstore.model.types import Headers, ReadSpec
from docstore.reading.documents import Capture
from docstore.server.archive.answers import Answer, is_token, one_line, plain
from docstore.server.archive.captures import is_kept_body
from docstore.server.archive.mementos import Links, Memento, TimeLine
from docstore.server.archive.times import http_date
from docstore.storage.envelope import envelope_raw_bytes
from docstore.store import DocumentStore

RAW = "id_"
ORIGINAL = "X-Archive-Orig-"
_SAID_BY_US = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""True of the bytes as they were sent, not of the decoded body: nowhere in an answer, not under another name either."""
_PASSED_ON = ("content-language",)
_MOST_HEADERS = 64
"""Readers of HTTP in Python take at most 100 headers of an answer; ours are among them."""
_MOST_HEADER_BYTES = 32_000
_LONGEST_HEADER = 8000
_WITHOUT_BODY = frozenset({204, 304})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONTENT_TYPE = re.compile(r"[!-~]+/[!-~]+(?:[ \t]*;[ \t!-~]*)?")
_SHOWN_TYPES = frozenset(
    {
        "text/html",
        "application/xhtml+xml",
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/svg+xml",
    }
)
"""What a browser shows as it is; nothing in it runs, because of the policy that goes with every answer."""
_SHOWN_AS_TEXT = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml)|application/(?:x-)?(?:java|ecma)script")
_CHARSET = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_OCTETS = "application/octet-stream"


class Replay:
    """Replays captures.  Thread-safe."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def answer(self, one: Memento, line: TimeLine, links: Links, *, modifier: str, with_body: bool) -> Answer:
        """The capture, as it was recorded or for a person to look at.

        Args:
            one: the capture.
            line: it and those beside it.
            links: to us.
            modifier: `RAW`, or "" for a person.
            with_body: False for a HEAD.
        """
        families = ("page", "http") if with_body else ("http",)
        try:
            length = self.body_bytes(one)
            document = self._store.get(one.url, at=one.timestamp, families=families)
        except CorruptionError as error:
            return plain(502, f"this capture cannot be read: {error.message}; `docstore check` shows what is damaged")
        except ValueError as error:  # somebody set a cell of the page by hand
            return plain(502, f"this capture cannot be read: {error}")
        if document is None or document.timestamp != one.timestamp:
            return plain(404, "this capture was deleted a moment ago")
        taken = document.newest
        status = taken.status or 200
        answered = status if 200 <= status <= 599 else 502
        said = (*self._type(taken, modifier), *_location(one, taken, links, modifier))
        headers = [*said, *_recorded(taken.headers or (), said)]
        if answered != status:
            headers.append((f"{ORIGINAL}Status", str(status)))
        headers += [("Memento-Datetime", http_date(one.timestamp)), *links.header(one.url, line, one)]
        if answered in _WITHOUT_BODY:
            return Answer(answered, tuple(headers))
        if with_body and taken.body is None:
            return plain(404, "the body of this capture was not kept")
        return Answer(answered, tuple(headers), taken.body or b"", length)

    def body_bytes(self, one: Memento) -> int:
        """Length of a capture's body, without reading it; 0 where it is no more."""
        family, qualifier = capture.BODY
        spec = ReadSpec((family,), qualifier, one.timestamp, one.timestamp + 1)
        cells = self._store.table.read_row(one.row_key, spec)
        return next((envelope_raw_bytes(cell.value) for cell in cells if is_kept_body(cell)), 0)

    @staticmethod
    def _type(taken: Capture, modifier: str) -> Headers:
        recorded = one_line(taken.header("content-type") or "")
        is_one = _CONTENT_TYPE.fullmatch(recorded) and not recorded.lower().startswith("multipart/")
        content_type = recorded if is_one else _OCTETS  # parts of a body would bring headers of their own
        if modifier == RAW:
            return (("Content-Type", content_type),)
        kind = content_type.partition(";")[0].strip().lower()
        charset = f"; charset={taken.charset}" if _CHARSET.fullmatch(taken.charset or "") else ""
        if kind in _SHOWN_TYPES:
            return (("Content-Type", kind + ("" if kind.startswith("image/") else charset)),)
        if _SHOWN_AS_TEXT.fullmatch(kind):
            return (("Content-Type", f"text/plain{charset}"),)
        return (("Content-Type", _OCTETS), ("Content-Disposition", "attachment"))


def _location(one: Memento, taken: Capture, links: Links, modifier: str) -> Headers:
    """Where a redirect leads, in the archive; nothing for one to what is no page, such as a `javascript:` URL."""
    target = taken.header("location")
    if taken.status not in _REDIRECTS or not target:
        return ()
    resolved = keys.resolve(one.url, target)
    if resolved is None or not resolved.startswith(("http:", "https:")):
        return ()
    return (("Location", links.replay(one.timestamp, modifier, resolved)),)


def _recorded(headers: Headers, said: Headers) -> Headers:
    """Recorded headers under a name on which no client acts; without what is no header, or would be too much.

    Args:
        headers: as recorded.
        said: what the answer says itself; a tool that writes WARC takes both for headers of the page.
    """
    moved = any(name == "Location" for name, _ in said)
    kept: list[tuple[str, str]] = []
    left_bytes, left_out = _MOST_HEADER_BYTES, 0
    for name, value in headers:
        line = one_line(value)
        if name.lower() in _SAID_BY_US or (moved and name.lower() == "location") or (name.title(), line) in said:
            continue
        left_bytes -= len(name) + len(line) + 20
        if is_token(name) and len(line) <= _LONGEST_HEADER and left_bytes >= 0 and len(kept) < _MOST_HEADERS:
            kept.append((ORIGINAL + name, line))
            if name.lower() in _PASSED_ON:
                kept.append((name, line))
        else:
            left_out += 1
    if left_out:
        kept.append(("X-Docstore-Left-Out", f"{left_out} recorded headers"))
    return tuple(kept)
