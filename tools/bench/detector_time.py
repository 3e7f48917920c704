"""Processor time a page of detector and index alone, on a site of one template or on the texts of a corpus.

    python -m tools.bench.detector_time KIND PAGES     a kind of site of `sites`
    python -m tools.bench.detector_time CORPUS_DIR PAGES

Texts are judged and posted as in `template_sites`.  To compare two versions, run both in turns: ratios hold on a shared
machine, microseconds do not.
"""

from __future__ import annotations

import argparse
import random
from itertools import islice
from pathlib import Path

from docstore.dedup.kernel import Kernel
from tools.bench.harness import load_pages
from tools.bench.sites import SITES, Words
from tools.bench.template_sites import CHUNK_PAGES, SEED, Written


def texts_of(what: str, count: int) -> list[Words]:
    """Pages of a site, or the main texts of a corpus, as words."""
    if what in SITES:
        return list(islice(SITES[what](random.Random(f"{SEED} {what} {count}")), count))
    kernel = Kernel("scored")
    return [kernel.analyse(page.body, "text/html").main.split() for page in load_pages(Path(what), count)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", metavar="KIND|CORPUS_DIR", help=f"one of {', '.join(SITES)}, or a folder of WARC files")
    parser.add_argument("pages", metavar="PAGES", type=int)
    args = parser.parse_args()
    texts = texts_of(args.what, args.pages)
    with Written() as written:
        for start in range(0, len(texts), CHUNK_PAGES):
            written.write(texts[start : start + CHUNK_PAGES])
        print(f"{written.seconds / len(texts) * 1e6:.0f} us a page, {len(texts)} pages")


if __name__ == "__main__":
    main()
