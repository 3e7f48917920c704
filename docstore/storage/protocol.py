"""How many writers share claims and bases: the protocol as programs that do no I/O.

Knows rows of columns and nothing else; must not know a backend.  A program is a generator: it yields one request on one
row, `Read` or `CheckAndMutate`, and is sent the reply.  A backend with many writers runs the programs over its own
calls; the local backend has one writer, whose lock makes all of this trivially true, and does without them.

What may go wrong, and what stays true: a reply may be lost, a request may be applied long after its caller has given
up, or twice, and a process may stop anywhere.  Yet no page is ever stored that leans on a base without a body, no
acknowledged page is lost, and of all pages with one body at most one that can be read was answered `new`.

Three rules give that (`tests/model/` breaks each of them and shows what is lost then):

1. A *slot* (a page's row and timestamp) is filled by one conditional mutation that puts the writer's token there.  Once
   it held anything it is never empty again: a delete and maintenance leave a fence, which is unique.
2. A *base* has a state that is never empty again: live or dying, with a generation.  Users are added on condition of
   the live state that was read.  A dying base is freed or revived on condition of the dying state; both raise the
   generation, so that no late request meets the state it was made for a second time.
3. Whoever drops another's user or claim first makes sure that its page cannot come any more: it replaces what an
   unfilled slot holds, nothing or a fence, by a new fence.

Source: docstore's own design; the idea of fencing is that of Chubby's sequencers (Burrows 2006, OSDI).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

SLOT: Final = "slot"
"""Column of a page's row: the token of who filled it, or a fence."""
CONTENT: Final = "content"
"""Column of a page's row: its body, or `LEANS` and the base that has it."""
STATE: Final = "state"
BODY: Final = "body"
USER: Final = "user:"
"""Columns of a base's row: its state, its body, and a cell a user, named by the user's token, that holds its slot."""
CLAIM: Final = "claim"
"""Column of a claim's row: slot and token of the page that is `new`."""
LEANS: Final = "leans on "
FENCE: Final = "fence "
LIVE: Final = "live"
DYING: Final = "dying"


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
Program: TypeAlias = Generator[Request, "Columns | bool | None", str]
"""Yields requests; returns what it came to, in words."""
_Step: TypeAlias = Generator[Request, "Columns | bool | None", str | None]


def is_fence(held: str | None) -> bool:
    """Whether a slot holds a fence."""
    return held is not None and held.startswith(FENCE)


def _state(name: str, generation: int) -> str:
    return f"{name}:{generation}"


def generation_of(state: str) -> int:
    """The number of a base's state, which rises by one with each."""
    return int(state.partition(":")[2])


def _read(row: str) -> Generator[Request, Columns | bool | None, Columns]:
    reply = yield Read(row)
    assert isinstance(reply, Mapping)
    return reply


def write(slot: str, body: str, checksum: str, base: str | None, tokens: Iterator[str]) -> Program:
    """Write a page: claim its body, lean on a base or bring it, fill the slot.

    Args:
        slot: row of the page.
        body: its content, which is that of the base too where it is given.
        checksum: row of the claim.
        base: row of the base to lean on; None to keep the body in the page.
        tokens: names of the attempts, different from those of all other writers.
    Returns:
        "new" or "exact", once the page is stored; "taken" where another has filled the slot.
    """
    expected: str | None = None
    while True:
        token = next(tokens)
        verdict, claimed, fence = yield from claim(checksum, slot, token, tokens, expected=expected)
        if verdict == "lost":
            if not is_fence(claimed):
                return "taken"
            expected = claimed
            continue
        expected = fence or expected
        leans = base is not None and (yield from _use(base, token, slot, body)) is not None
        content = LEANS + base if leans and base is not None else body
        held = yield from fill(slot, token, expected, ((CONTENT, content), ("verdict", verdict)))
        if held is None:
            return verdict
        if not is_fence(held):
            return "taken"
        expected = held


def claim(
    checksum: str,
    slot: str,
    token: str,
    fences: Iterator[str],
    *,
    over: str = "",
    patient: bool = False,
    expected: str | None = None,
) -> Generator[Request, Columns | bool | None, Claimed]:
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


def _may_come(slot: str, token: str) -> Generator[Request, Columns | bool | None, bool]:
    held = (yield from _read(slot)).get(SLOT)
    return held != token and (held is None or is_fence(held))


def _end_attempt(slot: str, token: str, expected: str | None, fence: str) -> _Step:
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


def fill(slot: str, token: str, expected: str | None, puts: tuple[tuple[str, str], ...]) -> _Step:
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


def _use(base: str, token: str, slot: str, body: str) -> _Step:
    """Become a user of a base, or bring it where there is none; -> its row, None while it is dying."""
    while True:
        row = yield from _read(base)
        state = row.get(STATE)
        if state is None or BODY not in row:
            generation = 0 if state is None else generation_of(state)
            puts: tuple[tuple[str, str], ...] = ((STATE, _state(LIVE, generation + 1)), (BODY, body))
        elif not state.startswith(LIVE):
            return None
        elif USER + token in row:
            return base
        else:
            puts = ()
        if (yield CheckAndMutate(base, STATE, state, (*puts, (USER + token, slot)))) is True:
            return base


def shut_out(slot: str, token: str, fences: Iterator[str]) -> _Step:
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


def end_base(base: str, fences: Iterator[str]) -> Program:
    """Free a base that no page needs; maintenance runs it, any number at a time.

    Returns:
        "freed", "kept", or "nothing" where there is none or another was faster.
    """
    row = yield from _read(base)
    state = row.get(STATE)
    if state is None or BODY not in row:
        return "nothing"
    dying = _state(DYING, generation_of(state))
    if state != dying:
        yield CheckAndMutate(base, STATE, state, ((STATE, dying),))
        row = yield from _read(base)
        if row.get(STATE) != dying:
            return "nothing"
    stale = []
    for column, slot in row.items():
        if column.startswith(USER) and (yield from shut_out(slot, column.removeprefix(USER), fences)) is not None:
            stale.append(column)
    is_used = len(stale) < sum(column.startswith(USER) for column in row)
    after = _state(LIVE if is_used else DYING, generation_of(dying) + 1)
    gone = tuple(stale) if is_used else (*stale, BODY)
    done = yield CheckAndMutate(base, STATE, dying, ((STATE, after),), gone)
    return ("kept" if is_used else "freed") if done is True else "nothing"


def delete(slot: str, fences: Iterator[str]) -> Program:
    """Delete the page that a slot holds.

    Returns:
        "deleted", or "nothing" where there is no page.
    """
    while True:
        held = (yield from _read(slot)).get(SLOT)
        if held is None or is_fence(held):
            return "nothing"
        gone = (CONTENT, "verdict")
        if (yield CheckAndMutate(slot, SLOT, held, ((SLOT, FENCE + next(fences)),), gone)) is True:
            return "deleted"
