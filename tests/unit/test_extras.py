"""What docstore says if a library of an extra is missing: one sentence, with the name of the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SENTENCE = (
    "{what} needs the extra {extra} of docstore ({error}): run `pip install '.[{extra}]'` in a checkout, or "
    "`pip install 'FILE.whl[{extra}]'`\n"
)


MISSING = [  # extra, its library, what needs it, a command
    ("search", "tantivy", "search", ["search", "rain"]),
    ("arrow", "pyarrow", "Parquet", ["export", "--format", "parquet", "--output", "pages"]),
    ("lang", "py3langid", "the annotator lang", ["annotate", "lang"]),
    ("classify", "sklearn", "the annotator domain", ["annotate", "domain", "--examples", "."]),
    ("server", "jinja2", "`docstore serve`", ["serve", "--port", "0"]),
    ("hbase", "thriftpy2", "a store on HBase", ["stats", "--store", "hbase://127.0.0.1:1/table"]),
]
PROGRAM = """import sys
from docstore.cli.main import main
import docstore
docstore.open("store", create=True).close()
for library, words in {commands!r}:
    sys.modules[library] = None
    print(library, main(words), flush=True)
    del sys.modules[library]
"""


def test_a_missing_extra_is_named_in_one_sentence(tmp_path: Path) -> None:
    commands = [
        (library, words if "--store" in words else [*words, "--store", "store"]) for _, library, _, words in MISSING
    ]
    command = [sys.executable, "-c", PROGRAM.format(commands=commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.splitlines() == [f"{library} 2" for library, _ in commands]
    for line, (extra, library, what, _) in zip(done.stderr.splitlines(keepends=True), MISSING, strict=True):
        error = f"import of {library} halted; None in sys.modules"
        assert line == f"docstore: error: {SENTENCE.format(what=what, extra=extra, error=error)}"
