"""The protocol keeps its promises over the calls that the HBase backend makes: what it puts where is part of the model.

A cluster in memory takes the client's calls; every order of them is tried, with the scheduler of `test_protocol`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from memory_hbase import key_rows
from programs import delete, write
from scheduler import Frozen, Make, Program, Rows, Scheduler, freeze, thaw
from test_protocol import check, states

from docstore.cluster.client import Conditional, HBaseCell
from docstore.cluster.commit import Slot, SlotCommitter
from docstore.cluster.protocol import CheckAndMutate, Requests, claim_name, slot_name
from docstore.cluster.rowindex import RowIndex
from docstore.model.capture import BODY, PagePointer
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, StorageError
from docstore.model.format import CAPTURE_STORED
from docstore.model.types import RowMutations
from docstore.storage.captures import CaptureRecord
from docstore.storage.engine import Plan

PAGE = slot_name(PagePointer(1000, b"com,example)/a "))
SAME_ROW = slot_name(PagePointer(2000, b"com,example)/a "))
OTHER = slot_name(PagePointer(1000, b"com,example)/b "))
CLAIM = claim_name(b"\x02body \x00\xff")


class InMemory:
    """A client whose cluster is a dictionary: row -> column -> value, as names of the model."""

    def __init__(self, rows: dict[str, dict[str, str]]) -> None:
        self.rows = rows

    def get_many(self, table: str, gets: Sequence[Any]) -> list[list[HBaseCell]]:
        found = []
        for get in gets:
            family = get.columns[0].family.decode() + ":"
            columns = self.rows.get(_row(table, get.row), {})
            found.append(
                [
                    HBaseCell(b"", name.removeprefix(family).encode("latin-1"), 1, value.encode("latin-1"))
                    for name, value in sorted(columns.items())
                    if name.startswith(family)
                ]
            )
        return found

    def check_and_mutate_all(self, table: str, requests: Sequence[Conditional]) -> Sequence[bool | None]:
        return [self._change(table, *request[:3]) for request in requests]

    def _change(self, table: str, column: tuple[bytes, bytes], expected: bytes | None, mutations: Any) -> bool:
        columns = self.rows.get(_row(table, mutations.row), {})
        wanted = None if expected is None else expected.decode("latin-1")
        if columns.get(_column(*column)) != wanted:
            return False
        columns = dict(columns)
        for mutation in mutations.mutations:
            for one in mutation.deleteSingle.columns if mutation.deleteSingle else ():
                columns.pop(_column(one.family, one.qualifier), None)
        for mutation in mutations.mutations:
            for one in mutation.put.columnValues if mutation.put else ():
                columns[_column(one.family, one.qualifier)] = one.value.decode("latin-1")
        self.rows[_row(table, mutations.row)] = columns
        return True


def _row(table: str, row: bytes) -> str:
    return f"{table} {row.decode('latin-1')}"


def _column(family: bytes, qualifier: bytes) -> str:
    return f"{family.decode()}:{qualifier.decode('latin-1')}"


def over(rows: Frozen) -> tuple[InMemory, Requests]:
    client = InMemory(thaw(rows))
    return client, Requests(client, "store")  # type: ignore[arg-type]


class OverHBase(Scheduler):
    """Keeps the rows of a state where the backend puts them."""

    names: tuple[str, ...] = (PAGE, SAME_ROW, OTHER, CLAIM)

    def stored(self, rows: Rows) -> Frozen:
        client, requests = over(())
        for row, columns in rows.items():
            (first, value), *rest = columns.items()
            assert requests.check_and_mutate(CheckAndMutate(row, first, None, ((first, value), *rest)))
        return freeze(client.rows)

    def shown(self, rows: Frozen) -> Rows:
        _, requests = over(rows)
        return {name: columns for name in self.names if (columns := dict(requests.read(name)))}

    def applied(self, rows: Frozen, request: CheckAndMutate) -> tuple[Frozen, bool]:
        client, requests = over(rows)
        held = requests.check_and_mutate(request)
        return freeze(client.rows), bool(held)

    def read(self, rows: Frozen, request: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(over(rows)[1].read(request).items()))


def writer(slot: str) -> Make:
    return partial(write, slot, "body", CLAIM)


def promises(rows: Rows, results: Any) -> None:
    """Those of `test_protocol`, but for acknowledged pages: its names of slots are its own."""
    check(rows, {})
    for name, result in results.items():
        if result in ("new", "exact") and not any(one.startswith("d") for one in results):
            slot = {"wa": PAGE, "wb": OTHER, "wc": SAME_ROW}[name]
            assert rows[slot]["slot"].startswith(name), f"{name} was acknowledged and is gone: {rows}"


SCENES: dict[str, tuple[dict[str, Make], dict[str, dict[str, str]]]] = {
    "two claim a body": ({"wa": writer(PAGE), "wb": writer(OTHER)}, {}),
    "two versions of a row claim a body": ({"wa": writer(PAGE), "wc": writer(SAME_ROW)}, {}),
    "one claims the body of a page that is being deleted": (
        {"wa": writer(PAGE), "d": partial(delete, OTHER)},
        {OTHER: {"slot": "old0", "content": "body", "verdict": "new"}, CLAIM: {"claim": f"{OTHER} old0"}},
    ),
}


@pytest.mark.parametrize("scene", SCENES)
def test_guarantees_hold_in_every_order_of_the_backends_calls(scene: str) -> None:
    programs, rows = SCENES[scene]
    assert OverHBase(programs, promises, 1).run(rows) > 100


def test_the_backends_calls_reach_as_many_states_as_the_model() -> None:
    programs, rows = SCENES["two claim a body"]
    plain: dict[str, Make] = {name: partial(write, f"page-{name}", "body", "claim") for name in programs}
    assert OverHBase(programs, promises, 1).run(rows) == states(plain, {}, 1)


def test_a_fenced_page_is_written_by_its_second_attempt() -> None:
    _, requests = over(freeze({PAGE: {"slot": "fence of maintenance"}}))
    tokens = (f"w{number}" for number in range(6))  # a program that fences itself may need any number
    assert requests.run_all([write(PAGE, "body", CLAIM, tokens)], [()]) == ["new"]
    held = requests.read(PAGE)["slot"]
    assert requests.read(CLAIM) == {"claim": f"{PAGE} {held}"}


def patient(slot: str, tokens: Iterator[str]) -> Program:
    """A writer that takes over a claim without a fence although the claim's page may still be written."""
    token = next(tokens)
    yield CheckAndMutate(CLAIM, "claim", None, (("claim", f"{slot} {token}"),))
    held = yield CLAIM
    assert not isinstance(held, bool) and held is not None
    yield CheckAndMutate(CLAIM, "claim", held["claim"], (("claim", f"{slot} {token}"),))
    yield CheckAndMutate(slot, "slot", None, (("slot", token), ("content", "body"), ("verdict", "new")))
    return "new"


