"""A few rounds of the soak, and what it is worth: `make soak` runs it for as long as wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.soak import DONE, Fault, soak


def test_a_store_that_is_killed_and_starved_is_as_its_ledgers_say(tmp_path: Path) -> None:
    lines = soak(minutes=5, seed=6, rounds=1, operations=60, keep=tmp_path / "kept")
    assert 0 < lines < soak(minutes=5, seed=6, rounds=2, operations=60, keep=tmp_path / "kept")
    assert (tmp_path / "kept" / DONE).read_text().startswith("[2, ")


@pytest.mark.slow
def test_writes_that_leave_zeros_are_found() -> None:
    with pytest.raises(Fault):
        soak(minutes=5, seed=4, fault=True)


def test_a_soak_begins_in_an_empty_folder_and_leaves_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert soak(minutes=0, seed=1, keep=tmp_path / "empty") == 0
    with pytest.raises(FileNotFoundError, match=r"other/done\.json"):
        soak(minutes=0, seed=1, keep=tmp_path / "other")
    assert (tmp_path / "other" / "file").exists()
