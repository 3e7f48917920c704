"""What the model runs: the programs of `cluster.protocol` put together as a writer and a delete do it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler import Program

from docstore.cluster.protocol import FENCE, SLOT, CheckAndMutate, claim, fill, is_fence

CONTENT = "content"
"""Column of a page's row: its body."""


def write(slot: str, body: str, checksum: str, tokens: Iterator[str]) -> Program:
    """Write a page: claim its body, fill the slot.

    Args:
        slot: row of the page.
        body: its content.
        checksum: row of the claim.
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
        held = yield from fill(slot, token, expected, ((CONTENT, body), ("verdict", verdict)))
        if held is None:
            return verdict
        if not is_fence(held):
            return "taken"
        expected = held


def delete(slot: str, fences: Iterator[str]) -> Program:
    """Delete the page that a slot holds.

    Returns:
        "deleted", or "nothing" where there is no page.
    """
    while True:
        columns = yield slot
        assert isinstance(columns, Mapping)
        held = columns.get(SLOT)
        if held is None or is_fence(held):
            return "nothing"
        gone = (CONTENT, "verdict")
        if (yield CheckAndMutate(slot, SLOT, held, ((SLOT, FENCE + next(fences)),), gone)) is True:
            return "deleted"
