"""The client for asyncio: a store that a server holds, with the calls of `DocumentStore` as coroutines.

    async with docstore.aio.connect("http://localhost:8470") as store:
        result = await store.put_page("https://example.com/", b"<p>Hello")
        async for row in store.cells.scan(host="example.com"):
            print(row.url)

Shares all but the transport, aiohttp, with the client for threads; install `docstore[aio]`.
The arguments are those of `DocumentStore` and `CellStore`; what is an iterator there is an asynchronous iterator here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import yarl

from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.pointers import PagePointer
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    Headers,
    Increment,
    Mutation,
    Page,
    Policies,
    PutResult,
    ReadSpec,
    Schema,
    Time,
    Verdict,
    WriteOptions,
    page_of,
)
from docstore.reading.answers import Orphan, Similar
from docstore.reading.cells import Row
from docstore.reading.documents import Document
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet, most_urls
from docstore.serving import client_calls as calls
from docstore.serving import wire_frames as frames
from docstore.serving.client_calls import Batch, Call, Listing, as_page, sent_page, url_batches, write_options
from docstore.serving.client_http import (
    UNIX,
    Address,
    Answer,
    Backoff,
    Broken,
    PendingCall,
    Request,
    Retries,
    Session,
    check_socket,
    parse_address,
)
from docstore.writing.fields import body_bytes
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES, GROUP_SECONDS

_T = TypeVar("_T")

READ_BYTES = 1 << 18


def connect(
    url: str, *, token: str | None = None, timeout_seconds: float = 60.0, retry_seconds: float = 30.0
) -> AsyncStore:
    """A store that `docstore serve` holds; an asynchronous context manager.  Takes what `docstore.connect` takes.

    Raises:
        InvalidArgument: the URL or the token is none.
    """
    if timeout_seconds <= 0 or retry_seconds < 0:
        raise InvalidArgument("timeout_seconds must be above 0, and retry_seconds 0 or more")
    return AsyncStore(Session(parse_address(url), token, Retries(retry_seconds)), timeout_seconds)


class AsyncStore:
    """A store that a server holds, for the tasks of one event loop; make one with `docstore.aio.connect`.

    Attributes:
        cells: general cells.
    """

    def __init__(self, session: Session, timeout_seconds: float) -> None:
        self._session = session
        self._timeout_seconds = timeout_seconds
        self._http: aiohttp.ClientSession | None = None
        self._limits = calls.Limits()
        self._schema: Schema | None = None
        self.cells = AsyncCells(self)

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=min(10.0, self._timeout_seconds), sock_read=self._timeout_seconds
        )
        address = self._session.address
        connector = aiohttp.UnixConnector(address.socket) if address.scheme == UNIX else aiohttp.TCPConnector()
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
        try:
            self._limits = (await self.ask(calls.about())).limits
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def schema(self) -> Schema:
        """What the store declares."""
        if self._schema is None:
            self._schema = await self.ask(calls.schema())
        return self._schema

    # --- writing pages

    async def put_page(
        self,
        url: str,
        body: bytes = b"",
        *,
        headers: Headers | Mapping[str, str] = (),
        status: int = 200,
        fetched_at: Time | None = None,
        policies: Policies | None = None,
        anchors: bool = False,
        links: bool = False,
        any_time: bool = False,
        keep_body: bool = True,
    ) -> PutResult:
        """See `DocumentStore.put_page`.  A task that is cancelled may have written its page."""
        options = write_options(policies, anchors, links, any_time, keep_body)
        page = sent_page(page_of(url, body, headers, status, fetched_at))
        return await self.ask(calls.put_page(page, options, policies))

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
        options = write_options(policies, anchors, links, any_time, keep_body)
        writing: asyncio.Task[list[PutResult | Exception]] | None = None
        try:
            async for group in _groups(pages):
                if writing is not None:
                    for result in _results(await writing):
                        yield result
                writing = asyncio.create_task(self._write(group, options, policies))
                if group.is_last_for_now:
                    for result in _results(await writing):
                        yield result
                    writing = None
            if writing is not None:
                for result in _results(await writing):
                    yield result
                writing = None
        except _SourceFailure as failed:
            if writing is not None:
                for result in _results(await writing):
                    yield result
                writing = None
            raise failed.error from None
        finally:
            if writing is not None:
                writing.cancel()

    async def add_anchor(
        self, target_url: str, source_url: str, text: str, at: Time | None = None, *, any_time: bool = False
    ) -> None:
        """See `DocumentStore.add_anchor`."""
        await self.ask(calls.add_anchor(target_url, source_url, text, at, any_time))

    async def delete(self, url: str, *, purge: bool = False) -> bool:
        """See `DocumentStore.delete`."""
        return await self.ask(calls.delete(url, purge))

    # --- reading pages

    async def contains(self, url: str) -> bool:
        """Whether there is a page of this URL."""
        return await self.ask(calls.contains(url))

    async def get(
        self,
        url: str,
        *,
        at: Time | None = None,
        versions: int = 1,
        families: Sequence[str] | None = None,
        follow: bool = False,
        variants: bool = False,
        follow_duplicates: bool = False,
    ) -> Document | None:
        """See `DocumentStore.get`."""
        return await self.ask(calls.get(url, at, versions, families, follow, variants, follow_duplicates))

    async def get_many(
        self, urls: Iterable[str], *, at: Time | None = None, families: Sequence[str] | None = None
    ) -> AsyncIterator[Document | None]:
        """See `DocumentStore.get_many`."""
        for batch in url_batches(urls, self._limits):
            async for document in self.items(calls.get_many(batch, at, families)):
                yield document

    async def history(self, url: str) -> list[Document]:
        """See `DocumentStore.history`."""
        return await self.ask(calls.history(url))

    async def validators(self, url: str) -> dict[str, str | int] | None:
        """See `DocumentStore.validators`."""
        return await self.ask(calls.validators(url))

    def anchors(self, url: str) -> AsyncIterator[Cell]:
        """See `DocumentStore.anchors`."""
        return self.cells.slices(url, families=("anchor",))

    async def similar(self, page: bytes | str, *, threshold: float | None = None, limit: int = 10) -> list[Similar]:
        """See `DocumentStore.similar`."""
        return await self.ask(calls.similar(page, threshold, limit))

    async def snippets(
        self, urls: Iterable[str], query: str = "", *, length: int = DEFAULT_LENGTH, at: Time | None = None
    ) -> list[Snippet | None]:
        """See `DocumentStore.snippets`."""
        found: list[Snippet | None] = []
        for batch in url_batches(urls, self._limits, most_urls(length)):
            some = await self.ask(calls.snippets(batch, query, length, at))
            found += some
        return found

    async def collapse(self, urls: Iterable[str]) -> list[str]:
        """See `DocumentStore.collapse`."""
        kept: list[str] = []
        taken: list[bytes] = []
        for batch in url_batches(urls, self._limits):
            part = await self.ask(calls.collapse(batch, taken))
            kept += part.urls
            taken = part.taken
        return kept

    def find(
        self, *, payload_digest: str = "", docno: str = "", limit: int | None = None, after: PagePointer | None = None
    ) -> AsyncIterator[Document]:
        """See `DocumentStore.find`."""
        return self.items(calls.find(payload_digest, docno, limit, after))

    def rejected(self) -> AsyncIterator[tuple[str, int, Verdict]]:
        """See `DocumentStore.rejected`."""
        return self.items(calls.rejected())

    def orphans(self) -> AsyncIterator[Orphan]:
        """See `DocumentStore.orphans`."""
        return self.items(calls.orphans())

    async def stats(self) -> dict[str, Any]:
        """See `DocumentStore.stats`."""
        return await self.ask(calls.stats())

    # --- how calls are sent

    async def ask(self, call: Call[_T]) -> _T:
        """Send a call until it is answered."""
        pending = PendingCall(self._session, call, Backoff(self._session.retries))
        while True:
            try:
                async with self._opened(pending.request) as response:
                    answer = Answer(response.status, _headers(response), await _whole(response))
            except Broken as broken:
                await asyncio.sleep(pending.broke(broken))
                continue
            pause = pending.refused(answer)
            if pause is None:
                return pending.result(answer)
            await asyncio.sleep(pause)

    async def items(self, listing: Listing[_T]) -> AsyncIterator[_T]:
        """The items of a stream; one that is cut off is asked for again, from where it was."""
        backoff = Backoff(self._session.retries)
        while (call := listing.call()) is not None:
            pending = PendingCall(self._session, call, backoff, frames.MEDIA_TYPE)
            reader = frames.FrameReader()
            try:
                async with self._opened(pending.request) as response:
                    if response.status != 200:
                        answer = Answer(response.status, _headers(response), await _whole(response))
                        pause = pending.refused(answer)
                        if pause is None:
                            pending.fail(answer)
                    else:
                        async for chunk in _chunks(response):
                            for item in pending.items(listing, reader, chunk):
                                yield item
                            if reader.ended:
                                return
                        pause = pending.broke(Broken("the stream was cut off", reached=True))
            except Broken as broken:
                pause = pending.broke(broken)
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def _opened(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._http is None:
            raise StoreUnavailable("this store is closed; connect again")
        address = self._session.address
        if address.scheme == UNIX:
            check_socket(address.socket)
        try:
            response = await self._http.request(
                request.method,
                _url(address, request.target),
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Broken(_words(error), reached=not isinstance(error, aiohttp.ClientConnectorError)) from error
        async with response:
            yield response

    async def _write(
        self, group: Sequence[Page], options: WriteOptions, policies: Policies | None
    ) -> list[PutResult | Exception]:
        batch = Batch(group, self._limits)
        for numbers in batch.requests():
            try:
                found: Sequence[PutResult | Exception] = [
                    *await self.ask(calls.put_pages(batch.pages(numbers), options, policies))
                ]
            except Exception as error:
                found = [error]
            if not batch.take(numbers, found):
                break
        return batch.outcomes()


class AsyncCells:
    """Cells of page rows; see `CellStore`."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def read_row(self, url_or_row_key: str | bytes, spec: ReadSpec = ReadSpec()) -> Row | None:
        """See `CellStore.read_row`."""
        return await self._store.ask(calls.read_row(url_or_row_key, spec))

    def slices(
        self, url_or_row_key: str | bytes, *, families: tuple[str, ...] | None = None, spec: ReadSpec | None = None
    ) -> AsyncIterator[Cell]:
        """See `CellStore.slices`."""
        return self._store.items(calls.slices(url_or_row_key, families, spec))

    def scan(
        self,
        *,
        prefix: str | None = None,
        host: str | None = None,
        start: bytes = b"",
        end: bytes | None = None,
        qualifier_regex: str | None = None,
        limit: int | None = None,
        spec: ReadSpec = ReadSpec(),
    ) -> AsyncIterator[Row]:
        """See `CellStore.scan`."""
        return self._store.items(calls.scan(prefix, host, start, end, qualifier_regex, limit, spec))

    async def apply(self, url_or_row_key: str | bytes, mutations: Sequence[Mutation]) -> None:
        """See `CellStore.apply`."""
        await self._store.ask(calls.apply_many([(url_or_row_key, mutations)]))

    async def check_and_mutate(
        self,
        url_or_row_key: str | bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
    ) -> bool:
        """See `CellStore.check_and_mutate`."""
        return await self._store.ask(calls.check_and_mutate(url_or_row_key, condition, then, otherwise))

    async def read_modify_write(self, url_or_row_key: str | bytes, rules: Sequence[Append | Increment]) -> list[Cell]:
        """See `CellStore.read_modify_write`."""
        return await self._store.ask(calls.read_modify_write(url_or_row_key, rules))


