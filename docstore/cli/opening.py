"""Opens the store of a command, or connects to the server that holds it; no other file of the package does."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from docstore.attach import open_or_attach
from docstore.backends import names_directory, names_server
from docstore.cli import output
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.types import Schema
from docstore.store import DocumentStore, open_store

if TYPE_CHECKING:
    from docstore.attach import Store


def open_named(
    args: argparse.Namespace,
    *,
    create: bool = False,
    schema: Schema | None = None,
    durability: str = Durability.SYNC.value,
) -> Store:
    """The store that `--store` names, or the server that holds it; warns on stderr of lost captures.

    Commands with an option `--read-only` open a store without write permission for reading; others fail.
    """
    store = open_or_attach(args.store, create=create, schema=schema, durability=durability, **_options(args))
    if isinstance(store, DocumentStore):
        _warn(store)
    return store


def open_in(stack: ExitStack, args: argparse.Namespace, **named: Any) -> Store:
    """As `open_named`; the store is closed with the stack."""
    store = open_named(args, **named)
    stack.callback(store.close)
    return store


def open_files(
    args: argparse.Namespace,
    why: str,
    *,
    create: bool = False,
    schema: Schema | None = None,
    durability: str = Durability.SYNC.value,
) -> DocumentStore:
    """The store that `--store` names, for commands that work on its files, which a server does not offer.

    Args:
        why: the reason, for the message if `--store` is a server: "a dump shows files".
    Raises:
        InvalidArgument: `--store` is a server.
        StoreUnavailable: another process holds the store.
    """
    refuse_server(args.store, why)
    store = open_store(args.store, create=create, schema=schema, durability=durability, **_options(args))
    _warn(store)
    return store


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """What a command has of the options of opening."""
    return {"read_only": getattr(args, "read_only", False), "memory": getattr(args, "memory", None)}


def refuse_server(address: str, why: str) -> None:
    """Refuse the address of a server.

    Raises:
        InvalidArgument: the address is a server's.
    """
    if names_server(address):
        raise InvalidArgument(f"{why}: run it on the server's machine with --store PATH, and stop the server first")


def refuse_other_backend(address: str, why: str) -> None:
    """Refuse an address that is not a directory.

    Args:
        why: the reason, and what to do instead: "salvage reads the files of a store".
    Raises:
        InvalidArgument: the address is a server's or another backend's.
    """
    refuse_server(address, why)
    if not names_directory(address):
        raise InvalidArgument(f"{address} is not a directory, and {why}")


def _warn(store: DocumentStore) -> None:
    captures = [lost for lost in store.lost if lost.url]
    if captures:
        shown = "".join(f"\n  {output.shown_url(lost.url)} {output.iso(lost.timestamp)}" for lost in captures[:10])
        more = f"\n  and {len(captures) - 10} more" if len(captures) > 10 else ""
        output.note(
            f"warning: {len(captures)} captures were dropped because their bytes are missing "
            f"(`docstore check --acknowledge` ends this warning):{shown}{more}"
        )
    for lost in store.lost:
        if not lost.url:
            output.note(f"warning: {lost.what}; see `docstore check`")
    if store.backend.set_aside:
        names = ", ".join(record.name for record in store.backend.set_aside[:10])
        output.note(f"warning: records that no row names are in {names}; see `docstore check`")
