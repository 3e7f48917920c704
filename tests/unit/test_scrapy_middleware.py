"""The spider middleware, the pipeline and the cache, called as Scrapy calls them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scrapy", reason="Scrapy is not installed: pip install '.[scrapy]'")

import scrapy
from scrapy import Request, signals
from scrapy.exceptions import DropItem
from scrapy.http import HtmlResponse, Response, XmlResponse
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

import docstore
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.types import SetCell
from docstore.scrapy import AlwaysAsk, StoreCache, StoreMiddleware, StorePipeline
from docstore.scrapy.options import SETTINGS, acquire, options, release

TEXT = " ".join(f"Pony number {n} likes oats, rain and company." for n in range(30))
STORY = f"<title>Ponies</title><p>{TEXT}".encode()
COPY = STORY.replace(b"7 likes", b"7 hates")
TYPE = {"Content-Type": "text/html"}
A, B = "https://a.example/story", "https://a.example/story?sid=1"

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")  # Scrapy 2.14 makes no crawler without one


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
        async def outputs() -> AsyncIterator[Any]:
            for result in results:
                yield result

        async def run() -> list[Any]:
            return [output async for output in self.middleware.process_spider_output(response, outputs())]

        return asyncio.run(run())

    def links(self, response: Response) -> list[str]:
        """Of a page with two links."""
        links = [Request(f"{response.url}/next{number}") for number in range(2)]
        return [request.url for request in self.gives(response, *links)]

    def redirected(self, url: str, target: str, status: int = 301, **meta: Any) -> None:
        """What Scrapy says of a redirect that it follows."""
        response = Response(url, status=status, headers={"Location": target})
        request = Request(url, method=meta.pop("method", "GET"), meta=meta)
        spider = self.crawler.spider
        self.crawler.signals.send_catch_log(
            signals.response_downloaded, response=response, request=request, spider=spider
        )


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
    for session in made:
        session.middleware.engine_stopped()
        release(session.options)


def test_a_page_is_written_with_its_headers_and_items_get_the_verdict(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    plain, declared, other = session.gives(answer(A), {"url": A}, Fields(), NoFields(url=A))
    assert plain["docstore"]["verdict"] == declared["docstore"]["verdict"] == "new"
    assert dict(other) == {"url": A}
    (item,) = session.gives(answer(B, COPY), {"docstore": None})
    assert (item["docstore"]["verdict"], item["docstore"]["of_url"]) == ("near", A)
    page = session.store.get(A)
    assert page is not None
    assert (page.body, page.status, page.newest.header("content-type")) == (STORY, 200, "text/html")
    assert session.stats()["verdict/near"] == 1


def test_links_of_a_duplicate_are_not_followed(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    assert len(session.links(answer(A))) == 2
    assert session.links(answer(B)) == []
    assert session.stats()["links_dropped"] == 2


def test_links_of_an_article_that_is_also_in_a_feed_are_followed(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    feed = b"<rss><channel><item><title>Story</title><description><![CDATA[" + STORY + b"]]></description></item>"
    response = XmlResponse(f"{A}/feed", headers={"Content-Type": "application/rss+xml"}, body=feed, request=Request(A))
    session.gives(response)
    stored = session.store.get(f"{A}/feed")
    assert stored is not None and stored.newest.entries and "Story" in (stored.text or "")
    assert len(session.links(answer(A))) == 2
    assert session.stats()["verdict/new"] == 2


@pytest.mark.parametrize(
    ("settings", "first", "second"),
    [
        ({}, A, answer(B, depth=1)),
        ({}, A, answer(B, docstore_follow=True)),
        ({}, A, answer("https://b.example/story")),
        ({"DOCSTORE_FOLLOW_DUPLICATES": True}, A, answer(B)),
        ({"DOCSTORE_DUPLICATE_KINDS": ["exact"]}, A, answer(B, COPY)),
        ({"DOCSTORE_FOLLOW_DUPLICATES": "learn"}, A, answer(B)),
    ],
    ids=[
        "near the start",
        "asked for",
        "another host",
        "always",
        "another verdict",
        "nothing learnt yet",
    ],
)
def test_links_of_a_duplicate_are_followed(
    crawl: Callable[..., Crawl], settings: dict[str, Any], first: str, second: Response
) -> None:
    session = crawl(**settings)
    session.links(answer(first))
    assert len(session.links(second)) == 2


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
    session = crawl(**settings)
    session.links(answer(A))
    expected = 2 if settings.get("DOCSTORE_FOLLOW_DUPLICATES") is True else 0
    assert len(session.links(second)) == expected


def test_the_first_duplicate_of_a_page_of_an_earlier_crawl_replaces_it(
    crawl: Callable[..., Crawl],
) -> None:
    """A page that changes at each visit is a near duplicate of its own old copy under another URL."""
    session = crawl()
    session.store.put_page(A, STORY, headers=TYPE, fetched_at=1_700_000_000_000_000)
    assert len(session.links(answer(B))) == 2
    assert session.links(answer("https://a.example/story?sid=2")) == []  # B replaces A
    assert len(session.links(answer(B))) == 2
    assert len(session.links(answer(A))) == 2  # the original
    assert session.links(answer("https://a.example/story?sid=3")) == []


def test_links_of_only_the_first_duplicate_of_another_host_are_followed(crawl: Callable[..., Crawl]) -> None:
    """Two sites with the same trap: the crawl of the second would be endless."""
    session = crawl()
    session.links(answer(A))
    assert len(session.links(answer("https://b.example/story"))) == 2
    assert session.links(answer("https://b.example/story?sid=1")) == []
    assert len(session.links(answer("https://c.example/story"))) == 2


def test_links_are_followed_if_the_original_had_none(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    assert session.gives(answer(A), {"url": A}) != []
    assert len(session.links(answer(B))) == 2


def test_a_request_of_the_page_itself_is_not_a_link(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    session.links(answer(A))
    again = Request(B, dont_filter=True)
    assert session.gives(answer(B), again, Request("https://a.example/x")) == [again]


def test_learning_closes_a_shape_whose_links_lead_to_duplicates(crawl: Callable[..., Crawl]) -> None:
    session = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    session.links(answer(A))
    requests = session.gives(answer(B), *(Request(f"https://a.example/story?sid={n}") for n in range(2, 40)))
    assert 0 < len(requests) < 38
    for turn in range(12):
        response = answer(f"https://a.example/story?sid=x{turn}", docstore_shape=requests[0].meta["docstore_shape"])
        session.links(response)
    assert session.stats()["shapes_closed"] == 1
    assert session.links(answer("https://a.example/story?sid=last")) == []


def duplicates(start: int, count: int) -> list[HtmlResponse]:
    shape = "a.example/story?sid"
    return [answer(f"https://a.example/story?sid=x{start + turn}", docstore_shape=shape) for turn in range(count)]


def test_a_closed_shape_stays_closed_in_the_next_crawl(crawl: Callable[..., Crawl]) -> None:
    session = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    session.links(answer(A))
    for response in duplicates(0, 12):
        session.links(response)
    assert session.stats()["shapes_closed"] == 1
    row = session.store.cells.read_row("urn:docstore:links:a.example")
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


def test_a_failure_to_store_a_closed_shape_does_not_stop_the_crawl(
    crawl: Callable[..., Crawl], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    session.links(answer(A))
    monkeypatch.setattr(session.store.cells, "apply", lambda *_, **__: 1 / 0)
    for response in duplicates(0, 12):
        session.links(response)
    assert session.stats()["errors/ZeroDivisionError"] == 1
    assert session.links(answer("https://a.example/story?sid=last")) == []


@pytest.mark.parametrize(("original", "followed"), [(STORY, 0), (STORY.replace(b"Pony", b"Mule"), 2)])
def test_links_of_a_replacement_wait_until_the_original_arrives(
    crawl: Callable[..., Crawl], original: bytes, followed: int
) -> None:
    session = crawl(DOCSTORE_FOLLOW_DUPLICATES="learn")
    session.store.put_page(A, STORY, headers=TYPE, fetched_at=1_700_000_000_000_000)
    session.store.cells.apply("urn:docstore:links:a.example", [SetCell("anchor", b"links:/story?sid", 1000, b"closed")])
    assert session.links(answer(B)) == []
    assert session.stats()["links_held"] == 2
    assert len(session.links(answer(A, original))) - 2 == followed
    session.middleware.spider_idle(session.crawler.spider)  # no held links are left
    assert session.stats().get("links_released") is None


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
def test_responses_that_are_not_pages_are_not_stored(
    crawl: Callable[..., Crawl], response: Response, reason: str
) -> None:
    session = crawl()
    assert session.gives(response, {"a": 1}) == [{"a": 1}]
    assert session.stats()[f"skipped/{reason}"] == 1
    assert session.store.get(A) is None


def test_permanent_errors_redirects_and_pictures_are_stored(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    session.gives(answer("https://a.example/gone", status=410))
    picture = Response("https://a.example/p.png", headers={"Content-Type": "image/png"}, body=b"\x89PNG\x00\xff")
    session.gives(picture)
    session.redirected("https://a.example/old", "/older")
    session.redirected("https://a.example/older", A, 302)
    session.gives(answer(A))
    stored = session.store.get("https://a.example/old", follow_redirects=True)
    assert stored is not None
    assert (stored.url, stored.via) == (A, ("https://a.example/old", "https://a.example/older"))
    assert session.store.get("https://a.example/p.png").body == b"\x89PNG\x00\xff"  # type: ignore[union-attr]
    assert session.store.get("https://a.example/gone").status == 410  # type: ignore[union-attr]
    session.redirected("https://a.example/form", A, 303, method="POST")
    session.redirected("https://a.example/unwanted", A, docstore_store=False)
    session.redirected("https://a.example/seen-by-the-spider", A, handle_httpstatus_list=[301])
    session.redirected("https://a.example/mail", "mailto:a@a.example")
    session.redirected("https://a.example/last", A, 308)
    session.middleware.spider_idle(session.crawler.spider)  # type: ignore[arg-type]
    redirects = {url: session.store.get(url) for url in session.store.urls()}
    assert {
        url: (page.status, page.newest.header("location"))
        for url, page in redirects.items()
        if page and page.status and 300 < page.status < 400
    } == {
        "https://a.example/old": (301, "https://a.example/older"),
        "https://a.example/older": (302, A),
        "https://a.example/last": (308, A),
    }


def test_a_store_that_fails_does_not_stop_the_crawl(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    session.links(answer(A))
    session.store.close()
    (item,) = session.gives(answer(B), {"url": B})
    assert item == {"url": B}
    assert len(session.links(answer(B))) == 2
    assert session.stats()["errors"] == session.stats()["errors/StoreUnavailable"] == 2


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
def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"DOCSTORE_{name}"):
        Crawl(tmp_path / "s", {f"DOCSTORE_{name}": value})


@contextmanager
def pipeline(session: Crawl) -> Iterator[Callable[[Any], Any]]:
    made = StorePipeline.from_crawler(session.crawler)
    yield lambda item: asyncio.run(made.process_item(item))
    asyncio.run(made.close_spider())


def test_the_pipeline_stores_items_with_a_page_and_drops_duplicates(crawl: Callable[..., Crawl]) -> None:
    session = crawl(DOCSTORE_DROP_ITEMS="exact,near")
    with pipeline(session) as process:
        item = process({"url": A, "body": STORY.decode(), "fetched_at": 1_700_000_000_000_000})
        assert item["docstore"]["verdict"] == "new"
        with pytest.raises(DropItem, match="near of"):
            process({"url": B, "body": COPY, "headers": TYPE})
        with pytest.raises(DropItem, match="exact of"):
            process({"docstore": {"verdict": "exact", "of_url": A}})
        assert process({"url": A}) == {"url": A}
        assert process({"url": A, "body": 3}) == {"url": A, "body": 3}
        session.store.close()
        assert "docstore" not in process({"url": A, "body": b"x"})
    assert session.stats()["items"] == 2
    assert session.stats()["errors"] == 1


def test_pages_and_items_carry_the_label_of_the_crawl(crawl: Callable[..., Crawl]) -> None:
    session = crawl(DOCSTORE_CRAWL="2024-05")
    session.redirected("https://a.example/old", A)
    session.gives(answer(A))
    with pipeline(session) as process:
        process({"url": B, "body": COPY, "headers": TYPE})
    for url in (A, B, "https://a.example/old"):
        stored = session.store.get(url)
        assert stored is not None and stored.newest.crawl == "2024-05"


def cache_of(session: Crawl) -> StoreCache:
    cache = StoreCache(session.crawler.settings)
    cache.open_spider(session.crawler.spider)  # type: ignore[arg-type]
    return cache


def test_the_cache_returns_a_page_and_a_304_becomes_a_visit(crawl: Callable[..., Crawl]) -> None:
    session = crawl(SPIDER_MIDDLEWARES={"docstore.scrapy.StoreMiddleware": 45})
    spider: Any = session.crawler.spider
    cache, policy = cache_of(session), AlwaysAsk(session.crawler.settings)
    request = Request(A)
    assert cache.retrieve_response(spider, request) is None
    tagged = HtmlResponse(
        A,
        body=STORY,
        request=request,
        headers={**TYPE, "ETag": '"1"', "Content-Encoding": "gzip", "Set-Cookie": ["a=1", "b=2"]},
    )
    session.gives(tagged)
    before = session.store.validators(A)
    cached = cache.retrieve_response(spider, request)
    assert isinstance(cached, HtmlResponse)
    assert (cached.body, cached.headers.getlist("Set-Cookie")) == (STORY, [b"a=1", b"b=2"])
    assert "Content-Encoding" not in cached.headers
    assert not policy.is_cached_response_fresh(cached, request)
    assert request.headers["If-None-Match"] == b'"1"'
    assert policy.is_cached_response_valid(cached, Response(A, status=304, headers={"ETag": '"2"'}), request)
    assert not policy.is_cached_response_valid(cached, Response(A, status=500), request)
    cached.flags.append("cached")
    cached.request = request
    (item,) = session.gives(cached, {})
    assert session.stats()["skipped/cached"] == 1  # the site has not confirmed it
    cache.store_response(spider, request, cached)
    (item,) = session.gives(cached, {})
    assert item["docstore"]["stored"] == "confirmed"
    after = session.store.validators(A)
    assert before is not None
    assert after is not None
    assert after["last_visit"] > before["last_visit"]
    assert (before["etag"], after["etag"]) == ('"1"', '"2"')
    request = Request(A)
    cached = cache.retrieve_response(spider, request)
    assert cached is not None and not policy.is_cached_response_fresh(cached, request)
    assert request.headers["If-None-Match"] == b'"2"'
    cache.close_spider(spider)


def test_a_rejected_copy_is_asked_for_by_its_own_validators_while_its_original_stands(
    crawl: Callable[..., Crawl],
) -> None:
    session = crawl(SPIDER_MIDDLEWARES={"docstore.scrapy.StoreMiddleware": 45})
    spider: Any = session.crawler.spider
    cache, policy = cache_of(session), AlwaysAsk(session.crawler.settings)
    headers = (("Content-Type", "text/html"), ("ETag", '"copy"'))
    session.store.put_page(A, STORY, headers=headers[:1])
    copy = session.store.put_page(A + "copy", STORY, headers=headers, policies={"exact": "reject"})
    assert copy.stored == "rejected"
    request = Request(A + "copy")
    cached = cache.retrieve_response(spider, request)
    assert cached is not None and (cached.url, cached.body) == (A + "copy", STORY)
    assert not policy.is_cached_response_fresh(cached, request) and request.headers["If-None-Match"] == b'"copy"'
    session.store.put_page(A, COPY, headers=headers[:1])
    assert cache.retrieve_response(spider, request) is None
    cache.close_spider(spider)


def test_a_page_from_scrapys_cache_is_written_if_the_store_does_not_have_it(crawl: Callable[..., Crawl]) -> None:
    session = crawl()
    cached = answer(A)
    cached.flags.append("cached")
    cached.headers["Date"] = "Tue, 14 Nov 2023 22:13:20 GMT"
    for _ in range(2):
        (item,) = session.gives(cached, {})
        assert (item["docstore"]["verdict"], item["docstore"]["timestamp"]) == ("new", 1_700_000_000_000_000)
    assert session.stats()["pages"] == 1
    old = answer(B, COPY)
    old.flags.append("cached")
    old.headers["Date"] = "no date"
    assert session.gives(old, {})[0]["docstore"]["verdict"] == "near"


def test_an_unexpected_failure_loses_no_links(crawl: Callable[..., Crawl], monkeypatch: pytest.MonkeyPatch) -> None:
    session = crawl()
    monkeypatch.setattr(session.store, "put_page", lambda *_, **__: 1 / 0)
    assert len(session.links(answer(A))) == 2
    assert session.stats()["errors/ZeroDivisionError"] == 1


def test_a_page_without_validators_is_fetched_in_full_unless_it_is_fresh(crawl: Callable[..., Crawl]) -> None:
    parts = {"docstore.scrapy.StoreMiddleware": 45}
    session = crawl(SPIDER_MIDDLEWARES=parts)
    session.gives(answer(A))
    cache = cache_of(session)
    spider: Any = session.crawler.spider
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


def test_a_cache_without_the_middleware_is_refused(crawl: Callable[..., Crawl]) -> None:
    with pytest.raises(InvalidArgument, match="StoreMiddleware"):
        StoreCache(crawl().crawler.settings)


def test_crawlers_share_a_served_store(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="the server is not installed: pip install '.[server]'")
    from tests.serving import serving

    tokens = tmp_path / "tokens"
    tokens.write_text("write writing-writing-writing\n")
    tokens.chmod(0o600)
    with serving(tmp_path / "s", token_file=tokens) as served:
        with pytest.raises(StoreUnavailable, match="token"):
            Crawl(Path(served.server.url), {"DOCSTORE_STORE": served.server.url})
        settings = {"DOCSTORE_STORE": served.server.url, "DOCSTORE_TOKEN": "writing-writing-writing"}
        session = Crawl(tmp_path, {**settings, "DOCSTORE_FOLLOW_DUPLICATES": "never"})
        assert len(session.links(answer(A))) == 2
        assert session.links(answer(B)) == []
        (item,) = session.gives(answer(A), {})
        assert item["docstore"]["stored"] == "confirmed"
        session.middleware.engine_stopped()
        release(session.options)
        page = served.store.get(B)
        assert page is not None
        assert page.body == STORY


def test_an_unknown_setting_is_named_with_the_nearest_known_one(
    crawl: Callable[..., Crawl], caplog: pytest.LogCaptureFixture
) -> None:
    crawl(DOCSTORE_ANCHOR=True, DOCSTORE_ANCHORS=True, DOCSTORE_X=1)
    warned = [record.getMessage() for record in caplog.records if "there is no setting" in record.getMessage()]
    assert warned == [
        "docstore: there is no setting DOCSTORE_ANCHOR; do you mean DOCSTORE_ANCHORS?",
        "docstore: there is no setting DOCSTORE_X",
    ]


def test_the_page_lists_the_settings_that_are_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "crawlers.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `DOCSTORE_(\w+)`", page, re.MULTILINE)) == set(SETTINGS)
