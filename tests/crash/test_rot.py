"""A sample of damaged bytes and files (`tests.crash.rot` tries all), and what these tests are worth."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from docstore.model.format import SEGMENT_DIRECTORY
from tests.crash.rot import Damage, Fault, Truth, look, make_small, many_flips, read_all, single_damages, try_damages


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rot") / "s"
    make_small(root)
    return root


@pytest.fixture(scope="module")
def truth(small: Path) -> Truth:
    return read_all(small)


def test_a_damaged_byte_and_a_cut_or_missing_file_give_no_wrong_answer(small: Path, truth: Truth) -> None:
    singles = [[damage] for damage in single_damages(small, Random(39), 0.0005)]
    tried = try_damages(small, truth, [*singles, *many_flips(small, Random(39), 50)])
    assert tried.faults == []
    outcomes = {name for counts in tried.outcomes.values() for name in counts}
    assert {"right", "damage named", "loss reported at open", "store refused: CorruptionError"} <= outcomes


def test_a_lost_page_and_a_wrong_body_are_found(small: Path, truth: Truth) -> None:
    url, captures = next(iter(truth.items()))
    with pytest.raises(Fault, match="wrong answer"):
        look(small, truth | {url: {time: (b"other", text, kind) for time, (_, text, kind) in captures.items()}})
    with pytest.raises(Fault, match="nobody says so"):
        look(small, truth | {"https://never.example/": captures})


def test_a_flipped_bit_of_a_segment_changes_one_byte(small: Path, tmp_path: Path) -> None:
    segment = next((small / SEGMENT_DIRECTORY).iterdir())
    (tmp_path / "f").write_bytes(segment.read_bytes())
    Damage("flipped", "f", 50, 3).apply(tmp_path)
    changed = [new ^ old for new, old in zip((tmp_path / "f").read_bytes(), segment.read_bytes(), strict=True)]
    assert changed[50] == 8 and sum(changed) == 8
