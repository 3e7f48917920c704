"""The store that a command works on.

The one place of the terminal that opens a store.
"""

from __future__ import annotations

import argparse

from docstore.cli import output
from docstore.model.types import Durability, Schema
from docstore.store import DocumentStore, open_store


def open_named(
    args: argparse.Namespace,
    *,
    create: bool = False,
    schema: Schema | None = None,
    durability: str = Durability.SYNC.value,
) -> DocumentStore:
    """The store that `--store` names; warns on stderr of captures and commits that were lost.

    Commands with an option `--read-only` read what they cannot write to; all others are refused there.
    """
    read_only = getattr(args, "read_only", False)
    store = open_store(args.store, create=create, schema=schema, durability=durability, read_only=read_only)
    if store.lost:
        shown = "".join(f"\n  {lost.url} {output.iso(lost.timestamp)}" for lost in store.lost[:10])
        more = f"\n  and {len(store.lost) - 10} more" if len(store.lost) > 10 else ""
        output.note(
            f"warning: {len(store.lost)} captures were dropped because their bytes are missing "
            f"(`docstore check --acknowledge` ends this warning):{shown}{more}"
        )
    commits = sum(one.last - one.first + 1 for one in store.opened.lost_commits)
    if commits:
        output.note(f"warning: the rows of {commits} commits are lost; see `docstore check`")
    if store.opened.set_aside:
        names = ", ".join(one.name for one in store.opened.set_aside[:10])
        output.note(f"warning: records that no row names were set aside ({names}); see `docstore check`")
    return store
