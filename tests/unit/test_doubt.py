"""Main text that may be wrong: how the verdict says so, and where it is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

import docstore
from docstore.dedup.comparable import REASON_DOUBTFUL, REASON_TITLE_MISMATCH
from docstore.dedup.kernel import Kernel
from docstore.model.analysis import NOT_ANALYSED
from docstore.model.choices import Durability, VerdictKind
from docstore.reports.dedup import dedup_stats
from docstore.text.readers import Text

NOTICE = " ".join(f"We process your data for purpose {number} of our many partners." for number in range(20))


@pytest.mark.parametrize(
    ("title", "main", "doubtful"),
    [
        ("Blue enamel lamp", NOTICE, True),
        ("Blue enamel lamp", f"{NOTICE} A LAMP of enamel", False),
        ("Our many PARTNERS", NOTICE, False),
        ("Lamp data with blue and white enamel glass from Vienna", NOTICE, True),  # 1 of 8
        ("A to Z", NOTICE, False),
        ("", NOTICE, False),
        ("Ähre und Gräser", "Im Wind stehen GRÄSER.", False),
        ("\ud800lamp", NOTICE, True),
    ],
)
def test_text_with_less_than_a_quarter_of_the_titles_words_is_doubtful(title: str, main: str, doubtful: bool) -> None:
    page = Kernel().native.with_text(NOT_ANALYSED, Text(main, title=title), b"", False)
    assert page.word_count and page.holds_title is not doubtful


def page(number: int, title: str) -> docstore.Page:
    body = f"<title>{title}</title><main><h1>Notice</h1><p>{NOTICE}</p></main><!-- {number} -->"
    return docstore.Page(f"https://a.example/{number}", body.encode(), headers=(("Content-Type", "text/html"),))


def test_a_verdict_on_doubtful_text_has_the_reason_and_is_counted(tmp_path: Path) -> None:
    pages = [page(0, "Blue enamel lamp"), page(1, "Kitchen knife"), page(2, "Data of many partners"), page(1, "Knife")]
    with docstore.open(tmp_path / "store", create=True, durability=Durability.NONE) as store:
        verdicts = [result.verdict for result in store.put_pages(pages)]
        shown = [(verdict.kind, verdict.reason) for verdict in verdicts[:3]]
        assert shown == [
            (VerdictKind.NEW, REASON_DOUBTFUL),
            (VerdictKind.NEW, REASON_TITLE_MISMATCH),
            (VerdictKind.NEAR, ""),
        ]
        assert store.get("https://a.example/1").newest.shown_verdict.reason == REASON_DOUBTFUL  # type: ignore[union-attr]
        assert dedup_stats(store).total.reasons == {REASON_DOUBTFUL: 2, REASON_TITLE_MISMATCH: 1}
        assert store.stats()["totals"][REASON_DOUBTFUL] == 2


def test_verdicts_on_exact_copies_are_not_doubtful(tmp_path: Path) -> None:
    one = page(0, "Blue enamel lamp")
    copy = docstore.Page("https://b.example/", one.body, headers=one.headers)
    with docstore.open(tmp_path / "store", create=True, durability=Durability.NONE) as store:
        verdict = list(store.put_pages([one, copy]))[1].verdict
    assert (verdict.kind, verdict.reason) == (VerdictKind.EXACT, "")
