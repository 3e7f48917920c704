"""The door to native code opens only for code that was built for this docstore."""

from __future__ import annotations

import re
from pathlib import Path

from docstore import compiled

ROOT = Path(__file__).parents[2]


def test_both_sides_count_interfaces_alike() -> None:
    source = (ROOT / "native" / "python" / "src" / "lib.rs").read_text(encoding="utf-8")
    (found,) = re.findall(r"const INTERFACE: u32 = (\d+);", source)
    assert int(found) == compiled.INTERFACE
