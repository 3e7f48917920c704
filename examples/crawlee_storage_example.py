"""Let Crawlee keep its pages in a store: `python examples/crawlee_storage_example.py https://example.com/`.

Needs `pip install docstore crawlee[parsel]`.  A handler pushes items as it does with any storage.  An item with `url`
and `body` is a page: docstore gets it, and Crawlee's dataset on disk keeps its other fields and the verdict.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import FileSystemStorageClient

import docstore


class PageStorage(FileSystemStorageClient):
    """Crawlee's storage on disk, with the pages in a store."""

    def __init__(self, store: docstore.DocumentStore) -> None:
        super().__init__()
        self.store = store

    async def create_dataset_client(self, **named: Any) -> Any:
        """Open a dataset whose pages go into the store."""
        dataset = await super().create_dataset_client(**named)
        push_plain = dataset.push_data

        async def push_data(data: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> None:
            items = [dict(item) for item in ([data] if isinstance(data, Mapping) else data)]
            for item in items:
                if "url" in item and "body" in item:
                    page = {name: item.pop(name) for name in ("body", "headers", "status") if name in item}
                    verdict = (await self.store.put_page_async(item["url"], **page)).verdict
                    item |= {"verdict": str(verdict.kind), "of_url": verdict.of_url}
            await push_plain(items)

        dataset.push_data = push_data
        return dataset


async def main(url: str) -> None:
    """Crawl one site."""
    with docstore.open("webtable", create=True) as store:
        crawler = ParselCrawler(storage_client=PageStorage(store), max_requests_per_crawl=1000)

        @crawler.router.default_handler
        async def handle(context: ParselCrawlingContext) -> None:
            response = context.http_response
            page = {"body": await response.read(), "headers": dict(response.headers), "status": response.status_code}
            await context.push_data({"url": context.request.loaded_url or context.request.url, **page})
            await context.enqueue_links()

        await crawler.run([url])
        print((await crawler.get_data()).items)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
