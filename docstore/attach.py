"""A store by its address: opened here, or asked through the server that holds it.

Knows the public classes of both.  Whether a server is asked, the lock decides: only where another process has it is the
lock file read, and the socket used that it names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from docstore.backends import names_server, server_of
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.types import Schema
from docstore.store import DocumentStore, open_store

if TYPE_CHECKING:  # loaded where there is a server: a cold read counts milliseconds
    from docstore.serving.client import RemoteStore

    Store: TypeAlias = DocumentStore | RemoteStore

TOKEN_VARIABLE = "DOCSTORE_TOKEN"
TOKEN_FILE_VARIABLE = "DOCSTORE_TOKEN_FILE"


def open_or_attach(
    address: str | Path,
    *,
    create: bool = False,
    schema: Schema | None = None,
    durability: Durability | str = Durability.SYNC,
    read_only: bool | None = None,
    memory: str | int | None = None,
) -> Store:
    """Open a store, or ask the server that holds it.

    Args:
        address: of the store, or of a server (``http://host:8470``); its token is in the environment variable
            DOCSTORE_TOKEN, or in the file that DOCSTORE_TOKEN_FILE names.
        create, schema, durability, read_only, memory: as of `open_store`; a server has its own.
    Raises:
        StoreUnavailable: there is none, a process that is no server holds it, or its server does not answer.
    """
    if names_server(address):
        return _connect(str(address), token())
    try:
        return open_store(
            address, create=create, schema=schema, durability=durability, read_only=read_only, memory=memory
        )
    except StoreUnavailable as held:
        server = server_of(address)
        if not server.startswith("unix:"):  # who can write the lock file could send us anywhere else
            raise
        try:
            return _connect(server, None)
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{held}; but it could not be asked: {error}") from error


def token() -> str | None:
    """The token for a server, of the environment; None where there is none.

    Raises:
        InvalidArgument: the file that is to have it cannot be read.
    """
    said = os.environ.get(TOKEN_VARIABLE)
    if said:
        return said
    name = os.environ.get(TOKEN_FILE_VARIABLE)
    if not name:
        return None
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"the token cannot be read from {name}, which ${TOKEN_FILE_VARIABLE} names: {error}"
        ) from error


def _connect(url: str, bearer: str | None) -> RemoteStore:
    from docstore.serving.client import connect

    return connect(url, token=bearer)
