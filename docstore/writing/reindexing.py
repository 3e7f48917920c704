"""The detector's index from stored pages: opening it, what must be in it, and making it anew.

Knows the buckets, how a page's text leads to its keys, and where texts are stored; must not know verdicts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from docstore.dedup import bands
from docstore.dedup.buckets import TABLE, Buckets, RowBuckets
from docstore.dedup.comparable import text_compares
from docstore.dedup.detector import MIN_NEAR_WORDS
from docstore.dedup.index import HashIndex
from docstore.dedup.kernel import Kernel
from docstore.dedup.ranking import Question
from docstore.dedup.runbuckets import TABLE as RUNS_TABLE
from docstore.dedup.runbuckets import RunBuckets
from docstore.model.errors import CorruptionError
from docstore.model.format import KEYS_SCHEME_ROW, POSTING_TEXT, RUN_LOG_FAMILY, SCHEME_KEYS_3
from docstore.model.pointers import PagePointer, text_number
from docstore.model.types import Durability, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.table import Table
from docstore.tablets.layout import Opened
from docstore.text.words import words
from docstore.writing.rows import PageRows

_TEXTS_BEGIN = bytes((POSTING_TEXT,))
_TEXTS_END = bytes((POSTING_TEXT + 1,))


_opening = threading.Lock()


def open_buckets(opened: Opened, table: Table) -> Buckets:
    """The buckets of a store's index, opened once; runs where one process writes, rows elsewhere.

    Runs that are damaged or missing are made anew from the stored texts, which is logged; the store opens all the same.
    """
    with _opening:
        if opened.buckets is None:
            opened.buckets = (
                _open_runs(opened, table) if opened.engine.caps.single_writer else RowBuckets(opened.engine)
            )
        return opened.buckets


def _open_runs(opened: Opened, table: Table) -> RunBuckets:
    rows = PageRows(table, opened.placement, opened.sharing)

    def texts() -> Iterator[Question]:
        yield from stored_texts(opened, rows, kernel_of(opened))
        _note_scheme(opened.engine)  # whoever asks makes all runs anew, and begins again where that is cut short

    runs = RunBuckets(opened.engine, opened.index, texts, opened.files)
    if runs.is_new:
        if next(opened.engine.scan(TABLE, _TEXTS_BEGIN, _TEXTS_END), None) is not None:
            runs.rebuild()  # its texts were posted as rows, or its log was taken away
        else:
            _note_scheme(opened.engine)
    return runs


def _note_scheme(engine: Engine) -> None:
    """Say that the keys of the runs are of today's scheme; where a crash takes it away it is said again."""
    cell = SetCell(RUN_LOG_FAMILY, b"", 0, bytes((SCHEME_KEYS_3,)))
    engine.mutate_rows([RowMutations(RUNS_TABLE, KEYS_SCHEME_ROW, [cell])], Durability.NONE)


def _has_todays_scheme(engine: Engine) -> bool:
    cells = engine.read_row(RUNS_TABLE, KEYS_SCHEME_ROW)
    return bool(cells) and cells[0].value == bytes((SCHEME_KEYS_3,))


def kernel_of(opened: Opened) -> Kernel:
    """The kernel that a store's schema and its secret ask for."""
    schema = opened.schema
    order = bands.order_of(opened.band_secret)
    return Kernel(schema.extractor, schema.shingle_words, schema.checksum, order=order)


def stored_texts(opened: Opened, rows: PageRows, kernel: Kernel) -> Iterator[Question]:
    """What every text that pages may be found near to is posted under, once; in the order of their numbers."""
    index = HashIndex(opened.engine, RowBuckets(opened.engine))
    for row in opened.engine.scan(TABLE, _TEXTS_BEGIN, _TEXTS_END, ReadSpec(cell_limit=1)):
        number = row.row_key[1:]
        for pointer in index.pages_with_text(number):
            try:
                page = rows.page(pointer)
                if page is None or text_number(page.text_checksum) != number:
                    continue
                if not text_compares(rows.status(pointer)):
                    continue
                text = rows.text(pointer)
            except CorruptionError:
                continue  # `docstore check` lists it; another page may have the text
            if text is None:
                continue
            question = keys_of_text(kernel, text, int.from_bytes(number, "big"))
            if question is not None:
                yield question
            break


def keys_of_text(kernel: Kernel, text: str, number: int) -> Question | None:
    """What a text is posted under, as `HashIndex.add` posts its page; None where it is too short."""
    keys = kernel.text_keys(text)
    # A text has at least as many words as distinct shingles, so most need not be counted.
    if not keys.shingle_count or (keys.shingle_count < MIN_NEAR_WORDS and len(words(text)) < MIN_NEAR_WORDS):
        return None
    return Question(keys.band_keys, keys.fingerprints, keys.runs, number)


class SeenPages:
    """What the detector sees of the stored pages: for checks and repairs."""

    def __init__(self, opened: Opened, table: Table) -> None:
        self._kernel = kernel_of(opened)
        self._rows = PageRows(table, opened.placement, opened.sharing)
        self._engine = opened.engine
        self._buckets = open_buckets(opened, table)
        self.index = HashIndex(opened.engine, self._buckets)

    @property
    def keys_are_outdated(self) -> bool:
        """Whether texts were posted under keys of an earlier scheme, found by fewer of those asked for today."""
        return isinstance(self._buckets, RunBuckets) and not _has_todays_scheme(self._engine)

    def damage(self) -> list[str]:
        """What of the index is not as it was written; reads all of it."""
        return self._buckets.damaged() if isinstance(self._buckets, RunBuckets) else []

    def rebuild_where_needed(self) -> None:
        """Make runs anew that are not as they were written, or of an earlier scheme of keys.

        The caller holds the lock of whoever writes.
        """
        if isinstance(self._buckets, RunBuckets) and (self.keys_are_outdated or self._buckets.damaged()):
            self._buckets.rebuild()

    def finds_near(self, pointer: PagePointer) -> bool:
        """Whether pages near this one would be judged against its text; True where that is not asked of it."""
        question = self._posted(pointer)
        if question is None:
            return True
        proposal = self._buckets.propose(question)
        return proposal.has_own or proposal.is_crowded  # full buckets leave later texts out

    def has_keys(self, pointer: PagePointer) -> bool:
        """Whether the page's text is posted under keys."""
        return self._posted(pointer) is not None

    def _posted(self, pointer: PagePointer) -> Question | None:
        """What a page's text must be found by; None where that is not asked of it."""
        try:
            page = self._rows.page(pointer)
            if page is None or not page.text_checksum or not text_compares(self._rows.status(pointer)):
                return None
            text = self._rows.text(pointer)
        except CorruptionError:
            return None  # `docstore check` lists the cell itself
        if text is None:
            return None
        return keys_of_text(self._kernel, text, int.from_bytes(text_number(page.text_checksum), "big"))
