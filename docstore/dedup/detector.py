"""The verdict: the relation of a page to pages of other URLs.

Fingerprints propose, exact comparison decides: every similarity here is computed from shingle sets of stored texts.  A
page has postings only while it has its own body, so any page in the index can be compared, if it is live.  The verdict
is the first that holds of exact, same_text, near, contained, similar, new.  If several pages qualify, the verdict names
the most similar one, then the oldest, then the one with the smallest row key.  Pages with contradicting titles do not
qualify (`dedup.comparable`).

The detector asks `LivePages` for pages, and calls nothing above it.  It compares and writes nothing; `writing.judge`
decides how a page is stored.  `Detector.compare` is the way of a put:

    oldest page of the same body, or of the same text and title    `HashIndex.oldest`
    candidates by their fingerprints, verified                     `matches`: `HashIndex.propose`, then `_verify`
    candidates without those that titles set apart                 `by_titles`
    the verdict                                                    `_strongest`
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from docstore.compiled import docstore_native
from docstore.dedup.comparable import (
    MIN_NEAR_WORDS,
    MIN_SAME_TEXT_WORDS,
    REASON_CROWDED,
    REASON_DOUBTFUL,
    REASON_TITLE_MISMATCH,
    TitledPage,
    bodies_compare,
    is_blank,
    is_doubtful,
    same_title,
    status_class,
    text_compares,
    title_mismatch,
)
from docstore.dedup.index import BODY_ROW, POINTER_SLICE, TEXT_ROW, Fits, HashIndex, Proposal, titled_row
from docstore.dedup.kernel import Kernel
from docstore.dedup.pages import LivePages, StoredPage
from docstore.model.analysis import Analysis
from docstore.model.capture import STORED_REFUSED, PagePointer, StoredVerdict, body_head, text_number
from docstore.model.choices import VerdictKind
from docstore.model.format import REASON_BLANK, TEXT_NUMBER_BYTES
from docstore.model.keys import host_of, site
from docstore.model.types import DUPLICATES, Previous, Schema
from docstore.storage.cache import Memory

MAX_VERIFIED = 16
"""Candidates compared exactly per page: the first that the index proposes and sketches do not rule out; if none of them
is near, as many more, the likeliest by their sketches."""
DELTA_SIMILARITY = 0.4
"""A page with at least this similarity is worth a delta, even if it is not a duplicate."""
MAX_EVIDENCE = 64
"""The oldest pages of a text that may be evidence against titles."""
EVIDENCE_MARGIN = 0.1
"""A third page counts as evidence if its similarity is below that of a near page by at most this."""
SKETCH_MARGIN = 0.1
"""Three standard deviations of a sketch's estimate: texts further below the bound are ruled out."""
LIKELY_CONTAINED = 0.8
"""Least share of the smaller page that must be possible by the upper end of a sketch's error."""
SKETCH_BYTES = 400
"""Memory of a sketch in the cache.  Most candidates are recent pages of the same site, and sketches rule out most."""
MOST_FOREIGN = 16_384
"""Pages of a body or text among which one of a certain site is looked for; that takes some 10 ms."""
MAX_TITLES = 4096
"""Live pages with the text of a page, whose titles are compared."""
GONE_ROUNDS = 24
"""Queries of the index for one page while the proposed texts are gone: 960 texts in all."""
_new_tuple = tuple.__new__
"""Takes half the time of a NamedTuple's constructor; there are a few a page."""


Comparison = tuple[StoredVerdict, PagePointer | None, PagePointer | None]
"""The result of comparing a page with other rows.

It is the verdict; the page that this page contains; and the nearest verified page, duplicate or not, whose similarity
is at least DELTA_SIMILARITY, as a base for a delta.
"""


