"""docstore: a document store for crawled pages that knows what it has already seen."""

__version__ = "0.1.0"
