"""`python -m tools.crawl_demo.spider URL [NAME=VALUE ...]`: crawl one site with Scrapy; print what came of it as JSON.

NAME=VALUE are settings of Scrapy and of docstore; without DOCSTORE_STORE it is Scrapy alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
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
        yield {"url": response.url, "title": title}
        for link in self._links.extract_links(response):
            yield response.follow(link)


def main(arguments: list[str]) -> None:
    """Crawl, and print."""
    given = dict(argument.split("=", 1) for argument in arguments[1:])
    settings = SETTINGS | given
    if "DOCSTORE_STORE" in given:
        settings["ADDONS"] = {"docstore.scrapy.Docstore": 500}
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(SiteSpider)
    process.crawl(crawler, url=arguments[0])
    process.start()
    assert crawler.stats is not None
    assert isinstance(crawler.spider, SiteSpider)
    stats = {name: value for name, value in crawler.stats.get_stats().items() if isinstance(value, int | float | str)}
    print(json.dumps({"real": len(crawler.spider.real), "stats": stats}))


if __name__ == "__main__":
    main(sys.argv[1:])
