"""Typed access to the native kernel: bodies and their checksums, texts, sets, runs of postings.

`tests/cases/text` has the rules of main text, `tests/reference/` the measures.  Bodies that are not HTML go to
`text.readers`, which gives their text to the kernel; checksums are of the whole body.  A lone surrogate of a string is
read as U+FFFD, once for each of its three bytes.

If native code panics over a body, which would be a defect, the page is stored without text: its verdict has the reason,
and the log an error that asks for a report.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.model import format as disk
from docstore.model.analysis import IN_ORDER, Analysis
from docstore.model.capture import encode_entries
from docstore.model.choices import BINS
from docstore.model.errors import InvalidArgument
from docstore.model.sets import Numbers, Sets
from docstore.text import readers
from docstore.text.readers import SHELL_WORDS

EXTRACTORS: Final = ("visible", "combined", "scored")
"""Names of the rules that find the main text of a page."""

_NO_TEXT: Final = "no_text"
"""Why a body gets exact dedup only: it has no reader."""
_UNREADABLE: Final = "unreadable: "
"""The same, with the reader's message: it found no text."""
_BLAKE3_SCHEME: Final = bytes((disk.SCHEME_BLAKE3_256,))
_LOG = logging.getLogger(__name__)


def body_checksum(body: bytes) -> bytes:
    """The identity of a body: scheme byte and BLAKE3.  Bodies with equal checksums are taken for equal bytes."""
    return _BLAKE3_SCHEME + blake3(body).digest()


# --- bodies and texts


def joined_words(text: str) -> str:
    """The normalised words of a text with one blank between."""
    return docstore_native.joined_words(text)


def words(text: str) -> list[str]:
    """The normalised words of a text, in order, repeats kept."""
    return joined_words(text).split() if text else []


class Kernel:
    """Analyses bodies by one fixed choice of extractor and shingle length; stateless, safe in threads.

    Attributes:
        native: what analyses, for other calls of native code.
    """

    def __init__(
        self,
        extractor: str = "visible",
        shingle_words: int = 5,
        *,
        order: bytes = IN_ORDER,
        vocabulary: str = "",
    ) -> None:
        """Fix the choice.

        Args:
            extractor: by its name in a schema.
            shingle_words: words in a shingle.
            order: of the bins that make bands; see `bin_order`.
            vocabulary: of a schema: where XML of the user's own has its text.

        Raises:
            InvalidArgument: the vocabulary cannot be read, no extractor has that name, or `shingle_words` is below 1.
        """
        if shingle_words < 1:
            raise InvalidArgument(f"shingle_words must be at least 1, not {shingle_words}")
        if extractor not in EXTRACTORS:
            raise InvalidArgument(f"no extractor is named {extractor!r}; choose one of {', '.join(EXTRACTORS)}")
        if vocabulary:
            from docstore.text.vocabulary import parse  # lxml is loaded if it is needed

            parse(vocabulary)
        self._vocabulary = vocabulary
        # A run of 2**60 words is as good as any longer one: no text has so many.
        width = min(shingle_words, 1 << 60)
        self.native = docstore_native.Kernel(extractor, width, order)

    def analyse(self, body: bytes, content_type: str | None = None, *, links: bool = False) -> Analysis:
        """Text and fingerprints of one body; never raises for what is in it."""
        return self.analyse_many([(body, content_type)], links=links)[0]

    def analyse_many(self, bodies: Sequence[tuple[bytes, str | None]], *, links: bool = False) -> list[Analysis]:
        """`analyse` of each (body, content type), in order; native code lets go of the GIL once for all."""
        found = self.native.analyse_many([(body, content_type or "") for body, content_type in bodies], links)
        return [
            page if page.word_count >= SHELL_WORDS else self._completed(page, body, content_type, links)
            for page, (body, content_type) in zip(found, bodies, strict=True)
        ]

    def shingles(self, text: str) -> NDArray[np.uint64]:
        """The shingle set of a main text: (n,) uint64, ascending."""
        return np.frombuffer(self.native.shingles(text), np.uint64)

    def shingle_sets(self, texts: Sequence[bytes], enough: int) -> tuple[Sets, Numbers]:
        """The shingle sets of main texts in UTF-8; native code lets go of the GIL once for all.

        Returns:
            The sets, and (n,) the words of each text; from `enough` on any number that is not below.
        """
        members, lengths, counts = self.native.shingle_sets(texts, enough)
        ends = np.cumsum(np.frombuffer(lengths, np.int64))
        starts = np.concatenate([np.zeros(1, np.int64), ends])
        return Sets(starts, np.frombuffer(members, np.uint64)), np.frombuffer(counts, np.int64)

    def analyse_text(self, text: str, body_checksum: bytes = b"") -> Analysis:
        """The fingerprints of a main text, as the analysis of its page has them."""
        return self.native.with_stored_text(text.encode("utf-8", "surrogatepass"), body_checksum)

    def _completed(self, page: Analysis, body: bytes, content_type: str | None, links: bool) -> Analysis:
        """A page with the text that Python reads, if native code found hardly any."""
        error = page.no_text
        try:
            if not (page.has_text or error):
                return self._read_other(page, body, content_type, links)
            if page.has_text and b"articleBody" in body:
                text = readers.article_of_shell(body, content_type)
                if text is not None and len(words(text.main)) >= SHELL_WORDS:
                    return self.native.with_text(page, text, b"", links)
        except RuntimeError as panic:
            error = str(panic)
        if not error:
            return page
        _LOG.error("%s, over a body of %d bytes: it is stored without text; please report it", error, len(body))
        return page.without_text(f"{_UNREADABLE}{error}; please report it")

    def _read_other(self, page: Analysis, body: bytes, content_type: str | None, links: bool) -> Analysis:
        """A page with the text of a body that is not HTML."""
        try:
            text = readers.read(body, content_type, self._vocabulary)
        except readers.Unreadable as error:
            return page.without_text(_UNREADABLE + str(error))
        if text is None:
            return page.without_text(_NO_TEXT)
        return self.native.with_text(page, text, encode_entries(text.entries) if text.entries else b"", links)


