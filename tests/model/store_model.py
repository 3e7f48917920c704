"""What a store has to answer: a plain model in memory that knows every capture, for `tests.model.random_store`.

The model states what is right, by all live captures: equal bytes, equal texts, exact Jaccard coefficients of the texts,
the oldest page first.  What the model takes from a store is the text that was found in a body
(`Reader`), never what is like it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from docstore import GCPolicy, Policy, VerdictKind
from docstore.store import open_store
from tests.pages import changed, page, words

T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
MILLISECOND = 1000
MIN_SAME_TEXT_WORDS, MIN_NEAR_WORDS, SHINGLE_WORDS = 20, 50, 5
NEAR, CONTAINED, SIMILAR = 0.8, 0.9, 0.5
SURE_JACCARD, SURE_WORDS, SURE_TEXTS = 0.9, 200, 14
"""A pair at least so alike, or a page of so many words in another, among so few like it, is never missed."""
MOST_MISSED = 0.02
"""Share of pages with a relative below that, for which the index may propose none, or not the nearest."""
TITLES = ("Story One", "STORY  ONE!", "Story One - Daily", "Blue enamel lamp", "Kitchen knife", "")
TITLE_WORDS = ["story", "one", "daily", "blue", "enamel", "lamp", "kitchen", "knife"]
SIZES = (10, 30, 55, 70, 120, 120, 260)
HTML = (("Content-Type", "text/html; charset=utf-8"),)
DUPLICATES = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR, VerdictKind.CONTAINED)
POLICIES: dict[str, dict[VerdictKind, Policy]] = {
    "flag": {},
    "reference": dict.fromkeys(DUPLICATES, Policy.REFERENCE),
    "reject": dict.fromkeys(DUPLICATES[:3], Policy.REJECT),
    "reject-any": dict.fromkeys(DUPLICATES[:3], Policy.REJECT_ANY),
    "reject exact": {VerdictKind.EXACT: Policy.REJECT_ANY, VerdictKind.NEAR: Policy.REFERENCE},
}


class Kept(NamedTuple):
    """Policies: which captures are kept, and which of these show their bodies."""

    captures: GCPolicy = GCPolicy()
    bodies: GCPolicy = GCPolicy()


GC = {
    "none": Kept(),
    "one": Kept(GCPolicy(max_versions=1)),
    "two": Kept(GCPolicy(max_versions=2)),
    "4 days": Kept(GCPolicy(max_age_seconds=4 * 86_400)),
    "either": Kept(GCPolicy(max_versions=2, max_age_seconds=5 * 86_400)),
    "both": Kept(GCPolicy(max_versions=1, max_age_seconds=3 * 86_400, intersection=True)),
    "one body": Kept(bodies=GCPolicy(max_versions=1)),
    "bodies of 4 days": Kept(bodies=GCPolicy(max_age_seconds=4 * 86_400)),
    "one body of two": Kept(GCPolicy(max_versions=2), GCPolicy(max_versions=1)),
    "bodies of 2 of 5 days": Kept(GCPolicy(max_age_seconds=5 * 86_400), GCPolicy(max_age_seconds=2 * 86_400)),
}


# --- operations: what a seed is made of, and what is printed


class Setting(NamedTuple):
    """Of a store: its policy (a name in `GC`), and whether texts hold the words of all titles.

    If they do not, the store has no rule of titles.
    """

    gc: str = "none"
    titles_held: bool = True


class Fetch(NamedTuple):
    """One fetched page: what its body is made of (`raw_body`), and where and when it was found."""

    url: str
    base: int = 0
    variant: int = 0
    title: int = 0
    noise: int = 0
    status: int = 200
    day: int = 0
    docno: str = ""
    crawl: str = ""


class Put(NamedTuple):
    """Write pages in one call; a dry run is thrown away."""

    fetches: tuple[Fetch, ...]
    policy: str = "flag"
    dry_run: bool = False


class Delete(NamedTuple):
    """Delete a page, or purge it."""

    url: str
    purge: bool = False


class DeleteCrawl(NamedTuple):
    """Delete what a crawl fetched, or purge it."""

    crawl: str
    purge: bool = False


class Ask(NamedTuple):
    """`similar` to a stored page, or `find` of a document number."""

    what: str
    of: str


class Do(NamedTuple):
    """compact, compact best, sweep, reindex, copy, reopen, check; or `days`, which moves the clock on."""

    what: str
    days: int = 0


Operation = Put | Delete | DeleteCrawl | Ask | Do


def url_of(name: str) -> str:
    """ "a/1" stands for a page of host a."""
    host, _, path = name.partition("/")
    return f"https://{host}.example/{path}"


@cache
def text_of(base: int, variant: int, titles_held: bool) -> tuple[str, ...]:
    """The words of a text; variants of one base are equal, near, contained or similar to each other."""
    size = SIZES[base % len(SIZES)]
    text = words(base, size)
    if variant == 1:
        text = [f"{word.upper()}!" for word in text]  # the same words
    elif variant == 2:
        text = text[: size * 3 // 5]
    elif variant == 3:
        text = text + words(1000 + base, max(2, size // 8))
    elif variant == 4:
        text = text + words(2000 + base, size)
    elif variant > 4:
        text = changed(text, variant, min(size, 1 + variant % 4 * size // 50))
    return (*(TITLE_WORDS if titles_held else ()), *text)


def raw_body(fetch: Fetch, titles_held: bool) -> bytes:
    """A body; base -1 is white space, -2 is no HTML.  Noises of the same digits give the same sum of bytes."""
    if fetch.status == 304:
        return b""
    if fetch.base < 0:
        return b" \n" * (1 + fetch.noise) if fetch.base == -1 else b"\x00\x01\xfe%d" % fetch.noise * 30
    text = list(text_of(fetch.base, fetch.variant, titles_held))
    return page(text, TITLES[fetch.title]) + b"<!-- %04d -->" % fetch.noise


# --- what is in a body


class Body(NamedTuple):
    """A body with what the store finds in it: whether it is HTML, white space alone, its words and title."""

    raw: bytes
    is_html: bool = False
    is_blank: bool = False
    words: tuple[str, ...] = ()
    title: str = ""

    @property
    def shingles(self) -> frozenset[tuple[str, ...]]:
        return shingles(self.words)


class Reader:
    """Finds texts in bodies, by a store that is used for nothing else."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._store = open_store(Path(self._folder.name) / "s", create=True, durability="none")
        self._known: dict[bytes, Body] = {}

    def body(self, raw: bytes) -> Body:
        if raw not in self._known:
            url = f"https://{len(self._known)}.example/"
            reason = self._store.put_page(url, raw, headers=HTML, fetched_at=T0).verdict.reason
            found = self._store.get(url)
            assert found is not None
            is_html = reason not in ("no_text", "blank")
            text = tuple(re.findall(r"\w+", (found.text or "").lower())) if is_html else ()
            self._known[raw] = Body(raw, is_html, reason == "blank", text, found.title or "")
        return self._known[raw]


