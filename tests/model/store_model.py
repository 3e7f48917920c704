"""What a store has to answer: a plain model in memory that knows every capture, for `tests.model.random_store`.

The model states what is right, by all live captures: equal bytes, equal texts, exact Jaccard coefficients of the texts,
the oldest page first.  `KNOWN_FAULTS` names where the store does
otherwise today: as long as an entry is there, the answer that the fault leads to is accepted as well, and counted.  An
entry is removed when its fault is mended.  What the model takes from a store is the text that was found in a body
(`Reader`), never what is like it.
"""

from __future__ import annotations

import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from docstore import GCPolicy, Policy, VerdictKind
from docstore.store import open_store
from tests.pages import changed, page, words

KNOWN_FAULTS = {
    "B2 confirmed": "a confirmation is not seen after the capture that it confirms is hidden or gone",
    "B2 rejected": "a rejected capture counts as a version of `dedup`: no rejecting under a policy on `dedup`",
    "B2 visit": "a 304 of a version whose `dedup` has expired does not keep its status and text from a late capture",
    "revived": "a version hidden by age that an equal, later value shows again is not named before the next open",
}
OPEN = {
    "reference text": "whether the text of a page stored by reference may be named, while its original is there",
}
"""Where two answers are right."""

T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
MILLISECOND = 1000
MIN_SAME_TEXT_WORDS, MIN_NEAR_WORDS, SHINGLE_WORDS = 20, 50, 5
NEAR, CONTAINED, SIMILAR = 0.8, 0.9, 0.5
SURE_JACCARD, SURE_WORDS, SURE_TEXTS = 0.9, 200, 14
"""A pair at least so alike, or a page of so many words in another, among so few like it, is never missed."""
MOST_MISSED = 0.02
"""Share of pages with a relative below that, for which the index may propose none, or not the nearest."""
FAMILIES = ("page", "http", "text", "dedup")
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
CHECKSUMS: dict[str, Callable[[bytes], object]] = {
    "blake3": lambda raw: raw,
    "adler32": zlib.adler32,
    "crc32": zlib.crc32,
    "byte_sum": sum,
}
GC: dict[str, dict[str, GCPolicy]] = {
    "none": {},
    "one page": {"page": GCPolicy(max_versions=1)},
    "two pages": {"page": GCPolicy(max_versions=2)},
    "pages of 4 days": {"page": GCPolicy(max_age_seconds=4 * 86_400)},
    "either": {"page": GCPolicy(max_versions=2, max_age_seconds=5 * 86_400)},
    "both": {"page": GCPolicy(max_versions=1, max_age_seconds=3 * 86_400, intersection=True)},
    "one of dedup": {"dedup": GCPolicy(max_versions=1)},
    "dedup of 4 days": {"dedup": GCPolicy(max_age_seconds=4 * 86_400)},
    "one of http": {"http": GCPolicy(max_versions=1)},
    "http of 4 days": {"http": GCPolicy(max_age_seconds=4 * 86_400)},
    "two of all": dict.fromkeys(FAMILIES, GCPolicy(max_versions=2)),
    "all of 5 days": dict.fromkeys(FAMILIES, GCPolicy(max_age_seconds=5 * 86_400)),
}


# --- operations: what a seed is made of, and what is printed


class Setting(NamedTuple):
    """Of a store: its policy (a name in `GC`), its checksum, and whether texts hold the words of all titles.

    If they do not, the store has no rule of titles.
    """

    gc: str = "none"
    checksum: str = "blake3"
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


class Put(NamedTuple):
    """Write pages in one call; a dry run is thrown away."""

    fetches: tuple[Fetch, ...]
    policy: str = "flag"
    dry_run: bool = False


class Delete(NamedTuple):
    """Delete a page, or purge it."""

    url: str
    purge: bool = False


class Ask(NamedTuple):
    """`similar` to a stored page, or `find` of a document number."""

    what: str
    of: str


class Do(NamedTuple):
    """compact, compact best, sweep, reindex, copy, reopen, check; or `days`, which moves the clock on."""

    what: str
    days: int = 0


Operation = Put | Delete | Ask | Do


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
    """One capture: what it brought, what was answered, and which families still hold cells of it."""

    def __init__(self, row: bytes, at: int, fetch: Fetch, body: Body, status: int, stored: str, verdict: Expected):
        self.pointer: Pointer = (at, row)
        self.at, self.fetch, self.body, self.status, self.stored, self.verdict = (
            at,
            fetch,
            body,
            status,
            stored,
            verdict,
        )
        self.original: Capture | None = None
        self.families = {"dedup"} if stored == "rejected" else set(FAMILIES)

    def value(self, family: str) -> object:
        """What versions of a family's columns are told apart by."""
        return {"page": self.body.raw, "dedup": self.body.raw, "http": self.status, "text": self.body.words}[family]


class Row:
    """Captures of one URL by time, and its visits without a body (304)."""

    def __init__(self) -> None:
        self.captures: dict[int, Capture] = {}
        self.visits: set[int] = set()

    @property
    def taken(self) -> dict[int, Capture]:
        """Captures at whose times no other body can be: their own one, or its checksum, is there."""
        return {at: one for at, one in self.captures.items() if one.families & {"page", "dedup"}}


class Seen(NamedTuple):
    """A live capture as verdicts see it; its status is 0 where that is hidden."""

    pointer: Pointer
    capture: Capture
    status: int
    has_text: bool


