"""The detector's index from stored pages: opening it, what must be in it, and making it anew.

Floor 5: knows the buckets, how a page's text leads to its keys, and where texts are stored; must not know verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docstore.dedup import bands, shingle, sketch
from docstore.dedup.buckets import Buckets, Keys, RowBuckets
from docstore.dedup.detector import MIN_NEAR_WORDS
from docstore.dedup.index import HashIndex, text_number
from docstore.dedup.kernel import Kernel
from docstore.dedup.runbuckets import RunBuckets
from docstore.errors import CorruptionError
from docstore.format import INDEX_DIRECTORY, POSTING_TEXT
from docstore.html.words import words
from docstore.layout import Opened
from docstore.model import ReadSpec
from docstore.rows import PageRows
from docstore.table import Table

_TEXTS_BEGIN = bytes((POSTING_TEXT,))
_TEXTS_END = bytes((POSTING_TEXT + 1,))


def open_buckets(opened: Opened, table: Table, kernel: Kernel) -> Buckets:
    """The buckets of a store's index, opened once; runs where one process writes, rows elsewhere.

    Runs that are damaged or missing are made anew from the stored texts, which is logged; the store opens all the same.
    """
    if opened.buckets is None:
        if opened.engine.caps.single_writer:
            rows = PageRows(table, opened.placement, opened.sharing)
            runs = RunBuckets(
                opened.engine, opened.path / INDEX_DIRECTORY, lambda: stored_texts(opened, rows, kernel), opened.files
            )
            opened.buckets = runs
            if runs.is_new and next(opened.engine.scan("postings", _TEXTS_BEGIN, _TEXTS_END), None) is not None:
                runs.rebuild()
        else:
            opened.buckets = RowBuckets(opened.engine)
    return opened.buckets


def stored_texts(opened: Opened, rows: PageRows, kernel: Kernel) -> Iterator[tuple[int, Keys]]:
    """Every text that pages may be found near to, with its keys, once; in the order of their numbers."""
    index = HashIndex(opened.engine, RowBuckets(opened.engine))
    for row in opened.engine.scan("postings", _TEXTS_BEGIN, _TEXTS_END, ReadSpec(cell_limit=1)):
        number = row.row_key[1:]
        for pointer in index.pages_with_text(number):
            try:
                page = rows.page(pointer)
                if page is None or text_number(page.text_checksum) != number:
                    continue
                keys = keys_of_text(kernel, rows.text(pointer))
            except CorruptionError:
                continue  # `docstore check` lists it; another page may have the text
            if len(keys):
                yield int.from_bytes(number, "big"), keys
            break


def keys_of_text(kernel: Kernel, text: str) -> Keys:
    """The keys under which a text is posted, as `index.bucket_keys` of its page; none where it is too short."""
    shingles = kernel.shingles(text)
    # A text has at least as many words as distinct shingles, so most need not be counted.
    if not len(shingles) or (len(shingles) < MIN_NEAR_WORDS and len(words(text)) < MIN_NEAR_WORDS):
        return np.empty(0, np.uint64)
    return np.concatenate([bands.band_keys(sketch.minima(shingles)), shingle.sample(shingles)])
