"""What the compiled module offers; Python imports it through `docstore.compiled`.

The files of its classes in `native/python/src`:

    analysis.rs  Analysis
    asking.rs    CacheCounts, SeenPage; calls the methods of a Reads, which Python implements
    bases.rs     Bases
    cache.rs     LruCache
    captures.rs  LiveCaptures
    checks.rs    Queries
    encode.rs    Group
    filter.rs    RowFilter
    judge.rs     Core
    kernel.rs    Kernel
    moving.rs    Mover, SharedMoves
    packed.rs    PackedRows
    pages.rs     Judged
    postings.rs  Postings, PostingHashes
    queries.rs   IndexQuery, Proposal
    rows.rs      RowReader
    runs.rs      Run, RunParts, Runs
    sites.rs     Dictionary, SiteScopes
    survey.rs    Survey
    text.rs      Expression
    titles.rs    TitledPage
    totals.rs    Totals
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from docstore.model.types import Headers, Page, RowMutations
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.writes import Prepared
from docstore.text.readers import Text

INTERFACE: int
K = TypeVar("K")
V = TypeVar("V")

Column: TypeAlias = tuple[str, bytes]
Values: TypeAlias = dict[Column, bytes]

class Analysis:
    """Text and fingerprints of one body; made by `Kernel`, and never changed.

    Fingerprints depend only on `main`, so they can be computed again from the stored text.  Arrays are bytes of uint64
    in the machine's order.

    Attributes:
        has_text: False for bodies with exact dedup only; then every field but `body_checksum` and `no_text` is empty.
        body_checksum: scheme byte and digest of the body; b"" for a page without a body to analyse.
        charset: WHATWG name of the body's encoding.
        title, description, keywords, lang, canonical: as the page declares them, white space folded; "" if absent.
        published: as in `text.readers.Text`.
        headings: h1 to h6, one a line, in UTF-8 as they are stored.
        entries: of a feed or site map, as in `text:entries`; b"" for other pages.
        main: the extracted text: words as shown, one block a line.
        main_bytes: the same in UTF-8 as it is stored.
        links: outlinks in document order, if requested: the href as written (entities decoded, white space trimmed) and
            the anchor text.
        no_text: `Verdict.reason` of a body without text; "" if the body has a reader.
        columns: of its record except body, text and verdict: cell values, and the raw values that are too long for
            their cell; empty before `with_columns`.
        word_count: normalised words of `main`.
        text_checksum: scheme byte and digest of the normalised words; b"" without words.
        shingle_count: distinct shingles.
        simhash: 64 bits; 0 without words.
        sketch: scheme byte and half a byte a bin (see `capture.sketch_bins`); b"" without words.
        band_keys: (depths * bands,), depth by depth.
        fingerprints: (n,), ascending: the shingles that are 0 mod p; the page is posted under all of them.
        runs: (3n,): keys of the runs of shingles that begin with each fingerprint, length by length.
        shingles: (n,), ascending: the shingle set.  Never stored.
        main_name: the name of `main` as a base of deltas (`bases.value_name`); b"" without words.
        holds_title: whether `main` has words of the title; False without words.
    """

    def __init__(self) -> None:
        """Make that of a page without a body to analyse."""

    @staticmethod
    def unpack(packed: bytes) -> Analysis:
        """The page of bytes that `pack` gave, in this process or another one."""

    def pack(self) -> bytes:
        """The page and the columns of its record, without its links."""

    def without_text(self, no_text: str) -> Analysis:
        """The page of a body that has no text, for this reason."""

    def values(self) -> Values:
        """Raw values of the columns that an analysis fills: text, what is declared, checksums and fingerprints."""

    def with_columns(self, page: Page, url: str, content_type: str) -> Analysis:
        """The same page with the columns of its record, and without its links; `url` is that of its row."""

    @property
    def has_text(self) -> bool: ...
    @property
    def body_checksum(self) -> bytes: ...
    @property
    def charset(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def keywords(self) -> str: ...
    @property
    def lang(self) -> str: ...
    @property
    def canonical(self) -> str: ...
    @property
    def published(self) -> str: ...
    @property
    def headings(self) -> bytes: ...
    @property
    def entries(self) -> bytes: ...
    @property
    def main(self) -> str: ...
    @property
    def main_bytes(self) -> bytes: ...
    @property
    def links(self) -> list[tuple[str, str]]: ...
    @property
    def columns(self) -> tuple[Values, Values]: ...
    @property
    def no_text(self) -> str: ...
    @property
    def word_count(self) -> int: ...
    @property
    def text_checksum(self) -> bytes: ...
    @property
    def shingle_count(self) -> int: ...
    @property
    def simhash(self) -> int: ...
    @property
    def sketch(self) -> bytes: ...
    @property
    def band_keys(self) -> bytes: ...
    @property
    def fingerprints(self) -> bytes: ...
    @property
    def runs(self) -> bytes: ...
    @property
    def shingles(self) -> bytes: ...
    @property
    def main_name(self) -> bytes: ...
    @property
    def holds_title(self) -> bool: ...
    def query(self, own_number: int | None = None) -> IndexQuery:
        """What the page asks the index; `own_number` is that of the row of a stored text."""

class IndexQuery:
    """What a page asks the index, and what it is posted under.

    Args:
        band_keys: of its sketch, depth by depth.
        fingerprints: all under which it is posted; a large page does not ask for all of them.
        runs: of its fingerprints, length by length.
        own_number: of its text.
        more: so many more texts are wanted than are looked at otherwise.
    """

    def __init__(
        self,
        band_keys: NDArray[np.uint64],
        fingerprints: NDArray[np.uint64],
        runs: NDArray[np.uint64],
        own_number: int,
        more: int = 0,
    ) -> None: ...
    @property
    def own_number(self) -> int: ...
    def posted_keys(self, proposal: Proposal | None = None) -> list[int]:
        """The first keys of all chains that are posted: its bands', and its fingerprints; then further ones."""

