"""Which backend a store's address names: the one place that knows them all.

An address is the path of a directory, or a URL of another backend.  A backend is loaded when it is asked for.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstore.model.errors import InvalidArgument
from docstore.model.types import Schema

if TYPE_CHECKING:  # types alone: a cold read counts milliseconds
    from docstore.storage.files import Holder
    from docstore.storage.port import Backend


_MODULES = {"": "docstore.tablets.layout", "hbase": "docstore.cluster.backend"}
"""By scheme of an address, "" for a path: the module whose class `Layout` makes and opens a store there."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_backend(
    address: str | Path, *, create: bool = False, schema: Schema | None = None, read_only: bool | None = None
) -> Backend:
    """Open the backend of a store, making the store first if asked to; see `docstore.open`.

    Raises:
        InvalidArgument: the address names a backend that is not there.
    """
    backend: Backend = _layout(address).open(create=create, schema=schema, read_only=read_only)
    return backend


def names_server(address: str | Path) -> bool:
    """Whether an address is that of a server, which `docstore.connect` takes, and not of a store."""
    return str(address).startswith(("http://", "https://", "unix:"))


def names_directory(address: str | Path) -> bool:
    """Whether an address is a path, and not that of a server or of another backend."""
    return not names_server(address) and _SCHEME.match(str(address)) is None


def server_of(address: str | Path) -> str:
    """Address of the server that holds a store, as far as the store says; "" for none.

    Only who finds the store held may ask: what a process that has ended wrote may still stand there.

    Raises:
        InvalidArgument: the address names a backend that is not there.
    """
    layout = _layout(address)
    holder: Holder | None = layout.holder() if hasattr(layout, "holder") else None  # others let many processes in
    return "" if holder is None else holder.server


def store_exists(address: str | Path) -> bool:
    """Whether a store was made at an address.

    Raises:
        InvalidArgument: the address names a backend that is not there.
    """
    return bool(_layout(address).exists())


def _layout(address: str | Path) -> Any:
    matched = _SCHEME.match(str(address))
    scheme = matched[1].lower() if matched else ""
    module = _MODULES.get(scheme)
    if module is None:
        raise InvalidArgument(
            f"{address}: this version of docstore has no backend {scheme}://; give the path of a directory"
        )
    return importlib.import_module(module).Layout(address, check_schema=_check_schema)


def _check_schema(schema: Schema) -> None:
    """Refuse a schema by which no page could be analysed, before anything is made.

    Raises:
        InvalidArgument: no extractor or checksum has that name, or the library that it needs is not installed.
    """
    kernel = importlib.import_module("docstore.dedup.kernel")  # numpy comes with it: opening does without
    made = kernel.Kernel(schema.extractor, schema.shingle_words, schema.checksum, vocabulary=schema.vocabulary)
    made.analyse(b"<p>A page.", "text/html")