# --- sources of pages


class _Pages(list[Page]):
    """A group.

    Attributes:
        is_last_for_now: the source has nothing more at the moment.
    """

    is_last_for_now = False


class _SourceFailure(Exception):
    """The source of pages failed; what was read before is to be answered first."""

    def __init__(self, error: Exception) -> None:
        self.error = error


async def _groups(
    pages: Iterable[Page | tuple[str, bytes]] | AsyncIterable[Page | tuple[str, bytes]],
) -> AsyncIterator[_Pages]:
    """Pages of a source in groups; a failure of the source comes after the pages that it gave."""
    source = pages if isinstance(pages, AsyncIterable) else _stepwise(pages)
    iterator = aiter(source)
    group, group_bytes = _Pages(), 0
    asked: asyncio.Future[Page | tuple[str, bytes]] | None = None
    try:
        while True:
            asked = asked or asyncio.ensure_future(anext(iterator))
            if group and not asked.done():
                await asyncio.wait([asked], timeout=GROUP_SECONDS)
                if not asked.done():
                    group.is_last_for_now = True
                    yield group
                    group, group_bytes = _Pages(), 0
            try:
                given = await asked
            except StopAsyncIteration:
                break
            except Exception as error:
                if group:
                    yield group
                raise _SourceFailure(error) from error
            finally:
                asked = None
            page = as_page(given)
            group.append(page)
            group_bytes += body_bytes(page)
            if len(group) >= GROUP_PAGES or group_bytes >= GROUP_BYTES:
                yield group
                group, group_bytes = _Pages(), 0
        if group:
            yield group
    finally:
        if asked is not None:
            asked.cancel()


async def _stepwise(pages: Iterable[Page | tuple[str, bytes]]) -> AsyncIterator[Page | tuple[str, bytes]]:
    for page in pages:
        yield page


def _results(outcomes: Sequence[PutResult | Exception]) -> Iterable[PutResult]:
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


# --- aiohttp


def _url(address: Address, target: str) -> yarl.URL:
    origin = "http://localhost" if address.scheme == UNIX else f"{address.scheme}://{address.authority}"
    return yarl.URL(origin + target, encoded=True)


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    return b"".join([chunk async for chunk in _chunks(response)])


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_chunked(READ_BYTES):
            yield chunk
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Broken(_words(error), reached=True) from error


def _words(error: Exception) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