class Proposal:
    """What the index answers.

    Attributes:
        numbers: of texts, in the order in which to look at them.
        candidates: different texts found, looked at or not.
        has_own: whether the page's own text is among them: it is posted already.
        further: texts that are compared next, if many of the first are alike but none is near.
        is_crowded: half of the bands, or all fingerprints, ended in full buckets: texts may have been left out.
        further_keys: those of chains beyond their first that were asked for, and of a text in the middle of a crowd
            those of its second buckets, as bytes of uint64: a text is posted under them as well.
    """

    @property
    def numbers(self) -> list[int]: ...
    @property
    def candidates(self) -> int: ...
    @property
    def has_own(self) -> bool: ...
    @property
    def further(self) -> list[int]: ...
    @property
    def is_crowded(self) -> bool: ...
    @property
    def further_keys(self) -> bytes: ...
    def without_own(self) -> Proposal:
        """The same, but the page's own text counts as not posted."""

class TitledPage:
    """A page's row, title, and compared text; see `native/store/src/titles.rs`.

    Args:
        row_key: of the page; b"" if it is not stored.
        title: as shown.
        load_text: gives the main text; called when it is first needed.
        load_visible_words: gives how many words the body shows, None without a body; called when it is first needed.
        mostly_main: what `is_mostly_main` is, if that is known without the body.
    Attributes:
        host: of its URL; b"" if it has none, and that equals no other page's.
        is_mostly_main: whether at least half of the visible words are main text; True without a body.
        is_article: whether the text has words of the title, and is most of the visible text.
    """

    def __init__(
        self,
        row_key: bytes,
        title: str,
        load_text: Callable[[], str],
        load_visible_words: Callable[[], int | None],
        mostly_main: bool | None = None,
    ) -> None: ...
    @property
    def title(self) -> str: ...
    @property
    def host(self) -> bytes: ...
    @property
    def is_mostly_main(self) -> bool: ...
    @property
    def is_article(self) -> bool: ...
    def held_words(self) -> list[bytes]:
        """The words of its title that its text has, in UTF-8, ascending."""

def titles_contradict(page: TitledPage, other: TitledPage) -> bool:
    """Whether two titles contradict each other; symmetric."""

def title_mismatch(page: TitledPage, other: TitledPage, like_them: Iterable[TitledPage]) -> bool:
    """Whether titles set two pages with similar texts apart; symmetric.

    Args:
        page, other: of different rows.
        like_them: pages with such a text, of the host of one of the two; may include the two.
    """

def has_evidence(page: TitledPage, other: TitledPage, like_them: Iterable[TitledPage]) -> bool:
    """Whether a third page's title contradicts those of both; symmetric."""

MIN_SAME_TEXT_WORDS: int
MIN_NEAR_WORDS: int
POINTER_SLICE: int
LOOKS: tuple[int, int, int, int]
REASON_CROWDED: str
REASON_DOUBTFUL: str
REASON_TITLE_MISMATCH: str

Place: TypeAlias = tuple[int, bytes]
"""Time and row key of a version of a page."""
PageFields: TypeAlias = tuple[bytes, bytes, bytes, int, int, bool, bytes | None, list[bytes]]
"""Of a page: checksums of body and text, sketch, its shingles, status, whether it is a list, title (None: it has to be
read), and cell values of title, main text and body, empty for one that it does not have."""
Pending: TypeAlias = Mapping[int, CaptureRecord]
"""Records of the batch in a row, by time."""
VerdictFields: TypeAlias = tuple[int, bytes, int, float, str, bytes, int, int]
"""The first eight fields of a `StoredVerdict`, the kind as a number."""

