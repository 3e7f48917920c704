"""The requests of `storage.protocol` as calls to HBase.

Knows where slots and claims lie, and how names of the protocol become keys; must not know what a program is for.  A
slot is a column of family `w` in its page's row, one a timestamp; a claim is a row of table `claims`; a base is a row
of table `bodies`.  Names of the protocol are bytes as Latin-1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from docstore.cluster.client import (
    GIVE_UP_SECONDS,
    NEWEST,
    Client,
    Conditional,
    HBaseCell,
    delete_columns,
    messages,
    put,
    row_mutations,
)
from docstore.cluster.coding import CLAIM as CLAIM_FAMILY
from docstore.cluster.coding import CLAIMS_TABLE, WRITERS, encode_key
from docstore.model.errors import CommitUnknown
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
Running: TypeAlias = Generator[Request, Columns | bool | None, Result]
"""A program that was not begun."""


def slot_name(pointer: PagePointer) -> str:
    """The protocol's name of a page's slot."""
    return SLOTS + (pointer.timestamp.to_bytes(_TIMESTAMP_BYTES, "big") + pointer.row_key).decode("latin-1")


def slot_pointer(name: str) -> PagePointer:
    """The page whose slot has a name."""
    raw = name.removeprefix(SLOTS).encode("latin-1")
    return PagePointer(int.from_bytes(raw[:_TIMESTAMP_BYTES], "big"), raw[_TIMESTAMP_BYTES:])


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

    def columns(self, cells: Sequence[HBaseCell]) -> Mapping[str, str]:
        return {
            cell.qualifier.removesuffix(self.behind).decode("latin-1"): cell.value.decode("latin-1")
            for cell in cells
            if cell.qualifier.endswith(self.behind)
        }


class Requests:
    """Carries out requests.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
        durability: of what is written, as HBase numbers it; None for the tables' own.
        clock: seconds, from any time on.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        durability: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._durability = durability

    def run(self, program: Running[Result], cells: Sequence[HBaseCell] = ()) -> Result:
        """Run a program to its end: see `run_all`."""
        return self.run_all([program], [cells])[0]

    def run_all(self, programs: Sequence[Running[Result]], cells: Sequence[Sequence[HBaseCell]]) -> list[Result]:
        """Run programs to their ends, in step: what all of them ask next goes together.

        Args:
            programs: of `storage.protocol`.
            cells: for each those of its page, written together with its slot.
        Raises:
            CommitUnknown: for GIVE_UP_SECONDS of one program's conditional writes none had an answer.
        """
        results: dict[int, Result] = {}
        unknown_since: dict[int, float] = {}
        replies: dict[int, Columns | bool | None] = dict.fromkeys(range(len(programs)))
        while replies:
            asked: dict[int, Request] = {}
            for number, reply in replies.items():
                try:
                    asked[number] = programs[number].send(reply)
                except StopIteration as ended:
                    results[number] = ended.value
            reads = {number: one for number, one in asked.items() if isinstance(one, Read)}
            changes = {number: one for number, one in asked.items() if isinstance(one, CheckAndMutate)}
            held = self.check_and_mutate_all(list(changes.values()), [cells[number] for number in changes])
            replies = dict(zip(reads, self.read_all(list(reads.values())), strict=True))
            replies |= dict(zip(changes, held, strict=True))
            for number in changes:
                if replies[number] is not None:
                    unknown_since.pop(number, None)
                elif self._clock() - unknown_since.setdefault(number, self._clock()) >= GIVE_UP_SECONDS:
                    raise CommitUnknown(
                        f"for {GIVE_UP_SECONDS:.0f} s the cluster has not said whether a conditional write was "
                        "applied; the same write again is safe"
                    )
        return [results[number] for number in range(len(programs))]

    def read(self, request: Read) -> Mapping[str, str]:
        """The columns of a row."""
        return self.read_all([request])[0]

    def read_all(self, requests: Sequence[Read]) -> list[Mapping[str, str]]:
        """The columns of rows."""
        make = messages()
        places = [_Place(request.row) for request in requests]
        found: dict[int, Mapping[str, str]] = {}
        for table in dict.fromkeys(place.table for place in places):
            here = [(number, place) for number, place in enumerate(places) if place.table == table]
            gets = [make.TGet(row=place.row, columns=[make.TColumn(family=place.family)]) for _, place in here]
            rows = self._client.get_many(f"{self._namespace}:{table}", gets)
            found |= {number: place.columns(row) for (number, place), row in zip(here, rows, strict=True)}
        return [found[number] for number in range(len(requests))]

    def check_and_mutate(self, request: CheckAndMutate, cells: Sequence[HBaseCell] = ()) -> bool | None:
        """Change a row on a condition; None where nobody knows whether it is, or will be."""
        return self.check_and_mutate_all([request], [cells])[0]

    def check_and_mutate_all(
        self, requests: Sequence[CheckAndMutate], cells: Sequence[Sequence[HBaseCell]]
    ) -> list[bool | None]:
        """Change rows, each on its condition and with its cells; None where nobody knows whether one is, or will be."""
        places = [_Place(request.row) for request in requests]
        found: dict[int, bool | None] = {}
        for table in dict.fromkeys(place.table for place in places):
            here = [number for number, place in enumerate(places) if place.table == table]
            made = [self._conditional(places[number], requests[number], cells[number]) for number in here]
            found |= zip(here, self._client.check_and_mutate_all(f"{self._namespace}:{table}", made), strict=True)
        return [found[number] for number in range(len(requests))]

    def _conditional(self, place: _Place, request: CheckAndMutate, cells: Sequence[HBaseCell]) -> Conditional:
        puts = [
            HBaseCell(place.family, place.qualifier(column), _AT, value.encode("latin-1"))
            for column, value in request.puts
        ]
        parts = [put(place.row, [*puts, *cells], self._durability)] if puts or cells else []
        if request.deletes:
            gone = [(place.family, place.qualifier(column), NEWEST - 1) for column in request.deletes]
            parts.append(delete_columns(place.row, gone, self._durability))
        return Conditional(
            (place.family, place.qualifier(request.column)),
            None if request.expected is None else request.expected.encode("latin-1"),
            row_mutations(place.row, parts),
            sum(len(cell.value) for cell in cells),
        )
