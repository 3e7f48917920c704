"""The door to native code opens only for code that was built for this docstore."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docstore import compiled

ROOT = Path(__file__).parents[2]

WRITES = """
import sys, types
native = types.ModuleType("docstore.dedup.docstore_native")
native.INTERFACE = {interface!r}
sys.modules["docstore.dedup.docstore_native"] = {module}
import docstore
from docstore import compiled
from docstore.dedup.kernel import Kernel
with docstore.open({path!r}, create=True) as store:
    result = store.put_page("https://example.com/", b"<p>one two three", headers={{"Content-Type": "text/html"}})
    store.put_page("https://example.com/2", b"<p>three four", headers={{"Content-Type": "text/html"}})
    print(Kernel.name, store.get("https://example.com/").text, compiled.WHY_NOT, sep="|")
"""


@pytest.mark.parametrize(
    ("interface", "module", "reason"),
    [
        (compiled.INTERFACE + 1, "native", "is of another docstore (interface"),
        (compiled.INTERFACE, "None", "is not built"),
    ],
    ids=["another interface", "none"],
)
def test_native_code_that_is_not_for_this_docstore_is_left_alone(
    tmp_path: Path, interface: int, module: str, reason: str
) -> None:
    script = WRITES.format(interface=interface, module=module, path=str(tmp_path / "store"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    kernel, text, why_not = done.stdout.strip().split("|")
    assert (kernel, text) == ("reference", "one two three")
    assert reason in why_not
    assert done.stderr.count("several times slower than native code: docstore_native") == 1
    assert done.stderr.endswith(
        "; install docstore from a wheel, or install cargo and run `pip install .` in a checkout of docstore\n"
    )


def test_both_sides_count_interfaces_alike() -> None:
    source = (ROOT / "native" / "python" / "src" / "lib.rs").read_text(encoding="utf-8")
    (found,) = re.findall(r"const INTERFACE: u32 = (\d+);", source)
    assert int(found) == compiled.INTERFACE
