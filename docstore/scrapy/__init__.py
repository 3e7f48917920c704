"""Scrapy writes its pages into docstore and stops at duplicates.

ADDONS = {"docstore.scrapy.Docstore": 500}
DOCSTORE_STORE = "webtable"

docs/crawlers.md has the settings.
"""

from docstore.scrapy.addon import Docstore
from docstore.scrapy.cache import AlwaysAsk, StoreCache
from docstore.scrapy.middleware import StoreMiddleware
from docstore.scrapy.pipeline import StorePipeline

__all__ = ["AlwaysAsk", "Docstore", "StoreCache", "StoreMiddleware", "StorePipeline"]
