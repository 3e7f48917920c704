"""How many writers share claims and slots: programs that do no I/O, and their requests as calls to HBase.

A program is a generator: it yields one request on one row, `Read` or `CheckAndMutate`, and is sent the reply.
`tests/model/` runs the programs in every order; `Requests` carries them out, many at a time.

What may go wrong, and what stays true: a reply may be lost, a request may be applied long after its caller has given
up, or twice, and a process may stop anywhere.  Yet no acknowledged page is lost, and of all pages with one body at most
one that can be read was answered `new`.  Two rules give that (the model breaks each and shows what is lost then):

1. A *slot* (a page's row and timestamp) is filled by one conditional mutation that puts the writer's token there.  Once
   it held anything it is never empty again: a delete and maintenance leave a fence, which is unique.
2. Whoever drops another's claim first makes sure that its page cannot come any more: it replaces what an unfilled slot
   holds, nothing or a fence, by a new fence.

A slot is a column of family `w` in its page's row, one a timestamp; a claim is a row of table `claims`.  Names of the
protocol are bytes as Latin-1.

Source: docstore's own design; the idea of fencing is that of Chubby's sequencers (Burrows 2006, OSDI).
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
from docstore.model.errors import CommitUnknown
from docstore.model.pointers import PagePointer

SLOT: Final = "slot"
"""Column of a page's row: the token of who filled it, or a fence."""
CLAIM: Final = "claim"
"""Column of a claim's row: slot and token of the page that is `new`."""
FENCE: Final = "fence "


class Read(NamedTuple):
    """Read a row; the reply is its columns."""

    row: str


class CheckAndMutate(NamedTuple):
    """Change a row if a column holds a value, None for no cell; the reply is whether it did, None where unknown."""

    row: str
    column: str
    expected: str | None
    puts: tuple[tuple[str, str], ...]
    deletes: tuple[str, ...] = ()


class Claimed(NamedTuple):
    """What became of a claim.

    Attributes:
        verdict: "new", "exact", "pending" or "lost".
        held: by the claim's row; where it is lost by the slot.
        fence: that was put into the claimant's own slot, against an attempt before this one; "" for none.
    """

    verdict: str
    held: str
    fence: str = ""


Columns: TypeAlias = Mapping[str, str]
Request: TypeAlias = Read | CheckAndMutate
Result = TypeVar("Result")
Running: TypeAlias = Generator[Request, Columns | bool | None, Result]
"""Yields requests; returns what it came to."""


def is_fence(held: str | None) -> bool:
    """Whether a slot holds a fence."""
    return held is not None and held.startswith(FENCE)


def _read(row: str) -> Running[Columns]:
    reply = yield Read(row)
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
) -> Running[Claimed]:
    """Claim a body.

    Args:
        checksum: row of the claim.
        slot: of the page.
        token: of this attempt.
        fences: names of fences, different from all others.
        over: a claim that counts for nothing: its page was looked at since, and is no page with this body.
        patient: do not shut out a page that has claimed the body and is not there yet.
        expected: what the slot is thought to hold: nothing, or a fence.
    Returns:
        "new" for who has the claim; "exact" where another has, whose page is there; "pending" where it may come; "lost"
        where an earlier attempt for the slot has the claim, and the slot does not hold what was expected.
    """
    mine = f"{slot} {token}"
    if (yield CheckAndMutate(checksum, CLAIM, None, ((CLAIM, mine),))) is True:  # most bodies are claimed by nobody
        return Claimed("new", mine)
    fence = ""
    while True:
        held = (yield from _read(checksum)).get(CLAIM)
        if held == mine:
            return Claimed("new", mine, fence)
        if held is not None and held != over:
            other_slot, _, other_token = held.rpartition(" ")
            if patient and other_slot != slot and (yield from _may_come(other_slot, other_token)):
                return Claimed("pending", held)
            if other_slot == slot:
                mark = FENCE + next(fences)
                found = yield from _end_attempt(slot, other_token, expected, mark)
                if found == mark:
                    expected = fence = mark
                elif found != expected and found is not None:
                    return Claimed("lost", found)
            else:
                found = yield from shut_out(other_slot, other_token, fences)
            if found is None:
                return Claimed("exact", held)
        if (yield CheckAndMutate(checksum, CLAIM, held, ((CLAIM, mine),))) is True:
            return Claimed("new", mine, fence)


def _may_come(slot: str, token: str) -> Running[bool]:
    held = (yield from _read(slot)).get(SLOT)
    return held != token and (held is None or is_fence(held))


def _end_attempt(slot: str, token: str, expected: str | None, fence: str) -> Running[str | None]:
    """Shut out an earlier attempt for a slot, if the slot holds what is expected; -> what it holds, None where the page
    is there.  Whoever finds another's fence has to judge the page anew."""
    while True:
        held = (yield from _read(slot)).get(SLOT)
        if held == token:
            return None
        if held != expected or (held is not None and not is_fence(held)):
            return held
        if (yield CheckAndMutate(slot, SLOT, held, ((SLOT, fence),))) is True:
            return fence


def fill(slot: str, token: str, expected: str | None, puts: tuple[tuple[str, str], ...]) -> Running[str | None]:
    """Fill a slot; -> None once it holds the token, else what else it holds.

    Args:
        slot: of the page.
        token: of this attempt.
        expected: what the slot is thought to hold: nothing, or a fence.
        puts: what the page holds.
    """
    while True:
        if (yield CheckAndMutate(slot, SLOT, expected, ((SLOT, token), *puts))) is True:
            return None
        held = (yield from _read(slot)).get(SLOT)
        if held == token:
            return None
        if held is not None and held != expected:
            return held


def shut_out(slot: str, token: str, fences: Iterator[str]) -> Running[str | None]:
    """Make sure that a page cannot come any more; -> what its slot holds, None where the page is there."""
    while True:
        held = (yield from _read(slot)).get(SLOT)
        if held == token:
            return None
        if held is not None and not is_fence(held):
            return held
        fence = FENCE + next(fences)
        if (yield CheckAndMutate(slot, SLOT, held, ((SLOT, fence),))) is True:
            return fence


# --- requests as calls to HBase

SLOTS: Final = "slot "
CLAIMS: Final = "claim "
"""Before the names of rows, by what they are."""
_TIMESTAMP_BYTES: Final = 8
_AT: Final = 1
"""Timestamp of all these cells: each is written over the one before it."""


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
        else:
            self.table, self.row = CLAIMS_TABLE, encode_key(name.removeprefix(CLAIMS).encode("latin-1"))
            self.family = CLAIM_FAMILY

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

    def run_all(self, programs: Sequence[Running[Result]], cells: Sequence[Sequence[HBaseCell]]) -> list[Result]:
        """Run programs to their ends, in step: what all of them ask next goes together.

        Args:
            programs: of those above.
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
