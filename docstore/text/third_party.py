"""Extractors that are not ours, for shown text where they are installed: trafilatura, resiliparse.

Knows `rebuild` and `content`.  Their text changes with their versions, so fingerprints taken from it are only
comparable within one version; that is why none is the default.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from docstore.model.errors import InvalidArgument
from docstore.text.content import BREAK, fold_blocks
from docstore.text.rebuild import rebuild
from docstore.text.tokens import Markup


def _library(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidArgument(
            f"the extractor {package!r} needs a package that cannot be imported ({error}): pip install {package}"
        ) from error


def _lines(text: str | None) -> str:
    return fold_blocks((text or "").replace("\n", BREAK))


def trafilatura(markup: Markup) -> str:
    """What trafilatura finds, without comments, with tables."""
    extract = _library("trafilatura", "trafilatura").extract
    return _lines(extract(rebuild(markup), include_comments=False, include_tables=True, include_formatting=False))


def resiliparse(markup: Markup) -> str:
    """What resiliparse finds as main content."""
    extract = _library("resiliparse.extract.html2text", "resiliparse").extract_plain_text
    source = rebuild(markup).encode("utf-8", "replace").decode()  # it takes no lone surrogates
    return _lines(extract(source, main_content=True))
