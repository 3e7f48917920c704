"""Why a block is main text or not, in words."""

from __future__ import annotations

import pytest

from docstore.dedup.kernel import Kernel
from docstore.text.explain import doubts, explain, left_out

STORY = " ".join(f"The walk over hill number {number} was long, and the view from it was good." for number in range(9))
PAGE = f"""<html><head><title>A walk in the hills</title></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/shop">Shop</a></li></ul></nav>
<main><h1>A walk in the hills</h1><p>{STORY}</p><div class="ad-slot"><p>Buy boots that are warm, today only</p></div>
<p>{STORY[:300]}</p></main>
<div id="cookie-banner" role="dialog"><p>We use cookies, and ask for your consent to it.</p></div>
<footer><p>© 2026 The walkers. All rights reserved.</p></footer></body></html>"""


@pytest.mark.parametrize("name", ["scored", "combined", "visible"])
@pytest.mark.parametrize("source", [PAGE, "<p>short", "", "<noscript>" + STORY + "</noscript>", "a\0b <nav>c</nav>"])
def test_the_kept_blocks_are_the_main_text(name: str, source: str) -> None:
    kept = "\n".join(block.text for block in explain(source, name) if block.is_kept)
    assert kept == Kernel(name).analyse(source.encode(), "text/html; charset=utf-8").main


def test_what_was_left_out_is_summed_up_by_its_cause() -> None:
    lines = left_out(explain(PAGE, "scored"))
    assert "1 block, 35 characters: inside an advert" in lines
    assert "1 block, 47 characters: inside a dialog or a notice of consent" in lines
    assert left_out(explain("<p>" + STORY, "scored")) == []


def test_main_text_without_a_word_of_title_or_headings_is_in_doubt() -> None:
    assert doubts("A walk in the hills", "A walk", STORY, STORY) == []
    assert doubts("Blue enamel lamp", "Lamp", STORY, STORY) == [
        "no word of the title is in the main text",
        "no word of the headings is in the main text",
    ]
    assert doubts("Blue enamel lamp", "", "", "") == ["the page shows no text; a script may fetch it"]
    (doubt,) = doubts("", "", "few", "few" + STORY)
    assert doubt == f"the main text is less than a tenth of the visible text: 3 of {len(STORY) + 3} characters"


def test_parts_of_a_score_are_named_strongest_first() -> None:
    for block in explain(PAGE, "scored"):
        if block.score is None or block.score == 0:
            continue
        parts = [float(cause.rpartition("(")[2].rstrip(")")) for cause in block.because if cause.endswith(")")]
        sign = 1 if block.is_kept else -1
        assert parts == sorted(parts, key=lambda part: -part * sign)
        assert all(part * sign >= 0.1 for part in parts)


def test_extractors_without_reasons_name_lines_alone() -> None:
    assert all(block.is_kept and block.because == () for block in explain(PAGE, "visible"))
