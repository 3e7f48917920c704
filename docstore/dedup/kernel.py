"""The one place that says which code analyses a body, compares texts, or counts what pairs of sets share.

`docstore/reference/` and `overlaps` define every result.  Native code gives the same bits faster, and is used if it is
built and has the extractor; `Kernel.name` says which code runs.  What native code leaves alone goes to the reference: a
body in a legacy multi-byte encoding is decoded there, and a string with lone surrogates analysed there.  Bodies that
are not HTML go to `text.readers`, whichever code runs; checksums are of the whole body.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docstore import compiled
from docstore.compiled import docstore_native
from docstore.dedup import checksum as checksums
from docstore.dedup import overlaps
from docstore.dedup.candidates import Numbers
from docstore.dedup.overlaps import Sets, take
from docstore.model import format as disk
from docstore.model.analysis import Analysis, Link, TextKeys
from docstore.model.capture import encode_entries
from docstore.model.errors import InvalidArgument
from docstore.reference import analysis as reference
from docstore.reference import charset, fingerprints, page, texts
from docstore.reference.charset import TEXT_LIMIT_BYTES
from docstore.reference.words import words
from docstore.text import readers
from docstore.text.readers import SHELL_WORDS

NATIVE: Final = "native"
REFERENCE: Final = "reference"
NATIVE_EXTRACTORS: Final = frozenset({"visible", "combined", "scored"})
"""Those that native code has."""
Texts: TypeAlias = "texts.Texts | docstore_native.Texts"

_TEXT_SCHEME: Final = bytes((disk.SCHEME_TEXT_1,))
_SKETCH_SCHEME: Final = bytes((disk.SCHEME_SKETCH_1,))
_NO_TEXT: Final = "no_text"
"""Why a body gets exact dedup only: it has no reader."""
_UNREADABLE: Final = "unreadable: "
"""The same, with the reader's message: it found no text."""
_BLAKE3_SCHEME: Final = bytes((disk.SCHEME_BLAKE3_256,))
_LOG = logging.getLogger(__name__)
_said: set[str] = set()


def _say_once(reason: str) -> None:
    if reason not in _said:
        _said.add(reason)
        _LOG.info("the readable reference analyses pages, about ten times slower than native code: %s", reason)


def _read_other(
    body: bytes, body_checksum: bytes, content_type: str | None, vocabulary: str, *, links: bool
) -> Analysis:
    """The analysis of a body that is not HTML, without fingerprints."""
    try:
        text = readers.read(body, content_type, vocabulary)
    except readers.Unreadable as error:
        return Analysis(False, body_checksum, no_text=_UNREADABLE + str(error))
    if text is None:
        return Analysis(False, body_checksum, no_text=_NO_TEXT)
    return Analysis(
        True,
        body_checksum,
        charset=text.charset,
        title=text.title,
        description=text.description,
        lang=text.lang,
        headings=text.headings,
        main_bytes=text.main.encode("utf-8", "surrogatepass"),
        links=tuple(Link(href, anchor) for href, anchor in text.links) if links else (),
        published=text.published,
        entries=encode_entries(text.entries) if text.entries else b"",
    )


def _read_shell(analysis: Analysis, body: bytes, content_type: str | None) -> Analysis | None:
    """A shell with the article of its JSON-LD as main text, without fingerprints; None if the page is no shell."""
    if analysis.word_count >= SHELL_WORDS or b"articleBody" not in body:
        return None
    text = readers.article_of_shell(body, content_type)
    if text is None or len(words(text.main)) < SHELL_WORDS:
        return None
    return Analysis(
        True,
        analysis.body_checksum,
        charset=analysis.charset,
        title=analysis.title or text.title,
        description=analysis.description,
        keywords=analysis.keywords,
        lang=analysis.lang or text.lang,
        canonical=analysis.canonical,
        headings=analysis.headings,
        main_bytes=text.main.encode("utf-8", "surrogatepass"),
        links=analysis.links,
        published=text.published,
    )