def _verdict(
    kind: VerdictKind,
    of: PagePointer | None = None,
    similarity: float = 0.0,
    reason: str = "",
    contains: PagePointer | None = None,
    counts: tuple[int, int] = (0, 0),
) -> StoredVerdict:
    """A verdict against other rows.  Its fields about the page's own row are filled in by `writing.judge`."""
    of_timestamp, of_row_key = of or (0, b"")
    contained = contains.row_key if contains else b""
    its_row = Previous.NONE, 0.0, STORED_REFUSED
    fields = kind, of_row_key, of_timestamp, similarity, reason, contained, *counts, *its_row
    return _new_tuple(StoredVerdict, fields)


class Match(NamedTuple):
    """A verified candidate.

    Attributes:
        pointer: the oldest live page with this text.
        jaccard: exact Jaccard coefficient.
        contained: share of the query page's shingles that are in this page.
        contains: share of this page's shingles that are in the query page.
        number: of its text.
    """

    pointer: PagePointer
    jaccard: float
    contained: float
    contains: float
    number: int


class Thresholds(NamedTuple):
    """Least similarities for verdicts; only this class decides by them.

    Attributes:
        near: least Jaccard coefficient of near duplicates.
        contained: least share of the smaller page that is in the larger one.
        similar: least Jaccard coefficient of similar pages; None turns this verdict off.
    """

    near: float
    contained: float
    similar: float | None = None

    @classmethod
    def of(cls, schema: Schema) -> Thresholds:
        """The thresholds of a store."""
        return cls(schema.near_threshold, schema.contained_threshold, schema.similar_threshold)

    @property
    def least(self) -> float:
        """The Jaccard coefficient below which there is no verdict but `contained`."""
        return self.near if self.similar is None else self.similar

    def at_least(self, least: float) -> Thresholds:
        """The thresholds of a query for pages with at least this similarity."""
        return Thresholds(max(self.near, least), max(self.contained, least), least)

    def kind(self, similarity: float, contained: float) -> VerdictKind:
        """The verdict for a Jaccard coefficient, and the share of the page that is in the other page."""
        if similarity >= self.near:
            return VerdictKind.NEAR
        if contained >= self.contained:
            return VerdictKind.CONTAINED
        is_similar = self.similar is not None and similarity >= self.similar
        return VerdictKind.SIMILAR if is_similar else VerdictKind.NEW


def jaccard(shared: int, first: int, second: int) -> float:
    """Jaccard coefficient from the sizes of two sets and of their intersection; 0.0 for two empty sets."""
    either = first + second - shared
    return shared / either if either else 0.0


