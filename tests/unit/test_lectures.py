"""The worked examples of the lectures: what `tool fingerprint`, `tool plateau` and `tool lsh` show of them."""

from __future__ import annotations

import json
import zlib
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import docstore
from docstore.cli.main import main
from docstore.cli.tools import measure_plateau
from docstore.dedup.kernel import Kernel
from docstore.model.errors import InvalidArgument
from docstore.reports.lesson import (
    Lesson,
    Permutation,
    adler_sums,
    compare,
    default_permutations,
    fingerprint,
    flat_slices,
    read_hashes,
    weighted_span,
)
from docstore.reports.measures import top_word_ngrams
from tests.cli_case import Terminal
from tests.reference.plateau import best_span

FISH = (
    "Tropical fish include fish found in tropical environments around the world, "
    "including both freshwater and salt water species."
)
WORDS = """\
tropical 01100001
fish 10101011
include 11100110
found 00011110
environments 00101101
around 10001011
world 00101010
including 11000000
both 10101110
freshwater 00111111
salt 10110101
water 00100101
species 11101110
"""
NGRAM_HASHES = [938, 664, 463, 822, 492, 798, 78, 969, 143, 236, 913, 908, 694, 553, 870, 779]
D1, D2, D3 = (
    "Jack London traveled to Oakland",
    "Jack London traveled to the city of Oakland",
    "Jack traveled from Oakland to London",
)


