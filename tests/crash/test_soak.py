"""A few rounds of the soak, and what it is worth: `make soak` runs it for as long as wanted."""

from __future__ import annotations

import pytest

from tests.crash.soak import Fault, soak


def test_a_store_that_is_killed_and_starved_is_as_its_ledgers_say() -> None:
    assert soak(minutes=5, seed=4, rounds=3, operations=60) > 0


@pytest.mark.slow
def test_writes_that_leave_zeros_are_found() -> None:
    with pytest.raises(Fault):
        soak(minutes=5, seed=4, fault=True)
