"""The requests of `storage.protocol` as calls to HBase.

Knows where slots and claims lie, and how names of the protocol become keys; must not know what a program is for.  A
slot is a column of family `w` in its page's row, one a timestamp; a claim is a row of table `claims`; a base is a row
of table `bodies`.  Names of the protocol are bytes as Latin-1.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final, TypeVar

from docstore.hbase import thrift2
from docstore.hbase.client import Client, Unknown
from docstore.hbase.coding import CLAIM as CLAIM_FAMILY
from docstore.hbase.coding import CLAIMS_TABLE, WRITERS, encode_key
from docstore.hbase.thrift2 import HBaseCell, messages
from docstore.model.pointers import PagePointer
from docstore.storage.protocol import CheckAndMutate, Columns, Read, Request

SLOTS: Final = "slot "
CLAIMS: Final = "claim "
BASES: Final = "base "
"""Before the names of rows, by what they are."""
_TIMESTAMP_BYTES: Final = 8
_AT: Final = 1
"""Timestamp of all these cells: each is written over the one before it."""

Result = TypeVar("Result")


def slot_name(pointer: PagePointer) -> str:
    """The protocol's name of a page's slot."""
    return SLOTS + (pointer.timestamp.to_bytes(_TIMESTAMP_BYTES, "big") + pointer.row_key).decode("latin-1")


def claim_name(claim: bytes) -> str:
    """The protocol's name of a claim."""
    return CLAIMS + claim.decode("latin-1")


class _Place:
    """Where a row of the protocol lies: table, row, family, and what stands behind the names of its columns."""

    __slots__ = ("behind", "family", "row", "table")

    def __init__(self, name: str) -> None:
        self.family, self.behind = WRITERS, b""
        if name.startswith(SLOTS):
            raw = name.removeprefix(SLOTS).encode("latin-1")
            self.table, self.row = "pages", encode_key(raw[_TIMESTAMP_BYTES:])
            self.behind = b":" + raw[:_TIMESTAMP_BYTES]
        elif name.startswith(CLAIMS):
            self.table, self.row = CLAIMS_TABLE, encode_key(name.removeprefix(CLAIMS).encode("latin-1"))
            self.family = CLAIM_FAMILY
        else:
            self.table, self.row = "bodies", encode_key(name.removeprefix(BASES).encode("latin-1"))

    def qualifier(self, column: str) -> bytes:
        return column.encode("latin-1") + self.behind


class Requests:
    """Carries out requests.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
        durability: of what is written, as HBase numbers it; None for the tables' own.
    """

    def __init__(self, client: Client, namespace: str, durability: int | None = None) -> None:
        self._client = client
        self._namespace = namespace
        self._durability = durability

    def run(
        self, program: Generator[Request, Columns | bool | None, Result], cells: Sequence[HBaseCell] = ()
    ) -> Result:
        """Run a program to its end.

        Args:
            program: of `storage.protocol`.
            cells: of the page, written together with its slot.
        """
        try:
            request = next(program)
            while True:
                if isinstance(request, Read):
                    request = program.send(self.read(request))
                else:
                    request = program.send(self.check_and_mutate(request, cells))
        except StopIteration as ended:
            result: Result = ended.value
            return result

    def read(self, request: Read) -> Mapping[str, str]:
        """The columns of a row."""
        place = _Place(request.row)
        make = messages()
        get = make.TGet(row=place.row, columns=[make.TColumn(family=place.family)])
        cells = self._client.get_many(f"{self._namespace}:{place.table}", [get])[0]
        return {
            cell.qualifier.removesuffix(place.behind).decode("latin-1"): cell.value.decode("latin-1")
            for cell in cells
            if cell.qualifier.endswith(place.behind)
        }

    def check_and_mutate(self, request: CheckAndMutate, cells: Sequence[HBaseCell] = ()) -> bool | None:
        """Change a row on a condition; None where nobody knows whether it is, or will be."""
        place = _Place(request.row)
        puts = [
            HBaseCell(place.family, place.qualifier(column), _AT, value.encode("latin-1"))
            for column, value in request.puts
        ]
        parts = [thrift2.put(place.row, [*puts, *cells], self._durability)]
        if request.deletes:
            gone = [(place.family, place.qualifier(column), thrift2.NEWEST - 1) for column in request.deletes]
            parts.append(thrift2.delete_columns(place.row, gone, self._durability))
        try:
            return self._client.check_and_mutate(
                f"{self._namespace}:{place.table}",
                (place.family, place.qualifier(request.column)),
                None if request.expected is None else request.expected.encode("latin-1"),
                thrift2.row_mutations(place.row, parts),
            )
        except Unknown:
            return None