def test_with_the_backends_calls_a_guarantee_is_broken_without_fences() -> None:
    with pytest.raises(AssertionError, match="are new"):
        OverHBase({"wa": partial(patient, PAGE), "wb": partial(patient, OTHER)}, promises, 0).run({})


class Broken(InMemory):
    """A cluster that stops answering once a slot was filled."""

    def get_many(self, table: str, gets: Sequence[Any]) -> list[list[HBaseCell]]:
        raise StorageError(5, "no answer")

    def check_and_mutate_all(self, table: str, requests: Sequence[Conditional]) -> Sequence[bool | None]:
        return [None] * len(requests) if table == "store:pages" else super().check_and_mutate_all(table, requests)


class Silent(InMemory):
    """A cluster that applies no conditional write and sends no reply."""

    def check_and_mutate_all(self, table: str, requests: Any) -> list[bool | None]:
        return [None] * len(requests)


def test_a_program_with_an_unknown_outcome_ends() -> None:
    seconds = iter(range(1000))
    requests = Requests(Silent({}), "store", clock=lambda: float(next(seconds)))  # type: ignore[arg-type]
    with pytest.raises(CommitUnknown, match="unknown for 60 s"):
        requests.run_all([write(PAGE, "body", CLAIM, iter("abcdefg"))], [()])
    assert next(seconds) < 100


class Engine:
    """The part of the HBase engine that a commit of slots needs."""

    def __init__(self, client: InMemory) -> None:
        self.client = client

    def requests(self, _: Durability) -> Requests:
        return Requests(self.client, "store")  # type: ignore[arg-type]

    def in_parallel(self, work: Any, items: Sequence[Any]) -> list[Any]:
        return [work(item) for item in items]

    def mutate_rows(self, rows: Sequence[RowMutations], _: Durability) -> None:
        pass

    def drop_ahead(self, rows: object) -> None:
        pass


class NoValues:
    """Values of a store in which none is long."""

    def mutations(self) -> list[RowMutations]:
        return []

    def with_values(self, row: RowMutations) -> RowMutations:
        return row

    def drop_values(self) -> None:
        pass


def committer(client: InMemory, session: bytes) -> SlotCommitter:
    return SlotCommitter(
        Engine(client),  # type: ignore[arg-type]
        NoValues(),  # type: ignore[arg-type]
        RowIndex(key_rows()),
        Durability.SYNC,
        session,
        lambda: None,
    )


def slot(row_key: bytes, *needs: PagePointer) -> Slot:
    pointer = PagePointer(1000, row_key)
    row = RowMutations("pages", row_key, [CaptureRecord(1000, CAPTURE_STORED, {BODY: b"\x00body"}).cell()])
    return Slot(pointer, row, b"" if needs else b"\x02body", False, frozenset(needs))


def test_a_group_that_fails_at_its_pages_is_commit_unknown() -> None:
    with pytest.raises(CommitUnknown, match="some pages of a group"):
        committer(Broken({}), b"one").commit_group(Plan(), [slot(b"a")])


def test_a_lost_page_takes_along_the_pages_that_name_it() -> None:
    client = InMemory({})
    first, second = committer(client, b"one"), committer(client, b"two")
    assert first.commit_group(Plan(), [slot(b"a")]) == set()
    group = [slot(b"b"), slot(b"c", PagePointer(1000, b"b")), slot(b"d", PagePointer(1000, b"a"))]
    assert second.commit_group(Plan(), group) == {PagePointer(1000, b"b"), PagePointer(1000, b"c")}
    # Its second judgement knows page a, which does not have this body.
    assert second.commit_group(Plan(), [slot(b"b")]) == set()
