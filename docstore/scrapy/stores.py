"""The stores that this process writes to: one for each address, shared by all parts of all its crawlers.

Knows how to open a store; must not know Scrapy.  A folder can be opened once a process.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TypeAlias
from urllib.parse import urlsplit

from docstore.scrapy.options import Options
from docstore.serving.client import RemoteStore, connect
from docstore.store import DocumentStore, open_store

Store: TypeAlias = DocumentStore | RemoteStore
"""In this process, or behind a server: they have the same methods."""

_lock = Lock()
_open: dict[str, tuple[Store, int]] = {}
"""By address: the store, and how many hold it."""


def hold(options: Options) -> Store:
    """The store of these options, opened (made, if it is a folder that is not there) by the first that holds it.

    Raises:
        DocstoreError: it does not open; a crawl must not begin without it.
    """
    address = _address(options)
    with _lock:
        store, holders = _open.get(address) or (_opened(options), 0)
        _open[address] = store, holders + 1
        return store


def release(options: Options) -> None:
    """Hold it no more; the last one closes it."""
    address = _address(options)
    with _lock:
        store, holders = _open.pop(address)
        if holders > 1:
            _open[address] = store, holders - 1
        else:
            store.close()


def is_server(address: str) -> bool:
    """Whether an address names a server in place of a folder."""
    return urlsplit(address).scheme in {"http", "https", "unix"}


def _address(options: Options) -> str:
    return options.store if is_server(options.store) else str(Path(options.store).resolve())


def _opened(options: Options) -> Store:
    if is_server(options.store):
        return connect(options.store, token=options.token or None)
    return open_store(options.store, create=True, durability=options.durability)