class Detector:
    """Gives verdicts from an index and rows.  Not thread-safe: one sequencer owns it."""

    def __init__(
        self,
        index: HashIndex,
        kernel: Kernel,
        pages: LivePages,
        thresholds: Thresholds,
        *,
        title_rule: bool,
        memory: Memory,
    ) -> None:
        self._index = index
        self._kernel = kernel
        self._pages = pages
        self._thresholds = thresholds
        self._least = thresholds.least
        self._title_rule = title_rule
        self._matched: tuple[Analysis, list[Match], Proposal] | None = None
        """The last page that `compare` looked for, and what it found."""
        self._unreadable: set[PagePointer] = set()
        """Candidates that turned out to be unreadable while this page was compared.  The next page tries them again."""
        bounds = (DELTA_SIMILARITY - SKETCH_MARGIN, SKETCH_MARGIN, LIKELY_CONTAINED)
        self._texts = docstore_native.Texts(memory.share("sketches") // SKETCH_BYTES, bounds, memory.share("shingles"))

    def _page(self, pointer: PagePointer) -> StoredPage | None:
        """The live version at a row and time; None if there is none, or it is known to be unreadable."""
        return None if pointer in self._unreadable else self._pages.page(pointer)

    def candidates_to_read(self, analysis: Analysis, numbers: list[int]) -> list[int]:
        """Of the texts proposed for a page, those whose pages will probably be read.

        Their sketches are not cached, or do not rule out that the texts are similar.
        """
        least = DELTA_SIMILARITY - SKETCH_MARGIN
        unheld = self._texts.unheld(numbers)
        return [*unheld, *self._texts.likeliest(analysis.sketch, numbers, least, MAX_VERIFIED)]

    def compare(self, row_key: bytes, body: bytes, analysis: Analysis, *, status: int) -> Comparison:
        """Compare a page with the live pages of other rows, and give its verdict.

        Args:
            row_key: its own; a page is never a duplicate of itself.
            body: its bytes.
            analysis: its fingerprints.
            status: HTTP status; it limits the pages to compare (`comparable`).
        """
        word_count = analysis.word_count
        if not word_count and is_blank(body):
            return _verdict(VerdictKind.NEW, reason=REASON_BLANK), None, None
        checksum = analysis.body_checksum
        condition = status_class(status), checksum
        has_body, body_row = self._has_body(checksum, status), BODY_ROW + body_head(checksum)
        text = analysis.text_checksum, analysis.title, bool(analysis.entries)
        self._unreadable.clear()
        while True:
            contains = nearest = None
            same = self._index.oldest(body_row, row_key, has_body, condition, self._pages.batch.postings)
            if same is not None:
                verdict, nearest = _verdict(VerdictKind.EXACT, same, 1.0, counts=(1, 1)), same
            elif not analysis.has_text:
                verdict = _verdict(VerdictKind.NEW, reason=analysis.no_text)
            elif not text_compares(status):
                verdict = _verdict(VerdictKind.NEW, reason="status")
            elif word_count >= MIN_SAME_TEXT_WORDS and (same := self._oldest_titled(row_key, *text)) is not None:
                verdict, nearest = _verdict(VerdictKind.SAME_TEXT, same, 1.0, counts=(1, 1)), same
            elif word_count >= MIN_NEAR_WORDS:
                verdict, contains, nearest = self._similar_text(row_key, body, analysis)
            else:
                verdict = _verdict(VerdictKind.NEW, reason="short_text")
            if (of := verdict.of) is None or self._pages.is_readable(of):
                break
            self._unreadable.add(of)
        if not verdict.reason and verdict.kind is not VerdictKind.EXACT and is_doubtful(analysis):
            verdict = verdict._replace(reason=REASON_DOUBTFUL)
        return verdict, contains, nearest

    def compare_with(self, of: PagePointer, body: bytes, analysis: Analysis, *, status: int) -> StoredVerdict:
        """Compare a page with one live page of another row: exact, same_text, near, contained, or new; see `compare`.

        Titles are not compared: the sweep that proposes the pair has seen all evidence.
        """
        page, is_list = self._page(of), bool(analysis.entries)
        kind, similarity = VerdictKind.NEW, 1.0
        if page is None or is_blank(body):
            return _verdict(kind)
        if self._has_body(analysis.body_checksum, status)(of):
            kind = VerdictKind.EXACT
        elif text_compares(status) and self._has_text(text_number(page.text_checksum), is_list)(of):
            number = text_number(analysis.text_checksum)
            titled = self._has_text(number, is_list, analysis.text_checksum, analysis.title)
            if analysis.word_count >= MIN_SAME_TEXT_WORDS and titled(of):
                kind = VerdictKind.SAME_TEXT
            elif analysis.word_count >= MIN_NEAR_WORDS:
                similarity, contained = self.shares(analysis, page.text_checksum, lambda: self._pages.text(of))
                kind = self._thresholds._replace(similar=None).kind(similarity, contained)
                similarity = contained if kind is VerdictKind.CONTAINED else similarity
        if kind is VerdictKind.NEW or not self._pages.is_readable(of):
            return _verdict(VerdictKind.NEW)
        reason = REASON_DOUBTFUL if kind is not VerdictKind.EXACT and is_doubtful(analysis) else ""
        return _verdict(kind, of, similarity, reason, counts=(1, 1))

    def matches(self, row_key: bytes, analysis: Analysis, limit: int) -> tuple[list[Match], Proposal]:
        """Candidates for a page, verified.

        Args:
            row_key: pages of this row are skipped; b"" skips none.
            analysis: the page's fingerprints.
            limit: most candidates verified.
        Returns:
            Matches, most similar first (then oldest, then row key), and the proposal of the index.
        """
        matches: list[Match] = []
        looked_at: set[int] = set()
        for _ in range(GONE_ROUNDS):
            proposal = self._index.propose(analysis, self._pages.batch.postings)
            gone_before = self._index.gone_seen
            numbers = (
                [number for number in proposal.numbers if number not in looked_at] if looked_at else proposal.numbers
            )
            self._verify(row_key, analysis, numbers, limit, matches)
            if self._index.gone_seen == gone_before or len(matches) == limit:
                break
            looked_at.update(numbers)  # removed texts took the place of others
        if len(matches) == limit and all(match.jaccard < self._thresholds.near for match in matches):
            others = [*proposal.numbers, *proposal.further]
            self._verify_likeliest(row_key, analysis, others, matches)
        if len(matches) > 1:
            matches.sort(key=_best_first)
        return matches, proposal

    def by_titles(
        self,
        row_key: bytes,
        body: bytes,
        analysis: Analysis,
        matches: list[Match],
        least: float,
        *,
        decisive_only: bool = False,
    ) -> tuple[list[Match], list[Match]]:
        """Matches that titles allow, most similar first, and matches that titles set apart from a page.

        A match that is set apart is replaced by the oldest page with the same text that is not, if there is one.

        Args:
            row_key: pages of this row are skipped.
            body: of the page.
            analysis: its fingerprints.
            matches: from `matches`.
            least: Jaccard coefficient below which there is no verdict; such matches are kept unchecked.
            decisive_only: leave out matches that are less similar than one that is allowed: they decide no verdict,
                unless one page is contained in the other.
        """
        contained = self._thresholds.contained
        is_allowed: Callable[[PagePointer], bool] | None = None
        allowed: list[Match] = []
        apart: list[Match] = []
        enough = 0.0
        for match in matches:
            is_whole = match.contained >= contained or match.contains >= contained
            if match.jaccard < enough and not is_whole:
                continue
            if match.jaccard < least and not is_whole:
                allowed.append(match)
                continue
            if is_allowed is None:
                is_allowed = self._allowed_by_titles(row_key, body, analysis, matches)
            if not is_allowed(match.pointer):
                other = self._other_of_text(row_key, analysis.title, match.pointer, is_allowed)
                if other is None:
                    apart.append(match)
                    continue
                match = match._replace(pointer=other)
            allowed.append(match)
            if decisive_only:
                enough = max(enough, match.jaccard)
        if len(allowed) > 1:  # another page of a text may be younger
            allowed.sort(key=_best_first)
        return allowed, apart

    def _allowed_by_titles(
        self, row_key: bytes, body: bytes, analysis: Analysis, matches: list[Match]
    ) -> Callable[[PagePointer], bool]:
        """A function: whether titles allow a verdict on the text of a page to name another page."""
        page = TitledPage(row_key, analysis.title, lambda: analysis.main, lambda: body)
        like_them: list[PagePointer] = []
        by_host: dict[bytes, list[TitledPage]] = {}

        def of_host(host: bytes) -> list[TitledPage]:
            if not like_them:
                near, contained = self._thresholds.near - EVIDENCE_MARGIN, self._thresholds.contained
                like = [match for match in matches if match.jaccard >= near or match.contained >= contained]
                names = [match.number.to_bytes(TEXT_NUMBER_BYTES, "big") for match in like]
                texts = [self._index.pages(TEXT_ROW + name, self._pages.batch.postings) for name in names]
                oldest = chain.from_iterable(islice(pages, MAX_EVIDENCE) for pages in texts)  # live or not
                like_them.extend(dict.fromkeys(chain((match.pointer for match in like), oldest)))
            if host not in by_host:
                pointers = [each for each in like_them if host_of(each.row_key) == host]
                by_host[host] = [self._pages.titled(each) for each in pointers if self._page(each) is not None]
            return by_host[host]

        def is_allowed(pointer: PagePointer) -> bool:
            other = self._pages.titled(pointer)
            if other.title == page.title:
                return True
            evidence = (each for host in {page.host, other.host} if host for each in of_host(host))
            return not title_mismatch(page, other, evidence)

        return is_allowed if self._title_rule else lambda pointer: True

    def _other_of_text(
        self, row_key: bytes, title: str, pointer: PagePointer, is_allowed: Callable[[PagePointer], bool]
    ) -> PagePointer | None:
        """The oldest live page with the text of another page that titles allow: the oldest with the page's own title,
        or the first of all."""
        stored = self._page(pointer)
        if stored is None:
            return None
        number, is_list = text_number(stored.text_checksum), stored.is_list
        has_text = self._has_text(number, is_list=is_list)

        def fits(other: PagePointer) -> bool:
            is_candidate = other != pointer and other.row_key != row_key and has_text(other)
            its = self._page(other) if is_candidate else None
            return its is not None and its.text_checksum == stored.text_checksum and is_allowed(other)

        row, new = TEXT_ROW + number, self._pages.batch.postings
        first = self._index.oldest(row, row_key, has_text, is_list, new)
        with_text = [] if first is None else [first, *islice(self._index.pages(row, new, first), POINTER_SLICE - 1)]
        others = filter(fits, with_text)
        oldest = [self._oldest_titled(row_key, stored.text_checksum, title, is_list), next(others, None)]
        return min((page for page in oldest if page is not None), default=None)

    def _verify_likeliest(self, row_key: bytes, analysis: Analysis, numbers: list[int], matches: list[Match]) -> None:
        """Compare a page that has many relatives with further texts whose sketches say that they are near."""
        compared = {match.number for match in matches}
        numbers = [number for number in numbers if number not in compared]
        for number in self._texts.unheld(numbers):
            self._oldest(row_key, number, None, analysis, is_list=bool(analysis.entries))  # caches its sketch
        least = self._thresholds.near - SKETCH_MARGIN
        likely = self._texts.likeliest(analysis.sketch, numbers, least, MAX_VERIFIED)
        if likely:
            self._verify(row_key, analysis, likely, len(matches) + len(likely), matches)

    def _verify(
        self,
        row_key: bytes,
        analysis: Analysis,
        numbers: list[int],
        limit: int,
        matches: list[Match],
    ) -> None:
        """Compare a page with texts until there are `limit` matches."""
        size, is_list = analysis.shingle_count, bool(analysis.entries)
        for number, is_known, checksum, shared, others in self._compare_texts(analysis, numbers, limit):
            unlike = None if is_known else analysis
            while (page_of_text := self._oldest(row_key, number, checksum, unlike, is_list=is_list)) is not None:
                pointer, stored = page_of_text
                if checksum == stored.text_checksum:
                    break
                overlap = self._overlap(analysis, number, stored.text_checksum, partial(self._pages.text, pointer))
                if overlap is not None:
                    shared, others = overlap
                    break
                self._unreadable.add(pointer)  # another page may have the text
            if page_of_text is None or not others:
                continue
            similarity = shared / (size + others - shared)
            matches.append(_new_tuple(Match, (pointer, similarity, shared / size, shared / others, number)))
            if len(matches) == limit:
                break

    def shares(
        self, analysis: Analysis, text_checksum: bytes, load_text: Callable[[], str | None]
    ) -> tuple[float, float]:
        """Exact Jaccard coefficient of a page and a stored text, and the share of the page that is in that text.

        Both are 0.0 if either text has no word, or is unreadable.

        Args:
            analysis: the page's fingerprints.
            text_checksum: of the stored text.
            load_text: reads it; called only if its shingles are not cached.
        """
        if not analysis.text_checksum or not text_checksum:
            return 0.0, 0.0
        if analysis.text_checksum == text_checksum:
            return 1.0, 1.0
        self._compare_texts(analysis, [], 0)
        number = int.from_bytes(text_number(text_checksum), "big")
        overlap = self._overlap(analysis, number, text_checksum, load_text)
        if overlap is None:
            return 0.0, 0.0
        size = analysis.shingle_count
        return jaccard(overlap[0], size, overlap[1]), overlap[0] / max(1, size)

    def _compare_texts(
        self, analysis: Analysis, numbers: list[int], most: int
    ) -> list[tuple[int, bool, bytes | None, int, int]]:
        """Cache the sketch and the shingles of a page, then compare it with texts; see `docstore_native.Texts`."""
        text_checksum, sketch, shingles = analysis.text_checksum, analysis.sketch, analysis.shingles
        number = int.from_bytes(text_number(text_checksum), "big")
        return self._texts.compare((number, text_checksum, sketch, analysis.shingle_count, shingles), numbers, most)

    def _overlap(
        self, analysis: Analysis, number: int, text_checksum: bytes, load_text: Callable[[], str | None]
    ) -> tuple[int, int] | None:
        """Shingles that a cached page shares with a text, and shingles of that text; None if it is unreadable."""
        cached = self._texts.overlap(int.from_bytes(text_number(analysis.text_checksum), "big"), number)
        if cached is not None and cached[0] == text_checksum:
            return cached[1:]
        text = load_text()
        if text is None:
            return None
        shingles = self._kernel.shingles(text)
        if not len(shingles):
            return 0, 0  # a cell set by hand: not the text of the fingerprints
        self._texts.keep(number, text_checksum, shingles)
        return docstore_native.overlap(analysis.shingles, shingles), len(shingles)

    # --- exact and same_text

    def _has_body(self, checksum: bytes, status: int) -> Fits:
        """A test whether a page is live, has this body, and is compared with pages of this status."""

        def fits(pointer: PagePointer) -> bool:
            page = self._page(pointer)
            return page is not None and page.checksum == checksum and bodies_compare(status, page.status)

        return fits

    def _oldest_titled(self, row_key: bytes, text_checksum: bytes, title: str, is_list: bool) -> PagePointer | None:
        """The oldest live page with this text and title that is compared."""
        number, new = text_number(text_checksum), self._pages.batch.postings
        if self._index.few_pages(TEXT_ROW + number, new) == []:
            return None  # for most pages, whose row of postings is cached
        fits = self._has_text(number, is_list, text_checksum, title)
        condition = text_checksum, title, is_list
        return self._index.oldest(titled_row(number, title), row_key, fits, condition, new)

    def equal(
        self, row_key: bytes, body: bytes, analysis: Analysis, *, status: int
    ) -> Iterator[tuple[PagePointer, VerdictKind]]:
        """All pages of other rows with the body, or with the text and title of a page, and the first pages with only
        its text; each with its verdict.  Oldest first within each verdict; some pages come twice.

        The verdict is `new` if titles set the pages apart.
        """
        if not is_blank(body):
            has_body = self._has_body(analysis.body_checksum, status)
            for pointer in self._index.pages(BODY_ROW + body_head(analysis.body_checksum)):
                if pointer.row_key != row_key and has_body(pointer):
                    yield pointer, VerdictKind.EXACT
        if not text_compares(status) or analysis.word_count < MIN_SAME_TEXT_WORDS:
            return
        number, is_list = text_number(analysis.text_checksum), bool(analysis.entries)
        has_title = self._has_text(number, is_list, analysis.text_checksum, analysis.title)
        for pointer in self._index.pages(titled_row(number, analysis.title)):
            if pointer.row_key != row_key and has_title(pointer):
                yield pointer, VerdictKind.SAME_TEXT
        if analysis.word_count < MIN_NEAR_WORDS:
            return
        is_allowed = self._allowed_by_titles(row_key, body, analysis, self.matches(row_key, analysis, MAX_VERIFIED)[0])
        has_text = self._has_text(number, is_list=is_list)
        with_text = (
            page for page in self._index.pages(TEXT_ROW + number) if page.row_key != row_key and has_text(page)
        )
        for pointer in islice(with_text, MAX_TITLES):
            page = self._page(pointer)
            if page is None or page.text_checksum != analysis.text_checksum:
                continue
            if not same_title(self._pages.titled(pointer).title, analysis.title):
                yield pointer, VerdictKind.NEAR if is_allowed(pointer) else VerdictKind.NEW

    def _has_text(
        self, number: bytes, is_list: bool | None = None, text_checksum: bytes = b"", title: str = ""
    ) -> Fits:
        """A test whether a page is live, has a text of this number, and may be compared.

        Args:
            number: of the text.
            is_list: whether the page must be a list, or must be none; None for either.
            text_checksum: if given, the page must have this very text, under a title with the same words.
            title: see `text_checksum`.
        """

        def fits(pointer: PagePointer) -> bool:
            page = self._page(pointer)
            if page is None or text_number(page.text_checksum) != number:
                return False
            if is_list is not None and page.is_list != is_list:
                return False
            if not text_compares(page.status):
                return False  # an error page may have the body of a good one
            has_text = not text_checksum or page.text_checksum == text_checksum
            return has_text and (not text_checksum or same_title(self._pages.titled(pointer).title, title))

        return fits

    def _similar_text(self, row_key: bytes, body: bytes, analysis: Analysis) -> Comparison:
        matches, proposal = self.matches(row_key, analysis, MAX_VERIFIED)
        self._matched = analysis, matches, proposal
        counts = proposal.candidates, len(matches)
        reason = REASON_CROWDED if proposal.is_crowded else ""
        if not matches:
            return _verdict(VerdictKind.NEW, reason=reason, counts=counts), None, None
        nearest = matches[0].pointer if matches[0].jaccard >= DELTA_SIMILARITY else None
        matches, apart = self.by_titles(row_key, body, analysis, matches, self._least, decisive_only=True)
        smaller = [match for match in matches if match.contains >= self._thresholds.contained]
        contains = min(smaller, key=lambda match: (-match.contains, match.pointer)).pointer if smaller else None
        kind, of, similarity = self._strongest(matches)
        if kind in DUPLICATES:
            reason = ""
        elif apart:
            apart_kind, apart_of, apart_similarity = self._strongest(apart)
            if apart_kind in DUPLICATES or (kind is VerdictKind.NEW and apart_of is not None):
                kind, of, similarity, reason = VerdictKind.NEW, apart_of, apart_similarity, REASON_TITLE_MISMATCH
        return _verdict(kind, of, similarity, reason, contains, counts), contains, nearest

    def _strongest(self, matches: list[Match]) -> tuple[VerdictKind, PagePointer | None, float]:
        """The first verdict that holds for matches, most similar first; the page that it names, and its similarity."""
        if not matches:
            return VerdictKind.NEW, None, 0.0
        nearest = matches[0]
        kind = self._thresholds.kind(nearest.jaccard, max([match.contained for match in matches]))
        if kind is VerdictKind.NEW:
            return kind, None, 0.0
        if kind is VerdictKind.CONTAINED:
            whole = min(matches, key=lambda match: (-match.contained, match.pointer))
            return kind, whole.pointer, whole.contained
        return kind, nearest.pointer, nearest.jaccard

    # --- pages of one site

    def of_site(
        self, row_key: bytes, body: bytes, analysis: Analysis, kinds: Container[VerdictKind], *, status: int
    ) -> StoredVerdict | None:
        """The verdict of a page against the pages of its own site that show what they did; None if there is none.

        Pages of other sites hide none of them: a body or a text has at most MOST_FOREIGN such pages looked through.
        Texts are those of the candidates of `compare`.  Only these kinds of verdicts are looked for.
        """
        name, is_list, new = site(row_key), bool(analysis.entries), self._pages.batch.postings

        def first(row: bytes, fits: Fits) -> PagePointer | None:
            pages = self._index.pages_of_site(row, name, MOST_FOREIGN, new)
            return next((page for page in pages if page.row_key != row_key and fits(page) and stands(page)), None)

        def stands(page: PagePointer) -> bool:
            return self._pages.is_current(page) and self._pages.is_readable(page)

        body_row = BODY_ROW + body_head(analysis.body_checksum)
        has_body = self._has_body(analysis.body_checksum, status)
        same = first(body_row, has_body) if VerdictKind.EXACT in kinds else None
        if same is not None:
            return _verdict(VerdictKind.EXACT, same, 1.0, counts=(1, 1))
        if not analysis.has_text or not text_compares(status) or analysis.word_count < MIN_SAME_TEXT_WORDS:
            return None
        number, reason = text_number(analysis.text_checksum), REASON_DOUBTFUL if is_doubtful(analysis) else ""
        titled = self._has_text(number, is_list, analysis.text_checksum, analysis.title)
        same = first(titled_row(number, analysis.title), titled) if VerdictKind.SAME_TEXT in kinds else None
        if same is not None:
            return _verdict(VerdictKind.SAME_TEXT, same, 1.0, reason, counts=(1, 1))
        if analysis.word_count < MIN_NEAR_WORDS or VerdictKind.NEAR not in kinds:
            return None
        own: list[Match] = []
        if self._matched is None or self._matched[0] is not analysis:
            self._matched = analysis, *self.matches(row_key, analysis, MAX_VERIFIED)
        _, matches, proposal = self._matched
        for match in matches:
            text = match.number.to_bytes(TEXT_NUMBER_BYTES, "big")
            page = first(TEXT_ROW + text, self._has_text(text, is_list))
            own += [] if page is None else [match._replace(pointer=page)]
        allowed, _ = self.by_titles(row_key, body, analysis, own, self._least)
        kind, of, similarity = self._strongest([match for match in allowed if site(match.pointer.row_key) == name])
        counts = proposal.candidates, len(matches)
        return None if of is None else _verdict(kind, of, similarity, reason, counts=counts)

    # --- from a text number to a verified page

    def _oldest(
        self, row_key: bytes, number: int, checksum: bytes | None, unlike: Analysis | None, *, is_list: bool
    ) -> tuple[PagePointer, StoredPage] | None:
        """The oldest live page with a text that is compared, or None.

        A text without such a page in any row is gone: the index stops proposing it.

        Args:
            row_key: pages of this row are skipped.
            number: of the text.
            checksum: of the text that has this number, as far as it is known; another text may have it, too.
            unlike: a page that was not compared with the text's sketch; None is also returned if the sketch rules out
                that they are similar, or that one contains the other.
            is_list: whether to look for lists, or for pages.
        """
        name, new = number.to_bytes(TEXT_NUMBER_BYTES, "big"), self._pages.batch.postings
        pointer: PagePointer | None = None
        page: StoredPage | None = None
        row = TEXT_ROW + name
        few = self._index.few_pages(row, new)
        if few is None:
            pointer = self._index.oldest(row, row_key, self._has_text(name, is_list=is_list), is_list, new)
            page = None if pointer is None else self._page(pointer)
        else:  # the same for a row of few pages: nearly all have one
            for pointer in few:
                page = None if pointer.row_key == row_key else self._page(pointer)
                if (
                    page is not None
                    and (page.text_checksum == checksum or text_number(page.text_checksum) == name)
                    and page.is_list == is_list
                    and text_compares(page.status)
                ):
                    break
                page = None
        if pointer is None or page is None:
            if self._index.oldest(row, b"", self._has_text(name), new=new) is None:
                self._index.note_gone(number)
            return None
        if unlike is not None:
            self._texts.put(number, page.sketch, page.shingle_count)
            if self._texts.rules_out(unlike.sketch, unlike.shingle_count, number):
                return None
        return pointer, page


def _best_first(match: Match) -> tuple[float, PagePointer]:
    return -match.jaccard, match.pointer
