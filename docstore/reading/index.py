"""The detector's index of stored pages: opening it, what must be in it, and rebuilding it.

Writers and readers of a store share the index that `open_texts` opens.  `SeenPages` tells a check whether the detector
would see a page.  Nothing here gives a verdict or posts a page.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import SimpleNamespace
from typing import TypeVar, cast

from docstore.compiled import docstore_native
from docstore.dedup.comparable import MIN_NEAR_WORDS, text_compares
from docstore.dedup.index import TABLE, IndexQuery, TextIndex, has_postings, posted_page, stored_postings
from docstore.dedup.kernel import Kernel, bin_order
from docstore.dedup.pages import LivePages
from docstore.dedup.runs import RunIndex
from docstore.model.capture import (
    CHECKSUM,
    MAIN,
    STATUS,
    STORED_POSTED,
    TEXT_CHECKSUM,
    TITLE,
    Column,
    PagePointer,
    text_number,
)
from docstore.model.errors import CorruptionError, UnsupportedFormat
from docstore.model.format import (
    POSTING_TEXT,
    SCHEME_TEXT_2,
    TEXT_NUMBER_BYTES,
    TEXT_SCHEME_ROW,
    VERDICT_STORED,
)
from docstore.model.types import ReadSpec, RowMutations, SetCell
from docstore.storage.captures import LiveCapture
from docstore.storage.engine import Engine, ScannedRow
from docstore.storage.port import Backend
from docstore.storage.schema import META_FAMILY
from docstore.storage.table import CaptureRows, declared_families
from docstore.storage.values import INLINE_TAG

_Value = TypeVar("_Value")

_TEXTS_BEGIN = bytes((POSTING_TEXT,))
_TEXTS_END = bytes((POSTING_TEXT + 1,))
_RULES = SimpleNamespace(
    posted=[VERDICT_STORED.index(kind) for kind in STORED_POSTED],
    least_words=MIN_NEAR_WORDS,
)
"""For native code."""


SAMPLED_CAPTURES = 1000
"""Captures that are looked through for one with a text."""


def text_scheme(backend: Backend, table: CaptureRows) -> int:
    """The scheme of a store's texts: as its row says, or if there is none, that of the first text; 0 without texts."""
    cell = backend.engine.newest("meta", TEXT_SCHEME_ROW, META_FAMILY, b"")
    if cell is not None:
        return cell.value[0]
    captures = (live for row in table.scan_captures() for live in table.row_captures(row.cells))
    for live in islice(captures, SAMPLED_CAPTURES):
        with suppress(CorruptionError):
            if checksum := backend.values.fetch(live.columns.get(TEXT_CHECKSUM, INLINE_TAG)):
                return checksum[0]
    return 0


def text_scheme_row(scheme: int) -> RowMutations:
    """The row that says which scheme the texts of a store have."""
    return RowMutations("meta", TEXT_SCHEME_ROW, [SetCell(META_FAMILY, b"", 0, bytes((scheme,)))])


def check_text_scheme(backend: Backend, table: CaptureRows) -> None:
    """Refuse to compare texts of this docstore with those that an older one has extracted.

    Raises:
        UnsupportedFormat: the store has texts of an older scheme.
    """
    found = text_scheme(backend, table)
    if found not in (0, SCHEME_TEXT_2):
        raise UnsupportedFormat(
            f"the texts of {backend.path} have scheme {found}, this docstore extracts scheme {SCHEME_TEXT_2}, and the "
            "two are not compared; run `docstore tool reindex`, which extracts them again"
        )


_opening = threading.Lock()


def _after_fork_in_child() -> None:
    global _opening  # noqa: PLW0603 - it may be locked by a thread that only the parent has
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def open_texts(backend: Backend, table: CaptureRows) -> TextIndex:
    """The index of a store's texts by their keys, opened once.

    Runs that are damaged or missing are made again from the stored texts, which is logged; the store opens.
    That of an overlay lies over that of the lower store: a full bucket leaves out the texts as a real run would.
    """
    with _opening:
        if backend.index is None:
            backend.index = _open_index(backend, table)
        return cast("TextIndex", backend.index)


def _open_index(backend: Backend, table: CaptureRows) -> TextIndex:
    storage = backend.runs
    assert storage is not None, "a backend without runs has an index of its own"
    engine, folder, files = storage
    if backend.lower is not None:
        return RunIndex(engine, folder, lambda: iter(()), files, lower=cast("RunIndex", backend.lower.index))
    pages = LivePages(table, backend.values)
    runs = RunIndex(engine, folder, lambda: stored_texts(backend, pages, kernel_of(backend)), files)
    if runs.is_new and next(engine.scan(TABLE, _TEXTS_BEGIN, _TEXTS_END), None) is not None:
        runs.rebuild()  # its log was taken away
    return runs


def kernel_of(backend: Backend) -> Kernel:
    """The kernel that a store's schema and its secret ask for."""
    schema = backend.schema
    order = bin_order(backend.band_secret)
    return Kernel(schema.extractor, schema.shingle_words, order=order, vocabulary=schema.vocabulary)


def stored_texts(
    backend: Backend, pages: LivePages, kernel: Kernel, numbers: Iterable[bytes] | None = None
) -> Iterator[IndexQuery]:
    """What texts that pages may be found near to are posted under, each once.

    Args:
        backend: the store.
        pages: its pages.
        kernel: of its schema.
        numbers: of the texts, in the order wanted; None gives every text, in the order of their numbers.
    """
    for number in text_numbers(backend.engine) if numbers is None else numbers:
        row = _TEXTS_BEGIN + number
        for qualifier in stored_postings(backend.engine, row):
            pointer = posted_page(row, qualifier)
            try:
                page = pages.page(pointer)
                if page is None or text_number(page.text_checksum) != number:
                    continue
                if not text_compares(page.status):
                    continue
                text = pages.text(pointer)
            except CorruptionError:
                continue  # `docstore check` lists it; another page may have the text
            if text is None:
                continue
            query = keys_of_text(kernel, text, int.from_bytes(number, "big"))
            if query is not None:
                yield query
            break


