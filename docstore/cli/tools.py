"""Commands for experts that measure: `docstore tool lsh`, bands that find pairs of a similarity; `docstore tool
plateau`, the tag curve of a page with the span that has few tags in it and many outside (Finn, Kushmerick and Smyth
2001); and `docstore tool fingerprint`, how the fingerprints of texts come about.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate, combinations
from typing import Any

from docstore.cli import arguments, output
from docstore.cli.opening import open_named
from docstore.compiled import docstore_native
from docstore.model.analysis import BAND_WIDTH, BANDS, BITS
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url
from docstore.reports import lesson as lessons
from docstore.sweep.candidates import (
    Bands,
    choose_bands,
    curve_midpoint,
    false_candidate_probability,
    miss_probability,
)
from docstore.text.readers import decode

CURVE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Similarities at which the chances of bands are printed."""
MOST_POINTS = 1000
"""Points of a tag curve that are given; longer curves are thinned."""


# --- docstore tool lsh


def run_lsh(args: argparse.Namespace) -> int:
    if (args.bands is None) != (args.band_width is None):
        raise InvalidArgument("--bands and --band-width belong together; give both, or none")
    if args.bands is not None:
        width, bands = args.band_width, args.bands
        recall = 1 - miss_probability(args.threshold, width, bands)
        proposed = false_candidate_probability(args.background, width, bands)
        chosen = Bands(bands, width, recall, proposed, curve_midpoint(width, bands))
    else:
        chosen = choose_bands(
            args.threshold,
            args.recall,
            background=args.background,
            max_false_candidates=args.max_false,
            bins=args.bins,
        )
    missed = miss_probability(args.threshold, chosen.band_width, chosen.bands)
    curves = [
        (
            jaccard,
            false_candidate_probability(jaccard, chosen.band_width, chosen.bands),
            false_candidate_probability(jaccard, BAND_WIDTH, BANDS),
        )
        for jaccard in CURVE
    ]
    if args.json:
        shipped = {"bands": BANDS, "band_width": BAND_WIDTH}
        curve = [{"similarity": at, "chosen": tuned, "shipped": default} for at, tuned, default in curves]
        output.json_line({**asdict(chosen), "missed": missed, "shipped": shipped, "curve": curve})
        return EXIT_OK
    output.table(
        [
            ("bands", f"{chosen.bands} of {chosen.band_width} bins"),
            (f"found at {args.threshold:g}", f"{chosen.recall:.4f}"),
            (f"missed at {args.threshold:g}", f"{missed:.3g}  (false negatives)"),
            (f"proposed at {args.background:g}", f"{chosen.false_candidates:.4f}  (false positives)"),
            ("half found at", f"{chosen.midpoint:.3f}"),
        ]
    )
    output.line()
    output.table(
        ((f"{at:.2f}", f"{tuned:.4f}", f"{default:.4f}") for at, tuned, default in curves),
        ("similarity", f"{chosen.bands} x {chosen.band_width}", f"{BANDS} x {BAND_WIDTH} (shipped)"),
        right=(1, 2),
    )
    return EXIT_OK


# --- docstore tool plateau


def run_plateau(args: argparse.Namespace) -> int:
    if (args.url is None) == (args.file is None):
        raise InvalidArgument("name either a URL or --file PAGE.html")
    if args.file is not None:
        measured = measure_plateau(arguments.read_input(args.file), None, args.slice)
        name = str(args.file)
    else:
        url = complete_url(args.url)
        with open_named(args) as store:
            document = store.get(url, at=args.at, families=("page", "http"))
        if document is None or document.body is None:
            output.note(f"no page {output.shown_url(url)}")
            return EXIT_NOTHING_FOUND
        measured = measure_plateau(document.body, document.newest.header("content-type"), args.slice)
        name = document.url
    if args.json:
        output.json_line({"page": name, **measured})
        return EXIT_OK
    weighted, slices = measured["weighted"], measured["slices"]
    flat = ", ".join(f"{first} to {end}" for first, end in slices["flat"])
    output.table(
        [
            ("page", name),
            ("tokens", f"{measured['tokens']}: {measured['tags']} tags and {measured['words']} words"),
            ("plateau", _span_words(measured)),
            ("weighted", f"{_span_words(weighted)}, c = {weighted['c']:.3f}"),
            ("flat", f"tokens {flat or output.NOTHING}, in slices of {slices['slice_tokens']}"),
        ]
    )
    output.line()
    rows = [
        (part, str(counts["tags"]), str(counts["words"]), f"{counts['slope']:.3f}")
        for part, counts in measured["parts"].items()
    ]
    output.table(rows, ("part", "tags", "words", "slope"), right=(1, 2, 3))
    return EXIT_OK