class Reads(Protocol):
    """Everything that the core reads or asks while it judges a page.  What cannot be read is listed, and None."""

    def postings(self, rows: list[bytes], limit: int, /) -> list[list[bytes]]: ...
    def postings_after(self, row: bytes, after: bytes, most: int, /) -> list[bytes]: ...
    def record_of_batch(
        self, timestamp: int, kind: int, columns: dict[Column, bytes], arrived: int, confirms: int, /
    ) -> CaptureRecord: ...
    def absent_rows(self, row_keys: list[bytes], /) -> Collection[bytes]: ...
    def record(self, row_key: bytes, timestamp: int, pending: Pending, /) -> CaptureRecord | None: ...
    def record_and_page_before(
        self, row_key: bytes, timestamp: int, pending: Pending, /
    ) -> tuple[CaptureRecord | None, LiveCapture | None, bool]: ...
    def before(self, row_key: bytes, timestamp: int, fetches: bool, pending: Pending, /) -> LiveCapture | None: ...
    def times(self, row_key: bytes, start: int, end: int, pending: Pending, /) -> list[tuple[int, bytes]]: ...
    def verdict(self, row_key: bytes, timestamp: int, cell_value: bytes, /) -> bytes | None: ...
    def is_sound(self, row_key: bytes, timestamp: int, column: Column, cell_value: bytes, /) -> bool: ...
    def add_anchors(self, page: Prepared, timestamp: int, compares: bool, /) -> None: ...
    def page(self, timestamp: int, row_key: bytes, pending: Pending, /) -> PageFields | None: ...
    def value(
        self, name: str, timestamp: int, row_key: bytes, cell_value: bytes, pending: Pending, /
    ) -> bytes | None: ...
    def is_readable(self, timestamp: int, row_key: bytes, cell_value: bytes, pending: Pending, /) -> bool: ...
    def newest(self, row_key: bytes, pending: Pending, /) -> int | None: ...
    def visible_words(self, body: bytes, /) -> int: ...
    def propose(self, query: IndexQuery, /) -> Proposal: ...
    def post(self, query: IndexQuery, proposal: Proposal, /) -> None: ...

