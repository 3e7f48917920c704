"""The door to native code opens only for code that was built for this docstore."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docstore import compiled

ROOT = Path(__file__).parents[2]

IMPORTS = """
import sys, types
native = types.ModuleType("docstore.dedup.docstore_native")
native.INTERFACE, native.__file__ = {interface!r}, "/somewhere/docstore_native.so"
sys.modules["docstore.dedup.docstore_native"] = {module}
import docstore.compiled
"""


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("native", "was built for another docstore"),
        ("native", "remove the file /somewhere/docstore_native.so, then install"),
        ("None", "docstore needs its native kernel, docstore_native:"),
    ],
)
def test_docstore_is_not_imported_without_native_code_that_was_built_for_it(module: str, reason: str) -> None:
    script = IMPORTS.format(interface=compiled.INTERFACE + 1, module=module)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(
        "install docstore from a wheel, or install cargo and run `pip install .` in a checkout of docstore"
    )
    assert "ImportError: docstore" in done.stderr and reason in done.stderr


def test_both_sides_count_interfaces_alike() -> None:
    source = (ROOT / "native" / "python" / "src" / "lib.rs").read_text(encoding="utf-8")
    (found,) = re.findall(r"const INTERFACE: u32 = (\d+);", source)
    assert int(found) == compiled.INTERFACE
