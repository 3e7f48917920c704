"""Fitting the scorecard: what it learns from, what it may not learn, and that it writes what it fitted."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.pages import words
from tests.reference import tables
from tests.reference.blocks import MARKS
from tools.fit_scorecard import Examples, Signs, fit, label_passages, label_words, look, minimum, sums, write_table


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
        body = f"<main><p>{' '.join(words(seed + 100, 40))}</p></main><aside><p>{text}</p></aside>"
        pages.append(look(("article", 0, body.encode(), text)))
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
    shutil.copy(tables.FOLDER / "scorecard.txt", path)
    signs, scores = fitted()
    write_table(path, signs, scores)
    written = tables.parse(path.read_text("utf-8"))
    marks = tables.scores(written, "tags", "states", "words")
    assert set(marks) == set(MARKS)
    points = tables.scores(written, *written) | {f"in {mark}": score for mark, score in marks.items()}
    by_name = dict(zip(signs.names, scores.tolist(), strict=False))
    assert all(points.get(name, 0) == round(100 * score) for name, score in by_name.items())
    before = path.read_bytes()
    write_table(path, signs, scores)
    assert path.read_bytes() == before
