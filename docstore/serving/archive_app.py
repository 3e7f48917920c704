"""The archive API as an ASGI application: `ArchiveApp(store, settings)`.

Read-only: GET and HEAD, no cookies, no state but digests that are kept.  It must have an origin (host
and port) of its own, because it hands out bytes that strangers wrote.  It takes the raw path of a request, as clients
put whole URLs into it; nothing before it may merge slashes or normalise.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

from docstore.model.errors import CorruptionError, DocstoreError, InvalidArgument, UnsupportedFormat
from docstore.serving.archive_captures import CaptureIndex, Digests, TooLong
from docstore.serving.archive_cdx import CdxAnswers, parse_query, wants_json
from docstore.serving.archive_http import (
    CDX_PATH,
    PAGE_PATH,
    ROOT,
    SAFETY,
    Answer,
    Asked,
    as_json,
    encoded_headers,
    host_of,
    plain,
    replayed,
)
from docstore.serving.archive_memento import Links, MementoAnswers
from docstore.serving.request import ABORT, CHALLENGE, MemoryBudget, Tokens
from docstore.serving.settings import ArchiveSettings
from docstore.store import DocumentStore

_LOG = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

ABOUT = """This is a web archive, read-only.

{base}/cdx?url=URL                  captures of a URL, HOST/* or *.HOST
{base}/URL                          TimeGate: the capture nearest to Accept-Datetime
{base}/timemap/link/URL             TimeMap: all captures of a URL
{base}/YYYYMMDDhhmmssid_/URL        a capture as it was recorded
{base}/YYYYMMDDhhmmss/URL           a capture to look at; nothing in it runs"""
TAKEN = ("bearer", "basic")
"""Archive clients know no bearer tokens, but all take `http://NAME:TOKEN@HOST`."""
QUERY_SAFE = "!#$%&'()*+,-./:;=?@_~"
_SHORT_CAPTURES = 16
"""What a question looks at without changing threads.  To change threads takes longer than such a read, and several
times as long next to writers: each change waits for the interpreter's lock."""
_STEP_BYTES = 256 * 1024
"""A longer body is sent in steps, so that a slow client holds it once and not twice.  A shorter one goes as one piece
after its headers: uvloop then sends both in one write."""
_ENCODED_SAFETY = encoded_headers(SAFETY)


class ArchiveApp:
    """The archive API of an open store; `close` ends its threads, and so does the lifespan's shutdown.

    Args:
        store: to show; it stays the caller's to close.
        settings: bounds, and the names by which it may be addressed.
        tokens: one of which each request needs; None answers every client.
    """

    def __init__(
        self, store: DocumentStore, settings: ArchiveSettings = ArchiveSettings(), tokens: Tokens | None = None
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        own = host_of(urlsplit(settings.base_url).netloc)
        self._hosts = frozenset(host.lower() for host in (*settings.hosts, own) if host)
        digests = Digests(store, settings.digest_bytes, keep=settings.keep_digests)
        self._memory = MemoryBudget(settings.body_bytes)
        self._cdx = CdxAnswers(CaptureIndex(store.table, settings.row_captures), digests, settings)
        self._mementos = MementoAnswers(store, settings, self._memory)
        short = settings._replace(row_captures=min(_SHORT_CAPTURES, settings.row_captures))
        index = CaptureIndex(store.table, short.row_captures, is_short=True)
        self._short_cdx = CdxAnswers(index, digests, short, is_short=True)
        self._short_mementos = MementoAnswers(store, short, self._memory, is_short=True)
        self._lookups = ThreadPoolExecutor(settings.threads, "archive")
        self._scans = ThreadPoolExecutor(settings.scan_threads, "archive-scan")
        self._waiting = 0

    def close(self) -> None:
        """End the threads, once what they do is done."""
        self._lookups.shutdown(cancel_futures=True)
        self._scans.shutdown(cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await self._respond(scope, await self._answer(scope), send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start and stop with the server."""
        stopping = False
        while not stopping:
            stopping = (await receive())["type"] == "lifespan.shutdown"
            if stopping:
                await asyncio.to_thread(self.close)
            await send({"type": f"lifespan.{'shutdown' if stopping else 'startup'}.complete"})

    async def _answer(self, scope: Scope) -> Answer:
        host = _header(scope, b"host")
        if host_of(host) not in self._hosts:
            return plain(421, "this archive does not answer to that name; its operator says to which it does")
        if self._tokens is not None and not self._tokens.of_header(_header(scope, b"authorization"), TAKEN):
            return plain(401, "give a token, as bearer or as the password", (("WWW-Authenticate", CHALLENGE),))
        if scope["method"] not in ("GET", "HEAD"):
            return plain(405, "the archive is read-only: ask with GET or HEAD", (("Allow", "GET, HEAD"),))
        query_string: bytes = scope.get("query_string", b"")
        raw_path: bytes = scope.get("raw_path") or quote(scope["path"], safe="/%:").encode()
        base = (self._settings.base_url.rstrip("/") or f"{scope.get('scheme', 'http')}://{host}") + ROOT
        try:
            if raw_path == CDX_PATH:
                return await self._answer_cdx(query_string, base)
            if raw_path == b"/robots.txt":
                return plain(200, "User-agent: *\nDisallow: /")
            about = ABOUT.format(base=base)
            if raw_path in (b"/", b"/web", b"/web/"):
                return plain(200, about)
            found = PAGE_PATH.fullmatch(raw_path)
            if found is None or found[5].startswith((b"*", b"timemap/", b"cdx")):
                return plain(404, f"nothing is served there\n\n{about}")
            return await self._answer_page(found, replayed(found[5], query_string), scope, Links(base))
        except InvalidArgument as error:
            if wants_json(query_string) and raw_path == CDX_PATH:
                return as_json(400, {"message": str(error)})
            return plain(400, str(error))
        except (CorruptionError, UnsupportedFormat) as error:
            return plain(502, f"the store cannot show this: {error}")
        except DocstoreError as error:
            return plain(503, f"the store cannot answer now: {error}", (("Retry-After", "5"),))
        except Exception:
            _LOG.exception("a request of the archive API failed")
            return plain(500, "this should not happen; the log of the server says what did")

    async def _answer_cdx(self, query_string: bytes, base: str) -> Answer:
        query = parse_query(query_string)
        address = f"{base}/cdx?{quote(query_string, safe=QUERY_SAFE)}"
        if not query.path_key or query.page is not None or query.show_pages:
            return await self._in_thread(self._scans, partial(self._cdx.answer, query, address))
        try:
            return self._short_cdx.answer(query, address)
        except TooLong:
            return await self._in_thread(self._lookups, partial(self._cdx.answer, query, address))

    async def _answer_page(self, path: re.Match[bytes], page: Asked, scope: Scope, links: Links) -> Answer:
        """About the captures of one URL; `path` is what PAGE_PATH found."""
        timemap, begin, digits, modifier = ((part or b"").decode() for part in path.groups()[:4])

        def work(mementos: MementoAnswers) -> Answer:
            if timemap:
                return mementos.timemap(page, begin, links)
            if not digits:
                return mementos.timegate(page, _header(scope, b"accept-datetime"), links)
            return mementos.memento(page, digits, modifier, links, with_body=scope["method"] == "GET")

        if not timemap:
            try:
                return work(self._short_mementos)
            except TooLong:
                pass
        return await self._in_thread(self._lookups, partial(work, self._mementos))

    async def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[[], Answer]) -> Answer:
        """Do what may block, in a thread; refuse where too many wait."""
        if self._waiting >= self._settings.waiting:
            return plain(503, "too many requests wait; ask again", (("Retry-After", "1"),))
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        finally:
            self._waiting -= 1

    async def _respond(self, scope: Scope, answer: Answer, send: Send) -> None:
        """Send an answer, and end the connection of a client that does not take it."""
        if not answer.held_bytes and len(answer.body) > _STEP_BYTES:  # a long list, which a slow client holds as well
            if self._memory.take(len(answer.body)):
                answer = answer._replace(held_bytes=len(answer.body))
            else:
                answer = plain(503, "too many long answers are being sent; ask again", (("Retry-After", "2"),))
        body = answer.body
        length = len(body) if answer.length is None else answer.length
        headers = encoded_headers(answer.headers) + _ENCODED_SAFETY
        if answer.status not in (204, 304):
            headers.append((b"content-length", b"%d" % length))
        if scope["method"] == "HEAD":
            body = b""
        seconds = self._settings.send_seconds + len(body) / self._settings.send_bytes_per_second
        try:
            async with asyncio.timeout(seconds):
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


def _header(scope: Scope, name: bytes) -> str:
    """The first header of that name; "" for none."""
    value: bytes = next((value for found, value in scope["headers"] if found == name), b"")
    return value.decode("latin-1")
