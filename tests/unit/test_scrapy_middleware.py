"""The spider middleware, the pipeline and the cache, called as Scrapy calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scrapy", reason="Scrapy is not installed: pip install '.[scrapy]'")

import scrapy
from scrapy import Request
from scrapy.exceptions import DropItem
from scrapy.http import HtmlResponse, Response, XmlResponse
from scrapy.utils.test import get_crawler

import docstore
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.types import SetCell
from docstore.scrapy import AlwaysAsk, StoreCache, StoreMiddleware, StorePipeline
from docstore.scrapy.options import acquire, options, release

TEXT = " ".join(f"Pony number {n} likes oats, rain and company." for n in range(30))
STORY = f"<title>Ponies</title><p>{TEXT}".encode()
COPY = STORY.replace(b"7 likes", b"7 hates")
TYPE = {"Content-Type": "text/html"}
A, B = "https://a.example/story", "https://a.example/story?sid=1"


class Fields(scrapy.Item):
    docstore = scrapy.Field()


class NoFields(scrapy.Item):
    url = scrapy.Field()


class Crawl:
    """A middleware and the store that it writes to."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.crawler = get_crawler(
            scrapy.Spider, {"DOCSTORE_STORE": str(path), "DOCSTORE_DURABILITY": "none", **settings}
        )
        self.crawler.spider = scrapy.Spider(name="test")
        self.middleware = StoreMiddleware.from_crawler(self.crawler)
        self.options = options(self.crawler.settings)
        self.store = acquire(self.options)

    def stats(self) -> dict[str, Any]:
        assert self.crawler.stats is not None
        return {name.removeprefix("docstore/"): value for name, value in self.crawler.stats.get_stats().items()}

    def gives(self, response: Response, *results: Any) -> list[Any]:
        async def found() -> AsyncIterator[Any]:
            for result in results:
                yield result

        async def run() -> list[Any]:
            return [one async for one in self.middleware.process_spider_output(response, found())]

        return asyncio.run(run())

    def links(self, response: Response) -> list[str]:
        """Of a page with two links."""
        wanted = [Request(f"{response.url}/next{number}") for number in range(2)]
        return [request.url for request in self.gives(response, *wanted)]


def answer(url: str, body: bytes = STORY, *, status: int = 200, depth: int = 5, **meta: Any) -> HtmlResponse:
    request = Request(url, meta={"depth": depth, **meta})
    return HtmlResponse(url, status=status, headers=TYPE, body=body, request=request)


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Callable[..., Crawl]]:
    made: list[Crawl] = []

    def make(**settings: Any) -> Crawl:
        made.append(Crawl(tmp_path / "s", {"DOCSTORE_FOLLOW_DUPLICATES": "never", **settings}))
        return made[-1]

    yield make
    for one in made:
        one.middleware.engine_stopped()
        release(one.options)


