"""Crawl a site with Crawlee into a store: `python examples/crawlee_example.py https://example.com/`.

Needs `pip install docstore crawlee[parsel]`.  Each page is written from its handler; tasks that write at the same time
share commits.  Links of exact copies are not followed: the same bytes have the same links.  Pages of the same text may
lead elsewhere; docs/crawlers.md says how the Scrapy middleware finds out.
"""

import asyncio
import sys
from collections import Counter
from datetime import UTC, datetime
from urllib.parse import urlsplit

from crawlee.crawlers import ParselCrawler, ParselCrawlingContext

import docstore

ALWAYS_FOLLOWED = 2
"""Pages so near to the start have their links followed, duplicates or not."""


async def main(url: str) -> None:
    """Crawl one site."""
    began = datetime.now(UTC).timestamp() * 1_000_000
    verdicts: Counter[str] = Counter()
    crawler = ParselCrawler(max_requests_per_crawl=1000)

    with docstore.open("webtable", create=True) as store:

        @crawler.router.default_handler
        async def handle(context: ParselCrawlingContext) -> None:
            response = context.http_response
            loaded = context.request.loaded_url or context.request.url
            body = await response.read()
            result = await store.put_page_async(
                loaded, body, headers=dict(response.headers), status=response.status_code
            )
            verdict = result.verdict
            verdicts[str(verdict.kind)] += 1
            await context.push_data({"url": loaded, "verdict": str(verdict.kind), "of_url": verdict.of_url})
            is_repeat = (
                verdict.kind == "exact"
                and urlsplit(verdict.of_url).hostname == urlsplit(loaded).hostname
                and verdict.of_timestamp >= began  # seen in this crawl: its links have been followed
            )
            if not is_repeat or context.request.crawl_depth < ALWAYS_FOLLOWED:
                await context.enqueue_links()

        await crawler.run([url])
    print(dict(verdicts))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
