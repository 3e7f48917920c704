"""Every verdict kind is stored, shown and documented; a new one fails here until it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.cli.render import KIND_COLOURS
from docstore.model import capture
from docstore.model.capture import StoredVerdict, decode_verdict, encode_verdict
from docstore.model.choices import VerdictKind
from docstore.model.format import VERDICT_KINDS, VERDICT_PREVIOUS, VERDICT_STORED
from docstore.model.types import DUPLICATES, SAME_PAGE, Previous

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("kind", VerdictKind)
def test_a_verdict_comes_back_as_it_was_stored(kind: VerdictKind) -> None:
    verdict = StoredVerdict(kind, b"com,example)/ https", 1, 0.5, "", b"", 2, 1, Previous.NONE, 0.0, "body")
    assert decode_verdict(encode_verdict(verdict)) == verdict


def test_every_word_of_a_verdict_has_a_number() -> None:
    assert set(VERDICT_KINDS) == set(VerdictKind)
    assert set(VERDICT_PREVIOUS) == set(Previous)
    assert set(VERDICT_STORED) == {
        value for name, value in vars(capture).items() if name.startswith("STORED_") and isinstance(value, str)
    }


@pytest.mark.parametrize("kind", VerdictKind)
def test_a_verdict_has_a_colour_and_stands_in_the_docs(kind: VerdictKind) -> None:
    assert kind in KIND_COLOURS
    for page in ("dedup.md", "format.md"):
        assert f"`{kind}`" in (DOCS / page).read_text(encoding="utf-8"), page


def test_what_is_the_same_page_is_a_duplicate() -> None:
    assert set(SAME_PAGE) < set(DUPLICATES) < set(VerdictKind)