class Model:
    """All captures of a store, and what is right to answer."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rows: dict[bytes, Row] = {}
        self.urls: dict[bytes, str] = {}
        self.policies = GC[setting.gc]
        self.now = T0 + 8 * DAY
        self._seen: dict[bytes, list[Seen]] = {}

    def changed(self, row_key: bytes | None = None) -> None:
        """What is live may have changed: in one row, or in all."""
        if row_key is None:
            self._seen.clear()
        else:
            self._seen.pop(row_key, None)

    def row(self, row_key: bytes) -> Row:
        return self.rows.get(row_key) or Row()

    def is_same_capture(self, taken: Capture, body: Body) -> bool:
        """Whether a body is that of a capture at its time; only its checksum tells if the capture has no body."""
        checksum = (lambda raw: raw) if "page" in taken.families else CHECKSUMS[self.setting.checksum]
        return bool(checksum(taken.body.raw) == checksum(body.raw))

    # --- what is live

    def visible(self, row_key: bytes, family: str) -> list[Capture]:
        """Captures of a row that a family's policy keeps, newest first: equal neighbours count once, and are as young
        as the newest of them; after one that is dropped none is kept."""
        captures = [
            one for _, one in sorted(self.row(row_key).captures.items(), reverse=True) if family in one.families
        ]
        policy = self.policies.get(family)
        if policy is None:
            return captures
        kept: list[Capture] = []
        for rank, (_, group) in enumerate(groupby(captures, key=lambda one: one.value(family)), 1):
            same = list(group)
            age = policy.max_age_seconds
            too_old = age is not None and same[0].at <= self.now - round(age * 1_000_000)
            too_many = policy.max_versions is not None and rank > policy.max_versions
            if (too_old and too_many) if policy.intersection else (too_old or too_many):
                break
            kept += same
        return kept

    def seen(self, row_key: bytes) -> list[Seen]:
        """Live captures of a row, oldest first."""
        if row_key not in self._seen:
            kept = {family: {one.at for one in self.visible(row_key, family)} for family in FAMILIES}
            self._seen[row_key] = [
                Seen(one.pointer, one, one.status if one.at in kept["http"] else 0, one.at in kept["text"])
                for one in reversed(self.visible(row_key, "page"))
                if one.at in kept["dedup"]
            ]
        return self._seen[row_key]

    def _others(self, row_key: bytes, faults: frozenset[str], *, by_text: bool) -> Iterator[Seen]:
        """Live captures of other rows that a verdict may name."""
        for key in self.rows:
            for one in self.seen(key) if key != row_key else ():
                capture = one.capture
                if "B2 confirmed" in faults and capture.stored == "confirmed":
                    continue
                is_near = capture.stored == "reference" and capture.verdict.kind is not VerdictKind.EXACT
                is_left_out = by_text and "reference text" in faults
                if is_near and is_left_out and self._original_is_there(capture):
                    continue
                yield one

    def _original_is_there(self, capture: Capture) -> bool:
        original = capture.original
        if original is None or "page" not in original.families:
            return False
        return self.row(original.pointer[1]).captures.get(original.at) is original

    # --- verdicts

    def verdict(self, row_key: bytes, body: Body, status: int, faults: frozenset[str] = frozenset()) -> Expected:
        """What a page is to the live pages of other rows."""
        if body.is_blank:
            return Expected(VerdictKind.NEW)
        equal = [
            one.pointer
            for one in self._others(row_key, faults, by_text=False)
            if one.capture.body.raw == body.raw and one.status // 100 == status // 100
        ]
        if equal:
            return Expected(VerdictKind.EXACT, min(equal), 1.0)
        if not body.is_html or status // 100 != 2:
            return Expected(VerdictKind.NEW)
        pages = [
            one
            for one in self._others(row_key, faults, by_text=True)
            if one.status // 100 == 2 and one.has_text and one.capture.body.is_html
        ]
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
        return self._by_likeness(body, pages)

    def _by_likeness(self, body: Body, pages: list[Seen]) -> Expected:
        oldest: dict[tuple[str, ...], Pointer] = {}
        relatives = set()
        for one in pages:
            its = one.capture.body
            if len(its.words) >= MIN_NEAR_WORDS and max(overlap(body.words, its.words)) >= 0.3:
                relatives.add(its.words)
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
        newest = next(iter(self.visible(pointer[1], "page")), None)
        shown = next((one for one in self.seen(pointer[1]) if one.capture is newest), None)
        return (
            page is not None
            and shown is not None
            and shown.capture.body.raw == page.capture.body.raw
            and shown.status // 100 == page.status // 100
        )

    def previous(self, row_key: bytes, at: int) -> Capture | None:
        """The newest live version of a row before a time."""
        return next((one for one in self.visible(row_key, "page") if one.at < at), None)

    # --- changes

    def add(self, capture: Capture) -> None:
        at, row_key = capture.pointer
        if capture.stored == "reference" and capture.verdict.of is not None:
            of_at, of_row = capture.verdict.of
            capture.original = self.row(of_row).captures.get(of_at)
        self.rows.setdefault(row_key, Row()).captures[at] = capture
        self.changed(row_key)

    def compact(self) -> None:
        """What policies hide is removed."""
        for row_key, row in self.rows.items():
            kept = {family: self.visible(row_key, family) for family in self.policies}
            for at, one in list(row.captures.items()):
                one.families -= {family for family, live in kept.items() if one not in live}
                if not one.families:
                    del row.captures[at]
        self.changed()
