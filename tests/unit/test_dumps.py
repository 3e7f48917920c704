"""Dumps of small stores: equal for one docstore, and no fact that differs is passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.bench import dumps


def test_two_dumps_of_one_docstore_are_equal(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        dumps.record(path, kinds=("bodies not kept",))
    assert [row[2] for row in dumps.compare(first, second).rows] == ["0"]
    facts = json.loads(first.read_text())["bodies not kept"]
    kinds = {place.split(" ")[0] for place in facts}
    assert kinds == {"said", "written", "compacted"}


@pytest.mark.parametrize("changed", [{"plain": {"a": "2"}}, {"plain": {}}, {"plain": {"a": "1"}, "other": {"b": "1"}}])
def test_a_fact_that_differs_ends_the_comparison_with_status_1(
    tmp_path: Path, changed: dict[str, dict[str, str]]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps({"plain": {"a": "1"}}))
    new.write_text(json.dumps(changed))
    with pytest.raises(SystemExit) as ended:
        dumps.compare(old, new)
    assert ended.value.code == 1
