"""One pairs file from three orders of ingest, on a folder of archives: DOCSTORE_CORPUS names it.

The sample crawl has its own, quick test of the same in `tests/unit/test_sweep.py`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import docstore
from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.sweep.job import SweepOptions, sweep

SEED = 20_261_120


@pytest.mark.slow
@pytest.mark.skipif("DOCSTORE_CORPUS" not in os.environ, reason="DOCSTORE_CORPUS names no folder of archives")
def test_three_orders_of_ingest_of_a_corpus_give_one_pairs_file(tmp_path: Path) -> None:
    archives = sorted(Path(os.environ["DOCSTORE_CORPUS"]).glob("*.warc.gz"))
    pages = [entry.page for path in archives for entry in read(path) if isinstance(entry, PageEntry)]
    shuffled = list(pages)
    random.Random(SEED).shuffle(shuffled)
    files = set()
    for number, order in enumerate((pages, pages[::-1], shuffled)):
        with docstore.open(tmp_path / str(number), create=True, durability="none") as store:
            list(store.put_pages(order))
            pairs = tmp_path / f"{number}.tsv"
            report = sweep(store, SweepOptions(pairs=pairs, all_pairs=True, dry_run=True))
        files.add(pairs.read_bytes())
    assert len(files) == 1
    assert report.listed_pairs == report.pairs > 0