def test_a_page_is_written_with_its_headers_and_items_get_the_verdict(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    plain, declared, other = one.gives(answer(A), {"url": A}, Fields(), NoFields(url=A))
    assert plain["docstore"]["verdict"] == declared["docstore"]["verdict"] == "new"
    assert dict(other) == {"url": A}
    (item,) = one.gives(answer(B, COPY), {"docstore": None})
    assert (item["docstore"]["verdict"], item["docstore"]["of_url"]) == ("near", A)
    page = one.store.get(A)
    assert page is not None
    assert (page.body, page.status, page.newest.header("content-type")) == (STORY, 200, "text/html")
    assert one.stats()["verdict/near"] == 1


def test_links_of_a_duplicate_are_not_followed(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    assert len(one.links(answer(A))) == 2
    assert one.links(answer(B)) == []
    assert one.stats()["links_dropped"] == 2


def test_links_of_an_article_whose_text_its_feed_holds_are_followed(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    feed = b"<rss><channel><item><title>Story</title><description><![CDATA[" + STORY + b"]]></description></item>"
    response = XmlResponse(f"{A}/feed", headers={"Content-Type": "application/rss+xml"}, body=feed, request=Request(A))
    one.gives(response)
    stored = one.store.get(f"{A}/feed")
    assert stored is not None and stored.newest.entries and "Story" in (stored.text or "")
    assert len(one.links(answer(A))) == 2
    assert one.stats()["verdict/new"] == 2


@pytest.mark.parametrize(
    ("settings", "first", "second"),
    [
        ({}, A, answer(B, depth=1)),
        ({}, A, answer(B, docstore_follow=True)),
        ({}, A, answer("https://b.example/story")),
        ({}, A, answer("https://a.example:8443/story")),
        ({"DOCSTORE_FOLLOW_DUPLICATES": True}, A, answer(B)),
        ({"DOCSTORE_DUPLICATE_KINDS": ["exact"]}, A, answer(B, COPY)),
        ({"DOCSTORE_FOLLOW_DUPLICATES": "learn"}, A, answer(B)),
    ],
    ids=[
        "near the start",
        "asked for",
        "another host",
        "another port",
        "always",
        "another verdict",
        "nothing learnt yet",
    ],
)
def test_links_of_a_duplicate_are_followed(
    crawl: Callable[..., Crawl], settings: dict[str, Any], first: str, second: Response
) -> None:
    one = crawl(**settings)
    one.links(answer(first))
    assert len(one.links(second)) == 2


@pytest.mark.parametrize(
    ("settings", "second"),
    [
        ({"DOCSTORE_ACROSS_HOSTS": True}, answer("https://b.example/story")),
        ({}, answer("https://www.a.example/story")),
        ({"DOCSTORE_MIN_DEPTH": 0}, answer(B, depth=0)),
        ({"DOCSTORE_FOLLOW_DUPLICATES": True}, answer(B)),
        ({"DOCSTORE_FOLLOW_DUPLICATES": "learn"}, answer(B, docstore_follow=False)),
    ],
    ids=["another host, if asked for", "www", "depth 0, if asked for", "always, told never", "told never"],
)
def test_links_of_other_duplicates_are_not_followed(
    crawl: Callable[..., Crawl], settings: dict[str, Any], second: Response
) -> None:
    one = crawl(**settings)
    one.links(answer(A))
    expected = 2 if settings.get("DOCSTORE_FOLLOW_DUPLICATES") is True else 0
    assert len(one.links(second)) == expected


def test_an_original_of_an_earlier_crawl_stops_nothing_but_the_duplicates_after_the_first(
    crawl: Callable[..., Crawl],
) -> None:
    """A page that changes at each visit is near to its own old copy under another URL, and that one to it."""
    one = crawl()
    one.store.put_page(A, STORY, headers=TYPE, fetched_at=1_700_000_000_000_000)
    assert len(one.links(answer(B))) == 2
    assert one.links(answer("https://a.example/story?sid=2")) == []  # the first one stands for it
    assert len(one.links(answer(B))) == 2
    assert len(one.links(answer(A))) == 2  # the oldest of them
    assert one.links(answer("https://a.example/story?sid=3")) == []


def test_of_duplicates_of_another_host_only_the_first_is_followed(crawl: Callable[..., Crawl]) -> None:
    """Two sites with the same trap: each page of the second was followed without end."""
    one = crawl()
    one.links(answer(A))
    assert len(one.links(answer("https://b.example/story"))) == 2
    assert one.links(answer("https://b.example/story?sid=1")) == []
    assert len(one.links(answer("https://c.example/story"))) == 2


def test_an_original_whose_links_were_not_followed_stops_nothing(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    assert one.gives(answer(A), {"url": A}) != []
    assert len(one.links(answer(B))) == 2


def test_a_page_that_is_asked_for_again_is_no_link_of_its_own(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    one.links(answer(A))
    again = Request(B, dont_filter=True)
    assert one.gives(answer(B), again, Request("https://a.example/x")) == [again]


def test_learning_closes_a_shape_by_what_its_links_led_to(crawl: Callable[..., Crawl]) -> None:
    one = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    one.links(answer(A))
    requests = one.gives(answer(B), *(Request(f"https://a.example/story?sid={n}") for n in range(2, 40)))
    assert 0 < len(requests) < 38
    for turn in range(12):
        response = answer(f"https://a.example/story?sid=x{turn}", docstore_shape=requests[0].meta["docstore_shape"])
        one.links(response)
    assert one.stats()["shapes_closed"] == 1
    assert one.links(answer("https://a.example/story?sid=last")) == []


def duplicates(start: int, count: int) -> list[HtmlResponse]:
    shape = "a.example/story?sid"
    return [answer(f"https://a.example/story?sid=x{start + turn}", docstore_shape=shape) for turn in range(count)]


def test_a_shape_that_was_closed_stays_closed_in_the_next_crawl(crawl: Callable[..., Crawl]) -> None:
    one = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    one.links(answer(A))
    for response in duplicates(0, 12):
        one.links(response)
    assert one.stats()["shapes_closed"] == 1
    row = one.store.cells.read_row("urn:docstore:links:a.example")
    assert row is not None
    assert [(cell.qualifier, cell.value) for cell in row.cells] == [(b"links:/story?sid", b"closed")]
    again = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    again.links(answer(A))
    assert [again.links(response) for response in duplicates(20, 3)] == [[]] * 3
    for number in range(3):
        news = answer(f"https://a.example/new{number}", b"Something else %d" % number * 30)
        news.meta["docstore_shape"] = "a.example/story?sid"
        again.links(news)
    third = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    third.links(answer(A))
    assert len(third.links(answer("https://a.example/story?sid=third"))) == 2


def test_a_closed_shape_that_cannot_be_kept_stops_no_crawl(
    crawl: Callable[..., Crawl], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    one.links(answer(A))
    monkeypatch.setattr(one.store.cells, "apply", lambda *_, **__: 1 / 0)
    for response in duplicates(0, 12):
        one.links(response)
    assert one.stats()["errors/ZeroDivisionError"] == 1
    assert one.links(answer("https://a.example/story?sid=last")) == []


@pytest.mark.parametrize(("original", "followed"), [(STORY, 0), (STORY.replace(b"Pony", b"Mule"), 2)])
def test_links_of_a_page_that_stands_for_another_wait_until_that_one_comes(
    crawl: Callable[..., Crawl], original: bytes, followed: int
) -> None:
    one = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    one.store.put_page(A, STORY, headers=TYPE, fetched_at=1_700_000_000_000_000)
    one.store.cells.apply("urn:docstore:links:a.example", [SetCell("anchor", b"links:/story?sid", 1000, b"closed")])
    assert one.links(answer(B)) == []
    assert one.stats()["links_held"] == 2
    assert len(one.links(answer(A, original))) - 2 == followed
    one.middleware.spider_idle(one.crawler.spider)  # nothing waits any more
    assert one.stats().get("links_released") is None


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (answer(A, status=503), "status"),
        (answer(A, docstore_store=False), "asked"),
        (Response("file:///etc/hosts", body=b"x", request=Request("file:///etc/hosts")), "scheme"),
        (HtmlResponse(A, body=STORY, request=Request(A, method="POST")), "method"),
        (HtmlResponse(A, body=STORY, request=Request(A), flags=["dataloss"]), "cut_short"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_page_is_not_stored(crawl: Callable[..., Crawl], response: Response, reason: str) -> None:
    one = crawl()
    assert one.gives(response, {"a": 1}) == [{"a": 1}]
    assert one.stats()[f"skipped/{reason}"] == 1
    assert one.store.get(A) is None


def test_errors_that_tell_of_the_page_redirects_and_pictures_are_stored(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    one.gives(answer("https://a.example/gone", status=410))
    picture = Response("https://a.example/p.png", headers={"Content-Type": "image/png"}, body=b"\x89PNG\x00\xff")
    one.gives(picture)
    one.gives(
        answer(A, redirect_urls=["https://a.example/old", "https://a.example/older"], redirect_reasons=[301, 302])
    )
    found = one.store.get("https://a.example/old", follow=True)
    assert found is not None
    assert (found.url, found.via) == (A, ("https://a.example/old", "https://a.example/older"))
    assert one.store.get("https://a.example/p.png").body == b"\x89PNG\x00\xff"  # type: ignore[union-attr]
    assert one.store.get("https://a.example/gone").status == 410  # type: ignore[union-attr]
    one.gives(
        answer("https://a.example/m", redirect_urls=["https://a.example/refresh"], redirect_reasons=["meta refresh"])
    )
    assert one.store.get("https://a.example/refresh") is None


def test_a_store_that_fails_does_not_stop_the_crawl(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    one.links(answer(A))
    one.store.close()
    (item,) = one.gives(answer(B), {"url": B})
    assert item == {"url": B}
    assert len(one.links(answer(B))) == 2
    assert one.stats()["errors"] == one.stats()["errors/StoreUnavailable"] == 2


def test_a_crawl_does_not_start_without_its_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="DOCSTORE_STORE"):
        Crawl(tmp_path, {"DOCSTORE_STORE": ""})
    with docstore.open(tmp_path / "held", create=True), pytest.raises(StoreUnavailable):
        Crawl(tmp_path / "held", {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FOLLOW_DUPLICATES", "sometimes"),
        ("DUPLICATE_KINDS", ["alike"]),
        ("MIN_DEPTH", "deep"),
        ("MIN_DEPTH", -1),
        ("POLICIES", {"exact": "burn"}),
        ("DURABILITY", "some"),
        ("ERROR_STATUSES", ["4xx"]),
        ("CRAWL", "two\nlines"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"DOCSTORE_{name}"):
        Crawl(tmp_path / "s", {f"DOCSTORE_{name}": value})


@contextmanager
def pipeline(one: Crawl) -> Iterator[Callable[[Any], Any]]:
    made = StorePipeline.from_crawler(one.crawler)
    yield lambda item: asyncio.run(made.process_item(item))
    asyncio.run(made.close_spider())


def test_the_pipeline_stores_items_that_hold_a_page_and_drops_duplicates(crawl: Callable[..., Crawl]) -> None:
    one = crawl(DOCSTORE_DROP_ITEMS="exact,near")
    with pipeline(one) as process:
        item = process({"url": A, "body": STORY.decode(), "fetched_at": 1_700_000_000_000_000})
        assert item["docstore"]["verdict"] == "new"
        with pytest.raises(DropItem, match="near of"):
            process({"url": B, "body": COPY, "headers": TYPE})
        with pytest.raises(DropItem, match="exact of"):
            process({"docstore": {"verdict": "exact", "of_url": A}})
        assert process({"url": A}) == {"url": A}
        assert process({"url": A, "body": 3}) == {"url": A, "body": 3}
        one.store.close()
        assert "docstore" not in process({"url": A, "body": b"x"})
    assert one.stats()["items"] == 2
    assert one.stats()["errors"] == 1


def test_pages_and_items_carry_the_label_of_the_crawl(crawl: Callable[..., Crawl]) -> None:
    one = crawl(DOCSTORE_CRAWL="2024-05")
    one.gives(answer(A, redirect_urls=["https://a.example/old"], redirect_reasons=[301]))
    with pipeline(one) as process:
        process({"url": B, "body": COPY, "headers": TYPE})
    for url in (A, B, "https://a.example/old"):
        found = one.store.get(url)
        assert found is not None and found.newest.crawl == "2024-05"


def cache_of(one: Crawl) -> StoreCache:
    cache = StoreCache(one.crawler.settings)
    cache.open_spider(one.crawler.spider)  # type: ignore[arg-type]
    return cache


def test_the_cache_gives_a_page_back_and_a_304_becomes_a_visit(crawl: Callable[..., Crawl]) -> None:
    one = crawl(SPIDER_MIDDLEWARES={"docstore.scrapy.StoreMiddleware": 45})
    spider: Any = one.crawler.spider
    cache, policy = cache_of(one), AlwaysAsk(one.crawler.settings)
    request = Request(A)
    assert cache.retrieve_response(spider, request) is None
    tagged = HtmlResponse(
        A,
        body=STORY,
        request=request,
        headers={**TYPE, "ETag": '"1"', "Content-Encoding": "gzip", "Set-Cookie": ["a=1", "b=2"]},
    )
    one.gives(tagged)
    before = one.store.validators(A)
    cached = cache.retrieve_response(spider, request)
    assert isinstance(cached, HtmlResponse)
    assert (cached.body, cached.headers.getlist("Set-Cookie")) == (STORY, [b"a=1", b"b=2"])
    assert "Content-Encoding" not in cached.headers
    assert not policy.is_cached_response_fresh(cached, request)
    assert request.headers["If-None-Match"] == b'"1"'
    assert policy.is_cached_response_valid(cached, Response(A, status=304), request)
    assert not policy.is_cached_response_valid(cached, Response(A, status=500), request)
    cached.flags.append("cached")
    cached.request = request
    (item,) = one.gives(cached, {})
    assert one.stats()["skipped/cached"] == 1  # nobody has confirmed it
    cache.store_response(spider, request, cached)
    (item,) = one.gives(cached, {})
    assert item["docstore"]["stored"] == "confirmed"
    after = one.store.validators(A)
    assert before is not None
    assert after is not None
    assert after["last_visit"] > before["last_visit"]
    cache.close_spider(spider)


def test_a_page_from_a_cache_of_scrapy_is_written_if_the_store_has_it_not(crawl: Callable[..., Crawl]) -> None:
    one = crawl()
    cached = answer(A)
    cached.flags.append("cached")
    cached.headers["Date"] = "Tue, 14 Nov 2023 22:13:20 GMT"
    for _ in range(2):
        (item,) = one.gives(cached, {})
        assert (item["docstore"]["verdict"], item["docstore"]["timestamp"]) == ("new", 1_700_000_000_000_000)
    assert one.stats()["pages"] == 1
    old = answer(B, COPY)
    old.flags.append("cached")
    old.headers["Date"] = "no date"
    assert one.gives(old, {})[0]["docstore"]["verdict"] == "near"


def test_a_failure_that_nobody_foresaw_loses_no_links(
    crawl: Callable[..., Crawl], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = crawl()
    monkeypatch.setattr(one.store, "put_page", lambda *_, **__: 1 / 0)
    assert len(one.links(answer(A))) == 2
    assert one.stats()["errors/ZeroDivisionError"] == 1


def test_a_page_without_validators_is_asked_for_in_full_unless_it_is_fresh(crawl: Callable[..., Crawl]) -> None:
    parts = {"docstore.scrapy.StoreMiddleware": 45}
    one = crawl(SPIDER_MIDDLEWARES=parts)
    one.gives(answer(A))
    cache = cache_of(one)
    spider: Any = one.crawler.spider
    assert cache.retrieve_response(spider, Request(A)) is None
    assert cache.retrieve_response(spider, Request(A, method="POST")) is None
    cache.close_spider(spider)
    two = crawl(SPIDER_MIDDLEWARES=parts, DOCSTORE_FRESH_SECONDS=3600)
    cache = cache_of(two)
    cached = cache.retrieve_response(spider, Request(A))
    assert cached is not None
    assert AlwaysAsk(two.crawler.settings).is_cached_response_fresh(cached, Request(A))
    two.store.close()
    assert cache.retrieve_response(spider, Request(A)) is None
    cache.close_spider(spider)


def test_a_cache_without_the_middleware_that_writes_is_refused(crawl: Callable[..., Crawl]) -> None:
    with pytest.raises(InvalidArgument, match="StoreMiddleware"):
        StoreCache(crawl().crawler.settings)


def test_crawlers_share_a_store_behind_a_server(tmp_path: Path) -> None:
    pytest.importorskip("litestar", reason="the server is not installed: pip install '.[server]'")
    from tests.serving import serving

    tokens = tmp_path / "tokens"
    tokens.write_text("write writing-writing-writing\n")
    tokens.chmod(0o600)
    with serving(tmp_path / "s", token_file=tokens) as served:
        with pytest.raises(StoreUnavailable, match="token"):
            Crawl(Path(served.addresses.url), {"DOCSTORE_STORE": served.addresses.url})
        settings = {"DOCSTORE_STORE": served.addresses.url, "DOCSTORE_TOKEN": "writing-writing-writing"}
        one = Crawl(tmp_path, {**settings, "DOCSTORE_FOLLOW_DUPLICATES": "never"})
        assert len(one.links(answer(A))) == 2
        assert one.links(answer(B)) == []
        (item,) = one.gives(answer(A), {})
        assert item["docstore"]["stored"] == "confirmed"
        one.middleware.engine_stopped()
        release(one.options)
        page = served.store.get(B)
        assert page is not None
        assert page.body == STORY
