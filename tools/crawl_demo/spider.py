"""`python -m tools.crawl_demo.spider URL [NAME=VALUE ...]`: crawl one site with Scrapy; print what came of it as JSON.

NAME=VALUE are settings of Scrapy and of docstore; without DOCSTORE_STORE it is Scrapy alone.  DEMO_ACKS names a file
for what the store has answered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

import scrapy
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor

from tools.crawl_demo.sites import REAL

SETTINGS: dict[str, Any] = {
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
}


class SiteSpider(scrapy.Spider):
    """Follows every link of a site; an item a page."""

    name = "site"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.start_urls = [url]
        self.real: set[str] = set()
        self._links = LinkExtractor()

    def parse(self, response: Response) -> Iterator[Any]:
        """A page's item and its links."""
        if not isinstance(response, TextResponse):
            return
        title = response.css("title::text").get(default="")
        if title.startswith(REAL):
            self.real.add(title)
        yield {"url": response.url, "title": title, "sha256": sha256(response.body).hexdigest()}
        for link in self._links.extract_links(response):
            yield response.follow(link)


def main(arguments: list[str]) -> None:
    """Crawl, and print."""
    given = dict(argument.split("=", 1) for argument in arguments[1:])
    settings = SETTINGS | given
    if "DOCSTORE_STORE" in given:
        settings["ADDONS"] = {"docstore.scrapy.Docstore": 500}
    if "DEMO_ACKS" in given:
        settings["ITEM_PIPELINES"] = {"tools.crawl_demo.spider.AckWriter": 950}
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(SiteSpider)
    process.crawl(crawler, url=arguments[0])
    process.start()
    assert crawler.stats is not None
    assert isinstance(crawler.spider, SiteSpider)
    stats = {name: value for name, value in crawler.stats.get_stats().items() if isinstance(value, int | float | str)}
    print(json.dumps({"real": len(crawler.spider.real), "stats": stats}))


class Ack(NamedTuple):
    """A page that the store has answered for.

    Attributes:
        url: of its row.
        timestamp: of the capture, in microseconds.
        sha256: of its body as it was fetched.
        title: as it was fetched.
    """

    url: str
    timestamp: int
    sha256: str
    title: str


class AckWriter:
    """A pipeline behind docstore's: notes each item that has an answer in the file of the setting DEMO_ACKS."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Path(crawler.settings["DEMO_ACKS"]))

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if answer := item.get("docstore"):
            ack = Ack(answer["url"], answer["timestamp"], item["sha256"], item["title"])
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(ack) + "\n")
        return item


def read_acks(path: Path) -> list[Ack]:
    """All that were noted; a line that is being written is left for the next time."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [Ack(*json.loads(line)) for line in lines]


if __name__ == "__main__":
    main(sys.argv[1:])
