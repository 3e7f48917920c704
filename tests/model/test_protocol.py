"""The protocol of claims gives its guarantees in every order of steps, with lost, late and double requests."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from programs import CONTENT, delete, write
from scheduler import Make, Program, Rows, Scheduler

from docstore.cluster import protocol
from docstore.cluster.protocol import CLAIM, FENCE, SLOT, CheckAndMutate, Columns, Request, is_fence


def check(rows: Rows, results: Mapping[str, str | None]) -> None:
    """What must hold in every state: pages can be read, what was acknowledged is there, one page of a body is new."""
    new = []
    for row, columns in rows.items():
        if CONTENT in columns and columns["verdict"] == "new":
            new.append(row)
    claims = sum(CLAIM in columns for columns in rows.values())
    assert len(new) <= claims, f"{new} are new, of {claims} claims: {rows}"
    for name, result in results.items():
        if name.startswith("w") and result in ("new", "exact"):
            held = rows[f"page-{name}"].get(SLOT)
            was_deleted = (held is None or is_fence(held)) and any(one.startswith("d") for one in results)
            assert was_deleted or (held or "").startswith(name), f"{name} was acknowledged and is gone: {rows}"


def writer(name: str) -> Make:
    return partial(write, f"page-{name}", "body", "claim")


def states(programs: Mapping[str, Make], rows: Rows, faults: int) -> int:
    return Scheduler(programs, check, faults).run(rows)


SCENES: dict[str, tuple[dict[str, Make], dict[str, dict[str, str]]]] = {
    "two claim a body": ({"wa": writer("wa"), "wb": writer("wb")}, {}),
    "two claim the body of a page that is being deleted": (
        {"wa": writer("wa"), "wb": writer("wb"), "d": partial(delete, "page-old")},
        {"page-old": {"slot": "old0", "content": "body", "verdict": "new"}, "claim": {CLAIM: "page-old old0"}},
    ),
}


@pytest.mark.parametrize("scene", SCENES)
def test_guarantees_hold_in_every_order(scene: str) -> None:
    programs, rows = SCENES[scene]
    assert states(programs, rows, faults=1 if len(programs) == 2 else 0) > 100


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_guarantees_hold_in_every_order_with_more_faults(scene: str) -> None:
    programs, rows = SCENES[scene]
    assert states(programs, rows, faults=2 if len(programs) == 2 else 1) > 10_000


def no_fences(slot: str, token: str, _: Iterator[str]) -> Generator[Request, Columns | bool | None, str | None]:
    """A `fence_slot` that reads the slot and does not change it."""
    columns = yield slot
    assert isinstance(columns, Mapping)
    return None if columns.get(SLOT) == token else "whatever it holds"


def only_empty_slots(slot: str, token: str, fences: Iterator[str]) -> Generator[Request, Any, str | None]:
    """A `fence_slot` that treats another's fence as its own."""
    while True:
        held = (yield slot).get(SLOT)
        if held is not None:
            return None if held == token else held
        yield CheckAndMutate(slot, SLOT, None, ((SLOT, FENCE + next(fences)),))


def delete_that_empties(slot: str, _: Iterator[str]) -> Program:
    """A `delete` that empties the slot."""
    columns = yield slot
    assert isinstance(columns, Mapping)
    held = columns.get(SLOT)
    yield CheckAndMutate(slot, SLOT, held, (), (SLOT, CONTENT, "verdict"))
    return "deleted"


def test_without_fences_a_guarantee_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "fence_slot", no_fences)
    with pytest.raises(AssertionError, match="are new"):
        states(*SCENES["two claim a body"], faults=0)


def test_a_fence_of_another_process_must_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "fence_slot", only_empty_slots)
    fenced = {"page-wa": {SLOT: FENCE + "x0"}}
    with pytest.raises(AssertionError, match="are new"):
        states({"wa": writer("wa"), "wb": writer("wb")}, fenced, faults=0)


def test_a_delete_that_empties_a_slot_allows_a_late_page() -> None:
    programs = {"wa": writer("wa"), "wb": writer("wb"), "d": partial(delete_that_empties, "page-wa")}
    with pytest.raises(AssertionError, match="are new"):
        states(programs, {}, faults=1)
