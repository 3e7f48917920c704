"""Which request an answer is of: a page is what GET gets.

A WARC file has the request of an answer in a record of its own, before or after it.  The two belong together if one
names the other (`WARC-Concurrent-To`); else a request without such a name belongs to the next answer of its URL, or to
the last one if the file has answers before their requests, or both have the same date.  So answers wait for some
records.  An answer without a request is of GET.

Answers to other methods are skipped, or stored under the URL that pywb and cdxj-indexer give them:
``URL?__wb_method=POST&NAME=VALUE``, made of the method and of the body of the request.
"""

from __future__ import annotations

import base64
import json
import re
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from typing import Any, NamedTuple
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
MOST_REQUESTS = 1000
"""Requests that wait for their answers."""
LONGEST_QUERY = 4096
"""Characters of a request's body in a URL, as in pywb."""
KNOWN_METHODS = ("HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "PROPFIND", "REPORT")


class _Waiting(NamedTuple):
    """An entry that has been read, and its request once it is known."""

    entry: Entry
    requests: list[RequestEntry]

    @property
    def is_answer(self) -> bool:
        entry = self.entry
        return isinstance(entry, RevisitEntry) or (isinstance(entry, PageEntry) and entry.kind == "response")


class _Exchanges:
    def __init__(self, methods: Collection[str]) -> None:
        self._methods = methods
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._requests: OrderedDict[str, RequestEntry] = OrderedDict()
        """Requests without an answer, by each name by which an answer may find them."""
        self._begins_with_requests: bool | None = None

    def add(self, entry: Entry | RequestEntry) -> Iterator[Entry]:
        """Take the next record; gives those that wait for none any more."""
        if isinstance(entry, RequestEntry):
            self._add_request(entry)
            entry = entry.entry
        added = _Waiting(entry, [])
        if added.is_answer:
            if self._begins_with_requests is None:
                self._begins_with_requests = False
            added.requests.extend(self._request_of(entry))
        self._waiting.append(added)
        self._waiting_bytes += _length(entry)
        del entry, added
        yield from self.rest(AHEAD_RECORDS, AHEAD_BYTES)

    def rest(self, most_records: int = 0, most_bytes: int = 0) -> Iterator[Entry]:
        """Give entries until the first one may wait: fewer records and bytes than these follow it."""
        while self._waiting:
            first = self._waiting[0]
            may_wait = len(self._waiting) <= most_records and self._waiting_bytes <= most_bytes
            if most_records and len(self._waiting) == 1 and isinstance(first.entry, PageEntry):
                may_wait = may_wait or first.entry.precedes_request
            if may_wait and first.is_answer and not first.requests:
                return
            self._waiting.popleft()
            self._waiting_bytes -= _length(first.entry)
            yield self._of_request(first.entry, *first.requests)
            del first  # frees a long page before the next one is read

    def _of_request(self, entry: Entry, request: RequestEntry | None = None) -> Entry:
        if request is None or request.method in ("", GET):
            return entry
        return of_method(entry, request.method, _query(request.block) if request.block else "", self._methods)

    def _add_request(self, request: RequestEntry) -> None:
        if self._begins_with_requests is None:
            self._begins_with_requests = True
        for one in self._waiting:
            if one.is_answer and not one.requests and self._answers(one.entry, request):
                one.requests.append(request)
                return
        names = [request.record_id, *request.concurrent_to] if request.concurrent_to else [request.record_id]
        for name in filter(None, [*names, "" if request.concurrent_to else "url " + request.url]):
            self._requests[name] = request
        while len(self._requests) > MOST_REQUESTS:
            self._requests.popitem(last=False)

    def _answers(self, entry: Entry, request: RequestEntry) -> bool:
        """Whether an answer that was read before a request belongs to it."""
        assert isinstance(entry, PageEntry | RevisitEntry)
        if request.concurrent_to or entry.concurrent_to:
            return entry.record_id in request.concurrent_to or request.record_id in entry.concurrent_to
        url, fetched_at = _visit(entry)
        return url == request.url and (not self._begins_with_requests or fetched_at == request.fetched_at)

    def _request_of(self, entry: Entry) -> Iterator[RequestEntry]:
        """The request that was read before an answer, if any."""
        assert isinstance(entry, PageEntry | RevisitEntry)
        url, _ = _visit(entry)
        for name in (entry.record_id, *entry.concurrent_to, "url " + url):
            request = self._requests.pop(name, None) if name else None
            if request is not None:
                for other in (request.record_id, *request.concurrent_to, "url " + request.url):
                    if self._requests.get(other) is request:
                        del self._requests[other]
                yield request
                return


def of_get(entries: Iterable[Entry | RequestEntry], methods: Collection[str]) -> Iterator[Entry]:
    """The entries of a file in order, in which answers to other methods than GET are no pages.

    Args:
        entries: as they were read.
        methods: whose answers become pages of a URL of their own.
    """
    exchanges = _Exchanges(methods)
    for entry in entries:
        yield from exchanges.add(entry)
        del entry  # frees a long page before the next one is read
    yield from exchanges.rest()


def of_method(entry: Entry, method: str, query: str, methods: Collection[str]) -> Entry:
    """The entry of an answer to another method than GET; see `of_get`.

    Args:
        entry: as it was read.
        method: in capitals.
        query: the body of the request as parameters, or "".
        methods: whose answers become pages.
    """
    if not isinstance(entry, PageEntry | RevisitEntry) or "__wb_method=" in _visit(entry)[0]:
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


def _visit(entry: PageEntry | RevisitEntry) -> tuple[str, int | None]:
    """URL and time."""
    return (entry.page.url, entry.page.fetched_at) if isinstance(entry, PageEntry) else (entry.url, entry.fetched_at)


def _length(entry: Entry) -> int:
    return len(entry.page.body) if isinstance(entry, PageEntry) else 0


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
            found[name if seen[name] == 1 else f"{name}.{seen[name]}_"] = str(value)

    try:
        take(json.loads(body), "")
    except json.JSONDecodeError:
        if b"\n" not in body:
            raise
        for line in body.split(b"\n"):
            take(json.loads(line), "")
    return urlencode(found)
