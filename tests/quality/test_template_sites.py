"""Copies are found among hundreds of pages of one template: a floor under what `tools.bench.template_sites` gives."""

from __future__ import annotations

import random

import pytest

from docstore import compiled
from docstore.dedup.comparable import REASON_CROWDED
from docstore.model.types import DUPLICATES, VerdictKind
from tools.bench.template_sites import Written, attack, changed, common, one_word, run_site

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason=f"no native code: {compiled.WHY_NOT}")


@pytest.mark.parametrize("site", ["common words", "a tenth its own"])
def test_copies_are_found_on_a_site_of_one_template(site: str) -> None:
    for kind, copies in run_site(site, 400, 60).copies.items():
        named = sum(one.is_named for one in copies if one.jaccard >= 0.8 or kind == "inside a larger page")
        assert named >= 59, kind


@pytest.mark.slow
def test_a_page_of_slots_is_found_inside_a_larger_one() -> None:
    copies = run_site("slots", 1000, 60).copies["inside a larger page"]
    assert sum(one.is_named for one in copies) >= 58


@pytest.mark.slow
def test_copies_of_a_text_are_found_that_thousands_of_pages_lie_around() -> None:
    source = random.Random(7)
    made = attack(source, 60, 12_000)
    with Written() as written:
        written.write(made.pages)
        [target], _ = written.write([made.target])
        copies = written.analyse([one_word(made.target, source) for _ in range(60)])
        assert sum(written.judge(copy).of == target for copy in copies) >= 59


def test_pages_that_are_gone_take_no_place_of_those_that_are_left() -> None:
    source = random.Random(5)
    text = common(source, 200)
    copy = changed(text, 3, source)
    with Written() as written:
        [target], _ = written.write([text])
        pointers, _ = written.write([one_word(copy, source) for _ in range(200)])  # all nearer to the copy
        [asking] = written.analyse([copy])
        assert written.judge(asking).of in pointers
        for pointer in pointers:
            written.pages.delete(pointer)
        found = written.judge(asking)
        assert (found.kind, found.of) == (VerdictKind.NEAR, target)


def test_a_page_says_where_the_index_ran_out_of_depth() -> None:
    source = random.Random(6)
    made = attack(source, 60, 1500)
    with Written() as written:
        written.write(made.pages)
        copies = written.analyse([one_word(made.target, source) for _ in range(40)])
        verdicts = [written.judge(copy) for copy in copies]
        assert any(verdict.reason == REASON_CROWDED for verdict in verdicts)
        assert {verdict.reason for verdict in verdicts if verdict.kind in DUPLICATES} <= {""}
