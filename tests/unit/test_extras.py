"""What docstore says if a library of an extra is missing: one sentence, with the name of the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SENTENCE = (
    "{what} needs the extra {extra} of docstore ({error}): run `pip install 'docstore[{extra}]'`, or in a checkout "
    "`pip install '.[{extra}]'`\n"
)


@pytest.mark.parametrize(
    ("extra", "library", "what", "words"),
    [
        ("search", "tantivy", "search", ["search", "rain"]),
        ("arrow", "pyarrow", "Parquet", ["export", "--format", "parquet", "--output", "pages"]),
        ("lang", "py3langid", "the annotator lang", ["annotate", "lang"]),
        ("server", "jinja2", "`docstore serve`", ["serve", "--port", "0"]),
        ("hbase", "thriftpy2", "a store on HBase", ["stats", "--store", "hbase://127.0.0.1:1/table"]),
        ("spark", "pyspark", "the Spark engine", ["sweep", "--engine", "spark"]),
    ],
)
def test_a_missing_extra_is_named_in_one_sentence(
    extra: str, library: str, what: str, words: list[str], tmp_path: Path
) -> None:
    store = [] if "--store" in words else ["--store", str(tmp_path / "store")]
    program = f"""import sys
from docstore.cli.main import main
import docstore
docstore.open({str(tmp_path / "store")!r}, create=True).close()
sys.modules[{library!r}] = None
sys.exit(main({[*words, *store]!r}))"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    error = f"import of {library} halted; None in sys.modules"
    assert done.stderr == f"docstore: error: {SENTENCE.format(what=what, extra=extra, error=error)}"
    assert done.returncode == 2
