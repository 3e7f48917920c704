"""Statistics of words: exact counts against a plain count, summaries within their stated errors, laws, the terminal."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections import Counter
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import page

import docstore
from docstore import InvalidArgument
from docstore.cli.tools import MOST_POINTS, measure_plateau
from docstore.reports.wordstats import WordCounts, fit, statistics_of, text_statistics
from tests.reference.words import words

HTML = {"Content-Type": "text/html; charset=utf-8"}


def zipfian(seed: int, total: int, vocabulary: int, exponent: float = 1.0) -> list[str]:
    """Words drawn with a frequency that falls as a power of their rank."""
    chooser = random.Random(seed)
    weights = [rank**-exponent for rank in range(1, vocabulary + 1)]
    return [f"w{rank}" for rank in chooser.choices(range(1, vocabulary + 1), weights, k=total)]


def chunks(found: list[str], size: int) -> list[str]:
    return [" ".join(found[start : start + size]) for start in range(0, len(found), size)]


def test_counts_are_those_of_a_plain_count() -> None:
    texts = ["The cat. the Dog!", "", "THE bird; a cat", "東京"]
    plain = Counter(word for text in texts for word in words(text))
    found = statistics_of(texts, top=3)
    assert (found.pages, found.words, found.vocabulary) == (3, plain.total(), len(plain))
    assert found.hapax == sum(1 for count in plain.values() if count == 1)
    assert found.hapax_share == found.hapax / found.vocabulary
    assert [(one.rank, one.word, one.frequency) for one in found.top] == [(1, "the", 3), (2, "cat", 2), (3, "a", 1)]
    assert found.top[1].probability == 2 / plain.total()
    assert found.top[1].product == 2 * 2 / plain.total()
    assert found.exact and found.frequency_error == 0 and found.method == "exact counts"


def test_no_text_gives_zeros_and_no_law() -> None:
    found = statistics_of([])
    assert (found.words, found.vocabulary, found.hapax_share, found.zipf, found.heaps) == (0, 0, 0.0, None, None)


def test_fit_finds_the_power_law_it_was_given() -> None:
    law = fit([(x, round(1e9 * x**-1.25)) for x in (1, 3, 10, 40, 200, 5000)])
    assert law is not None
    assert law.exponent == pytest.approx(-1.25, abs=1e-4) and law.factor == pytest.approx(1e9, rel=1e-3)
    assert law.r_squared > 0.999999 and law.points == 6
    assert fit([(5, 5), (5, 6)]) is None


def test_zipf_slope_of_zipfian_words_is_near_their_exponent() -> None:
    found = statistics_of(chunks(zipfian(1, 200_000, 2000), 500))
    assert found.zipf is not None and -1.15 < found.zipf.exponent < -0.95
    assert found.zipf.r_squared > 0.97
    products = [one.product for one in found.top[:20]]
    assert max(products) < 1.3 * min(products), "r * P(r) is constant under Zipf's law"


def test_growth_points_rise_and_end_at_the_whole() -> None:
    found = statistics_of(chunks(zipfian(2, 50_000, 20_000), 100))
    assert [*found.growth] == sorted(set(found.growth))
    assert found.growth[-1] == (found.words, found.vocabulary)
    assert found.heaps is not None and 0.3 < found.heaps.exponent < 1


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_summaries_keep_their_promises(seed: int) -> None:
    drawn = zipfian(seed, 300_000, 60_000, 1.1)
    plain = Counter(drawn)
    limit = 4000
    found = statistics_of(chunks(drawn, 400), exact_words=limit)
    assert not found.exact and "Misra-Gries" in found.method
    assert found.words == len(drawn)
    assert found.frequency_error > 0
    assert found.frequency_error <= len(drawn) / limit
    for one in found.top:
        assert plain[one.word] - found.frequency_error <= one.frequency <= plain[one.word]
    top_words = {ranked.word for ranked in found.top}
    least = min(one.frequency for one in found.top)
    assert all(word in top_words for word, count in plain.items() if count - found.frequency_error > least)
    assert 0 < found.vocabulary_error < 0.05
    assert abs(found.vocabulary - len(plain)) < 4 * found.vocabulary_error * len(plain)
    hapax = sum(1 for count in plain.values() if count == 1)
    assert abs(found.hapax_share - hapax / len(plain)) < 0.08


def test_memory_is_bounded_for_any_input() -> None:
    counts = WordCounts(exact_words=1000, sample_words=500)
    for start in range(0, 200_000, 100):
        counts.add([f"w{number}" for number in range(start, start + 100)])
        if start % 1000 == 0:
            assert len(pickle.dumps(counts)) < 60_000, "2,100 words counted, and 501 sampled"
    assert abs(counts.vocabulary() - 200_000) < 0.25 * 200_000


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        statistics_of(["x"], top=0)


# --- over a store, and at the terminal


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "store"
    with docstore.open(folder, create=True) as store:
        store.put_page("https://a.example/", page("old words that nobody counts"), headers=HTML, fetched_at=10**15)
        store.put_page("https://a.example/", page("alpha beta alpha"), headers=HTML, fetched_at=15 * 10**14)
        store.put_page("https://b.example/", page("alpha gamma"), headers=HTML)
        store.put_page("https://b.example/x.bin", b"\x00\x01", headers={"Content-Type": "application/octet-stream"})
    return Terminal(folder, capsys)


def test_the_newest_text_of_each_page_counts(run: Terminal) -> None:
    with docstore.open(run.store) as store:
        found = text_statistics(store)
        assert (found.pages, found.words, found.vocabulary) == (2, 5, 3)
        assert [tuple(one[:3]) for one in found.top] == [(1, "alpha", 3), (2, "beta", 1), (3, "gamma", 1)]
        assert text_statistics(store, host="b.example").words == 2


def test_stats_prints_ranks_and_laws(run: Terminal) -> None:
    answer = run("stats", "--words", "--limit", "2")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[1].split() == ["words", "5"]
    assert lines[-2].split() == ["1", "alpha", "3", "0.60000", "0.6000"]
    assert lines[-1].split() == ["2", "beta", "1", "0.20000", "0.4000"]
    assert "hapax" in answer.out and "66.7%" in answer.out


def test_stats_as_json_of_a_host(run: Terminal) -> None:
    fields = json.loads(run("stats", "--words", "--host", "b.example", "--json").out)
    assert (fields["host"], fields["words"], fields["exact"]) == ("b.example", 2, True)
    assert fields["top"][0] == {"rank": 1, "word": "alpha", "frequency": 1, "probability": 0.5, "product": 0.5}
    assert math.isclose(fields["hapax_share"], 1.0)


@pytest.mark.parametrize("other", ["--caches", "--codecs", "--dedup"])
def test_stats_of_words_refuse_other_tables(run: Terminal, other: str) -> None:
    refused = run("stats", "--words", other)
    assert refused.code == 2 and "stats takes one of --words" in refused.err


def test_stats_of_a_host_without_text_finds_nothing(run: Terminal) -> None:
    assert run("stats", "--words", "--host", "c.example").code == 1
    assert run("stats", "--host", "b.example").code == 2


# --- the tag plateau of a page


def test_the_plateau_of_a_page_is_measured() -> None:
    page = b"<ul><li>one<li>two</ul><p>" + b"many words of the text " * 4 + b"<p><p>end"
    found = measure_plateau(page, "text/html")
    assert (found["tokens"], found["tags"], found["words"]) == (30, 7, 23)
    assert found["plateau"] == (7, 27)
    assert found["parts"] == {
        "before": {"tags": 5, "words": 2, "slope": 5 / 7},
        "inside": {"tags": 0, "words": 20, "slope": 0.0},
        "after": {"tags": 2, "words": 1, "slope": 2 / 3},
    }
    assert found["curve"][0] == (0, 0) and found["curve"][-1] == (30, 7)
    assert sorted(found["curve"]) == found["curve"]
    assert len(measure_plateau(page * 1000, None)["curve"]) <= MOST_POINTS + 1


@pytest.mark.parametrize("body", [b"", b"<p>", b"only words here"])
def test_pages_without_tags_or_words_have_a_curve(body: bytes) -> None:
    found = measure_plateau(body, None)
    assert found["tokens"] == found["tags"] + found["words"] == found["curve"][-1][0]
    assert found["plateau"][1] - found["plateau"][0] == found["words"]


def test_plateau_measures_a_stored_page_and_a_file(run: Terminal, tmp_path: Path) -> None:
    stored = run("tool", "plateau", "https://a.example/", "--json").object()
    assert stored["page"] == "https://a.example/" and stored["words"] > 0
    assert "inside" in run("tool", "plateau", "https://a.example/").out
    source = tmp_path / "page.html"
    source.write_bytes(page("other words of a file"))
    assert run("tool", "plateau", "--file", str(source), "--json").object()["words"] != stored["words"]


def test_plateau_names_the_error(run: Terminal) -> None:
    assert run("tool", "plateau", "https://gone.example/").code == 1
    assert run("tool", "plateau").code == 2
