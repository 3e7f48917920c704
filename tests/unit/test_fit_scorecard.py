"""Fitting the scorecard: what it learns from, what it may not learn, and that it writes what it fitted."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.pages import words
from tools import kernel_tables
from tools.fit_scorecard import (
    MANIFEST,
    TABLE,
    Blocks,
    Examples,
    Signs,
    blocks_of,
    fit,
    label_passages,
    label_words,
    minimum,
    page_of,
    sums,
    write_table,
)


def test_blocks_are_content_by_wanted_words_that_no_larger_block_used_up() -> None:
    texts = ["tea in a pot", "tea", "menu", "a pot of tin", ""]
    is_content, weights, sizes, shared = label_words(texts, "Tea in a pot, of tin", [0])
    assert is_content.tolist() == [True, False, False, False, False]
    assert label_words(texts, "tea in a pot, of tin, a pot", [0])[0].tolist() == [True, False, False, True, False]
    assert weights.tolist() == [4.0, 1.0, 1.0, 4.0, 0.0]
    assert (sizes.tolist(), shared.tolist()) == ([4, 1, 1, 4, 0], [4, 0, 0, 2, 0])
    assert label_words(["word " * 90, "word " * 10], "word " * 90, [])[1].tolist() == pytest.approx([30.0, 10 / 3])


def test_of_a_page_with_passages_only_their_holders_count() -> None:
    texts = ["The first passage, and more.", "neither", "a part of the unwanted one", "The  first\npassage"]
    is_content, weights = label_passages(texts, ["first passage"], ["here is a part of the unwanted one"])
    assert is_content.tolist() == [True, False, False, True]
    assert weights.tolist() == [1.5, 0.0, 3.0, 1.5]


def test_the_minimum_keeps_to_its_bounds() -> None:
    wanted = np.array([3.0, -2.0, 5.0])
    scale = np.array([1.0, 40.0, 9.0])
    upper = np.array([np.inf, np.inf, 1.0])
    found = minimum(
        lambda place: (float(scale @ (place - wanted) ** 2), 2 * scale * (place - wanted)), wanted * 0, upper, 60
    )
    assert found == pytest.approx([3.0, -2.0, 1.0], abs=1e-4)


def fitted() -> tuple[Signs, np.ndarray]:
    """Pages whose content stands in an aside, of all places."""
    pages = []
    for seed in range(10):
        text = " ".join(words(seed, 60))
        shown = [["in <main>", "block 50", "taken block 50"], ["in <aside>", "block 60", "left block 60"]]
        blocks = Blocks([" ".join(words(seed + 100, 40)), text], shown, [0], [])
        pages.append(page_of("article", 0, "", blocks, text))
    signs = Signs(pages)
    return signs, fit(signs, signs.pages)


def test_the_slopes_of_both_losses_are_their_own() -> None:
    signs, scores = fitted()
    examples = Examples(signs, signs.pages)
    margins = examples.sums(scores)
    for loss in (examples.likelihood, examples.missing_f1):
        value, slopes = loss(margins)
        step = np.linspace(-1e-5, 1e-5, len(margins))
        assert loss(margins + step)[0] - value == pytest.approx(float(slopes @ step), rel=1e-2, abs=1e-9)


def test_a_fit_tells_content_but_trusts_no_name_of_boilerplate() -> None:
    signs, scores = fitted()
    by_name = dict(zip(signs.names, scores.tolist(), strict=False))
    assert by_name["in <aside>"] == 0 > by_name["in <main>"]
    for page in signs.pages:
        assert (sums(scores, signs.rows([page])) > 0).tolist() == page.is_content.tolist()


def test_the_table_that_is_written_is_read_as_it_was_fitted(tmp_path: Path) -> None:
    path = tmp_path / "scorecard.txt"
    shutil.copy(TABLE, path)
    signs, scores = fitted()
    write_table(path, signs, scores)
    written = kernel_tables.parse(path.read_text("utf-8"))
    marks = kernel_tables.scores(written, *kernel_tables.MARK_SECTIONS)
    assert set(marks) == set(kernel_tables.marks())
    points = kernel_tables.scores(written, *written) | {f"in {mark}": score for mark, score in marks.items()}
    by_name = dict(zip(signs.names, scores.tolist(), strict=False))
    assert all(points.get(name, 0) == round(100 * score) for name, score in by_name.items())
    before = path.read_bytes()
    write_table(path, signs, scores)
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(not MANIFEST.exists(), reason="not a checkout: native/ is not here")
def test_signs_and_choice_are_those_of_the_kernel(tmp_path: Path) -> None:
    prose = [" ".join(words(seed, 40)).capitalize() + "." for seed in range(3)]
    main = f"<main><h1>Storm lamp</h1><p>{prose[0]}</p><p>{prose[1]}</p></main>"
    page = f"<title>Storm lamp</title>{main}<aside>{prose[2]}</aside>"
    table = tmp_path / "scorecard.txt"
    (before, _) = blocks_of([page, "<p>"], TABLE)
    assert before.texts == ["Storm lamp", *prose] and before.kept == before.taken == [0, 1, 2]
    assert {"in <main>", "title heading", "+1 block 50", "-1 nothing", "fifth 0"} <= set(before.signs[0])
    assert {"in <aside>", "behind taken", "sentence left", "+2 nothing"} <= set(before.signs[3])
    table.write_text("[tags]\n<aside>:300\n[others]\nany:-100\n")
    assert blocks_of([page], table)[0].kept == [3]
