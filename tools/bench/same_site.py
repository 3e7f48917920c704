"""Near-duplicate quality with each extractor in front, on manuals that a corpus holds in several versions.

    same_site.py CORPUS_DIR [--extractors visible combined ...] [--manuals llvm clang ...] [--jobs 2]

CORPUS_DIR holds PACKAGE.warc.gz files as made by the debdocs corpus script.  Positive: the same path in two
neighbouring versions of a manual.  Negative: every pair of different pages within one version; none is left out
(exact joins of 5-word shingle sets).  Positives whose visible texts share less than half (Jaccard < .5) were
rewritten and are counted apart.

Per extractor and threshold: recall = positives found / positives; precision = positives found / (positives found +
negative pairs found).  Most negative pairs of generated manuals come from a few large families of all but equal
pages, so pages are counted too: the share of pages that are in no false pair.  "twins" are negative pairs whose
visible texts are equal: no extractor can part them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from warcio.archiveiterator import ArchiveIterator

from docstore.dedup.join import ROUNDING, Sets, exact_join, overlap_pairs
from docstore.dedup.shingle import distinct, shingles
from docstore.text.charset import decode
from docstore.text.content import EXTRACTORS, extractor
from docstore.text.tokens import split
from docstore.text.words import words

Hashes = NDArray[np.uint64]

MANUALS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "llvm": tuple((f"llvm-{version}-doc", "https://llvm.org/docs/") for version in (13, 14, 15, 16)),
    "clang": tuple((f"clang-{version}-doc", "https://clang.llvm.org/docs/") for version in (13, 14, 15, 16)),
    "boost": tuple((f"libboost1.{minor}-doc", f"https://www.boost.org/doc/libs/1_{minor}_0/") for minor in (74, 81)),
    "linux": tuple((f"linux-doc-{v}", f"https://www.kernel.org/doc/html/v{v}/") for v in ("6.1", "6.12")),
    "libstdc++": (
        ("libstdc++-11-doc", "https://gcc.gnu.org/onlinedocs/gcc-11.3.0/"),
        ("libstdc++-12-doc", "https://gcc.gnu.org/onlinedocs/gcc-12.2.0/"),
    ),
    "biojava": (
        ("libbiojava4-java-doc", "https://biojava.org/docs/api4.2/"),
        ("libbiojava5-java-doc", "https://biojava.org/docs/api5.4/"),
        ("libbiojava6-java-doc", "https://biojava.org/docs/api6.1/"),
    ),
    "glibmm": (
        ("libglibmm-2.4-doc", "https://developer-old.gnome.org/glibmm/2.66/"),
        ("libglibmm-2.68-doc", "https://developer-old.gnome.org/glibmm/2.68/"),
    ),
    "cairomm": (
        ("libcairomm-1.0-doc", "https://www.cairographics.org/documentation/cairomm/1.0/"),
        ("libcairomm-1.16-doc", "https://www.cairographics.org/documentation/cairomm/1.16/"),
    ),
    "pangomm": (
        ("libpangomm-1.4-doc", "https://developer-old.gnome.org/pangomm/2.46/"),
        ("libpangomm-2.48-doc", "https://developer-old.gnome.org/pangomm/2.48/"),
    ),
    "sigc++": (
        ("libsigc++-2.0-doc", "https://libsigcplusplus.github.io/libsigcplusplus/2.0/"),
        ("libsigc++-3.0-doc", "https://libsigcplusplus.github.io/libsigcplusplus/3.0/"),
    ),
    "cargo": (
        ("cargo-doc", "https://doc.rust-lang.org/1.63.0/"),
        ("cargo-web-doc", "https://doc.rust-lang.org/1.85.0/"),
    ),
}
"""Manual -> (package, what its URLs begin with) of each version, oldest first."""

THRESHOLDS: Final = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
SHINGLE_WORDS: Final = 5


class Version(NamedTuple):
    """Pages of one version of a manual, by path, and the sets of each extractor in that order."""

    paths: list[str]
    sets: dict[str, list[Hashes]]


class Tally:
    """Counts of one extractor, one entry a threshold."""

    def __init__(self) -> None:
        self.found = np.zeros(len(THRESHOLDS), np.int64)
        self.rewritten_found = np.zeros(len(THRESHOLDS), np.int64)
        self.false = np.zeros(len(THRESHOLDS), np.int64)
        self.twins = np.zeros(len(THRESHOLDS), np.int64)
        self.pages_in_false = np.zeros(len(THRESHOLDS), np.int64)


def shingle_set(text: str) -> Hashes:
    """Distinct hashes of all runs of five words; a shorter text is one run."""
    return distinct(shingles(words(text), SHINGLE_WORDS))


def bodies(path: Path, prefix: str) -> Iterator[tuple[str, bytes, str]]:
    """Path below the prefix, body and Content-Type of each page."""
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream):
            url = record.rec_headers.get_header("WARC-Target-URI") or ""
            if record.rec_type == "response" and url.startswith(prefix):
                content_type = record.http_headers.get_header("Content-Type") or ""
                yield url[len(prefix) :], record.content_stream().read(), content_type


def read_version(path: Path, prefix: str, extractors: list[str]) -> Version:
    """Extract and shingle all pages of one version."""
    extract = {name: extractor(name) for name in extractors}
    version = Version([], {name: [] for name in extractors})
    for page_path, body, content_type in bodies(path, prefix):
        version.paths.append(page_path)
        markup = split(decode(body, content_type).text.replace("\0", "\ufffd"))
        for name in extractors:
            version.sets[name].append(shingle_set(extract[name](markup)))
    return version


def as_sets(hashes: list[Hashes]) -> Sets:
    """Many sets in CSR form."""
    starts = np.concatenate([[0], np.cumsum([len(one) for one in hashes])]).astype(np.int64)
    return Sets(starts, np.concatenate([*hashes, np.empty(0, np.uint64)]))


def pair_jaccard(first: list[Hashes], second: list[Hashes]) -> NDArray[np.float64]:
    """Exact Jaccard coefficient of each pair; 0 where a side is empty."""
    count = len(first)
    sets = as_sets(first + second)
    numbers = np.arange(count, dtype=np.int64)
    shared = overlap_pairs(sets, numbers, numbers + count)
    either = sets.lengths[:count] + sets.lengths[count:] - shared
    similarity: NDArray[np.float64] = np.where(either > 0, shared / np.maximum(either, 1), 0.0)
    return similarity


def count_positives(older: Version, newer: Version, tallies: dict[str, Tally]) -> tuple[int, int]:
    """Count the same paths; how many of them are alike, and how many rewritten."""
    place = {path: number for number, path in enumerate(newer.paths)}
    both = [(number, place[path]) for number, path in enumerate(older.paths) if path in place]
    if not both:
        return 0, 0

    def similarities(name: str) -> NDArray[np.float64]:
        return pair_jaccard([older.sets[name][a] for a, _ in both], [newer.sets[name][b] for _, b in both])

    alike = similarities("visible") >= 0.5 - ROUNDING
    for name, tally in tallies.items():
        found = similarities(name)[:, None] >= np.array(THRESHOLDS) - ROUNDING
        tally.found += found[alike].sum(axis=0)
        tally.rewritten_found += found[~alike].sum(axis=0)
    return int(alike.sum()), int((~alike).sum())


def count_negatives(version: Version, tallies: dict[str, Tally]) -> None:
    """Count every pair of different pages of one version that is similar."""
    visible = [one.tobytes() for one in version.sets["visible"]]
    for name, tally in tallies.items():
        pairs = exact_join(as_sets(version.sets[name]), THRESHOLDS[0])
        similarity = pairs.shared / pairs.either
        equal = np.fromiter(
            (visible[a] == visible[b] for a, b in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)),
            np.bool_,
            len(pairs.first),
        )
        for number, threshold in enumerate(THRESHOLDS):
            chosen = similarity >= threshold - ROUNDING
            tally.false[number] += int(chosen.sum())
            tally.twins[number] += int((chosen & equal).sum())
            ends = np.concatenate([pairs.first[chosen & ~equal], pairs.second[chosen & ~equal]])
            tally.pages_in_false[number] += len(np.unique(ends))


def print_table(tallies: dict[str, Tally], alike: int, rewritten: int, pages: int) -> None:
    print(f"\n{pages} pages; {alike} positive pairs, and {rewritten} rewritten ones apart")
    head = "| extractor | measure | " + " | ".join(f">= {threshold:.2f}" for threshold in THRESHOLDS) + " |"
    print(head + "\n|" + "---|" * (len(THRESHOLDS) + 2))
    for name, tally in tallies.items():
        apart = tally.false - tally.twins
        rows: list[tuple[str, list[str]]] = [
            ("recall", [f"{n / max(alike, 1):.4f}" for n in tally.found.tolist()]),
            (
                "precision",
                [f"{n / max(n + f, 1):.4f}" for n, f in zip(tally.found.tolist(), tally.false.tolist(), strict=True)],
            ),
            (
                "precision, no twins",
                [f"{n / max(n + f, 1):.4f}" for n, f in zip(tally.found.tolist(), apart.tolist(), strict=True)],
            ),
            ("false pairs", [str(n) for n in tally.false]),
            ("pages in no false pair", [f"{1 - n / max(pages, 1):.4f}" for n in tally.pages_in_false]),
            ("rewritten found", [f"{n / max(rewritten, 1):.4f}" for n in tally.rewritten_found]),
        ]
        for measure, cells in rows:
            print(f"| {name} | {measure} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--extractors", nargs="+", default=list(EXTRACTORS), choices=list(EXTRACTORS))
    parser.add_argument("--manuals", nargs="+", default=list(MANUALS), choices=list(MANUALS))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    extractors = list(dict.fromkeys(["visible", *arguments.extractors]))
    tallies = {name: Tally() for name in extractors}
    alike = rewritten = pages = 0
    started = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for manual in arguments.manuals:
            files = [(arguments.corpus / f"{package}.warc.gz", prefix) for package, prefix in MANUALS[manual]]
            held = [(path, prefix) for path, prefix in files if path.exists()]
            futures = [pool.submit(read_version, path, prefix, extractors) for path, prefix in held]
            versions = [future.result() for future in futures]
            for older, newer in pairwise(versions):
                more_alike, more_rewritten = count_positives(older, newer, tallies)
                alike += more_alike
                rewritten += more_rewritten
            for version in versions:
                count_negatives(version, tallies)
                pages += len(version.paths)
            passed = time.perf_counter() - started
            print(f"{manual}: {len(versions)} versions, {alike} pairs so far, {passed:.0f} s", file=sys.stderr)
    print_table(tallies, alike, rewritten, pages)


if __name__ == "__main__":
    main()