@cache
def reader() -> Reader:
    return Reader()


@lru_cache(4096)
def shingles(text: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(text[start : start + SHINGLE_WORDS] for start in range(len(text) - SHINGLE_WORDS + 1))


@lru_cache(1 << 16)
def overlap(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[float, float, float]:
    """Jaccard coefficient, share of one in the other, share of the other in one."""
    first, second = shingles(one), shingles(other)
    shared = len(first & second)
    if not first or not second:
        return 0.0, 0.0, 0.0
    return shared / (len(first) + len(second) - shared), shared / len(first), shared / len(second)


def same_title(one: Body, other: Body) -> bool:
    return re.findall(r"\w+", one.title.lower()) == re.findall(r"\w+", other.title.lower())


# --- the model


Pointer = tuple[int, bytes]
"""Timestamp and row key: pages are ordered by it, oldest first."""


class Expected(NamedTuple):
    """A verdict: what the page is, to which page, how alike.  `others` are claims that are true as well, of less alike
    pages; `may_miss`: the index need not find it."""

    kind: VerdictKind
    of: Pointer | None = None
    similarity: float = 0.0
    others: tuple[tuple[VerdictKind, Pointer, float], ...] = ()
    may_miss: bool = False


class Capture:
    """One capture: what it brought, what was answered, and which capture it confirms.

    `stored` is "body", "reference", "rejected", "confirmed" (the same bytes again) or "visit" (304).
    """

    def __init__(
        self,
        row: bytes,
        at: int,
        fetch: Fetch,
        body: Body,
        status: int,
        stored: str,
        verdict: Expected | None,
        confirms: Capture | None = None,
    ):
        self.pointer: Pointer = (at, row)
        self.at, self.fetch, self.body, self.status = at, fetch, body, status
        self.stored, self.verdict, self.confirms = stored, verdict, confirms
        self.original: Capture | None = None
        self.crawl = fetch.crawl
        self.has_body = True

    @property
    def source(self) -> Capture | None:
        """The capture that brought the body that this one shows."""
        return self if self.stored in ("body", "reference") else self.confirms

    def may_follow(self, page: Capture) -> bool:
        """Whether it shows the page before it: it is a visit (304) that confirmed nothing when it was written.

        After a rejected fetch it has the body of that, and shows a page with the same bytes alone.
        """
        return self.stored == "visit" and self.body.raw in (b"", page.body.raw)


class Live(NamedTuple):
    """A live capture, the capture whose body it shows (None for no page), and whether that is shown."""

    capture: Capture
    source: Capture | None
    has_body: bool

    @property
    def at(self) -> int:
        return self.capture.at

    @property
    def page(self) -> Capture:
        """The capture that brought the page."""
        assert self.source is not None
        return self.source

    @property
    def status(self) -> int:
        return self.page.status if self.capture.stored == "visit" else self.capture.status

    @property
    def verdict(self) -> Expected:
        found = self.capture.verdict or self.page.verdict
        assert found is not None
        return found


class Row:
    """Captures of one URL by time, visits among them."""

    def __init__(self) -> None:
        self.captures: dict[int, Capture] = {}


class Seen(NamedTuple):
    """A live page as verdicts see it: `capture` brought its body, which is shown or not."""

    pointer: Pointer
    capture: Capture
    status: int
    has_body: bool


class Model:
    """All captures of a store, and what is right to answer."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rows: dict[bytes, Row] = {}
        self.urls: dict[bytes, str] = {}
        self.policies = GC[setting.gc]
        self.now = T0 + 8 * DAY
        self._live: dict[bytes, list[Live]] = {}

    def changed(self, row_key: bytes | None = None) -> None:
        """What is live may have changed: in one row, or in all."""
        if row_key is None:
            self._live.clear()
        else:
            self._live.pop(row_key, None)

    def row(self, row_key: bytes) -> Row:
        return self.rows.get(row_key) or Row()

    # --- what is live

    def live(self, row_key: bytes) -> list[Live]:
        """Captures of a row that the policies keep, newest first."""
        if row_key not in self._live:
            self._live[row_key] = self._kept(list(self.row(row_key).captures.values()))
        return self._live[row_key]

    def _kept(self, captures: list[Capture]) -> list[Live]:
        """Different bodies count, newest first: successive captures with one body once, which is as young as the newest
        of them.  Visits and rejected captures count as none, and go with what they confirm or follow; what is kept
        because a visit confirms it keeps none that follow it."""
        captures.sort(key=lambda one: -one.at)
        pages = [one for one in captures if one.source is not None]
        counted: dict[int, tuple[bool, bool]] = {}
        """Time of a page -> whether the policies keep it, and its body."""
        kept = shown = True
        for rank, (_, group) in enumerate(groupby(pages, key=lambda one: one.body.raw), 1):
            same = list(group)
            kept = kept and self._keeps(self.policies.captures, rank, same[0].at)
            shown = shown and self._keeps(self.policies.bodies, rank, same[0].at)
            counted.update((one.at, (kept, shown)) for one in same)
        ranks = dict(counted)
        """The same, with what live visits confirm."""
        for one in pages:  # newest first: what confirms a capture is newer than it
            if ranks[one.at][0] and one.source is not None:
                before = ranks[one.source.at]
                ranks[one.source.at] = True, ranks[one.at][1] or (before[1] and before[0])
        found: list[Live] = []
        for one in captures:
            if one.source is not None:
                if ranks[one.at][0]:
                    found.append(Live(one, one.source, ranks[one.at][1] and one.source.has_body))
                continue
            follows = next((page for page in pages if page.at < one.at), None)
            if follows is None:
                age = self.policies.captures.max_age_seconds
                if kept and (age is None or one.at > self.now - round(age * 1_000_000)):
                    found.append(Live(one, None, False))
            elif counted[follows.at][0]:
                source = follows.source if one.may_follow(follows) else None
                found.append(Live(one, source, source is not None and ranks[follows.at][1] and source.has_body))
        return found

    def _keeps(self, policy: GCPolicy, rank: int, newest: int) -> bool:
        age = policy.max_age_seconds
        too_old = age is not None and newest <= self.now - round(age * 1_000_000)
        too_many = policy.max_versions is not None and rank > policy.max_versions
        return not ((too_old and too_many) if policy.intersection else (too_old or too_many))

    def pages(self, row_key: bytes) -> list[Live]:
        """Live captures that show a page, newest first."""
        return [one for one in self.live(row_key) if one.source is not None]

    def seen(self, row_key: bytes) -> list[Seen]:
        """The same as verdicts see them, oldest first."""
        return [Seen(one.capture.pointer, one.page, one.status, one.has_body) for one in reversed(self.pages(row_key))]

    def has_body(self, pointer: Pointer) -> bool:
        return any(one.has_body for one in self.pages(pointer[1]) if one.at == pointer[0])

    def _others(self, row_key: bytes, *, by_text: bool, own_host: bool = False) -> Iterator[Seen]:
        """Live captures of other rows that a verdict may name."""
        for key in self.rows:
            if own_host and self.host(key) != self.host(row_key):
                continue
            for one in self.seen(key) if key != row_key else ():
                capture = one.capture
                is_near = capture.stored == "reference" and capture.verdict.kind is not VerdictKind.EXACT  # type: ignore[union-attr]
                if (is_near and by_text and self._original_is_there(capture)) or (
                    own_host and not self.stands(one.pointer)
                ):
                    continue
                yield one

    def _original_is_there(self, capture: Capture) -> bool:
        original = capture.original
        return original is not None and self.row(original.pointer[1]).captures.get(original.at) is original

    # --- verdicts

    def host(self, row_key: bytes) -> str:
        return self.urls[row_key].split("/")[2]

    def verdict(
        self, row_key: bytes, body: Body, status: int, *, is_open: bool = False, own_host: bool = False
    ) -> Expected:
        """What a page is to the live pages of other rows.

        Args:
            row_key, body, status: of the page.
            is_open: do not name the text of a page stored by reference while its original is there; both are right.
            own_host: only to pages of its own host that show what they did.
        """
        if body.is_blank:
            return Expected(VerdictKind.NEW)
        equal = [
            one.pointer
            for one in self._others(row_key, by_text=False, own_host=own_host)
            if one.capture.body.raw == body.raw and one.status // 100 == status // 100
        ]
        if equal:
            return Expected(VerdictKind.EXACT, min(equal), 1.0)
        if not body.is_html or status // 100 != 2:
            return Expected(VerdictKind.NEW)
        pages, crowd = (
            [
                one
                for one in self._others(row_key, by_text=is_open, own_host=own)
                if one.status // 100 == 2 and one.capture.body.is_html
            ]
            for own in (own_host, False)
        )
        if len(body.words) >= MIN_SAME_TEXT_WORDS:
            same = [
                one.pointer
                for one in pages
                if one.capture.body.words == body.words and same_title(one.capture.body, body)
            ]
            if same:
                return Expected(VerdictKind.SAME_TEXT, min(same), 1.0)
        if len(body.words) < MIN_NEAR_WORDS:
            return Expected(VerdictKind.NEW)
        return self._by_likeness(body, pages, crowd)

    def _by_likeness(self, body: Body, pages: list[Seen], crowd: list[Seen]) -> Expected:
        oldest: dict[tuple[str, ...], Pointer] = {}
        relatives = {
            its
            for its in {one.capture.body.words for one in crowd}
            if len(its) >= MIN_NEAR_WORDS and max(overlap(body.words, its)) >= 0.3
        }
        """Texts that the index may propose: it knows no hosts."""
        for one in pages:
            its = one.capture.body
            if its.words in relatives:
                oldest[its.words] = min(one.pointer, oldest.get(its.words, one.pointer))
        matches = [(*overlap(body.words, text)[:2], pointer) for text, pointer in oldest.items()]
        claims = []
        for alike, inside, pointer in matches:
            if alike >= NEAR:
                claims.append((VerdictKind.NEAR, pointer, alike))
            elif inside >= CONTAINED:
                claims.append((VerdictKind.CONTAINED, pointer, inside))
            elif alike >= SIMILAR:
                claims.append((VerdictKind.SIMILAR, pointer, alike))
        order = [VerdictKind.NEAR, VerdictKind.CONTAINED, VerdictKind.SIMILAR]
        claims.sort(key=lambda claim: (order.index(claim[0]), -claim[2], claim[1]))
        if not claims:
            return Expected(VerdictKind.NEW)
        kind, pointer, similarity = claims[0]
        sure = similarity >= SURE_JACCARD if kind is VerdictKind.NEAR else len(body.words) >= SURE_WORDS
        may_miss = kind is VerdictKind.SIMILAR or not sure or len(relatives) > SURE_TEXTS
        return Expected(kind, pointer, similarity, tuple(claims[1:]), may_miss)

    def stands(self, pointer: Pointer) -> bool:
        """Whether a page is live and what its URL shows today."""
        page = next((one for one in self.seen(pointer[1]) if one.pointer == pointer), None)
        shown = next(iter(self.pages(pointer[1])), None)
        return (
            page is not None
            and shown is not None
            and shown.page.body.raw == page.capture.body.raw
            and shown.status // 100 == page.status // 100
        )

    def previous(self, row_key: bytes, at: int) -> Live | None:
        """The newest live page of a row before a time."""
        return next((one for one in self.pages(row_key) if one.at < at), None)

    def rejected_last(self, row_key: bytes, at: int) -> Capture | None:
        """The last live fetch of a row before a time, if it was rejected; visits are none."""
        fetches = (one.capture for one in self.live(row_key) if one.at < at and one.capture.stored != "visit")
        last = next(fetches, None)
        return last if last is not None and last.stored == "rejected" else None

    # --- changes

    def add(self, capture: Capture) -> None:
        at, row_key = capture.pointer
        if capture.stored == "reference" and capture.verdict is not None and capture.verdict.of is not None:
            of_at, of_row = capture.verdict.of
            capture.original = self.row(of_row).captures.get(of_at)
        self.rows.setdefault(row_key, Row()).captures[at] = capture
        self.changed(row_key)

    def delete_crawl(self, crawl: str) -> int:
        """A capture that a visit of another crawl shows goes to the crawl of the oldest such visit; -> rows changed."""
        rows = 0
        for row_key, row in self.rows.items():
            captures = sorted(row.captures.values(), key=lambda one: one.at)
            rows += any(one.crawl == crawl for one in captures)
            pages = [one for one in captures if one.source is not None]
            heirs: dict[int, str] = {}
            for one in captures:
                below = [page for page in pages if page.at < one.at]
                shown = one.source or (below[-1].source if below and one.may_follow(below[-1]) else None)
                if shown is not None and one.crawl != crawl:
                    heirs.setdefault(shown.at, one.crawl)
            for one in captures:
                if one.crawl == crawl and one.source is one and one.at in heirs:
                    one.crawl = heirs[one.at]
                elif one.crawl == crawl:
                    del row.captures[one.at]
            self.changed(row_key)
        return rows

    def compact(self) -> None:
        """What policies hide is removed."""
        for row_key, row in self.rows.items():
            live = self.live(row_key)
            row.captures = {one.at: one.capture for one in live}
            for one in live:
                if one.capture.source is one.capture:
                    one.capture.has_body = one.has_body
        self.changed()
