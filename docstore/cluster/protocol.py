"""The protocol by which many writers share claims and slots: programs without I/O, and their requests to HBase.

A program is a generator: it yields one request on one row, its name or `CheckAndMutate`, and is sent the reply.
`tests/model/` runs the programs in every order; `Requests` runs many of them against HBase at a time.

Faults: a reply may be lost, a request may be applied twice or long after its caller gave up, and a process may stop
anywhere.  Guarantees: no acknowledged page is lost, and of all readable pages with the same body at most one was
answered `new`.  Two rules give these guarantees (the model breaks each rule and shows the loss):

1. A *slot* (row and timestamp of a page) is filled by one conditional mutation that puts the writer's token there.
   After its first content it is never empty again: a delete and maintenance leave a fence, which is unique.
2. A process that removes another's claim first fences its slot, so that the other page can no longer be written: if
   the slot is empty or has a fence, it puts a new fence there.

A slot is a column of family `w` in its page's row, one for each timestamp; a claim is a row of table `claims`.  Names
of the protocol are bytes decoded as Latin-1.

Source: docstore's own design; fences are like Chubby's sequencers (Burrows 2006, OSDI).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

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
from docstore.model.capture import PagePointer
from docstore.model.errors import CommitUnknown

SLOT: Final = "slot"
"""Column of a page's row: the token of the attempt that filled it, or a fence."""
CLAIM: Final = "claim"
"""Column of a claim's row: slot and token of the page that is `new`."""
FENCE: Final = "fence "


class CheckAndMutate(NamedTuple):
    """Change a row if a column has a value, None for no cell; the reply is whether it did, None if unknown."""

    row: str
    column: str
    expected: str | None
    puts: tuple[tuple[str, str], ...]
    deletes: tuple[str, ...] = ()


Columns: TypeAlias = Mapping[str, str]
Request: TypeAlias = str | CheckAndMutate
"""A row to read, whose reply is its columns, or a change."""
Result = TypeVar("Result")
Running: TypeAlias = Generator[Request, Columns | bool | None, Result]
"""Yields requests, is sent their replies, and returns its result."""


def is_fence(content: str | None) -> bool:
    """Whether the content of a slot is a fence."""
    return content is not None and content.startswith(FENCE)


def _read(row: str) -> Running[Columns]:
    reply = yield row
    assert isinstance(reply, Mapping)
    return reply


def claim(
    checksum: str,
    slot: str,
    token: str,
    fences: Iterator[str],
    *,
    over: str = "",
    patient: bool = False,
    expected: str | None = None,
) -> Running[tuple[str, str, str]]:
    """Claim a body.

    Args:
        checksum: row of the claim.
        slot: of the page.
        token: of this attempt.
        fences: names of fences, unique in the store.
        over: a claim to replace: the caller has read its page since, and it does not have this body.
        patient: do not fence a page that has claimed the body and does not exist yet.
        expected: content of the page's slot: None, or a fence.
    Returns:
        The verdict: "new" if this attempt has the claim; "exact" if a page that exists has it; "pending" if a page has
        it that may still be written; "lost" if an earlier attempt for the slot has it, and the slot is not as expected.
        Then the content of the claim's row, if lost of the slot; and the fence that was put into the claimant's own
        slot against an earlier attempt, "" for none.
    """
    mine = f"{slot} {token}"
    if (yield CheckAndMutate(checksum, CLAIM, None, ((CLAIM, mine),))) is True:  # most bodies have no claim
        return "new", mine, ""
    fence = ""
    while True:
        claimed = (yield from _read(checksum)).get(CLAIM)
        if claimed == mine:
            return "new", mine, fence
        if claimed is not None and claimed != over:
            other_slot, _, other_token = claimed.rpartition(" ")
            if patient and other_slot != slot and (yield from _is_pending(other_slot, other_token)):
                return "pending", claimed, ""
            if other_slot == slot:
                mark = FENCE + next(fences)
                content = yield from _end_attempt(slot, other_token, expected, mark)
                if content == mark:
                    expected = fence = mark
                elif content != expected and content is not None:
                    return "lost", content, ""
            else:
                content = yield from fence_slot(other_slot, other_token, fences)
            if content is None:
                return "exact", claimed, ""
        if (yield CheckAndMutate(checksum, CLAIM, claimed, ((CLAIM, mine),))) is True:
            return "new", mine, fence


def _is_pending(slot: str, token: str) -> Running[bool]:
    content = (yield from _read(slot)).get(SLOT)
    return content != token and (content is None or is_fence(content))


def _end_attempt(slot: str, token: str, expected: str | None, fence: str) -> Running[str | None]:
    """Fence an earlier attempt for a slot, if the slot is as expected; -> content of the slot, None if the page exists.

    If the content is another process's fence, the caller has to judge the page again.
    """
    while True:
        content = (yield from _read(slot)).get(SLOT)
        if content == token:
            return None
        if content != expected or (content is not None and not is_fence(content)):
            return content
        if (yield CheckAndMutate(slot, SLOT, content, ((SLOT, fence),))) is True:
            return fence


def fill(slot: str, token: str, expected: str | None, puts: tuple[tuple[str, str], ...]) -> Running[str | None]:
    """Fill a slot; -> None once it has the token, else its other content.

    Args:
        slot: of the page.
        token: of this attempt.
        expected: content of the slot: None, or a fence.
        puts: columns of the page.
    """
    while True:
        if (yield CheckAndMutate(slot, SLOT, expected, ((SLOT, token), *puts))) is True:
            return None
        content = (yield from _read(slot)).get(SLOT)
        if content == token:
            return None
        if content is not None and content != expected:
            return content