@cache
def _visible() -> Kernel:
    return Kernel("visible")


def visible_words(body: bytes) -> int:
    """How many words a body shows, whatever of it is main text."""
    return _visible().analyse(body).word_count


def shared_members(sets: Sets, first: Numbers, second: Numbers) -> Numbers:
    """Count the members that each pair of sets shares; exact.

    Args:
        sets: members are uint64 hashes.
        first, second: (pairs,) numbers of sets.
    Returns:
        (pairs,) int64.
    """
    chosen, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    few = sets.take(chosen)  # native code is given the sets of these pairs alone
    starts, members = few.starts.astype(np.uint64), few.members.astype(np.uint64, copy=False)
    left, right = np.split(place.astype(np.uint64), 2)
    return np.frombuffer(docstore_native.shared_members(starts, members, left, right), np.int64)


def sketches_of_sets(sets: Sets) -> NDArray[np.uint8]:
    """The sketches of sets of hashes, (sets * BINS,) uint8: a byte a bin; zeros for an empty set."""
    members = np.ascontiguousarray(sets.members, np.uint64)
    return np.frombuffer(docstore_native.sketches_of_sets(sets.starts.astype(np.uint64), members), np.uint8)


# --- postings


def posting_rows(body_checksum: bytes, text_checksum: bytes, title: str) -> list[bytes]:
    """The rows of postings of a page: by its body, its text, and its text with the words of its title.

    Args:
        body_checksum: or its prefix.
        text_checksum: b"" for a text that is not compared: then there is only the first row.
        title: of the page.
    """
    return docstore_native.posting_rows(body_checksum, text_checksum, title.encode("utf-8", "surrogatepass"))


def bin_order(secret: bytes) -> bytes:
    """The order in which bins make bands, which a store's secret chooses; as they come for b"".

    Each bin is in it once: where a band takes the n-th bin, it takes the n-th of this order.
    """
    if not secret:
        return IN_ORDER
    drawn = np.frombuffer(blake3(secret).digest(8 * BINS), "<u8")
    return np.argsort(drawn, kind="stable").astype(np.uint8).tobytes()
