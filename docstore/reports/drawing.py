"""Figures as PNG: the one place that loads matplotlib, when a picture is asked for, because nothing else needs it.

Knows errors; must not know what is drawn.
"""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import Any, Final

from docstore.model.errors import InvalidArgument

DOTS_PER_INCH: Final = 100


def new_figure(width_inches: float, height_inches: float, **options: Any) -> Any:
    """An empty figure of matplotlib, of a size in inches.

    Raises:
        InvalidArgument: matplotlib is not installed.
    """
    try:
        canvas = import_module("matplotlib.backends.backend_agg")
        figure = import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise InvalidArgument(
            f"drawing needs matplotlib, which cannot be imported ({error}): pip install 'docstore[plot]'"
        ) from error
    made = figure(figsize=(width_inches, height_inches), dpi=DOTS_PER_INCH, **options)
    canvas.FigureCanvasAgg(made)
    return made


def png(figure: Any) -> bytes:
    """A figure as PNG; without its version in the file, one matplotlib gives the same bytes for the same figure."""
    out = BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()