def fence_slot(slot: str, token: str, fences: Iterator[str]) -> Running[str | None]:
    """Fence a slot so that its page can no longer be written; -> content of the slot, None if the page exists."""
    while True:
        content = (yield from _read(slot)).get(SLOT)
        if content == token:
            return None
        if content is not None and not is_fence(content):
            return content
        fence = FENCE + next(fences)
        if (yield CheckAndMutate(slot, SLOT, content, ((SLOT, fence),))) is True:
            return fence


# --- requests as calls to HBase

SLOTS: Final = "slot "
CLAIMS: Final = "claim "
"""Prefixes of the protocol's row names."""
_TIMESTAMP_BYTES: Final = 8
_AT: Final = 1
"""Timestamp of all these cells, so that each overwrites the one before it."""


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
    """Where a row of the protocol is in HBase: table, row, family, and the suffix of the names of its columns."""

    __slots__ = ("family", "row", "suffix", "table")

    def __init__(self, name: str) -> None:
        self.family, self.suffix = WRITERS, b""
        if name.startswith(SLOTS):
            raw = name.removeprefix(SLOTS).encode("latin-1")
            self.table, self.row = "pages", encode_key(raw[_TIMESTAMP_BYTES:])
            self.suffix = b":" + raw[:_TIMESTAMP_BYTES]
        else:
            self.table, self.row = CLAIMS_TABLE, encode_key(name.removeprefix(CLAIMS).encode("latin-1"))
            self.family = CLAIM_FAMILY

    def qualifier(self, column: str) -> bytes:
        return column.encode("latin-1") + self.suffix

    def columns(self, cells: Sequence[HBaseCell]) -> Mapping[str, str]:
        return {
            cell.qualifier.removesuffix(self.suffix).decode("latin-1"): cell.value.decode("latin-1")
            for cell in cells
            if cell.qualifier.endswith(self.suffix)
        }


class Requests:
    """Sends requests to HBase.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
        durability: HBase's number for the durability of writes; None for the default of the tables.
        clock: monotonic seconds.
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

    def run_all(self, programs: Sequence[Running[Result]], cells: Sequence[Sequence[HBaseCell]]) -> list[Result]:
        """Run programs to their ends in lockstep: the next requests of all of them are sent together.

        Args:
            programs: made by `claim` or `fill`.
            cells: for each program the cells of its page, written together with its slot.
        Raises:
            CommitUnknown: a program's conditional writes had no known outcome for GIVE_UP_SECONDS.
        """
        results: dict[int, Result] = {}
        unknown_since: dict[int, float] = {}
        replies: dict[int, Columns | bool | None] = dict.fromkeys(range(len(programs)))
        while replies:
            reads: dict[int, str] = {}
            changes: dict[int, CheckAndMutate] = {}
            for number, reply in replies.items():
                try:
                    request = programs[number].send(reply)
                except StopIteration as ended:
                    results[number] = ended.value
                    continue
                if isinstance(request, str):
                    reads[number] = request
                else:
                    changes[number] = request
            applied = self.check_and_mutate_all(list(changes.values()), [cells[number] for number in changes])
            replies = dict(zip(reads, self.read_all(list(reads.values())), strict=True))
            replies |= dict(zip(changes, applied, strict=True))
            for number in changes:
                if replies[number] is not None:
                    unknown_since.pop(number, None)
                elif self._clock() - unknown_since.setdefault(number, self._clock()) >= GIVE_UP_SECONDS:
                    raise CommitUnknown(
                        f"the outcome of a conditional write has been unknown for {GIVE_UP_SECONDS:.0f} s; "
                        "the same write again is safe"
                    )
        return [results[number] for number in range(len(programs))]

    def read(self, row: str) -> Mapping[str, str]:
        """The columns of a row."""
        return self.read_all([row])[0]

    def read_all(self, rows: Sequence[str]) -> list[Mapping[str, str]]:
        """The columns of rows."""
        make = messages()
        places = [_Place(row) for row in rows]
        replies: dict[int, Mapping[str, str]] = {}
        for table in dict.fromkeys(place.table for place in places):
            here = [(number, place) for number, place in enumerate(places) if place.table == table]
            gets = [make.TGet(row=place.row, columns=[make.TColumn(family=place.family)]) for _, place in here]
            found = self._client.get_many(f"{self._namespace}:{table}", gets)
            replies |= {number: place.columns(cells) for (number, place), cells in zip(here, found, strict=True)}
        return [replies[number] for number in range(len(rows))]

    def check_and_mutate(self, request: CheckAndMutate, cells: Sequence[HBaseCell] = ()) -> bool | None:
        """As `check_and_mutate_all`, for one row."""
        return self.check_and_mutate_all([request], [cells])[0]

    def check_and_mutate_all(
        self, requests: Sequence[CheckAndMutate], cells: Sequence[Sequence[HBaseCell]]
    ) -> list[bool | None]:
        """Change rows, each on its condition and with its cells; None for an unknown outcome."""
        places = [_Place(request.row) for request in requests]
        replies: dict[int, bool | None] = {}
        for table in dict.fromkeys(place.table for place in places):
            here = [number for number, place in enumerate(places) if place.table == table]
            conditionals = [self._conditional(places[number], requests[number], cells[number]) for number in here]
            replies |= zip(
                here, self._client.check_and_mutate_all(f"{self._namespace}:{table}", conditionals), strict=True
            )
        return [replies[number] for number in range(len(requests))]

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
