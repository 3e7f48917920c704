"""Crawl a site into a store: `scrapy runspider examples/scrapy_example.py -a url=https://example.com/`.

Needs `pip install '.[scrapy]'` in a checkout.  docs/crawlers.md has the settings.  Afterwards
`docstore get OLD_URL --follow-redirects` shows the page to which a redirect of the site leads.
"""

from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import urlsplit

import scrapy
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor


class SiteSpider(scrapy.Spider):
    """Follows the links of one host; each item says what its page duplicates."""

    name = "site"
    custom_settings: ClassVar = {
        "ADDONS": {"docstore.scrapy.Docstore": 500},
        "DOCSTORE_STORE": "webtable",
        "DOCSTORE_CONDITIONAL": True,
        "LOG_LEVEL": "INFO",
    }

    def __init__(self, url: str, **given: Any) -> None:
        super().__init__(**given)
        self.start_urls = [url]
        self.allowed_domains = [urlsplit(url).hostname or ""]
        self.links = LinkExtractor()

    def parse(self, response: Response) -> Iterator[Any]:
        """An item a page, and its links."""
        if isinstance(response, TextResponse):
            yield {"url": response.url, "title": response.css("title::text").get()}
            yield from response.follow_all(self.links.extract_links(response))
