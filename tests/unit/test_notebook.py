"""The notebook of `examples/` runs, and the results that are committed with it are what it gives."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "tour.ipynb"
TIMES = re.compile(r"[\d.]+ s\b")


def results(notebook: Any) -> list[str]:
    """What its cells show: text, or HTML if there is some; times are left out."""
    shown = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type in ("stream", "execute_result"), output
            data = output.get("data", {})
            shown.append(TIMES.sub("", output.get("text") or data.get("text/html") or data["text/plain"]))
    return shown


def test_the_notebook_gives_the_results_that_are_committed_with_it() -> None:
    # Imported here: each worker of xdist imports this file, one of them runs the notebook.
    nbformat = pytest.importorskip("nbformat", reason="notebooks are run with nbclient")
    nbclient = pytest.importorskip("nbclient", reason="notebooks are run with nbclient")
    pytest.importorskip("ipykernel", reason="notebooks are run with ipykernel")
    committed = nbformat.read(NOTEBOOK, as_version=4)
    made = copy.deepcopy(committed)
    for cell in made.cells:
        if cell.cell_type == "code":
            assert cell.execution_count, "a cell was committed without its result"
            cell.outputs = []
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(made, timeout=120, kernel_name="python3", resources=folder).execute()
    assert results(made) == results(committed)
    assert len(results(made)) >= 7
