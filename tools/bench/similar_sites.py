"""What `similar` finds on sites of one template: copies of pages rewritten to J = .55, .65 and .75.

    python -m tools.bench.similar_sites [--sizes 1000,10000] [--copies 200]

The sites are those of `template_sites`.  *Marked* counts copies whose verdict names any page, *named* those that name
the very page that was copied: siblings that are as near to the copy as that page is take its place.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from itertools import islice
from typing import Final

from docstore.dedup.detector import jaccard
from docstore.dedup.shingle import overlap
from tools.bench.harness import Section
from tools.bench.sites import SITES, changed_to
from tools.bench.template_sites import CHUNK_PAGES, SEED, Written

COMMAND: Final = "python -m tools.bench.similar_sites"
LIKENESSES: Final = (0.55, 0.65, 0.75)


def rows_of_site(name: str, size: int, copies: int) -> Iterator[tuple[str, ...]]:
    """Write a site, and judge rewritten copies of some of its pages: a row for each likeness."""
    source = random.Random(f"{SEED} similar {name} {size}")
    chosen = sorted(source.sample(range(size), min(copies, size)))
    pages = SITES[name](source)
    originals = []
    with Written() as written:
        for start in range(0, size, CHUNK_PAGES):
            texts = list(islice(pages, min(CHUNK_PAGES, size - start)))
            pointers, analyses = written.write(texts)
            places = [place - start for place in chosen if start <= place < start + CHUNK_PAGES]
            originals += [(pointers[place], analyses[place], texts[place]) for place in places]
        for likeness in LIKENESSES:
            made = written.analyse([changed_to(words, likeness, source) for _, _, words in originals])
            alike, marked, named = 0.0, 0, 0
            for copy, (pointer, original, _) in zip(made, originals, strict=True):
                shared = overlap(copy.shingles, original.shingles)
                alike += jaccard(shared, copy.shingle_count, original.shingle_count)
                verdict = written.judge(copy)
                marked += verdict.of is not None
                named += verdict.of == pointer
            count = len(originals)
            yield name, str(size), f"{alike / count:.2f}", *(f"{found / count:.3f}" for found in (marked, named))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--copies", type=int, default=200)
    args = parser.parse_args()
    section = Section("Similar pages on sites of one template", COMMAND, ("site", "pages", "J", "marked", "named"))
    for name in SITES:
        for size in map(int, args.sizes.split(",")):
            section.rows += rows_of_site(name, size, args.copies)
    print(section.render())


if __name__ == "__main__":
    main()