def lesson(**choices: Any) -> Lesson:
    return Lesson(stop="in the and", **choices)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["tool", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# --- simhash and n-grams


def test_the_simhash_of_the_lecture_comes_out_of_its_hashes() -> None:
    found = fingerprint(FISH.encode(), lesson(hashes=read_hashes(WORDS, 8)))
    assert [(row["word"], row["weight"], row["hash"]) for row in found["words"]] == [
        (word, 2 if word in ("tropical", "fish") else 1, bits) for word, bits in map(str.split, WORDS.splitlines())
    ]
    assert found["vector"] == [1, -5, 9, -9, 3, 1, 3, 3]
    assert found["simhash"] == "10101111"


def test_the_ngrams_of_the_lecture_are_chosen_by_their_hashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = FISH.replace(",", "").replace(".", "").split()
    ngrams = [" ".join(words[place : place + 3]) for place in range(len(words) - 2)]
    hashes = tmp_path / "hashes.txt"
    lines = (f"{ngram} {number}\n" for ngram, number in zip(ngrams, NGRAM_HASHES, strict=True))
    hashes.write_text("\n" + "".join(lines))
    [found] = shown(capsys, "fingerprint", "--text", FISH, "--hashes", str(hashes), "--mod", "4")["texts"]
    assert [row["hash"] for row in found["ngrams"]] == NGRAM_HASHES
    assert found["chosen"] == [664, 492, 236, 908]


@pytest.mark.parametrize("bits", [1, 8, 64])
def test_own_hashes_have_as_many_bits_as_are_wanted(bits: int) -> None:
    found = fingerprint(FISH.encode(), lesson(bits=bits))
    assert len(found["vector"]) == len(found["simhash"]) == bits
    assert {len(row["hash"]) for row in found["words"]} == {bits}


def test_the_simhash_of_the_store_stands_next_to_the_lessons_and_depends_on_the_order_of_words() -> None:
    turned = " ".join(reversed(FISH.split()))
    one, other = (fingerprint(text.encode(), lesson(bits=64)) for text in (FISH, turned))
    assert int(one["store_simhash"], 2) == Kernel().analyse_text(FISH).simhash
    found = compare(one, other)
    assert found["simhash_agreement"] == 1.0
    assert found["store_simhash_agreement"] < 0.8


# --- checksums


def test_bytes_their_sum_and_adler_of_the_lecture_come_out() -> None:
    found = fingerprint(b"Tropical fish", Lesson())
    assert found["bytes"] == "54 72 6F 70 69 63 61 6C 20 66 69 73 68"
    assert int(found["checksums"]["byte_sum"], 16) == 0x508
    first, second = found["adler_sums"][-1]
    assert second << 16 | first == zlib.adler32(b"Tropical fish") == int(found["checksums"]["adler32"], 16)


def test_the_sums_of_the_lecture_begin_with_0_and_are_taken_modulo_thirteen() -> None:
    found = fingerprint(b"a cab", Lesson())
    assert found["lecture_sums"] == [(97, 97), (129, 226), (228, 454), (325, 779), (423, 1202)]
    assert (1202 % 13, 423 % 13) == (6, 7)
    assert found["lecture_adler"] == "0110 0111"
    assert int(found["checksums"]["adler32"], 16) == zlib.adler32(b"a cab")
    assert fingerprint(b"", Lesson())["lecture_adler"] == "0000 0000"
    assert fingerprint(b"a cab", Lesson(adler_modulus=251))["lecture_adler"] == f"{1202 % 251:08b} {423 % 251:08b}"


@given(st.binary(max_size=200))
def test_the_last_sums_are_adler_32_of_any_bytes(body: bytes) -> None:
    first, second = adler_sums(body)[-1]
    assert second << 16 | first == zlib.adler32(body)


# --- shingles and sketches


@pytest.mark.parametrize(
    ("one", "other", "width", "shared", "either"),
    [(D1, D2, 2, 3, 8), (D1, D3, 2, 0, 9), (D1, D1, 2, 4, 4), ("rose", "a rose", 3, 0, 2), ("", "", 2, 0, 0)],
)
def test_jaccard_is_that_of_the_shingles(one: str, other: str, width: int, shared: int, either: int) -> None:
    found = compare(*(fingerprint(text.encode(), Lesson(shingle_words=width)) for text in (one, other)))
    assert (found["shared_shingles"], found["all_shingles"]) == (shared, either)
    assert found["jaccard"] == (shared / either if either else None)


def test_a_rose_is_a_rose_is_a_rose_has_three_shingles() -> None:
    found = fingerprint(b"a rose is a rose is a rose", Lesson())
    assert found["shingles"] == ["a rose is", "rose is a", "is a rose"]


def test_a_sketch_of_two_hundred_minima_estimates_jaccard_within_four_deviations() -> None:
    numbers = [f"word{number}" for number in range(60)]
    one, other = (fingerprint(" ".join(words).encode(), Lesson(shingle_words=1)) for words in (numbers, numbers[20:]))
    found = compare(one, other)
    assert len(one["sketch"]) == 200
    assert found["jaccard"] == pytest.approx(2 / 3)
    assert found["sketch_deviation"] == pytest.approx((2 / 9 / 200) ** 0.5) and found["sketch_deviation"] < 0.0354
    assert abs(found["sketch_estimate"] - found["jaccard"]) < 4 * found["sketch_deviation"]


@pytest.mark.parametrize(
    ("text", "sketch"), [("a d", [1, 0]), ("c", [3, 2]), ("b d e", [0, 0]), ("a c d", [1, 0]), ("", [])]
)
def test_permutations_by_formula_give_the_sketches_of_a_textbook(text: str, sketch: list[int]) -> None:
    """Mining of Massive Datasets, example 3.8: rows 0 to 4, x + 1 and 3 x + 1 modulo 5."""
    orders = (Permutation(1, 1, 5), Permutation(3, 1, 5))
    rows = Lesson(shingle_words=1, permutations=orders, hashes=read_hashes("a 0\nb 1\nc 2\nd 3\ne 4\n", 8))
    assert fingerprint(text.encode(), rows)["sketch"] == sketch


def test_built_in_permutations_are_written_by_their_formula() -> None:
    first = default_permutations(3)
    assert first == default_permutations(200)[:3]
    assert len({order(7) for order in default_permutations(200)}) == 200


# --- groups of bits


@pytest.mark.parametrize(("p", "q", "bands", "width"), [(0.9, 0.6, 10, 8), (0.95, 0.5, 4, 16), (1.0, 0.3, 1, 1)])
def test_both_error_rates_of_given_groups_are_shown(
    p: float, q: float, bands: int, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--threshold", str(p), "--background", str(q), "--bands", str(bands), "--band-width", str(width)]
    found = shown(capsys, "lsh", *options)
    assert found["missed"] == pytest.approx((1 - p**width) ** bands)
    assert found["false_candidates"] == pytest.approx(1 - (1 - q**width) ** bands)
    assert main(["tool", "lsh", "--bands", "3"]) == 2


# --- the tag plateau

BUNCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=9)


def value_of(is_tag: list[int], start: int, end: int, weight: float) -> float:
    """What the lecture maximises."""
    return sum(is_tag[:start]) + weight * is_tag[start:end].count(0) + sum(is_tag[end:])


@given(BUNCHES)
def test_the_weighted_plateau_is_the_one_that_trying_every_span_finds(bunches: list[tuple[int, int]]) -> None:
    tags, counts = [tag for tag, _ in bunches], [count for _, count in bunches]
    is_tag = [bit for tag, count in bunches for bit in (*[1] * tag, *[0] * count)]
    start, end = weighted_span(tags, counts)
    first = sum(tags[: start + 1]) + sum(counts[:start]) if start < end else 0
    behind = sum(tags[:end]) + sum(counts[:end]) if start < end else 0
    weight = sum(tags) / max(1, sum(counts))
    ends = combinations_with_replacement(range(len(is_tag) + 1), 2)
    best = max(value_of(is_tag, begin, stop, weight) for begin, stop in ends)
    assert value_of(is_tag, first, behind, weight) == pytest.approx(best)


@given(st.lists(st.tuples(st.just(1), st.integers(0, 4)), max_size=9))
def test_the_weighted_plateau_is_the_plain_one_where_words_and_tags_are_as_many(
    bunches: list[tuple[int, int]],
) -> None:
    tags, counts = [tag for tag, _ in bunches], [count for _, count in bunches]
    tags = [*tags, max(0, sum(counts) - sum(tags))]
    counts = [*counts, max(0, sum(tags) - sum(counts))]
    assert weighted_span(tags, counts) == best_span(tags, counts)


def test_the_plateau_has_its_optimum_plain_and_weighted() -> None:
    page = b"<ul><li>one<li>two</ul><p>" + b"many words of the text " * 4 + b"<p><p>end"
    found = measure_plateau(page, "text/html", slice_tokens=64)
    assert (found["plateau"], found["optimum"]) == ((7, 27), 5 + 20 + 2)
    weighted = found["weighted"]
    assert weighted["c"] == 7 / 23
    assert (weighted["plateau"], weighted["optimum"]) == ((7, 27), pytest.approx(5 + 20 * 7 / 23 + 2))
    assert (found["slices"]["slice_tokens"], found["slices"]["flat"]) == (8, [(8, 24)])


@pytest.mark.parametrize(
    ("is_tag", "slice_tokens", "expected"),
    [
        ([1, 0, 0, 0, 0, 0, 0, 1], 8, (2, [(2, 6)])),
        ([1, 0, 1, 0], 4, (1, [(1, 2), (3, 4)])),
        ([0, 0, 0], 2, (2, [(0, 3)])),
        ([1, 1, 1], 3, (1, [])),
        ([], 4, (1, [])),
    ],
)
def test_slices_are_halved_until_one_is_flat(is_tag: list[int], slice_tokens: int, expected: Any) -> None:
    found = flat_slices(is_tag, slice_tokens)
    assert (found["slice_tokens"], found["flat"]) == expected
    assert len(found["slopes"]) == -(-len(is_tag) // found["slice_tokens"])


# --- n-grams of the most frequent words, topics


def test_rare_words_between_frequent_ones_do_not_change_the_ngrams_of_the_top_words() -> None:
    frequent = [f"common{number % 50:02}" for number in range(300)]
    salted = [word for number, common in enumerate(frequent) for word in (common, f"rare{number}")]
    assert top_word_ngrams(" ".join(salted)).tolist() == top_word_ngrams(" ".join(frequent)).tolist()
    assert len(top_word_ngrams("")) == 0


@pytest.mark.parametrize("lang", ["en", "en-GB", ""])
def test_a_part_of_a_page_has_its_key_phrases_as_topic(
    lang: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = ("The solar power plant is near the mirror tower.", "A boat is under the bridge of the river.")
    parts = "".join(f"<h2>Part {number}</h2><p>{' '.join([pair] * 4)}</p>" for number, pair in enumerate(pairs))
    body = f"<html lang='{lang}'><title>T</title><body>{parts}<h2>Both</h2><p>{' '.join(pairs * 4)}</p></body>"
    with docstore.open(tmp_path / "store", create=True) as store:
        store.put_page("https://a.example/", body.encode(), headers={"Content-Type": "text/html"})
    found = Terminal(tmp_path / "store", capsys)("get", "https://a.example/", "--outline", "--json").object()
    topics = {part["heading"]: part["topic"] for part in found["outline"]}
    assert {"solar power plant", "mirror tower", "bridge"} <= set(topics["Both"])
    assert not {"the", "is", "of", "a"} & set(" ".join(topics["Both"]).split())
    assert "boat" not in topics["Part 0"]


# --- wrong calls


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--text", "a", "--bits", "65"),
        ("--text", "a", "--sketch", "10001"),
        ("--text", "a", "--bits", "0"),
        ("--text", "a", "--permutation", "1,1"),
        ("--text", "a", "--permutation", "0,1,5"),
        ("no-such-file.txt",),
    ],
)
def test_a_wrong_call_is_refused(words: tuple[str, ...]) -> None:
    assert main(["tool", "fingerprint", *words]) == 2


@pytest.mark.parametrize("text", ["word", "word 12x", "word 0x10", "word -3"])
def test_a_line_without_a_hash_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="line 1 of the hashes"):
        read_hashes(text, 8)


def test_text_is_shown_and_long_tables_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", "fingerprint", "--text", FISH, "--text", "", "--limit", "3"]) == 0
    out = capsys.readouterr().out
    assert "122 more bytes: --limit N shows more" in out and "--- texts 1 and 2" in out


def test_a_fingerprint_of_nothing_has_no_empty_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", "fingerprint", "--text", ""]) == 0
    assert capsys.readouterr().out.startswith("vector ")
