"""Scrapy components that store crawled pages in docstore and do not follow links of duplicates.

ADDONS = {"docstore.scrapy.Docstore": 500}
DOCSTORE_STORE = "webtable"

docs/crawlers.md has the settings.
"""

from __future__ import annotations

from scrapy.settings import BaseSettings

from docstore.scrapy.cache import AlwaysAsk, StoreCache
from docstore.scrapy.middleware import StoreMiddleware, StorePipeline

__all__ = ["AlwaysAsk", "Docstore", "StoreCache", "StoreMiddleware", "StorePipeline"]

BEFORE_HTTP_ERRORS = 45
"""Order of the spider middleware: before Scrapy's HttpErrorMiddleware (50), which hides error responses from later
middlewares.  So it gets the links after Scrapy has dropped some, such as those that are too deep."""
AFTER_CLEANING = 900
"""Order of the pipeline: last, after all other pipelines have changed the items."""


class Docstore:
    """The add-on: `ADDONS = {"docstore.scrapy.Docstore": 500}` turns on all components."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Add the spider middleware and the pipeline; the cache if `DOCSTORE_CONDITIONAL` is true."""
        in_order = settings.setdefault_in_component_priority_dict
        in_order("SPIDER_MIDDLEWARES", StoreMiddleware, BEFORE_HTTP_ERRORS)
        in_order("ITEM_PIPELINES", StorePipeline, AFTER_CLEANING)
        if settings.getbool("DOCSTORE_CONDITIONAL"):
            settings.set("HTTPCACHE_ENABLED", True, "addon")
            settings.set("HTTPCACHE_STORAGE", StoreCache, "addon")
            settings.set("HTTPCACHE_POLICY", AlwaysAsk, "addon")
