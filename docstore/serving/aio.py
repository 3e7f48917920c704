"""The client for asyncio: a store that a server holds, with the calls of `DocumentStore` as coroutines.

    async with docstore.aio.connect("http://localhost:8470") as store:
        result = await store.put_page("https://example.com/", b"<p>Hello")
        async for row in store.cells.scan(host="example.com"):
            print(row.url)

Its calls are those of `client_calls.py`; what is here needs an event loop: connections by aiohttp, and streams of
pages.  Install `docstore[aio]`.  What is an iterator in `DocumentStore` is an asynchronous iterator here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from types import TracebackType
from typing import Self

import aiohttp
import yarl

from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.types import Page, Policies, PutResult, Schema, body_bytes
from docstore.serving.client_calls import CellCalls, StoreCalls, as_page, sent_options
from docstore.serving.client_http import (
    CONNECT_SECONDS,
    READ_BYTES,
    UNIX,
    Address,
    Awaiting,
    Broken,
    Request,
    Session,
    check_socket,
    parse_address,
)
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES, GROUP_SECONDS


def connect(
    url: str, *, token: str | None = None, timeout_seconds: float = 60.0, retry_seconds: float = 30.0
) -> AsyncStore:
    """A store that `docstore serve` holds; an asynchronous context manager.  Takes what `docstore.connect` takes.

    Raises:
        InvalidArgument: the URL or the token is none.
    """
    if timeout_seconds <= 0 or retry_seconds < 0:
        raise InvalidArgument("timeout_seconds must be above 0, and retry_seconds 0 or more")
    address = parse_address(url)
    return AsyncStore(Session(address, token, retry_seconds), Connections(address, timeout_seconds))


class AsyncStore(StoreCalls, Awaiting):
    """A store that a server holds, for the tasks of one event loop; make one with `docstore.aio.connect`.

    Attributes:
        cells: general cells.
    """

    def __init__(self, session: Session, connections: Connections) -> None:
        super().__init__(session, connections)
        self._schema: Schema | None = None
        self.cells = AsyncCells(session, connections)

    async def __aenter__(self) -> Self:
        self._connections.open()
        try:
            await self.about()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncStore at {self._session.address}>"

    def __aiter__(self) -> AsyncIterator[str]:
        return self.urls()

    def urls(self, *, prefix: str | None = None, host: str | None = None) -> AsyncIterator[str]:
        """See `DocumentStore.urls`."""
        return (listed.url async for listed in self._listed(prefix=prefix, host=host))

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        await self._connections.close()

    async def schema(self) -> Schema:
        """What the store declares."""
        if self._schema is None:
            self._schema = await self._ask_schema()
        return self._schema

    async def contains(self, url: str) -> bool:
        """Whether there is a page of this URL."""
        return await self._contains(url)

    async def put_pages(
        self,
        pages: Iterable[Page | tuple[str, bytes]] | AsyncIterable[Page | tuple[str, bytes]],
        *,
        policies: Policies | None = None,
        anchors: bool = False,
        links: bool = False,
        any_time: bool = False,
        keep_body: bool = True,
    ) -> AsyncIterator[PutResult]:
        """See `DocumentStore.put_pages`; pages come from an asynchronous iterable, or from one that does not block.

        While a group is written the next pages are read; a group is sent when it is full, or when its source has had no
        page for 0.1 s.
        """
        options = sent_options(policies, anchors, links, any_time, keep_body)
        groups = _groups(pages)
        writing: asyncio.Task[list[PutResult | Exception]] | None = None
        group: list[Page] | None = []
        failure: Exception | None = None
        try:
            while group is not None:
                try:
                    group = await anext(groups, None)
                except Exception as error:  # raised when what was read before it has been answered
                    group, failure = None, error
                if writing is not None:
                    for outcome in await writing:
                        if isinstance(outcome, Exception):
                            raise outcome
                        yield outcome
                writing = asyncio.create_task(self._write_group(group, options)) if group else None
        finally:
            if writing is not None:
                writing.cancel()
            await groups.aclose()
        if failure is not None:
            raise failure


class AsyncCells(CellCalls, Awaiting):
    """Cells of page rows; see `CellStore`."""


async def _groups(
    pages: Iterable[Page | tuple[str, bytes]] | AsyncIterable[Page | tuple[str, bytes]],
) -> AsyncGenerator[list[Page], None]:
    """Pages of a source in groups, and [] after one that is not full: its answers are not to wait for the next."""
    iterator = aiter(pages if isinstance(pages, AsyncIterable) else _stepwise(pages))
    group: list[Page] = []
    group_bytes = 0
    asked: asyncio.Future[Page | tuple[str, bytes]] | None = None
    try:
        while True:
            asked = asyncio.ensure_future(anext(iterator))
            if group:
                await asyncio.wait([asked], timeout=GROUP_SECONDS)
                if not asked.done():
                    yield group
                    yield []
                    group, group_bytes = [], 0
            try:
                page = as_page(await asked)
            except StopAsyncIteration:
                break
            except Exception:
                if group:
                    yield group
                raise
            group.append(page)
            group_bytes += body_bytes(page)
            if len(group) >= GROUP_PAGES or group_bytes >= GROUP_BYTES:
                yield group
                group, group_bytes = [], 0
        if group:
            yield group
    finally:
        if asked is not None:
            asked.cancel()


async def _stepwise(pages: Iterable[Page | tuple[str, bytes]]) -> AsyncIterator[Page | tuple[str, bytes]]:
    for page in pages:
        yield page


# --- connections, by aiohttp


class Connections:
    """Connections to one server, of one event loop.

    Args:
        address: of the server.
        timeout_seconds: that a send or a receive may take.
    """

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._http: aiohttp.ClientSession | None = None
        self.sleep = asyncio.sleep

    def open(self) -> None:
        """Begin; in the event loop."""
        seconds = self._timeout_seconds
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, seconds), sock_read=seconds)
        socket = self._address.socket
        connector = aiohttp.UnixConnector(socket) if self._address.scheme == UNIX else aiohttp.TCPConnector()
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    async def close(self) -> None:
        """Close the connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def send(self, request: Request) -> aiohttp.ClientResponse:
        """Send a request, and read the head of its answer.

        Raises:
            Broken: there is none.
        """
        if self._http is None:
            raise StoreUnavailable("this store is closed; connect again")
        address = self._address
        if address.scheme == UNIX:
            check_socket(address.socket)
        origin = "http://localhost" if address.scheme == UNIX else f"{address.scheme}://{address.authority}"
        try:
            return await self._http.request(
                request.method,
                yarl.URL(origin + request.target, encoded=True),
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Broken(_words(error), reached=not isinstance(error, aiohttp.ClientConnectorError)) from error

    async def read(self, answer: aiohttp.ClientResponse) -> bytes:
        """The next bytes of an answer; b"" at its end.

        Raises:
            Broken: it was cut off.
        """
        try:
            return await answer.content.read(READ_BYTES)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Broken(_words(error), reached=True) from error


def _words(error: Exception) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
