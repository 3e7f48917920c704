"""How a page is stored by the policy for its verdict: the one rule, without a store."""

from __future__ import annotations

from itertools import product

import pytest

from docstore.model.format import VERDICT_STORED
from docstore.model.types import REJECTING, Policy
from docstore.writing.policy import Facts, how_stored, policy_table

ANY = {
    "is_damaged": False,
    "confirms": False,
    "is_shown": False,
    "wants_body": True,
    "names_page": True,
    "same_site": True,
    "body_is_kept": True,
    "is_current": True,
}
CASES = [Facts(*values) for values in product((False, True), repeat=len(Facts._fields))]


@pytest.mark.parametrize(
    ("changed", "flag", "reference", "reject", "reject_any"),
    [
        ({}, "body", "reference", "rejected", "rejected"),
        ({"same_site": False}, "body", "reference", "body", "rejected"),
        ({"is_current": False}, "body", "reference", "body", "body"),
        ({"body_is_kept": False}, "body", "body", "body", "body"),
        ({"names_page": False}, "body", "body", "body", "body"),
        ({"is_shown": True}, "body", "reference", "body", "body"),
        ({"wants_body": False}, "text", "text", "rejected", "rejected"),
        ({"wants_body": False, "body_is_kept": False}, "text", "text", "rejected", "rejected"),
        ({"wants_body": False, "is_current": False}, "text", "text", "text", "text"),
        ({"confirms": True}, "confirmed", "confirmed", "confirmed", "confirmed"),
        ({"confirms": True, "is_shown": True}, "body", "reference", "body", "body"),
        ({"confirms": True, "is_damaged": True}, "body", "body", "body", "body"),
        ({"is_damaged": True, "wants_body": False}, "body", "body", "body", "body"),
    ],
    ids=lambda value: ", ".join(f"{name} {is_so}" for name, is_so in value.items()) if isinstance(value, dict) else "",
)
def test_a_policy_stores_a_page_by_its_facts(
    changed: dict[str, bool], flag: str, reference: str, reject: str, reject_any: str
) -> None:
    facts = Facts(**{**ANY, **changed})
    assert [how_stored(facts, policy) for policy in Policy] == [flag, reference, reject, reject_any]


def test_no_page_is_left_out_unless_its_bytes_are_elsewhere() -> None:
    for facts, policy in product(CASES, Policy):
        stored = how_stored(facts, policy)
        if facts.wants_body and stored in ("reference", "rejected"):
            assert facts.body_is_kept, (facts, policy)
        if stored == "rejected":
            assert policy in REJECTING and facts.is_current and not facts.is_shown, (facts, policy)
        if facts.is_damaged:
            assert stored == "body", (facts, policy)


def test_the_table_of_the_core_has_all_answers() -> None:
    table = policy_table()
    assert len(table) == len(Policy) * len(CASES)
    for number, policy in enumerate(Policy):
        for facts in CASES:
            case = sum(1 << place for place, holds in enumerate(facts) if holds)
            assert VERDICT_STORED[table[number * len(CASES) + case]] == how_stored(facts, policy)