def text_numbers(engine: Engine) -> Iterator[bytes]:
    """Numbers of all texts that lead to bodies, in order."""
    for row in engine.scan(TABLE, _TEXTS_BEGIN, _TEXTS_END, ReadSpec(cell_limit=1)):
        if len(row.row_key) == 1 + TEXT_NUMBER_BYTES:  # else it is that of a text with a title
            yield row.row_key[1:]


def keys_of_text(kernel: Kernel, text: str, number: int) -> IndexQuery | None:
    """The index keys of a text, or None if the text is too short to be indexed."""
    found = kernel.analyse_text(text)
    if found.word_count < MIN_NEAR_WORDS:
        return None
    return found.query(number)


class SeenPages:
    """What the detector sees of the stored pages: for checks and repairs.

    Args:
        backend, table: of the store.
        known: hashes of its postings, from `posting_hashes`; other postings are looked up.
    """

    def __init__(
        self, backend: Backend, table: CaptureRows, known: docstore_native.PostingHashes | None = None
    ) -> None:
        self._known = known
        self._kernel = kernel_of(backend)
        self._table = table
        self._values = backend.values
        self._check_rows = backend.values.check_rows
        self._families = frozenset(declared_families(backend.schema))
        self._texts = open_texts(backend, table)
        self._engine = backend.engine

    def damage(self) -> list[str]:
        """What of the index is not as it was written; reads all of it."""
        return self._texts.damaged() if isinstance(self._texts, RunIndex) else []

    def odd_rows(self, rows: list[ScannedRow]) -> Sequence[int]:
        """Numbers of the rows that have to be looked at one by one: native code finds all others sound.

        That is: each value can be read, each body has its checksum, and the detector sees each page.
        """
        collects = self._table.collects
        if self._check_rows is None or self._known is None or collects or not isinstance(self._texts, RunIndex):
            return range(len(rows))
        odd, queries = self._check_rows(rows, self._families, _RULES, self._kernel.native, self._known)
        return sorted({*odd, *self._texts.lacking(queries)})

    def rebuild_where_needed(self) -> None:
        """Make runs again that are not as they were written; the caller holds the writers' lock."""
        if isinstance(self._texts, RunIndex) and self._texts.damaged():
            self._texts.rebuild()

    def sees(self, pointer: PagePointer, shown: LiveCapture) -> bool:
        """Whether the detector sees a live page; True if a column cannot be read, which `docstore check` lists."""

        def look(shown: LiveCapture | None) -> bool:
            if shown is None or not shown.shows_page:
                return True
            return self.is_posted(pointer, shown) and self.finds_near(shown)

        try:
            return look(shown)
        except CorruptionError:  # compaction may have moved a value since the page was read
            with suppress(CorruptionError):
                return self._values.read_together(
                    lambda: look(self._table.capture_at(pointer.row_key, pointer.timestamp))
                )
            return True

    def is_posted(self, pointer: PagePointer, shown: LiveCapture) -> bool:
        """Whether the body of a live page leads to it, and its text and title too where they are compared.

        Raises:
            CorruptionError: a column cannot be read.
        """
        columns = shown.columns
        checksum = self._value(columns, CHECKSUM)
        if not self._is_compared(columns):
            return has_postings(self._engine, pointer, checksum, known=self._known)
        title = _decoded(self._value(columns, TITLE), _as_text)
        text_checksum = self._value(columns, TEXT_CHECKSUM)
        return has_postings(self._engine, pointer, checksum, text_checksum, title, known=self._known)

    def finds_near(self, shown: LiveCapture, text: bytes | None = None) -> bool:
        """Whether pages near a live page would be judged against its text; True where that is not asked of it.

        Args:
            shown: the page.
            text: its text, if that is read already.
        Raises:
            CorruptionError: a column cannot be read.
        """
        columns = shown.columns
        if not self._is_compared(columns):
            return True
        main = _decoded(self._value(columns, MAIN) if text is None else text, _as_text)
        number = text_number(self._value(columns, TEXT_CHECKSUM))
        query = keys_of_text(self._kernel, main, int.from_bytes(number, "big"))
        if query is None:
            return True
        proposal = self._texts.propose(query)
        return proposal.has_own or proposal.is_crowded  # full buckets leave later texts out

    def _is_compared(self, columns: Mapping[Column, bytes]) -> bool:
        """Whether the text of a page is compared with other texts."""
        if MAIN not in columns or not self._value(columns, TEXT_CHECKSUM):
            return False
        return text_compares(_decoded(self._value(columns, STATUS) or b"0", int))

    def _value(self, columns: Mapping[Column, bytes], column: Column) -> bytes:
        cell_value = columns.get(column, INLINE_TAG)
        return cell_value[1:] if cell_value[:1] == INLINE_TAG else self._values.fetch(cell_value)


def _as_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")


def _decoded(value: bytes, decode: Callable[[bytes], _Value]) -> _Value:
    """The value of a column.

    Raises:
        CorruptionError: it does not decode.
    """
    try:
        return decode(value)
    except ValueError as error:
        raise CorruptionError(
            "a column does not decode", expected="text or a number", found=f"{value[:32]!r}"
        ) from error