class Kernel:
    """Analyses bodies by one fixed choice of extractor, shingle length and checksum; stateless, safe in threads.

    Attributes:
        name: which code runs, "native" or "reference"; of the class, what runs where the extractor allows it.
    """

    name: str = REFERENCE if compiled.WHY_NOT else NATIVE

    def __init__(
        self,
        extractor: str = "visible",
        shingle_words: int = 5,
        checksum: str = "blake3",
        prefer: Literal["native", "reference"] | None = None,
        *,
        order: bytes = fingerprints.IN_ORDER,
        vocabulary: str = "",
    ) -> None:
        """Fix the choice.

        Args:
            extractor: by its name in a schema.
            shingle_words: words in a shingle.
            checksum: of the body, by its name in a schema.
            prefer: insist on one code; None takes native code where there is any.
            order: of the bins that make bands; see `fingerprints.band_keys`.
            vocabulary: of a schema: where XML of the user's own has its text.

        Raises:
            InvalidArgument: the vocabulary cannot be read, no extractor or checksum has that name, `shingle_words` is
                below 1, or native code is insisted on where it cannot be had.
        """
        if shingle_words < 1:
            raise InvalidArgument(f"shingle_words must be at least 1, not {shingle_words}")
        checksums.algorithm(checksum)
        if vocabulary:
            import_module("docstore.text.vocabulary").parse(vocabulary)  # lxml is loaded if it is needed
        self._vocabulary = vocabulary
        self._extract = page.extractor(extractor)
        self._shingle_words = shingle_words
        self._checksum = checksum
        self._order = order
        why_not = compiled.WHY_NOT
        if not why_not and extractor not in NATIVE_EXTRACTORS:
            why_not = f"the extractor {extractor!r} is in Python only"
        if prefer == NATIVE and why_not:
            raise InvalidArgument(f"the native kernel cannot be used: {why_not}; install a Rust toolchain and docstore")
        self._native: docstore_native.Kernel | None = None
        if why_not and prefer is None:
            _say_once(why_not)
        elif prefer != REFERENCE:
            # A run of 2**60 words is as good as any longer one: no text has so many.
            width = min(shingle_words, 1 << 60)
            self._native = docstore_native.Kernel(extractor, width, checksum == "blake3", order)
        self.name = REFERENCE if self._native is None else NATIVE

    def analyse(self, body: bytes, content_type: str | None = None, *, links: bool = False) -> Analysis:
        """Text and fingerprints of one body; never raises for what is in it."""
        if self._native is None:
            return self._by_reference(body, content_type, links)
        try:
            digest, outcome = self._native.analyse(body, content_type or "", links)
            return self._of_native(body, content_type, links, digest, outcome)
        except (UnicodeEncodeError, RuntimeError) as error:
            return self._by_reference(body, content_type, links, error)

    def analyse_many(self, bodies: Sequence[tuple[bytes, str | None]], *, links: bool = False) -> list[Analysis]:
        """`analyse` of each (body, content type), in order; native code lets go of the GIL once for all."""
        if self._native is not None:
            try:
                found = self._native.analyse_many([(body, content_type or "") for body, content_type in bodies], links)
                return [
                    self._of_native(body, content_type, links, digest, outcome)
                    for (body, content_type), (digest, outcome) in zip(bodies, found, strict=True)
                ]
            except (UnicodeEncodeError, RuntimeError):  # one at a time tells which body it is
                pass
        return [self.analyse(body, content_type, links=links) for body, content_type in bodies]

    def shingles(self, text: str) -> NDArray[np.uint64]:
        """The shingle set of a main text: (n,) uint64, ascending."""
        if self._native is not None:
            try:
                return np.frombuffer(self._native.shingles(text), np.uint64)
            except (UnicodeEncodeError, RuntimeError):
                pass
        return reference.shingles(text, self._shingle_words)

    def text_keys(self, text: str) -> TextKeys:
        """What a main text is posted under, as its page's analysis has it."""
        if self._native is not None:
            try:
                found = self._with_fingerprints(Analysis(True, b"", main_bytes=text.encode()))
                return TextKeys(found.shingle_count, found.band_keys, found.fingerprints, found.runs)
            except (UnicodeEncodeError, RuntimeError):
                pass
        return reference.text_keys(text, self._shingle_words, self._order)

    def texts_held(self, limit: int, bounds: texts.SketchBounds, limit_bytes: int) -> Texts:
        """An empty cache of texts; see `texts.Texts`."""
        held = texts.Texts if self._native is None else docstore_native.Texts
        return held(limit, bounds, limit_bytes)

    def overlap(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
        """How many shingles two sets share."""
        return fingerprints.overlap(first, second) if self._native is None else docstore_native.overlap(first, second)

    def _of_native(
        self,
        body: bytes,
        content_type: str | None,
        links: bool,
        digest: bytes | None,
        outcome: docstore_native.Page | bool | None,
    ) -> Analysis:
        """What native code gave, as an `Analysis`; with what it left to be done."""
        if digest is None:
            body_checksum = checksums.body_checksum(body, self._checksum)
        else:
            body_checksum = _BLAKE3_SCHEME + digest
        if outcome is None:
            other = _read_other(body, body_checksum, content_type, self._vocabulary, links=links)
            return self._with_fingerprints(other)
        if isinstance(outcome, bool):
            assert self._native is not None
            decoded = charset.decode(body[:TEXT_LIMIT_BYTES], content_type)
            outcome = self._native.source(decoded.text, decoded.encoding, links)
        name, title, description, keywords, lang, canonical, headings, main, outlinks, numbers = outcome
        found = tuple([Link(href, text) for href, text in outlinks]) if outlinks else ()
        name = sys.intern(name)
        if numbers is None:
            analysis = Analysis(
                True, body_checksum, name, title, description, keywords, lang, canonical, headings, main, links=found
            )
        else:
            word_count, text_digest, simhash, bins, band_keys, samples, runs, shingles = numbers
            analysis = Analysis(
                True,
                body_checksum,
                name,
                title,
                description,
                keywords,
                lang,
                canonical,
                headings,
                main,
                word_count,
                _TEXT_SCHEME + text_digest,
                len(shingles) // 8,
                simhash,
                _SKETCH_SCHEME + bins,
                np.frombuffer(band_keys, np.uint64),
                np.frombuffer(samples, np.uint64),
                np.frombuffer(runs, np.uint64),
                found,
                np.frombuffer(shingles, np.uint64),
            )
            if word_count >= SHELL_WORDS:
                return analysis
        shell = _read_shell(analysis, body, content_type)
        return analysis if shell is None else self._with_fingerprints(shell)

    def _with_fingerprints(self, declared: Analysis) -> Analysis:
        """An analysis with the fingerprints of its main text, by native code."""
        assert self._native is not None
        numbers = self._native.fingerprints(declared.main) if declared.main_bytes else None
        if numbers is None:
            return declared
        word_count, text_digest, simhash, bins, band_keys, samples, runs, shingles = numbers
        return declared._replace(
            word_count=word_count,
            text_checksum=_TEXT_SCHEME + text_digest,
            shingle_count=len(shingles) // 8,
            simhash=simhash,
            sketch=_SKETCH_SCHEME + bins,
            band_keys=np.frombuffer(band_keys, np.uint64),
            fingerprints=np.frombuffer(samples, np.uint64),
            runs=np.frombuffer(runs, np.uint64),
            shingles=np.frombuffer(shingles, np.uint64),
        )

    def _by_reference(
        self, body: bytes, content_type: str | None, links: bool, error: Exception | None = None
    ) -> Analysis:
        if isinstance(error, RuntimeError):
            _LOG.error("%s; the reference analyses this body of %d bytes: please report it", error, len(body))
        body_checksum = checksums.body_checksum(body, self._checksum)
        width, order = self._shingle_words, self._order
        if not readers.is_html(body, content_type):
            other = _read_other(body, body_checksum, content_type, self._vocabulary, links=links)
            return reference.with_fingerprints(other, width, order)
        analysis = reference.analyse_html(
            body, body_checksum, content_type, self._extract, width, links=links, order=order
        )
        shell = _read_shell(analysis, body, content_type)
        return analysis if shell is None else reference.with_fingerprints(shell, width, order)


def shared_members(sets: Sets, first: Numbers, second: Numbers) -> Numbers:
    """What each pair of sets of hashes shares, (pairs,) int64; see `overlaps.shared_members`."""
    if compiled.WHY_NOT:
        return overlaps.shared_members(sets, first, second)
    chosen, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    few = take(sets, chosen)  # native code is given the sets of these pairs alone
    starts, members = few.starts.astype(np.uint64), few.members.astype(np.uint64, copy=False)
    left, right = np.split(place.astype(np.uint64), 2)
    return np.frombuffer(docstore_native.shared_members(starts, members, left, right), np.int64)
