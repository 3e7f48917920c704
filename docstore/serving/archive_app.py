"""The archive API as an ASGI application: `ArchiveApp(store, settings)`.

Read-only: GET and HEAD, no cookies, no state but digests that are kept.  It must have an origin (host
and port) of its own, because it hands out bytes that strangers wrote.  It takes the raw path of a request, as clients
put whole URLs into it; nothing before it may merge slashes or normalise.

http and https captures are mementos of one original (RFC 7089), as in CDX.  Of a URL with very many captures, those
around the wanted time are looked at, and the newest.  A recorded header is never passed on as it is but for a few that
say what the body is; the others are there under `X-Archive-Orig-`, where no browser acts on them (docs/archive.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from functools import partial
from itertools import chain, islice, takewhile
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from docstore.model import capture, keys
from docstore.model.errors import CorruptionError, DocstoreError, InvalidArgument, UnsupportedFormat
from docstore.model.types import Headers, ReadSpec
from docstore.reading.documents import Capture
from docstore.serving.archive_captures import (
    ALWAYS,
    END_OF_TIMES,
    LONGEST_HEADER,
    SECOND,
    SHORT_CAPTURES,
    SHORT_ROWS,
    Address,
    Answer,
    Digests,
    address_of,
    as_json,
    digits14,
    earliest,
    encoded_headers,
    has_body,
    host_of,
    http_date,
    in_links,
    is_token,
    one_line,
    parse_http_date,
    parse_url,
    plain,
    replayed,
    rows_of_path,
)
from docstore.serving.archive_cdx import CdxAnswers, parse_query, wants_json
from docstore.serving.request import ABORT, CHALLENGE, MemoryBudget, Tokens, client_of, takes_at_once
from docstore.serving.service import BEGUN_IN_A_TURN, Turns, Workers
from docstore.serving.settings import ArchiveSettings
from docstore.storage.engine import ScannedRow
from docstore.storage.table import TakesLong
from docstore.storage.values import raw_bytes_of
from docstore.store import DocumentStore

_LOG = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Memento: TypeAlias = tuple[int, bytes]
"""A capture by its time and row key; in order of time."""

CDX_PATH = b"/web/cdx"
PAGE_PATH = re.compile(rb"/web/(?:(timemap)/link/(?:(\d{4,14})/)?|(\d{4,14})([a-z]{2}_)?/)?(.*)", re.DOTALL)
"""About the captures of one URL: a TimeMap from a time on, a capture of a time with its modifier, or a TimeGate."""
ABOUT = """This is a web archive, read-only.

