"""The client for asyncio gives what the embedded store gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.model.types import Condition, Increment, Page, ReadSpec, SetCell
from docstore.serving import aio
from docstore.serving.client_calls import ROOM_BYTES
from docstore.serving.settings import Limits
from tests.serving import Serving, serving

AT = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("aio") / "store"
    docstore.open(folder, create=True, schema=docstore.Schema(families=(docstore.ColumnFamily("notes"),))).close()
    with serving(folder) as one:
        yield one


@pytest.fixture(params=["tcp", "socket"])
def run(request: pytest.FixtureRequest, served: Serving) -> Callable[[Callable[[aio.AsyncStore], Awaitable[Any]]], Any]:
    url = served.addresses.url if request.param == "tcp" else f"unix:{served.addresses.unix}"

    def run_it(work: Callable[[aio.AsyncStore], Awaitable[Any]]) -> Any:
        async def connected() -> Any:
            async with aio.connect(url) as store:
                return await work(store)

        return asyncio.run(connected())

    return run_it


def page(name: str) -> bytes:
    return f"<title>{name}</title><p>{' '.join(f'{name}{number}' for number in range(80))}".encode()


def test_pages_are_written_and_read(run: Any, served: Serving) -> None:
    async def work(store: aio.AsyncStore) -> None:
        result = await store.put_page("https://a.example/", page("a"), fetched_at=AT)
        assert result.stored in ("body", "known")
        document = await store.get("https://a.example/")
        assert document == served.store.get("https://a.example/")
        assert await store.contains("https://a.example/") and not await store.contains("https://none.example/")
        assert await store.get("https://none.example/") is None
        assert await store.history("https://a.example/") == served.store.history("https://a.example/")
        assert (await store.validators("https://a.example/") or {})["last_visit"] == AT
        assert await store.schema() == served.store.schema
        assert (await store.similar(page("a")))[0].url == "https://a.example/"
        many = [one async for one in store.get_many(["https://none.example/", "https://a.example/"])]
        assert many == [None, document]
        assert (await store.stats())["totals"]["urls"] >= 1

    run(work)


def test_a_rejected_page_is_served_by_the_other(run: Any) -> None:
    async def work(store: aio.AsyncStore) -> None:
        for name in "xy":
            url = f"https://rejected.example/{name}"
            await store.put_page(url, page("rejected"), fetched_at=AT, policies={"exact": "reject"})
        assert await store.get("https://rejected.example/y") is None
        found = await store.get("https://rejected.example/y", follow_duplicates=True)
        assert found is not None and found.url == "https://rejected.example/x"
        (only,) = await store.history("https://rejected.example/y")
        assert only.newest.verdict is not None and only.newest.verdict.stored == "rejected"

    run(work)


def test_many_pages_are_answered_in_order(run: Any) -> None:
    async def source() -> AsyncIterator[Any]:
        for number in range(600):
            yield Page(f"https://many.example/{number}", b"text %d" % number, fetched_at=AT)
        yield "no url", b""

    async def work(store: aio.AsyncStore) -> list[Any]:
        return [result async for result in store.put_pages(source())]

    results = run(work)
    assert [one.url for one in results[:-1]] == [f"https://many.example/{number}" for number in range(600)]
    assert results[-1].stored == "refused"


def test_a_source_that_waits_for_its_answers_gets_them(run: Any) -> None:
    async def work(store: aio.AsyncStore) -> list[str]:
        answered = asyncio.Event()
        seen = []

        async def source() -> AsyncIterator[tuple[str, bytes]]:
            for number in range(3):
                yield f"https://waits.example/{number}", b"text"
                await answered.wait()
                answered.clear()

        async for result in store.put_pages(source()):
            seen.append(result.url)
            answered.set()
        return seen

    assert run(work) == [f"https://waits.example/{number}" for number in range(3)]


def test_a_source_that_fails_is_told_after_the_answers(run: Any) -> None:
    def source() -> Iterator[tuple[str, bytes]]:
        yield "https://fails.example/", b"text"
        raise RuntimeError("the source")

    async def work(store: aio.AsyncStore) -> list[str]:
        seen = []
        with pytest.raises(RuntimeError, match="the source"):
            async for result in store.put_pages(source()):
                seen.append(result.url)
        return seen

    assert run(work) == ["https://fails.example/"]


def test_an_endless_source_may_be_left(run: Any) -> None:
    async def work(store: aio.AsyncStore) -> str:
        pages = ((f"https://endless.example/{number}", b"text") for number in count())
        results = store.put_pages(pages)
        first = await anext(results)
        await results.aclose()  # type: ignore[attr-defined]
        return first.url

    assert run(work) == "https://endless.example/0"


def test_tasks_share_one_store(run: Any) -> None:
    async def work(store: aio.AsyncStore) -> list[str]:
        puts = [store.put_page(f"https://tasks.example/{n}", page(f"t{n}"), fetched_at=AT) for n in range(20)]
        return [one.url for one in await asyncio.gather(*puts)]

    assert run(work) == [f"https://tasks.example/{n}" for n in range(20)]


def test_cells_are_set_and_scanned(run: Any) -> None:
    async def work(store: aio.AsyncStore) -> None:
        for number in range(5):
            await store.cells.apply(f"https://cells.example/{number}", [SetCell("notes", b"n", 0, b"%d" % number)])
        rows = [row async for row in store.cells.scan(host="cells.example", limit=3)]
        assert [row.cells[0].value for row in rows] == [b"0", b"1", b"2"]
        url = "https://cells.example/0"
        assert await store.cells.check_and_mutate(url, Condition("notes", b"n", b"0"), []) is True
        [cell] = await store.cells.read_modify_write(url, [Increment("notes", b"hits", 2)])
        assert int.from_bytes(cell.value, "big") % 2 == 0
        row = await store.cells.read_row(url, ReadSpec(keys_only=True))
        assert row is not None and [one async for one in store.cells.slices(url, families=("notes",))]
        assert await store.delete(url)

    run(work)


def test_errors_are_those_of_the_store(run: Any, tmp_path: Path) -> None:
    async def work(store: aio.AsyncStore) -> None:
        with pytest.raises(docstore.InvalidArgument):
            await store.get("no url")
        with pytest.raises(docstore.InvalidArgument):
            await store.put_page("https://a.example/", b"", fetched_at=5)
        with pytest.raises(docstore.InvalidArgument, match="not understood"):
            _ = [row async for row in store.cells.scan(qualifier_regex="(")]
        await store.close()
        with pytest.raises(docstore.StoreUnavailable, match="closed"):
            await store.stats()

    run(work)

    async def nobody() -> None:
        async with aio.connect("http://127.0.0.1:9", retry_seconds=0):
            raise AssertionError

    with pytest.raises(docstore.StoreUnavailable, match="no server answers"):
        asyncio.run(nobody())


@pytest.mark.parametrize("limits", [Limits(urls=2), Limits(call_bytes=ROOM_BYTES + 70)])
def test_results_in_parts_are_the_results_of_one_call(tmp_path: Path, limits: Limits) -> None:
    def body(name: str) -> bytes:
        return page(name) + b"<p>same"

    with serving(tmp_path / "store", limits=limits) as one:
        for name, text in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "z"), ("e", "y")):
            one.store.put_page(f"https://{name}.example/", body(text), fetched_at=AT)
        urls = [f"https://{name}.example/" for name in ("a", "none", "b", "c", "d", "e", "a")]
        whole = one.store.collapse(urls)
        assert whole == [f"https://{name}.example/" for name in ("a", "none", "b", "d")]

        async def ask() -> None:
            async with aio.connect(one.addresses.url) as store:
                assert await store.collapse(iter(urls)) == whole
                assert await store.snippets(iter(urls), "x1") == one.store.snippets(urls, "x1")

        asyncio.run(ask())
        with docstore.connect(one.addresses.url) as store:
            assert store.collapse(iter(urls)) == whole
            assert store.collapse([]) == []
            assert [found and found.url for found in store.get_many(urls)] == [
                None if "none" in url else url for url in urls
            ]
            many = [f"https://{number}.example/{'x' * 2000}" for number in range(5)]
            assert store.snippets(many, "x", length=1 << 23) == [None] * 5, "as many as one answer may hold"
