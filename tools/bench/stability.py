"""How far main texts hold still, and how many are only a template: each extractor on a corpus with its exact pairs.

    python -m tools.bench.stability CORPUS_DIR TRUTH_DIR [--extractors plateau combined ...]

CORPUS_DIR holds *.warc.gz, TRUTH_DIR the pages.tsv and pairs.tsv that the near-duplicate truth script made of it.

- *unstable*: of the pairs of pages with visible Jaccard >= .9, the share whose main texts have less than .8.
- *template only*: pages whose main text another URL has too, though the visible Jaccard of the two is under .5.
- copies: of each page of at least 50 words, one gets an advert of 24 words with a link, in a block with the class
  ad-slot, at a place drawn by a seeded generator among its ends of blocks; one the same without the class, which only
  sense tells from a paragraph; one another entry behind the first entry of its first list.  Counted: copies with
  just the same main text, and copies with less than .8 in common with the page's.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from warcio.archiveiterator import ArchiveIterator

from docstore.dedup.shingle import distinct, jaccard, shingles
from docstore.text.charset import decode
from docstore.text.content import EXTRACTORS, Extractor, extractor, visible
from docstore.text.tokens import split
from docstore.text.words import words

Hashes = NDArray[np.uint64]
ADVERT: Final = (
    "<div{}><p>Great offers await you this week only, order today and save thirty percent on shoes, lamps and garden "
    'tools with free delivery, <a href="https://shop.example/">see the whole sale</a></p></div>'
)
KINDS: Final = ("named advert", "nameless advert", "menu entry")
MENU_ENTRY: Final = '<li><a href="/another/page.html">Another page</a></li>'
LEAST_WORDS: Final = 50
SEED: Final = 20261120

_END_OF_BLOCK = re.compile(r"</(?:p|div|ul|ol|table|h[1-6]|section)>", re.IGNORECASE)
_END_OF_ENTRY = re.compile(r"</li>", re.IGNORECASE)


class Observed(NamedTuple):
    """One page under each extractor: its set, and per kind of copy (same text, Jaccard)."""

    key: tuple[str, str, str]
    sets: dict[str, Hashes]
    copies: dict[tuple[str, str], tuple[bool, float]]


def shingle_set(text: str) -> Hashes:
    return distinct(shingles(words(text), 5))


def with_advert(source: str, attribute: str, generator: random.Random) -> str | None:
    ends = [found.end() for found in _END_OF_BLOCK.finditer(source)]
    if not ends:
        return None
    place = generator.choice(ends)
    return source[:place] + ADVERT.format(attribute) + source[place:]


def with_menu_entry(source: str) -> str | None:
    found = _END_OF_ENTRY.search(source)
    return source[: found.end()] + MENU_ENTRY + source[found.end() :] if found else None


def observe_file(path: Path, names: list[str]) -> list[Observed]:
    """All pages of one WARC file."""
    extractors: dict[str, Extractor] = {name: extractor(name) for name in names}
    observed = []
    for url, date, source in sources(path):
        markup = split(source)
        texts = {name: extract(markup) for name, extract in extractors.items()}
        sets = {name: shingle_set(text) for name, text in texts.items()}
        copies: dict[tuple[str, str], tuple[bool, float]] = {}
        if len(words(visible(markup))) >= LEAST_WORDS:
            changed = {
                "named advert": with_advert(source, ' class="ad-slot"', random.Random(f"{SEED} {url} {date}")),
                "nameless advert": with_advert(source, "", random.Random(f"{SEED} {url} {date}")),
                "menu entry": with_menu_entry(source),
            }
            for kind, copy in changed.items():
                for name, extract in extractors.items() if copy else ():
                    text = extract(split(copy or ""))
                    same = text == texts[name]
                    likeness = 1.0 if same else jaccard(sets[name], shingle_set(text))
                    copies[kind, name] = (same, likeness)
        observed.append(Observed((url, date, path.name.removesuffix(".warc.gz")), sets, copies))
    return observed


def sources(path: Path) -> Iterator[tuple[str, str, str]]:
    """URL, date and decoded source of each response of a WARC file."""
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream):
            if record.rec_type == "response":
                content_type = record.http_headers.get_header("Content-Type")
                source = decode(record.content_stream().read(), content_type).text.replace("\0", "\ufffd")
                headers = record.rec_headers
                yield headers.get_header("WARC-Target-URI"), headers.get_header("WARC-Date"), source


def read_truth(folder: Path) -> tuple[list[tuple[str, str, str]], dict[tuple[int, int], float]]:
    """Key of each page number, and the visible Jaccard of each pair that reaches one half."""
    rows = [line.split("\t") for line in (folder / "pages.tsv").read_text("utf-8").splitlines()[1:]]
    keys = [(row[1], row[2], row[4]) for row in rows]
    pairs = {}
    for line in (folder / "pairs.tsv").read_text("utf-8").splitlines()[1:]:
        first, second, shared, either = map(int, line.split("\t"))
        pairs[first, second] = shared / either
    return keys, pairs


def template_only(sets: list[Hashes], keys: list[tuple[str, str, str]], pairs: dict[tuple[int, int], float]) -> int:
    """Pages whose set another URL has though the visible texts share less than half."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for number, one in enumerate(sets):
        groups[one.tobytes()].append(number)
    return sum(
        any(
            keys[page][0] != keys[other][0] and pairs.get((min(page, other), max(page, other)), 0.0) < 0.5
            for other in group
        )
        for group in groups.values()
        for page in group
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("truth", type=Path)
    names = ["visible", "plateau", "slope", "density", "combined", "scored"]
    parser.add_argument("--extractors", nargs="+", default=names, choices=list(EXTRACTORS))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    files = sorted(arguments.corpus.glob("*.warc.gz"))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        parts = pool.map(observe_file, files, [arguments.extractors] * len(files))
        by_key: dict[tuple[str, str, str], list[Observed]] = defaultdict(list)
        for page in (page for part in parts for page in part):
            by_key[page.key].append(page)
    keys, pairs = read_truth(arguments.truth)
    pages = [by_key[key].pop(0) for key in keys]
    alike = [pair for pair, likeness in pairs.items() if likeness >= 0.9]
    print(f"{len(pages)} pages, {len(alike)} pairs with visible Jaccard >= .9\n")
    print(
        "| extractor | unstable pairs | template only | "
        + " | ".join(f"{kind}: same text | {kind}: below .8" for kind in KINDS)
        + " |"
        + "\n|"
        + "---|" * (3 + 2 * len(KINDS))
    )
    for name in arguments.extractors:
        sets = [page.sets[name] for page in pages]
        unstable = sum(jaccard(sets[a], sets[b]) < 0.8 for a, b in alike)
        cells = [f"{unstable} ({unstable / max(1, len(alike)):.2%})"]
        template = template_only(sets, keys, pairs)
        cells.append(f"{template} ({template / max(1, len(pages)):.2%})")
        for kind in KINDS:
            copies = [page.copies[kind, name] for page in pages if (kind, name) in page.copies]
            cells.append(f"{sum(same for same, _ in copies) / max(1, len(copies)):.2%} of {len(copies)}")
            cells.append(f"{sum(likeness < 0.8 for _, likeness in copies) / max(1, len(copies)):.2%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
