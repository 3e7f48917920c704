"""The door to native code opens only for code that was built for this docstore."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docstore import compiled
from docstore.version import __version__

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


COMMAND = """
import sys
sys.modules["docstore.dedup.docstore_native"] = {module}
from docstore.cli.main import main
sys.exit(main({words!r}))
"""


@pytest.mark.parametrize(
    ("module", "options", "says"),
    [
        (
            "None",
            [],
            "docstore_native is not built; install docstore from a wheel, or install cargo and run `pip install .`",
        ),
        ("__import__('docstore.dedup.docstore_native').dedup.docstore_native", [], ""),
        ("None", ["--extractor", "plateau"], "docstore_native is not built"),
        (
            "__import__('docstore.dedup.docstore_native').dedup.docstore_native",
            ["--extractor", "plateau"],
            "the extractor 'plateau' exists only in Python",
        ),
    ],
    ids=["slow", "fast", "slow and a slow extractor", "fast and a slow extractor"],
)
def test_commands_that_analyse_many_pages_say_once_that_the_slow_kernel_runs(
    tmp_path: Path, module: str, options: list[str], says: str
) -> None:
    store = str(tmp_path / "store")

    def started(*words: str) -> subprocess.Popen[str]:
        script = COMMAND.format(module=module, words=list(words))
        return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, cwd=ROOT)

    with started("init", "--store", store, *options) as made:
        assert made.wait() == 0
    with started("ingest", "--store", store, "--threads", "1", "examples/sample-crawl.warc.gz", "--json") as ingest:
        _, errors = ingest.communicate()
        assert ingest.returncode == 0
    assert errors.count("slower than native code") == (1 if says else 0) and says in errors
    with started("serve", "--store", store, "--port", "0") as serve:
        assert serve.stderr is not None
        lines = []
        for line in serve.stderr:
            lines.append(line)
            if "docstore serves at" in line:
                break
        serve.terminate()
        serve.stderr.read()
    assert sum("slower than native code" in line for line in lines) == (1 if says else 0)


def test_the_version_says_that_the_slow_kernel_runs_and_how_to_get_the_fast_one(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docstore", tmp_path / "docstore", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    command = [sys.executable, "-m", "docstore.cli", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    first, second = done.stdout.splitlines()
    assert first == f"docstore {__version__} (kernel: reference)"
    assert "slower than native code: docstore_native is not built; install docstore from a wheel" in second


def test_both_sides_count_interfaces_alike() -> None:
    source = (ROOT / "native" / "python" / "src" / "lib.rs").read_text(encoding="utf-8")
    (found,) = re.findall(r"const INTERFACE: u32 = (\d+);", source)
    assert int(found) == compiled.INTERFACE
