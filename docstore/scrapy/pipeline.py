"""The item pipeline: writes items that are pages, and drops items of duplicates.

An item with a verdict from the spider middleware is not written again.
"""

from __future__ import annotations

import logging
from typing import Any, Self

from itemadapter import ItemAdapter
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem
from scrapy.utils.asyncio import run_in_thread

from docstore.model.errors import DocstoreError
from docstore.model.types import Headers
from docstore.scrapy.middleware import put_into, shown
from docstore.scrapy.options import acquire, options, release

logger = logging.getLogger(__name__)


class StorePipeline:
    """`ITEM_PIPELINES = {"docstore.scrapy.StorePipeline": 900}`; the add-on sets it.

    An item is written if it has a `url` and a `body` (bytes or text); `status`, `headers` and `fetched_at` are
    optional.  `DOCSTORE_DROP_ITEMS` lists verdicts whose items are dropped.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._options = options(crawler.settings)
        self._store = acquire(self._options)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        """Write an item that is a page; drop it if its verdict is listed in `DOCSTORE_DROP_ITEMS`."""
        adapter = ItemAdapter(item)
        verdict = adapter.get(self._options.item_field)
        if not verdict and adapter.get("url") and isinstance(adapter.get("body"), bytes | str):
            verdict = await self._write(adapter)
            if verdict is not None:
                put_into(item, self._options.item_field, verdict)
        kind = verdict.get("verdict") if isinstance(verdict, dict) else None
        if kind in self._options.drop_items:
            assert isinstance(verdict, dict)
            raise DropItem(f"{kind} of {verdict['of_url']}", log_level="DEBUG")
        return item

    async def _write(self, adapter: ItemAdapter) -> dict[str, Any] | None:
        body = adapter["body"]
        pairs = adapter.get("headers") or ()
        headers: Headers = tuple(pairs.items()) if hasattr(pairs, "items") else tuple(pairs)
        if isinstance(body, str):
            body = body.encode()
            headers = headers or (("Content-Type", "text/html; charset=utf-8"),)
        try:
            result = await run_in_thread(
                self._store.put_page,
                str(adapter["url"]),
                body,
                headers=headers,
                status=int(adapter.get("status") or 200),
                fetched_at=adapter.get("fetched_at"),
                policies=self._options.policies,
                anchors=self._options.anchors,
                crawl=self._options.crawl,
            )
        except (DocstoreError, OSError) as error:
            self._count("errors")
            self._count(f"errors/{type(error).__name__}")
            logger.error("docstore: the item %s is not stored: %s", adapter["url"], error)
            return None
        self._count("items")
        self._count(f"stored/{result.stored}")
        self._count(f"verdict/{result.verdict.kind}")
        return shown(result)

    async def close_spider(self) -> None:
        """Release the store; called by Scrapy."""
        release(self._options)

    def _count(self, name: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"docstore/{name}")
