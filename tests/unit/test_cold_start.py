"""What a new process imports: a cold start is nearly all imports, so that a test can hold it without a clock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import docstore

URL = "https://site.example/"
HEAVY = {"numpy", "lxml", "asyncio", "pyarrow", "warcio", "logging", "http.client", "ssl"}


def loaded(statement: str) -> set[str]:
    """Modules that a new interpreter has loaded after a statement."""
    script = f"import sys\n{statement}\nsys.stderr.write(' '.join(sys.modules))"
    paths = [path for path in sys.path if path.endswith("site-packages")]
    root = str(Path(docstore.__file__ or "").parents[1])
    start = f"import sys; sys.path[:0] = {[root, *paths]!r}\n"  # without `site`: an editable install imports much there
    command = [sys.executable, "-S", "-c", start + script]
    return set(subprocess.run(command, capture_output=True, check=True, text=True).stderr.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cold") / "store"
    with docstore.open(path, create=True) as store:
        store.put_page(URL, b"<title>Page</title><p>text of the page")
    return path


def test_import_docstore_loads_neither_numpy_nor_lxml_nor_asyncio() -> None:
    assert not loaded("import docstore, docstore.store") & HEAVY


def test_a_cold_get_loads_only_what_reading_needs(folder: Path) -> None:
    options = ([], ["--body"], ["--headers"], ["--json"], ["--snippet", "text"])
    commands = [["get", URL, "--store", str(folder), *words] for words in options]
    script = f"from docstore.cli.main import main; assert [main(words) for words in {commands!r}] == [0] * 5"
    assert not loaded(script) & {
        *HEAVY,
        "http",
        "tqdm",
        "shtab",
        "brotli",
        "shutil",
        "dataclasses",
        "inspect",
        "docstore.serving",
    }


def test_the_overview_loads_no_command_and_no_parser_of_arguments() -> None:
    modules = loaded("from docstore.cli.main import main; assert main(['--help']) == 0")
    assert not modules & {*HEAVY, "argparse", "docstore.store", "docstore.cli.pages", "docstore.model.types"}
