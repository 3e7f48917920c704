"""From the address of a store to its backend: the only place that knows which backends there are.

An address is the path of a directory, or a URL with the scheme of another backend.  What opens what:

    docstore.open(address)    store.py: checks its arguments, and makes a `DocumentStore` over the backend
    open_backend(address)     here: asks the location of the address for its backend
    Location.open()           `StoreDirectory` in tablets/layout.py, `HBaseLocation` in cluster/backend.py
    DocumentStore.dry_run()   a `DocumentStore` over `Backend.overlay`
    open_or_attach(address)   attach.py: a store that is opened here, or the client of the server that holds it

A backend is imported at first use.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.types import Schema

if TYPE_CHECKING:  # keeps a cold read fast
    from docstore.storage.port import Backend, Location


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_backend(
    address: str | Path,
    memory: str | int | None = None,
    *,
    create: bool = False,
    schema: Schema | None = None,
    read_only: bool | None = None,
) -> Backend:
    """Open the backend of a store, making the store first if asked to; see `docstore.open`.

    Raises:
        InvalidArgument: there is no such backend.
    """
    location = _location(address)
    try:
        return location.open(create=create, schema=schema, read_only=read_only, memory=memory)
    except StoreUnavailable:
        if not names_directory(address):
            raise
        _close_dropped(address)
        return location.open(create=create, schema=schema, read_only=read_only, memory=memory)


dropped: dict[Path, Callable[[], None]] = {}
"""What closes the stores that were dropped without `close` after a write, by path: their threads keep them open."""


def _close_dropped(address: str | Path) -> None:
    """Close the store at a path if this process has dropped it."""
    gc.collect()  # it may be a part of a cycle
    close = dropped.pop(Path(address).absolute(), None)
    if close is not None:
        import logging  # a cold read does not need it

        logging.getLogger(__name__).warning("the store at %s was dropped without close(); it is closed now", address)
        close()


def names_server(address: str | Path) -> bool:
    """Whether an address names a server, for `docstore.connect`, and not a store."""
    return str(address).lower().startswith(("http://", "https://", "unix:"))


def names_directory(address: str | Path) -> bool:
    """Whether an address is a path: it names neither a server nor another backend."""
    return not names_server(address) and _SCHEME.match(str(address)) is None


def server_of(address: str | Path) -> str:
    """The address of the server that has a store open; "" for none.  See `Location.server`.

    Raises:
        InvalidArgument: there is no such backend.
    """
    return _location(address).server()


def store_exists(address: str | Path) -> bool:
    """Whether there is a store at an address.

    Raises:
        InvalidArgument: there is no such backend.
    """
    return _location(address).exists()


def _location(address: str | Path) -> Location:
    matched = _SCHEME.match(str(address))
    scheme = matched[1].lower() if matched else ""
    if not scheme and not names_server(address):
        from docstore.tablets.layout import StoreDirectory

        return StoreDirectory(address, check_schema=_check_schema)
    if scheme == "hbase":
        from docstore.cluster.backend import HBaseLocation

        return HBaseLocation(address, check_schema=_check_schema)
    if names_server(address):
        raise InvalidArgument(f"{address} is a server, not a store; ask it with docstore.connect({str(address)!r})")
    raise InvalidArgument(
        f"{address}: this docstore has no backend {scheme}://, only directories and hbase://; "
        "give the path of a directory"
    )


def _check_schema(schema: Schema) -> None:
    """Refuse a schema that cannot analyse pages, before the store is made.

    Raises:
        InvalidArgument: no extractor has that name, or the vocabulary cannot be read.
    """
    from docstore.dedup.kernel import Kernel  # loads numpy, which opening a store does not need

    Kernel(schema.extractor, schema.shingle_words, vocabulary=schema.vocabulary)
