"""Which request an answer is of: a page is what GET gets.

A WARC file has the request of an answer in a record of its own, before or after it.  The two belong together if one
names the other (`WARC-Concurrent-To`); else a request without such a name belongs to the next answer of its URL, or to
the last one if the file has answers before their requests, or both have the same date.  If several qualify, it is one
of the same date, then the first.  So answers wait for some records.  An answer without a request is of GET.

Answers to other methods are skipped, or stored under the URL that pywb and cdxj-indexer give them:
``URL?__wb_method=POST&NAME=VALUE``, made of the method and of the body of the request.
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import quote, unquote_plus, urlencode

from docstore.archives.entries import (
    AHEAD_BYTES,
    Entry,
    PageEntry,
    RecordedEntry,
    RequestEntry,
    RevisitEntry,
    SkippedEntry,
)
from docstore.archives.http import parse_fields
from docstore.archives.warc import as_answer

GET = "GET"
AHEAD_RECORDS = 16
"""Records that are read while an answer waits for its request."""
MOST_REQUESTS = 32
"""Requests that wait for their answers."""
LONGEST_QUERY = 4096
"""Characters of a request's body in a URL, as in pywb."""
KNOWN_METHODS = ("HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "PROPFIND", "REPORT")


Answer: TypeAlias = PageEntry | RevisitEntry


class _Exchanges:
    """Entries that wait, each with its request or None, and requests that wait for their answers."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Entry, RequestEntry | None]] = deque()
        self._requests: deque[RequestEntry] = deque(maxlen=MOST_REQUESTS)
        self._begins_with_requests: bool | None = None

    def add(self, entry: Entry, request: RequestEntry | None) -> None:
        """Add the entry of the next record, which may be a request itself, and pair what belongs together."""
        if request is None:
            if is_answer(entry):
                self._begins_with_requests = self._begins_with_requests or False
                request = min(
                    (one for one in self._requests if self._belongs(entry, one, is_before=True)),
                    key=lambda one: one.fetched_at != _visit(entry)[1],
                    default=None,
                )
                if request is not None:
                    self._requests.remove(request)
            self.waiting.append((entry, request))
            return
        if self._begins_with_requests is None:
            self._begins_with_requests = True
        answers = [
            (_visit(earlier)[1] != request.fetched_at, number)
            for number, (earlier, known) in enumerate(self.waiting)
            if known is None and is_answer(earlier) and self._belongs(earlier, request, is_before=False)
        ]
        if answers:
            number = min(answers)[1]
            self.waiting[number] = self.waiting[number][0], request
        else:
            self._requests.append(request)
        self.waiting.append((entry, None))

    def _belongs(self, answer: Answer, request: RequestEntry, *, is_before: bool) -> bool:
        """Whether an answer is of a request, which was read before it or after it."""
        if request.concurrent_to or answer.concurrent_to:
            return answer.record_id in request.concurrent_to or request.record_id in answer.concurrent_to
        url, fetched_at = _visit(answer)
        is_next = is_before or not self._begins_with_requests or fetched_at == request.fetched_at
        return url == request.url and is_next


def of_get(entries: Iterable[Entry | RequestEntry], methods: Collection[str]) -> Iterator[Entry]:
    """The entries of a file in order, in which answers to other methods than GET are no pages.

    Args:
        entries: as they were read.
        methods: whose answers become pages of a URL of their own.
    """
    exchanges = _Exchanges()
    waiting = exchanges.waiting
    for entry in entries:
        request = entry if isinstance(entry, RequestEntry) else None
        exchanges.add(entry.entry if isinstance(entry, RequestEntry) else entry, request)
        del entry, request  # frees a long page before the next one is read
        while waiting and not _may_wait(waiting):
            yield _of_request(*waiting.popleft(), methods)
    while waiting:
        yield _of_request(*waiting.popleft(), methods)


def _may_wait(waiting: deque[tuple[Entry, RequestEntry | None]]) -> bool:
    """Whether the first entry waits for its request, because few bytes were read since."""
    entry, request = waiting[0]
    if request is not None or not is_answer(entry) or len(waiting) > AHEAD_RECORDS:
        return False
    if len(waiting) == 1 and isinstance(entry, PageEntry) and entry.precedes_request:
        return True
    return sum(len(one.page.body) for one, _ in waiting if isinstance(one, PageEntry)) <= AHEAD_BYTES


def is_answer(entry: Entry) -> TypeGuard[Answer]:
    """Whether a record is the answer to a request."""
    return isinstance(entry, RevisitEntry) or (isinstance(entry, PageEntry) and entry.kind == "response")


def _of_request(entry: Entry, request: RequestEntry | None, methods: Collection[str]) -> Entry:
    if request is None or request.method in ("", GET):
        return entry
    return of_method(entry, request.method, _query(request.block) if request.block else "", methods)


def of_method(entry: Entry, method: str, query: str, methods: Collection[str]) -> Entry:
    """The entry of an answer to another method than GET; see `of_get`.

    Args:
        entry: as it was read.
        method: in capitals.
        query: the body of the request as parameters, or "".
        methods: whose answers become pages.
    """
    if not is_answer(entry) or "__wb_method=" in _visit(entry)[0]:
        return entry
    if method in methods:
        url = with_method(_visit(entry)[0], method, query)
        if isinstance(entry, PageEntry):
            return replace(entry, page=entry.page._replace(url=url), recorded=None)
        return replace(entry, url=url, recorded=None)
    if entry.recorded is not None:
        url, at = _visit(entry)
        body = entry.page.body if isinstance(entry, PageEntry) else b""
        return RecordedEntry(url, at or 0, as_answer(entry.recorded, body), entry.offset)
    return SkippedEntry(f"answer to {method if method in KNOWN_METHODS else 'another method'}", entry.offset)


def _visit(entry: Answer) -> tuple[str, int | None]:
    """URL and time."""
    return (entry.page.url, entry.page.fetched_at) if isinstance(entry, PageEntry) else (entry.url, entry.fetched_at)


# --- the URL of an answer to another method


def with_method(url: str, method: str, query: str) -> str:
    """The URL under which pywb looks for the answer to a request with a body.

    Args:
        url: that was asked.
        method: in capitals.
        query: made of the body, or "".
    """
    query = query.removeprefix(f"__wb_method={method}&")
    more = f"__wb_method={method}" + (f"&{query[:LONGEST_QUERY]}" if query else "")
    return url + ("&" if "?" in url else "?") + re.sub(r"[\0-\x20\x7f]", lambda one: quote(one[0]), more)


def _query(block: bytes) -> str:
    """The body of a request as parameters: fields of a form or of JSON, else base64."""
    head, _, body = block.partition(b"\r\n\r\n")
    fields = {name.lower(): value for name, value in parse_fields(head + b"\r\n\r\n")}
    content_type = fields.get("content-type", "").strip()
    media_type = content_type.lower()
    try:
        if media_type.startswith("application/x-www-form-urlencoded"):
            return unquote_plus(body.decode())
        if media_type.startswith("multipart/"):
            return _multipart(content_type, body)
        if media_type.startswith(("application/json", "text/plain")):
            return _flat(body)
    except (ValueError, RecursionError):
        if media_type.startswith("application/json"):
            return ""
    return "__wb_post_data=" + base64.b64encode(body).decode()


def _multipart(content_type: str, body: bytes) -> str:
    parsed = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body, policy=policy.HTTP)
    if not parsed.is_multipart():
        raise ValueError("no boundary")
    names = [str(part.get_param("name", "", "content-disposition")) for part in parsed.iter_parts()]
    contents: list[Any] = [part.get_payload(decode=True) for part in parsed.iter_parts()]
    return urlencode(list(zip(names, contents, strict=True)))


def _flat(body: bytes) -> str:
    """The values of JSON by their innermost names; a name that comes again gets its number."""
    found: dict[str, str] = {}
    seen: dict[str, int] = {}

    def take(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                take(inner, key)
        elif isinstance(value, list):
            for inner in value:
                take(inner, name)
        elif name:
            seen[name] = seen.get(name, 0) + 1
            found[name if seen[name] == 1 else f"{name}.{seen[name]}_"] = _as_script(value)

    try:
        take(json.loads(body), "")
    except json.JSONDecodeError:
        if b"\n" not in body:
            raise
        for line in body.split(b"\n"):
            take(json.loads(line), "")
    return urlencode(found)


def _as_script(value: Any) -> str:
    """A value of JSON as JavaScript writes it, as pywb 2.10 does: true, null, 44 for 44.0."""
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    return value if isinstance(value, str) else json.dumps(number)