class CacheCounts:
    """How a cache is used: cost of all values, and look-ups that found one or none."""

    @property
    def used(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    def __len__(self) -> int: ...

class SeenPage:
    """A page of the batch or a stored one, as verdicts see it.

    Attributes:
        checksum: of its body.
        text_checksum: of its text, or b"".
        status: HTTP status.
        cells: cell values of body and text; None for one that it does not have.
    """

    @property
    def checksum(self) -> bytes: ...
    @property
    def text_checksum(self) -> bytes: ...
    @property
    def status(self) -> int: ...
    @property
    def cells(self) -> tuple[bytes | None, bytes | None]: ...

class Judged:
    """A page with its verdict, and everything that its commit writes.

    Attributes:
        prepared: the page.
        place: of its capture: the first free time from the page's own time on.
        verdict: its kind as a number, the page that it names, and its reason.
        stored: how it is stored, as a number.
        contains: the page that its verdict says it contains.
        rewrites: its record replaces another one at the same time.
    """

    @staticmethod
    def by_reference(prepared: Prepared, timestamp: int, kind: str, of: Place) -> Judged:
        """A stored page that is encoded anew by reference to another: its body and text alone."""

    @property
    def prepared(self) -> Prepared: ...
    @property
    def place(self) -> Place: ...
    @property
    def verdict(self) -> tuple[int, Place | None, str]: ...
    @property
    def stored(self) -> int: ...
    @property
    def contains(self) -> Place | None: ...
    @property
    def rewrites(self) -> bool: ...

Answer: TypeAlias = tuple[
    Prepared,
    int,
    tuple[int, bytes, int, float, str, bytes, int, int],
    tuple[int, float, int],
    str | None,
    int | None,
]
"""What the caller of a page is told: the page, its time, the verdict against other rows, what it says of the own row,
why it is refused ("" if its preparation says it), how the same capture was stored before.  Words are numbers."""

def answers(pages: list[Judged]) -> list[Answer]: ...
def counted(pages: list[Judged]) -> tuple[list[tuple[int, int, int, bytes, int, int]], int]:
    """What pages with a record add to totals, as `Totals.groups`; and the number of visits."""

def note_fork() -> None:
    """To be called in the child of a fork."""

class Core:
    """The pages that are judged and not committed, caches of committed postings and pages, and the verdicts.

    One caller at a time: a call meanwhile, from what it reads or from another thread, raises RuntimeError; a call in
    the child of a fork raises StoreUnavailable.

    Args:
        rules: thresholds of near, contained and similar (None: there is no such verdict), and whether titles count.
        kernel: of the store.
        shares: bytes for pages, postings, sketches and shingles.
        caches: cache committed postings; then `follow` must be called after each commit.
        collects: whether a policy may hide captures or bodies.
    """

    def __init__(
        self,
        rules: tuple[float, float, float | None, bool],
        kernel: Kernel,
        shares: tuple[int, int, int, int],
        caches: bool,
        collects: bool,
    ) -> None: ...
    def counts(self) -> tuple[CacheCounts, CacheCounts]:
        """How the caches of pages and of postings are used."""

    def prepare(self, pages: list[Prepared], reads: Reads) -> None:
        """Read for pages that are judged next, in few calls; `judge` does it, too."""

    def judge(self, pages: list[Prepared], policies: bytes, table: bytes, now: int, reads: Reads) -> list[Judged]:
        """Judge pages in order, and add them to the batch; see `native/store/src/own.rs`.

        Args:
            pages: of which the reads are made at once.
            policies: of each page in turn the numbers of policies by kind of verdict, a byte each.
            table: see `writing.policy.policy_table`.
            now: the time of their arrival, in microseconds.
            reads: reads.
        """

    def compare_with(self, of: Place, body: bytes, analysis: Analysis, status: int, reads: Reads) -> VerdictFields: ...
    def similar(
        self, row_key: bytes, body: bytes, analysis: Analysis, status: int, least: float, limit: int, reads: Reads
    ) -> list[tuple[Place, str, float, float, float]]: ...
    def pages(self) -> list[Judged]:
        """Pages and visits of the batch that get a record, in the order in which they were judged."""

    def size(self) -> tuple[int, int]:
        """How many these are, and the bytes of their bodies."""

    def post(self, place: Place, analysis: Analysis, status: int, reads: Reads) -> None: ...
    def post_in(self, rows: list[bytes], qualifier: bytes) -> None: ...
    def pack_postings(self, rows: PackedRows) -> None:
        """Add the rows of postings of the batch, in the order of their first posting."""

    def is_in_batch(self, place: Place) -> bool:
        """Whether a page of the batch is there that others are compared with."""

    def committed(self, group: Group) -> None:
        """The batch is committed with the values of a group: cache its pages, and begin the next one."""

    def drop_batch(self) -> None:
        """Drop the batch, and what look-ups learnt from it."""

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: update the caches."""

    def clear_pages(self) -> None: ...
    def page(self, place: Place, reads: Reads) -> SeenPage | None: ...
    def text(self, place: Place, reads: Reads) -> bytes | None: ...
    def is_current(self, place: Place, reads: Reads) -> bool: ...
    def prepare_rows(self, rows: list[bytes], reads: Reads) -> None:
        """Read rows of postings into the cache, if there is one, in one call."""

    def first_pages(self, rows: list[bytes], reads: Reads) -> list[Place]:
        """The oldest page of each row of postings that has one."""

    def candidates_to_read(self, analysis: Analysis, reads: Reads) -> list[int]:
        """Of the texts that the index proposes for a page, those whose pages will probably be read."""

class Kernel:
    def __init__(self, extractor: str, shingle_words: int, order: bytes) -> None: ...
    def analyse_many(self, bodies: list[tuple[bytes, str]], links: bool) -> list[Analysis]:
        """Analyse bodies with their content types.

        A page without text has the message of the panic as `no_text`, or "" if Python is to read it.
        """

    def with_text(self, page: Analysis, text: Text, entries: bytes, links: bool) -> Analysis:
        """The page with a text that Python has read; what the page itself declares comes first."""

    def with_stored_text(self, main: bytes, body_checksum: bytes) -> Analysis:
        """The page of a text in UTF-8."""

    def shingles(self, text: str) -> bytes: ...
    def shingle_sets(self, texts: Sequence[bytes], enough: int) -> tuple[bytes, bytes, bytes]: ...

TEXT_LIMIT_BYTES: int
"""Text is taken from the first bytes of a body, so many at most."""

def charset_of(body: bytes, content_type: str) -> tuple[str, str]:
    """The encoding of a body, and what says so: "bom", "http", "meta", "xml" or "guessed"."""

def joined_words(text: str, for_search: bool = False) -> str: ...
def placed_words(text: str) -> tuple[str, list[bytes]]: ...
def distinctive_words(title: str) -> list[str]: ...
def is_unspaced(character: str) -> bool:
    """Whether a character is of a script that does not separate words."""

class Expression:
    """An expression in the syntax of RE2; it matches the whole of a text, or its beginning, in linear time."""

    def __init__(self, source: str, limit_bytes: int, whole: bool) -> None:
        """Compile it; ValueError says what is wrong, or that it takes more bytes."""

    def matches(self, text: str) -> bool: ...

def is_html(body: bytes, content_type: str) -> bool:
    """Whether a body is read as HTML, by the rules at the head of `text.readers`."""

def is_text(head: bytes) -> bool:
    """Whether the head of a body whose type is given is of a text: it has hardly a control character."""

def warnings_bytes(body: bytes) -> int:
    """Length of the messages of PHP that stand before a feed or site map; 0 if there are none."""

def head_and_root(body: bytes) -> tuple[bytes, bytes]:
    """The first bytes of a body, behind such messages, of UTF-16 without its mark and zeros; and the local name of its
    root element in lower case, b"" if there is none in them."""

def decode(body: bytes, content_type: str) -> tuple[str, str]:
    """The WHATWG name of a body's encoding, in lower case, and the text of the first `TEXT_LIMIT_BYTES`."""

def fold_lines(text: str) -> str:
    """The lines of a text, white space folded to one blank, without empty ones; U+0000 becomes U+FFFD."""

def visible_text(source: str) -> str:
    """The visible text of HTML, one block a line."""

def read_html(source: str) -> tuple[str, str, str, list[tuple[str, str]]]:
    """Visible text, description, headings one a line, and links of HTML."""

def base_href(body: bytes, content_type: str) -> str | None:
    """The address in the first `base` element that has one."""

def json_ld(body: bytes, content_type: str) -> list[str]:
    """The contents of the scripts of JSON-LD in a page."""

def plateau(source: str) -> tuple[list[int], list[int], tuple[int, int]]:
    """The tag plateau of a page: tags before each text, words of each; the first text, and the one behind the last."""

def explain(source: str, extractor: str, content_type: str = "") -> list[tuple[str, bool, int | None, list[str]]]:
    """Text of each block, whether it is main text, its score in hundredths, the causes in words."""

def markdown(body: bytes, content_type: str, url: str, text: str) -> str:
    """The main text of a page as Markdown: for HTML of those of its blocks that make up the text, else of its lines."""

def overlap(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int: ...
def shared_members(
    starts: NDArray[np.uint64], members: NDArray[np.uint64], first: NDArray[np.uint64], second: NDArray[np.uint64]
) -> bytes: ...
def sketch_similarity(first: bytes, second: bytes) -> float: ...
def sketches_of_sets(starts: NDArray[np.uint64], members: NDArray[np.uint64]) -> bytes: ...

class LruCache(Generic[K, V]):
    """Values by key; the least recently used is evicted first.  Thread-safe.

    Attributes:
        used: cost of all values.
        hits, misses: of `get`.

    Args:
        capacity: of all values together, in the unit of `cost`; a value that costs more is not cached.
        cost: of a value; None for 1 each, then `capacity` is their number.
        entry_cost: of each entry, next to its value.
    """

    def __init__(self, capacity: int, cost: Callable[[V], int] | None = None, entry_cost: int = 0) -> None: ...
    @property
    def used(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: K) -> bool: ...
    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the most recently used; None if it is not cached."""

    def put(self, key: K, value: V) -> None:
        """Cache a value in place of the key's last one; it becomes the most recently used."""

    def drop(self, key: K) -> None:
        """Remove a key, if it is cached."""

    def clear(self) -> None:
        """Remove all keys."""

class Run:
    """The run of some groups, ``first <= group < end``, over a read-only buffer that nobody changes.

    Attributes:
        span: of its groups.
        shape: bits that name a slice, and bits of a place.
        parts: where its texts, its slices, their index and its footer begin, in bytes.
        counts: its texts, its different keys and its postings.

    Raises:
        CorruptionError: the run is cut, or its footer is damaged.
        UnsupportedFormat: another format version.
    """

    def __init__(self, first: int, end: int, buffer: NDArray[np.uint8]) -> None: ...
    @property
    def span(self) -> tuple[int, int]: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def parts(self) -> tuple[int, int, int, int]: ...
    @property
    def counts(self) -> tuple[int, int, int]: ...
    def text_numbers(self) -> bytes: ...
    def damaged_parts(self) -> list[str]: ...

class RunParts(Iterator[memoryview]):
    """The bytes of a run that is made, each step bounded; raises CorruptionError if a run that it reads is damaged."""

    @property
    def span(self) -> tuple[int, int]: ...
    @property
    def size_bytes(self) -> int: ...
    def __next__(self) -> memoryview: ...

class Postings:
    """Postings of a batch, by mixed key."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def post(self, query: IndexQuery, proposal: Proposal | None = None) -> None: ...
    def log(self, durable_end: int, cell_texts: int) -> list[bytes]: ...

class Runs:
    """The index of a store: levels of runs, and a table in memory, the memtable; see native/python/src/postings.rs.

    Args:
        limit: texts kept for one key and returned by a look-up: the first ones.
        flush_texts, flush_postings: texts and postings at which the memtable is flushed.
        fan_in: runs of one level that are merged into one of the next.
    """

    def __init__(self, limit: int, flush_texts: int = ..., flush_postings: int = ..., fan_in: int = ...) -> None: ...
    @property
    def end(self) -> int: ...
    @property
    def next(self) -> int: ...
    @property
    def runs(self) -> list[Run]: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def is_merging(self) -> bool: ...
    @property
    def is_pruning(self) -> bool: ...
    @property
    def dropped(self) -> int: ...
    def open(self, first: int, end: int, buffer: NDArray[np.uint8]) -> bool: ...
    def add(self, group: int, cells: Sequence[bytes]) -> int: ...
    def flush(self) -> RunParts | None: ...
    def merge(self) -> list[RunParts]: ...
    def adopt(self, first: int, end: int, buffer: NDArray[np.uint8]) -> list[Run]: ...
    def prune(self, live: NDArray[np.uint64]) -> None: ...
    def log(self, cell_texts: int) -> list[bytes]: ...
    def recent_texts(self) -> bytes: ...
    def find(
        self, keys: NDArray[np.uint64], batch: Postings | None = None, lower: Runs | None = None
    ) -> tuple[bytes, bytes]: ...
    def propose(
        self,
        query: IndexQuery,
        looks: tuple[int, int, int, int],
        batch: Postings | None = None,
        lower: Runs | None = None,
        skips_damage: bool = False,
    ) -> Proposal: ...
    def lacking(self, queries: Queries, looks: tuple[int, int, int, int]) -> list[int]: ...

def propose(
    query: IndexQuery,
    limit: int,
    looks: tuple[int, int, int, int],
    find: Callable[[bytes], tuple[NDArray[np.int64], NDArray[np.uint64]]],
) -> Proposal: ...
def host_of(row_key: bytes) -> bytes: ...
def site(row_key: bytes) -> bytes: ...
def posting_rows(body_checksum: bytes, text_checksum: bytes, title: bytes) -> list[bytes]: ...

PIECE_BYTES: int

class SiteScopes:
    """Scopes of dictionaries; its caller is `tablets.dictionaries`.

    `kept` is what Python keeps: the cache of prepared dictionaries, and functions that give the row of a scope and the
    tablet of a row, write a dictionary, and prepare one.
    """

    def __init__(
        self,
        stages: Sequence[tuple[int, int]],
        scopes: tuple[int, int],
        loads: tuple[int, int],
        gain: tuple[int, float],
    ) -> None: ...
    @property
    def sample_bytes(self) -> int: ...
    def take_changed(self) -> list[tuple[bytes, bytes]]: ...
    def forget(self) -> None: ...

def site_of(row_key: bytes) -> tuple[bytes, bytes]: ...

class Dictionary:
    """A raw-content dictionary, indexed once for any number of threads."""

    def __new__(cls, content: bytes, level: int = 3, checksum: bytes | None = None) -> Self: ...
    @property
    def checksum(self) -> bytes: ...
    @property
    def memory_bytes(self) -> int: ...

Reader: TypeAlias = tuple[Callable[..., object], set[bytes]]
"""What reads what no cache has, and the names of bases that are about to be freed; see `dedup.pages.Bases.reader`."""

LARGEST_BASE_BYTES: int

def value_name(raw: bytes) -> bytes: ...

class Bases:
    """Caches of what deltas are made against: values, rows of bases, and the newest page of each path."""

    def __new__(cls, values: int, rows: int, newest: int, entry: int) -> Self: ...
    def counts(self) -> list[CacheCounts]: ...
    def base_for(
        self, reader: Reader, cell_value: bytes, column: int, page: tuple[int, bytes]
    ) -> tuple[bytes, bytes, bytes] | None: ...
    def follow(self, changed: list[bytes], is_sure: bool) -> None: ...
    def drop_new(self) -> None: ...
    def clear(self) -> None: ...

class Group:
    """The values of a group on their way into records: added, encoded, and told where their records lie."""

    def __new__(cls, shares: bool = True) -> Self: ...
    def add(
        self,
        row_key: bytes,
        column: Column,
        timestamp: int,
        raw: bytes,
        base: tuple[bytes, bytes] | None = None,
        follows_body: bool = False,
    ) -> None: ...
    def add_pages(self, pages: list[Judged], bases: Bases, reader: Reader) -> None: ...
    def encode(self, scopes: SiteScopes, kept: tuple[Any, ...], threads: int) -> None: ...
    def dictionaries(self) -> list[bytes]: ...
    @property
    def record_count(self) -> int: ...
    def records(self) -> list[tuple[bytes, int, Column, int, bytes, int, bytes]]: ...
    def lay_out(self, segment: int, offset: int, commit: int) -> bytes | None: ...
    def place(self, refs: list[bytes]) -> None: ...
    def cell_values(self) -> list[bytes]: ...
    def cells(self, page: int) -> dict[Column, bytes]:
        """The cell values of those columns of a page that are values of the group or shared ones."""

    def pack_bases(self, bases: Bases, rows: PackedRows) -> None: ...
    def pack_captures(self, rows: PackedRows) -> None: ...

def encode_value(
    value: tuple[Column, bytes, list[tuple[bytes, int]], bytes, bytes],
    dictionary: Dictionary | None,
    effort: tuple[int, int, bool, bool],
) -> tuple[int, int | None, bytes]: ...

LARGEST_CELL_BYTES: int

class PackedRows(Sequence[RowMutations]):
    """Rows of cells in one piece of memory; they are unpacked for those who iterate."""

    @staticmethod
    def of(rows: Iterable[RowMutations]) -> PackedRows | None: ...
    def append(self, row: RowMutations) -> None: ...
    def __iadd__(self, rows: Iterable[RowMutations]) -> Self: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, place: int) -> RowMutations: ...
    @overload
    def __getitem__(self, place: slice) -> list[RowMutations]: ...
    def of_table(self, table: str) -> list[RowMutations]: ...
    def put_into(self, put: Callable[[bytes, bytes], None], rows_seen: RowFilter) -> None: ...

def encode_varint(number: int) -> bytes:
    """A number from 0 to 2**64 - 1 in 7-bit groups, lowest first; the top bit is set in all bytes but the last.

    Raises:
        OverflowError: the number is negative or longer.
    """

def decode_varint(source: bytes, offset: int = 0) -> tuple[int, int]:
    """The number of a varint that begins at an offset, and the offset after it.

    Raises:
        CorruptionError: the bytes end inside the varint, or it has more than ten bytes.
    """

def encode_records(records: Sequence[Any], segment: int, offset: int) -> tuple[bytes, list[bytes]] | None: ...
def decode_record(
    source: bytes, segment: int, offset: int
) -> tuple[int, bytes, str, bytes, int, int, bytes, int, bytes]: ...
def record_span(source: bytes, offset: int, segment: int) -> int | None: ...
def encode_ref(segment: int, offset: int, length: int) -> bytes: ...
def place_of(ref: bytes) -> tuple[int, int, int] | None: ...
def value_place(cell_value: bytes) -> tuple[int, int, int] | None: ...
def parse_cell_value(cell_value: bytes) -> tuple[bytes, bytes | None]: ...
def raw_bytes_of(cell_value: bytes) -> int: ...
def encode_ref_value(raw_bytes: int, ref: bytes) -> bytes: ...
def encode_absent(raw_bytes: int) -> bytes: ...
def content_type_of(headers: Headers, row_key: bytes) -> str: ...
def disk_format() -> dict[str, Any]:
    """The constants of `model.format` that native code has, by name."""

def escape(raw: bytes) -> bytes: ...
def row_key_of(prefix: bytes) -> bytes: ...
def prefix_length(key: bytes) -> int: ...

class RowFilter:
    """Tells which rows LevelDB certainly lacks, by the prefix of their keys."""

    def __init__(self, most_bytes: int) -> None: ...
    @staticmethod
    def load(raw: bytes, head: bytes, most_bytes: int) -> RowFilter | None: ...
    def dump(self, head: bytes) -> bytes: ...
    def size_bytes(self) -> int: ...
    def may_have(self, prefix: bytes) -> bool: ...
    def add_rows_of(self, keys: list[bytes]) -> None: ...

def plain_row_key(url: object) -> bytes | None: ...
def decode_capture(value: bytes, names: dict[int, Column]) -> tuple[int, Values, int, int] | None: ...
def is_blank(body: bytes) -> bool: ...
def encode_capture(columns: Values, kind: int, arrived: int, confirms: int) -> bytes: ...

Policy: TypeAlias = tuple[int | None, int | None, bool]
"""Bodies that are kept, the time at which and before which they are too old, whether only both together drop one."""
R = TypeVar("R")

class LiveCaptures(Iterator[tuple[R, R | None, Values]]):
    """The records of a row that policies keep: record, the record whose body it shows, the columns that it shows."""

    def __init__(
        self, records: Iterable[R], find: Callable[[int], R | None], captures: Policy, bodies: Policy
    ) -> None: ...
    def __next__(self) -> tuple[R, R | None, Values]: ...

def encode_verdict(fields: tuple[Any, ...]) -> bytes: ...
def decode_verdict(value: bytes) -> tuple[int, bytes, int, float, str, bytes, int, int, int, float, int]: ...
def with_values(record: bytes, values: list[tuple[int, bytes]]) -> bytes | None: ...
def not_modified(value: bytes) -> bytes: ...
def validators(headers: bytes) -> bytes | None: ...
def encode_headers(pairs: Headers) -> bytes: ...
def decode_headers(value: bytes) -> Headers | None: ...
def decode_value(
    source: bytes,
    segment: int,
    offset: int,
    dictionary: Callable[[bytes], bytes | None],
    base: Callable[[bytes], bytes | None],
    body: Callable[[int, int, int], bytes | None],
) -> bytes | None: ...
def fill_capture(
    source: Callable[[int, int, int], bytes],
    dictionary: Callable[[bytes], bytes | None],
    base: Callable[[bytes], bytes | None],
    body: Callable[[int, int, int], bytes | None],
    record: bytes,
    shown: Mapping[int, Any],
    fields: list[Any],
    most_bytes: int,
) -> bool: ...
def decode_frame(frame: bytes, raw_bytes: int, before: bytes) -> bytes | None: ...

class Totals:
    def __new__(cls, captures: Policy, bodies: Policy) -> Self: ...
    @property
    def urls(self) -> int: ...
    @property
    def visits(self) -> int: ...
    def add_rows(self, rows: list[Any], fetch: Callable[[bytes], bytes | None]) -> None: ...
    def groups(self) -> list[tuple[int, int, int, bytes, int, int]]: ...
    def unsure(self, rows: list[Any]) -> list[tuple[int, int]]: ...

class Survey:
    def __new__(cls, bases: list[bytes], of_captures: list[str], counted: list[str], aging: list[str]) -> Self: ...
    @property
    def rows(self) -> int: ...
    @property
    def values(self) -> int: ...
    @property
    def raw_bytes(self) -> int: ...
    @property
    def body_bytes(self) -> int: ...
    def add_rows(self, rows: list[Any]) -> list[int]: ...
    def add(self, row_key: bytes, values: list[tuple[bool, bytes]]) -> None: ...
    def segments(self) -> dict[int, tuple[int, bytes, bytes]]: ...
    def unused_bases(self) -> list[bytes]: ...
    def shared_bases(self) -> list[bytes]: ...

class SharedMoves:
    def __new__(cls) -> Self: ...

class Mover:
    def __new__(cls, old: set[int], rules: tuple[list[str], list[str], list[str]], shared: SharedMoves) -> Self: ...
    @property
    def is_between_rows(self) -> bool: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def length_bytes(self) -> int: ...
    def add_rows(self, rows: list[Any], first: int) -> int: ...
    def add_row(self, row_key: bytes, kept: list[Any], hidden: set[int], drops_cells: bool) -> None: ...
    def read(
        self, read: Callable[[int, int, int], bytes | None], copies: bool
    ) -> tuple[list[bytes], list[bytes], list[tuple[bytes, Column]]] | None: ...
    def decide(self, names: list[bytes | None], stays: list[bool], chosen: list[bytes]) -> None: ...
    def run(self, most_bytes: int, most_moves: int) -> tuple[Any, ...] | None: ...
    def settle(self, moved: tuple[bytes, bytes, Any, bool, bool] | None) -> None: ...
    def take_planned(self) -> list[tuple[bytes, list[tuple[Any, list[Any]]], bool]]: ...
    def moved(self, old: bytes) -> bytes | None: ...
    def share(self) -> None: ...
    def begin(self, number: int, length_bytes: int) -> None: ...
    def write(self, record: Any) -> bytes | None: ...
    def take_bytes(self) -> bytes: ...
    def end_segment(self) -> tuple[list[bytes], list[bytes], dict[tuple[str, int], int]]: ...
    def take_counts(self) -> tuple[int, int, int]: ...

def refs_into(
    rows: list[Any], segments: set[int], names: dict[int, Column]
) -> list[list[tuple[Column, bytes]] | None]: ...
def sweep_versions(
    rows: list[Any], first: int, names: tuple[str, tuple[str, bytes], tuple[str, bytes]], rules: Any
) -> tuple[
    int,
    tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes],
    list[tuple[bytes, bytes]],
    list[tuple[int, bytes, int]],
    list[tuple[int, bytes]],
    list[tuple[bytes, int]],
]: ...

class RowReader:
    def __new__(
        cls,
        parts: list[tuple[bytes, bytes | None]],
        times: tuple[bytes, bytes],
        prefix: bytes,
        resume: bytes,
        versions: int | None,
        limit: int | None,
        keys_only: bool,
        types: tuple[type, type],
    ) -> Self: ...
    def read(self, stream: Any, cells: bytes) -> list[Any]: ...
    def scan(self, stream: Any, high: bytes, most_rows: int, most_cells: int) -> tuple[list[Any], bytes]: ...

class PostingHashes:
    def __new__(cls, parts: Iterator[list[Any]]) -> Self: ...
    def holds(self, row: bytes, qualifier: bytes) -> bool: ...

class Queries:
    def rows(self) -> list[int]: ...

def check_rows(
    record: Callable[[int, int, int], bytes],
    dictionary: Callable[[bytes], bytes | None],
    base: Callable[[bytes], bytes | None],
    body: Callable[[int, int, int], bytes | None],
    rows: list[Any],
    families: frozenset[str],
    rules: Any,
    kernel: Kernel,
    known: PostingHashes,
) -> tuple[list[int], Queries]: ...