{base}/cdx?url=URL                  captures of a URL, HOST/* or *.HOST
{base}/URL                          TimeGate: the capture nearest to Accept-Datetime
{base}/timemap/link/URL             TimeMap: all captures of a URL
{base}/YYYYMMDDhhmmssid_/URL        a capture as it was recorded
{base}/YYYYMMDDhhmmss/URL           a capture to look at; nothing in it runs"""
TAKEN = ("bearer", "basic")
"""Archive clients know no bearer tokens, but all take `http://NAME:TOKEN@HOST`."""
QUERY_SAFE = "!#$%&'()*+,-./:;=?@_~"
SHORT_BYTES = 128 << 10
"""A body that is read without changing threads."""
_STEP_BYTES = 256 * 1024
"""A longer body is sent in steps, so that a slow client holds it once and not twice.  A shorter one goes as one piece
after its headers: uvloop then sends both in one write."""
_VARY = ("Vary", "accept-datetime")


class ArchiveApp:
    """The archive API of an open store, for HTTP alone; `close` ends its threads.

    A question is answered at once if that is short, as it nearly always is; else `TakesLong` is raised, and a thread
    answers it.

    Args:
        store: to show; it stays the caller's to close.
        settings: bounds, and the names by which it may be addressed.
        tokens: one of which each request needs; None answers every client.
    """

    def __init__(
        self, store: DocumentStore, settings: ArchiveSettings = ArchiveSettings(), tokens: Tokens | None = None
    ) -> None:
        self._store = store
        self._settings = settings
        self._tokens = tokens
        own = host_of(urlsplit(settings.base_url).netloc)
        self._hosts = frozenset(host.lower() for host in (*settings.hosts, own) if host)
        self._memory = MemoryBudget(settings.body_bytes)
        digests = Digests(store, settings.digest_bytes, keep=settings.keep_digests)
        self._short_table = store.table.for_short_reads()
        self._cdx = CdxAnswers(store.table, digests, settings)
        self._turns = Turns(BEGUN_IN_A_TURN)
        self._lookups = Workers("archive", settings.threads, max(1, settings.threads // 2))
        self._scans = Workers("archive-scan", settings.scan_threads, max(1, settings.scan_threads // 2))
        self._waiting: Counter[str] = Counter()

    def close(self) -> None:
        """End the threads, once what they do is done."""
        self._lookups.close()
        self._scans.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._respond(scope, await self._answer(scope), send)

    async def _answer(self, scope: Scope) -> Answer:
        host = _header(scope, b"host")
        if host_of(host) not in self._hosts:
            return plain(421, "this archive does not answer to that name; its operator says to which it does")
        token = None if self._tokens is None else self._tokens.of_header(_header(scope, b"authorization"), TAKEN)
        if self._tokens is not None and token is None:
            return plain(401, "give a token, as bearer or as the password", (("WWW-Authenticate", CHALLENGE),))
        client = client_of(scope, "" if token is None else token[1])
        await self._turns.begin(client)
        if scope["method"] not in ("GET", "HEAD"):
            return plain(405, "the archive is read-only: ask with GET or HEAD", (("Allow", "GET, HEAD"),))
        query_string: bytes = scope.get("query_string", b"")
        raw_path: bytes = scope.get("raw_path") or quote(scope["path"], safe="/%:").encode()
        base = (self._settings.base_url.rstrip("/") or f"{scope.get('scheme', 'http')}://{host}") + "/web"
        try:
            if raw_path == CDX_PATH:
                return await self._answer_cdx(client, query_string, base)
            if raw_path == b"/robots.txt":
                return plain(200, "User-agent: *\nDisallow: /")
            about = ABOUT.format(base=base)
            if raw_path in (b"/", b"/web", b"/web/"):
                return plain(200, about)
            found = PAGE_PATH.fullmatch(raw_path)
            if found is None or found[5].startswith((b"*", b"timemap/", b"cdx")):
                return plain(404, f"nothing is served there\n\n{about}")
            return await self._answer_page(client, found, replayed(found[5], query_string), scope, base)
        except InvalidArgument as error:
            if raw_path == CDX_PATH and wants_json(query_string):
                return as_json(400, {"message": str(error)})
            return plain(400, str(error))
        except (CorruptionError, UnsupportedFormat) as error:
            return plain(502, f"the store cannot show this: {error}")
        except DocstoreError as error:
            return plain(503, f"the store cannot answer now: {error}", (("Retry-After", "5"),))
        except Exception:
            _LOG.exception("a request of the archive API failed")
            return plain(500, "this should not happen; the log of the server says what did")

    async def _answer_cdx(self, client: str, query_string: bytes, base: str) -> Answer:
        query = parse_query(query_string)
        work = partial(self._cdx.answer, query, f"{base}/cdx?{quote(query_string, safe=QUERY_SAFE)}")
        if not query.path_key or query.page is not None or query.show_pages:
            return await self._in_thread(self._scans, client, work)
        try:
            return work(is_short=True)
        except TakesLong:
            return await self._in_thread(self._lookups, client, work)

    async def _answer_page(self, client: str, path: re.Match[bytes], page: Address, scope: Scope, base: str) -> Answer:
        """About the captures of one URL; `path` is what PAGE_PATH found."""
        timemap, begin, digits, modifier = ((part or b"").decode() for part in path.groups()[:4])
        work: Callable[..., Answer]
        if timemap:
            return await self._in_thread(self._lookups, client, partial(self._timemap, page, begin, base))
        if digits:
            work = partial(self._memento, page, digits, modifier, base, with_body=scope["method"] == "GET")
        else:
            work = partial(self._timegate, page, _header(scope, b"accept-datetime"), base)
        try:
            return work(is_short=True)
        except TakesLong:
            return await self._in_thread(self._lookups, client, partial(work, is_short=False))

    async def _in_thread(self, workers: Workers, client: str, work: Callable[[], Answer]) -> Answer:
        """Do what may block, in a thread; refuse where too many wait."""
        most = self._settings.waiting
        if self._waiting.total() >= most or 2 * self._waiting[client] >= max(2, most):
            return plain(503, "too many requests wait; ask again", (("Retry-After", "1"),))
        self._waiting[client] += 1
        try:
            return await workers.run(client, work)
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]

    async def _respond(self, scope: Scope, answer: Answer, send: Send) -> None:
        """Send an answer, and end the connection of a client that does not take it."""
        if not answer.held_bytes and len(answer.body) > _STEP_BYTES:  # a long list, which a slow client holds as well
            if self._memory.take(len(answer.body)):
                answer = answer._replace(held_bytes=len(answer.body))
            else:
                answer = plain(503, "too many long answers are being sent; ask again", (("Retry-After", "2"),))
        body = answer.body
        headers = encoded_headers(answer.headers)
        if answer.status not in _WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % (len(body) if answer.length is None else answer.length)))
        if scope["method"] == "HEAD":
            body = b""
        seconds = self._settings.send_seconds + len(body) / self._settings.send_bytes_per_second
        is_at_once = len(body) <= _STEP_BYTES and takes_at_once(scope)
        try:
            async with contextlib.nullcontext() if is_at_once else asyncio.timeout(seconds):
                await send({"type": "http.response.start", "status": answer.status, "headers": headers})
                for at in range(0, max(len(body), 1), _STEP_BYTES):
                    step = body[at : at + _STEP_BYTES]
                    more = at + _STEP_BYTES < len(body)
                    await send({"type": "http.response.body", "body": step, "more_body": more})
        except TimeoutError:
            abort = scope.get(ABORT)
            if abort is None:
                raise  # uvicorn alone: it closes the connection of an answer that is not complete
            abort()
        finally:
            self._memory.release(answer.held_bytes)

    # --- answers about the captures of one URL

    def _timegate(self, page: Address, accept_datetime: str, base: str, *, is_short: bool) -> Answer:
        """A redirect to the capture nearest to the time asked for; to the newest where none is."""
        wanted = parse_http_date(accept_datetime) if accept_datetime else END_OF_TIMES - SECOND
        if wanted is None:
            raise InvalidArgument(
                f"Accept-Datetime {accept_datetime[:60]!r} is no HTTP date; write one like {http_date(0)!r}"
            )
        mementos, is_whole = self._find(page, wanted, is_short=is_short)
        if not mementos:
            return self._unknown(page, base, (_VARY,))
        one = _closest(mementos, wanted, page.row_key)
        links = _link_header(base, page.url, mementos, one, is_whole=is_whole)
        return Answer(302, (("Location", _replay_url(base, one)), _VARY, *links))

    def _timemap(self, page: Address, begin: str, base: str) -> Answer:
        """All captures of a URL from a time on, as many as one answer may list, and where the list goes on."""
        start = earliest(begin) if begin else ALWAYS[0]
        settings, url = self._settings, page.url
        most = max(1, min(settings.timemap_mementos, settings.answer_bytes // (len(url) + 200)))
        mementos: list[Memento] = []
        for row in self._rows(page):
            times = (one.timestamp for one in filter(has_body, self._store.table.row_captures(row.cells)))
            oldest = deque(takewhile(lambda timestamp: timestamp >= start, times), most + 1)
            mementos += [(timestamp, row.row_key) for timestamp in oldest]
        if not mementos:
            return self._unknown(page, base)
        mementos.sort()
        lines = _links_of_url(base, url, "self")
        if len(mementos) > most:
            following = mementos[most][0]
            place = f"{base}/timemap/link/{digits14(following)}/{in_links(url)}"
            said = f'rel="timemap"; type="application/link-format"; from="{http_date(following)}"'
            lines.append(f"<{place}>; {said}")
        for number, one in enumerate(mementos[:most]):
            rels = ["first"] * (not begin and number == 0) + ["last"] * (number == len(mementos) - 1)
            lines.append(_memento_link(base, one, rels))
        return Answer(200, (("Content-Type", "application/link-format"),), ",\n".join(lines).encode() + b"\n")

    def _memento(
        self, page: Address, digits: str, modifier: str, base: str, *, with_body: bool, is_short: bool
    ) -> Answer:
        """The capture of that second, or a redirect to the nearest one."""
        if modifier not in ("", RAW):
            return plain(404, f"{modifier} is not served: write {digits}id_/ for the capture as recorded, or {digits}/")
        wanted = earliest(digits)
        for spelling in _spellings(page):
            mementos, is_whole = self._find(spelling, wanted, is_short=is_short)
            if mementos:
                break
        else:
            return self._unknown(page, base)
        # A redirect from http to https leads to the same SURT: it must not lead to itself.
        of_row = [one for one in mementos if one[1] == spelling.row_key]
        one = _closest(of_row or mementos, wanted, spelling.row_key)
        if digits14(one[0]) != digits or one[1] != spelling.row_key:
            return Answer(302, (("Location", _replay_url(base, one, modifier)),))
        held = self._body_bytes(one) if with_body else 0
        if is_short and held > SHORT_BYTES:
            raise TakesLong
        if not self._memory.take(held):
            return plain(503, "too many large captures are being sent; ask again", (("Retry-After", "2"),))
        try:
            links = _link_header(base, keys.url_of(one[1]), mementos, one, is_whole=is_whole)
            answer = self._replayed(one, links, base, modifier=modifier, with_body=with_body)
        except BaseException:
            self._memory.release(held)
            raise
        return answer._replace(held_bytes=held)

    def _replayed(self, one: Memento, links: Headers, base: str, *, modifier: str, with_body: bool) -> Answer:
        """A capture, as it was recorded or for a person to look at."""
        timestamp, row_key = one
        url = keys.url_of(row_key)
        try:
            length = self._body_bytes(one)
            document = self._store.get(url, at=timestamp, families=("page", "http") if with_body else ("http",))
        except CorruptionError as error:
            return plain(502, f"this capture cannot be read: {error.message}; `docstore check` shows what is damaged")
        except ValueError as error:  # somebody set a cell of the page by hand
            return plain(502, f"this capture cannot be read: {error}")
        if document is None or document.timestamp != timestamp:
            return plain(404, "this capture was deleted a moment ago")
        taken = document.newest
        status = taken.status or 200
        answered = status if 200 <= status <= 599 else 502
        said = _type(taken, modifier)
        target = taken.header("location")
        if taken.status in _REDIRECTS and target:
            resolved = keys.resolve(url, target)
            if resolved is not None and resolved.startswith(("http:", "https:")):  # no `javascript:` URL, say
                said += (("Location", f"{base}/{digits14(timestamp)}{modifier}/{in_links(resolved)}"),)
        headers = [*said, *_recorded(taken.headers or (), said)]
        if answered != status:
            headers.append((f"{ORIGINAL}Status", str(status)))
        headers += [("Memento-Datetime", http_date(timestamp)), *links]
        if answered in _WITHOUT_BODY:
            return Answer(answered, tuple(headers))
        if with_body and taken.body is None:
            return plain(404, "the body of this capture was not kept")
        return Answer(answered, tuple(headers), taken.body or b"", length)

    def _unknown(self, page: Address, base: str, headers: Headers = ()) -> Answer:
        """Nothing is archived; of a capture whose body was not kept, why, and which page it repeats."""
        family, qualifier = capture.VERDICT
        row = self._store.cells.read_row(page.row_key, ReadSpec((family,), qualifier, until=END_OF_TIMES, versions=1))
        if row is None:
            return plain(404, f"nothing is archived for {page.url}", headers)
        at, columns = row.cells[0].timestamp, {capture.VERDICT: row.cells[0].value}
        verdict = self._store.unreadable.verdict(bytes, page.row_key, at, columns)
        said = f"{page.url} was captured at {digits14(at)}, and its body was not kept"
        if verdict is not None and verdict.of_row_key:
            where = _replay_url(base, (verdict.of_timestamp, verdict.of_row_key))
            said += (
                f": its verdict was {verdict.kind}, of {keys.url_of(verdict.of_row_key)}, which is replayed at {where}"
            )
        return plain(404, said, headers)

    # --- captures of a URL

    def _rows(self, page: Address, *, is_short: bool = False) -> Iterator[ScannedRow]:
        table = self._short_table if is_short else self._store.table
        for number, row in enumerate(table.scan_captures(*rows_of_path(page.path_key))):
            if is_short and number == SHORT_ROWS:
                raise TakesLong
            address = address_of(row.row_key)
            if address is not None and address.port == page.port:
                yield row

    def _find(self, page: Address, wanted: int, *, is_short: bool) -> tuple[list[Memento], bool]:
        """Captures of a URL, oldest first, none if it was never captured; and whether these are all.

        If there are too many, they are the newest, and some around the wanted time.
        """
        found: list[Memento] = []
        is_whole = True
        most = min(SHORT_CAPTURES, self._settings.row_captures) if is_short else self._settings.row_captures
        for row in self._rows(page, is_short=is_short):
            captures = filter(has_body, self._store.table.row_captures(row.cells))
            times = [one.timestamp for one in islice(captures, most + 1)]
            if is_short and len(times) > most:
                raise TakesLong
            if len(times) > most:
                is_whole = False
                times = _around(chain(times, (one.timestamp for one in captures)), wanted)
            found += [(timestamp, row.row_key) for timestamp in times]
        return sorted(found), is_whole

    def _body_bytes(self, one: Memento) -> int:
        """Length of a capture's body, without reading it; 0 if it is no more."""
        found = self._store.table.capture_at(one[1], one[0])
        return raw_bytes_of(found.columns[capture.BODY]) if found is not None and has_body(found) else 0


def _header(scope: Scope, name: bytes) -> str:
    """The first header of that name; "" for none."""
    value: bytes = next((value for found, value in scope["headers"] if found == name), b"")
    return value.decode("latin-1")


def _spellings(page: Address) -> Iterator[Address]:
    """A page, and what may have been meant if there is none.

    Servers drop the mark of an empty query, and clients that cannot read a semicolon in a link write ``%3B``.
    """
    yield page
    url = page.url
    if "%3B" in url:
        yield parse_url(url.replace("%3B", ";"))
    if "?" not in url:
        yield parse_url(f"{url}?")


def _around(times: Iterable[int], wanted: int) -> list[int]:
    """Of times, newest first: the newest, the one after a time, and two up to it."""
    found: list[int] = []
    before = 0
    for timestamp in times:
        if timestamp >= wanted + SECOND:
            found = [*found[:1], timestamp]
        else:
            found.append(timestamp)
            before += 1
            if before == 2:
                break
    return found


def _closest(mementos: Sequence[Memento], wanted: int, row_key: bytes) -> Memento:
    """The memento nearest to a time, to the second; of equals the one of this row, then the later one."""

    def distance(one: Memento) -> tuple[int, bool, int]:
        return abs(one[0] // SECOND - wanted // SECOND), one[1] != row_key, -one[0]

    return min(mementos, key=distance)


# --- links to us; `base` is scheme, host and port by which a client came, and the path of the archive API


def _replay_url(base: str, one: Memento, modifier: str = "id_") -> str:
    return f"{base}/{digits14(one[0])}{modifier}/{in_links(keys.url_of(one[1]))}"


def _memento_link(base: str, one: Memento, rels: Sequence[str] = ()) -> str:
    rel = " ".join((*rels, "memento"))
    return f'<{_replay_url(base, one)}>; rel="{rel}"; datetime="{http_date(one[0])}"'


def _links_of_url(base: str, url: str, rel: str = "timemap") -> list[str]:
    """Links to the original, its TimeGate and its TimeMap; clients take a semicolon for the end of a link."""
    place = in_links(url)
    return [
        f'<{url.replace(";", "%3B")}>; rel="original"',
        f'<{base}/{place}>; rel="timegate"',
        f'<{base}/timemap/link/{place}>; rel="{rel}"; type="application/link-format"',
    ]


def _link_header(base: str, url: str, mementos: Sequence[Memento], chosen: Memento, *, is_whole: bool) -> Headers:
    """A `Link` header to the URL, the chosen memento, the ones next to it, and first and last; each once.

    Of a very long URL it has as much as clients read.
    """
    rels: dict[Memento, list[str]] = {}
    at = mementos.index(chosen)
    if is_whole:
        rels[mementos[0]] = ["first"]
    for other, rel in ((at - 1, "prev"), (at + 1, "next")):
        if 0 <= other < len(mementos):
            rels.setdefault(mementos[other], []).append(rel)
    rels.setdefault(chosen, [])
    rels.setdefault(mementos[-1], []).append("last")
    of_url = _links_of_url(base, url)
    said = ", ".join([*of_url, *(_memento_link(base, one, rels[one]) for one in sorted(rels))])
    if len(said) > LONGEST_HEADER:
        said = ", ".join([of_url[0], _memento_link(base, chosen)])
    return (("Link", said),) if len(said) <= LONGEST_HEADER else ()


# --- replay: status, headers made safe, and body

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
