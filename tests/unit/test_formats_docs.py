"""docs/formats.md states the limits that the code has."""

from __future__ import annotations

from pathlib import Path

from docstore.archives.entries import HEADER_LIMIT_BYTES
from docstore.archives.http import ADDED_HEADER, ORIGINAL_PREFIX
from docstore.model.choices import BODY_LIMIT_BYTES

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def test_limits_in_the_docs_are_those_of_the_code() -> None:
    for limit in (BODY_LIMIT_BYTES, HEADER_LIMIT_BYTES, BODY_LIMIT_BYTES + HEADER_LIMIT_BYTES):
        assert f" {limit:,}" in PAGE


def test_header_names_in_the_docs_are_those_of_the_code() -> None:
    assert f"`{ADDED_HEADER}`" in PAGE
    assert f"`{ORIGINAL_PREFIX}`" in PAGE
