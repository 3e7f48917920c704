"""The bench over kinds of pages: its scoring is the set's own."""

import gzip
import json
from pathlib import Path

import pytest

from tools.bench.extraction import Guarded, KindPage, Runner, read_pages, word_score


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("", "", (1.0, 1.0, 1.0)),
        ("a", "", (0.0, 0.0, 0.0)),
        ("", "a", (0.0, 0.0, 0.0)),
        ("x y", "a b", (0.0, 0.0, 0.0)),
        ("A a b, c", "a b b d", (0.5, 0.5, 0.5)),
        ("one two three four", "two", (0.25, 1.0, 0.4)),
    ],
)
def test_words_are_scored_as_the_set_scores_them(text: str, wanted: str, expected: tuple[float, ...]) -> None:
    assert word_score(text, wanted) == pytest.approx(expected)


def test_pages_are_read_with_kind_and_wanted_text(tmp_path: Path) -> None:
    for folder in ("ground-truth", "html"):
        (tmp_path / "dev" / folder).mkdir(parents=True)
    truth = {
        "_internal": {"page_type": {"primary": "category"}},
        "ground_truth": {"main_content": "tea", "title": None},
    }
    (tmp_path / "dev" / "ground-truth" / "0002.json").write_text(json.dumps(truth))
    (tmp_path / "dev" / "html" / "0002.html.gz").write_bytes(gzip.compress(b"<p>tea"))
    assert list(read_pages(tmp_path)) == [KindPage("0002", "collection", b"<p>tea", "", "tea")]


def extract_or_hang(body: bytes) -> str | None:
    while body == b"hang":
        pass
    return None if body == b"none" else body.decode()


def hanging() -> Runner:
    return extract_or_hang


def test_an_extractor_that_fails_or_hangs_on_a_page_goes_on_with_the_next() -> None:
    extractor = Guarded(hanging, timeout_seconds=1.0)
    bodies = (b"tea", b"\xff", b"none", b"hang", b"time")
    assert [extractor.run(body)[0] for body in bodies] == ["tea", "", "", "", "time"]
    extractor.close()