def _span_words(measured: dict[str, Any]) -> str:
    start, end = measured["plateau"]
    return f"tokens {start} to {end}, optimum {measured['optimum']:g}" if start < end else output.NOTHING


def measure_plateau(body: bytes, content_type: str | None, slice_tokens: int = 64) -> dict[str, Any]:
    """The tag curve of a page, which rises by 1 for each tag and is flat over words, and its plateau.

    Args:
        body: HTML.
        content_type: the header, for the encoding.
        slice_tokens: tokens of the slices that are tried first for the slopes.
    Returns:
        Counts of `tokens`, `tags` and `words`; the `plateau` as (first token, token after the last), its `optimum`,
        tags outside and words inside, and the counts and the `slope`, tags per token, of the `parts` before, inside and
        after it; the same three as `weighted`, where a word counts `c`; `slices` as `flat_slices` gives them; and at
        most `MOST_POINTS` points of the `curve`: (tokens, tags) so far.
    """
    tags, words, span = docstore_native.plateau(decode(body, content_type)[1])
    all_tags, all_words = sum(tags), sum(words)
    weight = all_tags / max(1, all_words)
    steps = [step for tag, word in zip(tags, words, strict=True) for step in ((tag, tag), (word, 0))]
    curve = [(0, 0), *zip(accumulate(step[0] for step in steps), accumulate(step[1] for step in steps), strict=True)]
    every = -(-len(curve) // MOST_POINTS)
    is_tag = bytes(bit for tag, word in zip(tags, words, strict=True) for bit in (*(1,) * tag, *(0,) * word))
    return {
        "tokens": all_tags + all_words,
        "tags": all_tags,
        "words": all_words,
        **_measure_span(tags, words, span, 1),
        "weighted": {"c": weight, **_measure_span(tags, words, lessons.weighted_span(tags, words), weight)},
        "slices": lessons.flat_slices(is_tag, slice_tokens),
        "curve": [*curve[:-1:every], curve[-1]],
    }


def _measure_span(tags: Sequence[int], words: Sequence[int], span: tuple[int, int], weight: float) -> dict[str, Any]:
    """Position, score and parts of a span of text nodes; each word adds `weight`."""
    # A bunch of tokens is the tags before a text and its words; the plateau begins after the tags of its first text.
    start, end = span
    tags_before, words_before = ([0, *accumulate(counts)] for counts in (tags, words))
    first = (tags_before[start + 1] if start < end else 0, words_before[start] if start < end else 0)
    last = (tags_before[end], words_before[end]) if start < end else first
    ends = ((0, 0), first, last, (tags_before[-1], words_before[-1]))
    parts = {}
    for name, (its_tags, its_words), (next_tags, next_words) in zip(
        ("before", "inside", "after"), ends, ends[1:], strict=False
    ):
        counts = next_tags - its_tags, next_words - its_words
        parts[name] = {"tags": counts[0], "words": counts[1], "slope": counts[0] / max(1, sum(counts))}
    value = parts["before"]["tags"] + weight * parts["inside"]["words"] + parts["after"]["tags"]
    return {"plateau": (sum(first), sum(last)), "optimum": value, "parts": parts}


# --- docstore tool fingerprint


MOST_MINIMA = 10_000


def run_fingerprint(args: argparse.Namespace) -> int:
    if args.sketch > MOST_MINIMA:
        raise InvalidArgument(f"--sketch is at most {MOST_MINIMA}; this command is a lesson, in plain Python")
    texts = [*map(arguments.read_input, args.files), *(text.encode("utf-8", "surrogateescape") for text in args.text)]
    if not texts:
        raise InvalidArgument("nothing to show: name a FILE, or give --text TEXT")
    if args.bits > BITS:
        raise InvalidArgument(f"--bits is at most {BITS}, not {args.bits}")
    hashes = arguments.read_input(args.hashes).decode("utf-8", "replace") if args.hashes else ""
    lesson = lessons.Lesson(
        args.bits,
        args.shingle_words,
        args.mod,
        args.stop,
        lessons.read_hashes(hashes, args.bits),
        tuple(lessons.Permutation(*each) for each in args.permutation) or lessons.default_permutations(args.sketch),
        args.adler_modulus,
    )
    each = [lessons.fingerprint(text, lesson) for text in texts]
    pairs = [
        {"first": first + 1, "second": second + 1, **lessons.compare(each[first], each[second])}
        for first, second in combinations(range(len(each)), 2)
    ]
    if args.json:
        output.json_line({"texts": each, "pairs": pairs})
        return EXIT_OK
    for number, found in enumerate(each, 1):
        if len(each) > 1:
            output.line(f"--- text {number}")
        _print_fingerprint(found, lesson, args.limit)
    for pair in pairs:
        _print_pair(pair)
    return EXIT_OK


def _print_fingerprint(found: dict[str, Any], lesson: lessons.Lesson, limit: int) -> None:
    def cut(values: Sequence[Any]) -> str:
        more = f" and {len(values) - limit} more" if len(values) > limit else ""
        return " ".join(map(str, values[:limit])) + more or output.NOTHING

    def show(what: str, rows: Sequence[tuple[str, ...]], *headings: str) -> None:
        if rows:
            output.table(rows[:limit], headings, right=(1, 2) if what == "bytes" else (1,))
            if len(rows) > limit:
                output.line(f"{len(rows) - limit} more {what}: --limit N shows more, --json all")
            output.line()

    words = [(row["word"], str(row["weight"]), row["hash"]) for row in found["words"]]
    show("words", words, "word", "weight", "hash")
    ngrams = [(row["ngram"], str(row["hash"])) for row in found["ngrams"]]
    show("n-grams", ngrams, f"{lesson.shingle_words}-gram", "hash")
    read = bytes.fromhex(found["bytes"])
    steps = zip(read, found["adler_sums"][1:], found["lecture_sums"], strict=True)
    sums = [(f"{byte:02X}", *map(str, (*adler, *lecture))) for byte, adler, lecture in steps]
    show("bytes", sums, "byte", "A", "B", "sum", "sum of sums")
    output.table(
        [
            ("vector", cut(found["vector"])),
            ("simhash", found["simhash"]),
            ("store's simhash", found["store_simhash"]),
            (f"0 mod {lesson.modulus}", cut(found["chosen"])),
            ("shingles", str(len(found["shingles"]))),
            ("sketch", cut(found["sketch"])),
            (f"sums mod {lesson.adler_modulus}", f"{found['lecture_adler']}  (from 0; the lecture's example)"),
            ("Adler-32", "B {1}, A {0}".format(*found["adler_sums"][-1]) + "  (from 1)"),
            *found["checksums"].items(),
        ]
    )


def _print_pair(pair: dict[str, Any]) -> None:
    def share(name: str) -> str:
        return output.NOTHING if pair[name] is None else f"{pair[name]:.3f}"

    output.line(f"--- texts {pair['first']} and {pair['second']}")
    output.table(
        [
            ("Jaccard", f"{share('jaccard')}  ({pair['shared_shingles']} of {pair['all_shingles']} shingles)"),
            ("sketch, estimate", f"{share('sketch_estimate')}  (standard deviation {share('sketch_deviation')})"),
            ("0 mod p, overlap", share("chosen_overlap")),
            ("simhash, equal bits", share("simhash_agreement")),
            ("store's simhash", share("store_simhash_agreement")),
        ]
    )
