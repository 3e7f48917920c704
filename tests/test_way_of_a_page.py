"""How many modules a page passes on its way into a store: who adds one asks whether it is needed."""

from __future__ import annotations

import pytest

from docstore import compiled
from tools.way_of_a_page import near_duplicate_put


@pytest.mark.skipif(
    bool(compiled.WHY_NOT), reason="the reference kernel has more modules, which run as one native call"
)
def test_the_put_of_a_near_duplicate_passes_no_more_files_than_it_did() -> None:
    passed = near_duplicate_put()
    modules = passed.modules()
    assert {"writing/judge.py", "dedup/detector.py", "tablets/commit.py"} <= set(modules)
    assert len(modules) <= 56, sorted(modules)
    assert passed.entries["tablets"] <= 26, passed.entries  # it goes to the backend and comes back, and asks for room
