"""What maintenance asks of pages while others write them: which are there, and that one cannot come any more.

Knows slots, and the columns that make a page; must not know what leads to pages.  Answers for many pages come with few
calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from docstore.hbase.client import Client
from docstore.hbase.coding import encode_column, encode_key, encode_timestamp
from docstore.hbase.engine import GETS_A_CALL, HBaseEngine
from docstore.hbase.requests import slot_name
from docstore.hbase.thrift2 import messages
from docstore.model.capture import BODY, CHECKSUM
from docstore.model.errors import CommitUnknown
from docstore.model.pointers import PagePointer, body_head
from docstore.model.types import Durability
from docstore.storage.envelope import parse_envelope
from docstore.storage.protocol import FENCE, SLOT, CheckAndMutate, Read

_PAGES = "pages"
MOST_TRIES = 1000
"""Of a change of one row on a condition."""


class Wanted(NamedTuple):
    """A page that something leads to.

    Attributes:
        pointer: its row and time.
        body: what its body's checksum begins with; b"" for any.
    """

    pointer: PagePointer
    body: bytes = b""


class Pages:
    """Pages of a store that any number of processes write.

    Args:
        client: of the cluster.
        engine: of the store.
        durability: of fences.
        session: of this process.
    """

    def __init__(self, client: Client, engine: HBaseEngine, durability: Durability, session: bytes) -> None:
        self._client = client
        self._engine = engine
        self._table = engine.name(_PAGES)
        self._requests = engine.requests(durability)
        self._fences: Iterator[str] = (f"{FENCE}{session.hex()}.upkeep{number}" for number in itertools.count())

    def live(self, wanted: Sequence[Wanted]) -> list[bool]:
        """Of each page whether it is there, with such a body; one that a policy hides is."""
        if not wanted:
            return []
        there = self._in_parts(self._exist, [_get(one.pointer, *BODY) for one in wanted])
        asked = [one for one, is_there in zip(wanted, there, strict=True) if is_there and one.body]
        heads = dict(
            zip(asked, self._in_parts(self._heads, [_get(one.pointer, *CHECKSUM) for one in asked]), strict=True)
        )
        return [
            is_there and (not one.body or heads[one] in (b"", one.body))
            for one, is_there in zip(wanted, there, strict=True)
        ]

    def _in_parts(self, work: Any, gets: list[Any]) -> list[Any]:
        parts = [gets[at : at + GETS_A_CALL] for at in range(0, len(gets), GETS_A_CALL)]
        return [answer for part in self._engine.in_parallel(work, parts) for answer in part]

    def _exist(self, gets: Sequence[Any]) -> list[bool]:
        return self._client.exist(self._table, gets)

    def _heads(self, gets: Sequence[Any]) -> list[bytes]:
        """The heads of checksums; b"" where there is none."""
        rows = self._client.get_many(self._table, gets)
        return [body_head(parse_envelope(cells[0].value).value) if cells else b"" for cells in rows]

    def shut_out(self, pointers: Sequence[PagePointer]) -> list[bool]:
        """Make sure that pages cannot come any more under what their writers knew up to now: theirs, and others'.

        Whoever is to write such a page finds its slot changed, and judges the page anew.

        Returns:
            Of each page whether it is shut out; False where a page is there.
        """
        return self._engine.in_parallel(self._shut_out, pointers)

    def _shut_out(self, pointer: PagePointer) -> bool:
        """One page; as `protocol.shut_out`, but a page whose cells are deleted counts as gone."""
        name = slot_name(pointer)
        for _ in range(MOST_TRIES):
            held = self._requests.read(Read(name)).get(SLOT)
            if self.live([Wanted(pointer)])[0]:
                return False
            # What held this token is gone, and never comes again with it.
            fence = next(self._fences)
            if self._requests.check_and_mutate(CheckAndMutate(name, SLOT, held, ((SLOT, fence),))) is True:
                return True
        raise CommitUnknown(f"slot {name!r} does not come to rest; run compact again")


def _get(pointer: PagePointer, family: str, qualifier: bytes) -> Any:
    make = messages()
    hbase_family, column = encode_column(_PAGES, family, qualifier)
    at = encode_timestamp(pointer.timestamp)
    return make.TGet(
        row=encode_key(pointer.row_key),
        columns=[make.TColumn(family=hbase_family, qualifier=column)],
        timeRange=make.TTimeRange(minStamp=at, maxStamp=at + 1),
        maxVersions=1,
    )
