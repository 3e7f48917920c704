"""The types of the data model: cells, mutations, families, pages, verdicts; and which pages cannot be stored.  No I/O.

The terms are Bigtable's.  Types are NamedTuples, because a write makes many of them.

Clients check pages here, too, before they send them.  Times out of range are refused, because seconds taken for
microseconds are a time of 1970, and such a version is hidden by every other one; and a version of the far future stays
the newest for ever: with a bound on versions it hides the true ones, and compaction erases them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from operator import index
from time import time_ns
from types import UnionType
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

from docstore.model.choices import (
    CONTAINED_THRESHOLD,
    COUNT_MAX,
    EXTRACTOR,
    NEAR_THRESHOLD,
    SHINGLE_WORDS,
    SIMILAR_THRESHOLD,
    VerdictKind,
)
from docstore.model.choices import Durability as Durability  # noqa: PLC0414 - with the other types of a call
from docstore.model.choices import Previous as Previous  # noqa: PLC0414
from docstore.model.errors import InvalidArgument
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.plain import asdict, iso

# --- times

Time: TypeAlias = "int | datetime | str"
"""Microseconds since 1970, a datetime with a time zone, or ISO 8601 such as 2024-05-01T10:00:00Z."""


def now_micros() -> int:
    """Microseconds since 1970."""
    return time_ns() // 1000


def micros(time: Time) -> int:
    """A time as microseconds since 1970; fractions of a microsecond are truncated.

    Raises:
        InvalidArgument: no such time, or one without a time zone.
    """
    if type(time) is int:
        return time
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise InvalidArgument(
                f"{time!r:.100} is no time in ISO 8601 with a time zone, such as 2024-05-01T10:00:00Z"
            ) from error
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise InvalidArgument(f"{time!r} has no time zone; write it with tzinfo=datetime.UTC")
        since: int = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return since
    other: Any = time  # an integer type of another library, or not a time
    try:
        return index(other)
    except TypeError as error:
        raise InvalidArgument(
            "a time must be an integer in microseconds since 1970, a datetime with a time zone, or ISO 8601 such as "
            f"2024-05-01T10:00:00Z, not {time!r:.100}"
        ) from error


# --- cells and mutations ---


class Cell(NamedTuple):
    """One value of one column of a row at one timestamp.

    Attributes:
        family: name of a declared column family.
        qualifier: free bytes.
        timestamp: microseconds since 1970, a multiple of 1000.
        value: free bytes.
    """

    family: str
    qualifier: bytes
    timestamp: int
    value: bytes


class SetCell(NamedTuple):
    """Write one cell; a cell with the same column and timestamp is replaced."""

    family: str
    qualifier: bytes
    timestamp: int
    value: bytes


class DeleteCells(NamedTuple):
    """Delete the versions of one column with ``since <= timestamp < until`` (both None: all)."""

    family: str
    qualifier: bytes
    since: int | None = None
    until: int | None = None


class DeleteFamily(NamedTuple):
    """Delete all cells that the family has in this row when the mutation is applied."""

    family: str


class Note(NamedTuple):
    """The result of an annotator for a capture: a cell of family `note` at the capture's time.

    Attributes:
        url: of the page; bytes are a row key.
        timestamp: of the capture, in microseconds.
        name: of the annotator: the qualifier.
        value: the result; None removes the note.
    """

    url: str | bytes
    timestamp: int
    name: str
    value: bytes | None


class DeleteRow(NamedTuple):
    """Delete all cells that the row has when the mutation is applied."""


Mutation: TypeAlias = SetCell | DeleteCells | DeleteFamily | DeleteRow


class RowMutations(NamedTuple):
    """Mutations of one row, applied in order, all or none."""

    table: str
    row_key: bytes
    mutations: Sequence[Mutation]


class Condition(NamedTuple):
    """True if the newest cell of the column equals `value`; with None, if the column has no cell."""

    family: str
    qualifier: bytes
    value: bytes | None


class Append(NamedTuple):
    """Append bytes to the newest value of a column; an absent value is empty."""

    family: str
    qualifier: bytes
    value: bytes


class Increment(NamedTuple):
    """Add to the newest value of a column, read as a signed 8-byte big-endian integer; an absent value is 0."""

    family: str
    qualifier: bytes
    amount: int


class Position(NamedTuple):
    """A position in a row at which a read resumes: the column, and the timestamp within it."""

    family: str
    qualifier: bytes
    timestamp: int


class ReadSpec(NamedTuple):
    """What to read of a row.

    Attributes:
        families: their names; None reads all.
        qualifier_prefix: only columns whose qualifier begins with it.
        since: earliest timestamp, inclusive; `DocumentStore.cells` takes a datetime too.
        until: timestamp bound, exclusive; None has no bound.
        versions: newest versions of each column; None gives all.
        cell_limit: stop after so many cells; None has no bound.
        after: give only cells after this position.
        keys_only: values are empty.
        crawl: only captures that were fetched by the crawl of this label; then no family of cells is read.
    """

    families: tuple[str, ...] | None = None
    qualifier_prefix: bytes = b""
    since: int = 0
    until: int | None = None
    versions: int | None = None
    cell_limit: int | None = None
    after: Position | None = None
    keys_only: bool = False
    crawl: str = ""


def checked_families(families: Iterable[str]) -> tuple[str, ...]:
    """Check names of families from a caller.

    Raises:
        InvalidArgument: not a collection of names; a single string would be read as a collection of letters.
    """
    if not isinstance(families, tuple | list | set | frozenset):
        raise InvalidArgument(f"families must be names in a tuple, such as ('http',), not {families!r:.100}")
    for family in families:
        _check_type("each of families", family, str)
    return tuple(families)


def checked_spec(spec: ReadSpec) -> ReadSpec:
    """Check a `ReadSpec` from a caller; its times become microseconds.

    Raises:
        InvalidArgument: a field has another type or is out of range.
    """
    _check_type("qualifier_prefix", spec.qualifier_prefix, bytes)
    for name, count in (("versions", spec.versions), ("cell_limit", spec.cell_limit)):
        if count is not None:
            _check_count(name, count)
    if spec.after is not None:
        _check_type("after", spec.after, Position)
    if spec.crawl != "":
        checked_crawl(spec.crawl)
    families = None if spec.families is None else tuple(sorted(checked_families(spec.families)))
    until = None if spec.until is None else micros(spec.until)
    return spec._replace(families=families, since=micros(spec.since), until=until)


# --- schema ---


_Fields = TypeVar("_Fields", bound=tuple[Any, ...])


def _checks(fields: type[_Fields]) -> type[_Fields]:
    """Make a NamedTuple check its fields: its `_checked` raises, or returns the fields to replace."""
    plain: Any = fields.__new__

    @wraps(plain)
    def new(cls: Any, *values: object, **named: object) -> Any:
        made = plain(cls, *values, **named)
        replaced = made._checked()
        return plain(cls, **(made._asdict() | replaced)) if replaced else made

    made_of: Any = fields
    made_of.__new__ = new
    made_of._make = classmethod(lambda cls, values: cls(*values))  # `_replace` calls it
    return fields


@_checks
class GCPolicy(NamedTuple):
    """Which cell versions a family keeps; applied by reads and by compaction.

    Attributes:
        max_versions: keep the newest N different values of a column, compared byte by byte; equal values in a row count
            once.  None keeps all.
        max_age_seconds: keep versions younger than this; None keeps all.
        intersection: with both bounds, drop only versions that exceed both; False drops versions that exceed either
            (their union).
    """

    max_versions: int | None = None
    max_age_seconds: float | None = None
    intersection: bool = False

    def _checked(self) -> dict[str, Any]:
        if self.max_versions is not None:
            _check_count("max_versions", self.max_versions)
        if self.max_age_seconds is not None:
            _check_number("max_age_seconds", self.max_age_seconds, math.inf)
        if not isinstance(self.intersection, bool):
            raise InvalidArgument(f"intersection must be True or False, not {self.intersection!r}")
        return {}


@_checks
class ColumnFamily(NamedTuple):
    """A declared family of columns.

    Attributes:
        name: 1 to 64 of a-z, 0-9, _ and -.
        gc: which versions are kept.
    """

    name: str
    gc: GCPolicy = GCPolicy()

    def _checked(self) -> dict[str, Any]:
        allowed = set("abcdefghijklmnopqrstuvwxyz0123456789_-")
        _check_type("the name of a family", self.name, str)
        _check_type("gc", self.gc, GCPolicy)
        if not 1 <= len(self.name) <= 64 or not set(self.name) <= allowed:
            raise InvalidArgument(f"family name {self.name!r} must be 1 to 64 characters of a-z, 0-9, _ and -")
        return {}


DUPLICATES = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR, VerdictKind.CONTAINED)
"""Verdicts for which there are policies."""
SAME_PAGE = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR)
"""Verdicts that make two pages one in collapsed results and in a sweep; a contained page has less than the other."""


class Policy(enum.StrEnum):
    """How a duplicate is stored."""

    FLAG = "flag"
    """Store it and mark it."""
    REFERENCE = "reference"
    """Store it by reference to the page it duplicates; reads always return its own bytes."""
    REJECT = "reject"
    """Store no body if the page that it duplicates is of the same site (the host without `www.` and `m.`) and still has
    that content; else store it and mark it.  The result says so, and `rejected` lists it."""
    REJECT_ANY = "reject-any"
    """The same for pages of any site: a site that is crawled first can cause pages of others to be rejected."""


REJECTING = (Policy.REJECT, Policy.REJECT_ANY)
"""Policies that store some pages without a body."""

Policies: TypeAlias = (
    Mapping[VerdictKind, Policy] | Mapping[str, str] | Iterable[tuple[VerdictKind | str, Policy | str]]
)
"""A policy for each verdict, as a caller may give it: members of the enumerations, or their values as strings."""


def checked_policies(policies: Policies) -> dict[VerdictKind, Policy]:
    """A policy for each verdict, as members of the enumerations.

    Raises:
        InvalidArgument: not a mapping or pairs, or an unknown verdict or policy.
    """
    duplicates = [str(kind) for kind in DUPLICATES]
    try:
        pairs = list(
            policies.items() if isinstance(policies, Mapping) else ((kind, policy) for kind, policy in policies)
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"policies must be a mapping such as {{'exact': 'reject'}}, not {policies!r:.100}"
        ) from error
    for kind, policy in pairs:
        if kind not in duplicates:
            raise InvalidArgument(f"policies are for {', '.join(duplicates)}, not for {kind!r}")
        if policy not in list(Policy):
            raise InvalidArgument(f"the policy of {kind} must be one of {', '.join(Policy)}, not {policy!r}")
        if kind == VerdictKind.CONTAINED and policy in REJECTING:
            raise InvalidArgument(
                "the policy of contained must be flag or reference: such a page has a part of its own, and one page "
                "may have the texts of very many"
            )
    return {VerdictKind(kind): Policy(policy) for kind, policy in pairs}


@_checks
class Schema(NamedTuple):
    """What a store declares once, at creation.

    Attributes:
        families: the user's own families, and a replacement of `anchor` (to set its GC policy).
        extractor: name of the rule that extracts the text to fingerprint.
        shingle_words: words in a shingle.
        near_threshold: least exact Jaccard coefficient of a `near` verdict.
        contained_threshold: least share of a page's shingles in an older page for `contained`.
        similar_threshold: least exact Jaccard coefficient of a `similar` verdict; None turns this verdict off.
        keyed_bands: choose the bins of each band by a secret of the store, so that nobody else can fill its buckets on
            purpose.  Two stores of the same pages may then propose different candidates.
        title_rule: give no verdict on a text that a host shows under contradicting titles.
        captures: which captures of a page are kept; successive captures of a row with the same body count once.
        bodies: which of these keep their bodies; the others keep text and fingerprints.
        policies: a policy for each verdict; the default is `flag`.  A mapping becomes pairs, strings become members.
        vocabulary: TOML with the paths of text in the user's own XML; see docs/extraction.md.
    """

    families: tuple[ColumnFamily, ...] = ()
    extractor: str = EXTRACTOR
    shingle_words: int = SHINGLE_WORDS
    near_threshold: float = NEAR_THRESHOLD
    contained_threshold: float = CONTAINED_THRESHOLD
    policies: tuple[tuple[VerdictKind, Policy], ...] = ()
    similar_threshold: float | None = SIMILAR_THRESHOLD
    keyed_bands: bool = False
    vocabulary: str = ""
    title_rule: bool = True
    captures: GCPolicy = GCPolicy()
    bodies: GCPolicy = GCPolicy()

    def _checked(self) -> dict[str, Any]:
        _check_type("families", self.families, tuple | list)
        for family in self.families:
            _check_type("each of families", family, ColumnFamily)
        names = [family.name for family in self.families]
        for name in names:
            if names.count(name) > 1:
                raise InvalidArgument(f"family {name!r} is declared twice; give it once, with one policy")
            if name in ("page", "http", "text", "dedup", "note", "capture"):
                raise InvalidArgument(
                    f"family {name!r} is built in and shows captures; set `captures` and `bodies` instead"
                )
        _check_type("extractor", self.extractor, str)
        _check_count("shingle_words", self.shingle_words)
        _check_number("near_threshold", self.near_threshold, 1)
        _check_number("contained_threshold", self.contained_threshold, 1)
        if self.similar_threshold is not None:
            _check_number("similar_threshold", self.similar_threshold, 1)
            if self.similar_threshold > self.near_threshold:
                raise InvalidArgument(
                    f"similar_threshold {self.similar_threshold} is above near_threshold {self.near_threshold}, so no "
                    "page could be similar; give a lower one, or None to turn this verdict off"
                )
        _check_type("keyed_bands", self.keyed_bands, bool)
        _check_type("vocabulary", self.vocabulary, str)
        _check_type("title_rule", self.title_rule, bool)
        _check_type("captures", self.captures, GCPolicy)
        _check_type("bodies", self.bodies, GCPolicy)
        return {"families": tuple(self.families), "policies": tuple(checked_policies(self.policies).items())}

    def policy(self, kind: VerdictKind) -> Policy:
        """The policy for one verdict; `flag` unless the schema says otherwise."""
        return dict(self.policies).get(kind, Policy.FLAG)


def _check_type(what: str, value: object, kind: type | UnionType) -> None:
    if not isinstance(value, kind):
        expected = getattr(kind, "__name__", str(kind))
        raise InvalidArgument(f"{what} must be a {expected}, not {value!r:.100}")


def _check_count(what: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= COUNT_MAX:
        raise InvalidArgument(f"{what} must be a whole number from 1 to {COUNT_MAX}, not {value!r:.100}")


def _check_number(what: str, value: object, most: float) -> None:
    """Refuse a value that is not a finite number above 0 and up to `most`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most and math.isfinite(value):
        return
    bound = "" if most == math.inf else f" and up to {most:g}"
    raise InvalidArgument(f"{what} must be a number above 0{bound}, not {value!r:.100}")


BUILT_IN_FAMILIES = (
    ColumnFamily("page"),
    ColumnFamily("http"),
    ColumnFamily("text"),
    ColumnFamily("anchor", GCPolicy(max_versions=1)),
    ColumnFamily("dedup"),
    ColumnFamily("note"),
)

# --- pages in ---

Headers: TypeAlias = tuple[tuple[str, str], ...]


def header_of(headers: Headers, name: str) -> str | None:
    """The first header of that name, case-insensitive; None if there is none."""
    wanted = name.lower()
    for key, value in headers:
        if key.lower() == wanted:
            return value
    return None


@_checks
class Page(NamedTuple):
    """A fetched page, as a caller gives it.

    Attributes:
        url: as fetched.
        body: after transfer and content decoding; a bytearray or memoryview is copied.
        status: HTTP status; 304 records a visit of an unchanged page.
        headers: as received, in order, repeats kept.
        fetched_at: microseconds since 1970; None means now.  A datetime is converted.
        ip: of the server, or "".
        payload_digest: as the crawler recorded it ("sha1:ABC..."), or "".
        docno: document number in the collection it came from, or "".
        crawl: label of the crawl that fetched it, or "".
    """

    url: str
    body: bytes
    status: int = 200
    headers: Headers = ()
    fetched_at: int | None = None
    ip: str = ""
    payload_digest: str = ""
    docno: str = ""
    crawl: str = ""

    def __repr__(self) -> str:
        when = "" if self.fetched_at is None else f" {iso(self.fetched_at)}"
        return f"<Page {self.url}{when}, status {self.status}, {body_bytes(self)} bytes>"

    def _checked(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.fetched_at is not None and type(self.fetched_at) is not int:
            fields["fetched_at"] = micros(self.fetched_at)
        if isinstance(self.body, bytearray | memoryview):
            fields["body"] = bytes(self.body)
        return fields

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))

    def header(self, name: str) -> str | None:
        """The first header of that name, case-insensitive; None if there is none."""
        return header_of(self.headers, name)


class Verdict(NamedTuple):
    """The relation of a page to pages of other URLs, when it was written.

    Attributes:
        kind: the first that applies of exact, same_text, near, contained, similar, new.
        of_url: the page that it duplicates, or is similar to; for new "", or with "title_mismatch" a similar page.
        of_timestamp: the version of that page, in microseconds; 0 if there is none.
        similarity: exact Jaccard coefficient, or containment for `contained`; 1.0 for exact and same_text, or 0.0.
        reason: "short_text", "no_text", "status", "blank" (white space), "not_modified", or "unreadable: " and why: the
            page could not be compared and is new.  "crowded": a duplicate may have been missed.  "doubtful_text", with
            any verdict on text: under a quarter of the title's words are in it.  "title_mismatch": by their titles a
            text like that of `of_url` is boilerplate.  Else "".
        contains_url: an older page whose shingles are in this one, or "".
        candidates: pages that the index proposed.
        verified: candidates that were compared exactly.
    """

    kind: VerdictKind
    of_url: str = ""
    of_timestamp: int = 0
    similarity: float = 0.0
    reason: str = ""
    contains_url: str = ""
    candidates: int = 0
    verified: int = 0

    def _repr_html_(self) -> str:
        """For notebooks."""
        from docstore.model import markup

        return str(markup.render(markup.verdict_of(self)))

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))


def page_of(
    url: str,
    body: bytes,
    headers: Headers | Mapping[str, str] = (),
    status: int = 200,
    fetched_at: Time | None = None,
    crawl: str = "",
) -> Page:
    """A page made from the arguments of `put_page`."""
    given: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    pairs = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in given)
    return Page(url, body, status, pairs, None if fetched_at is None else micros(fetched_at), crawl=crawl)


MAX_CRAWL_BYTES = 200


def checked_crawl(crawl: object) -> str:
    """The label of a crawl, as a caller gave it.

    Raises:
        InvalidArgument: it is none.
    """
    if isinstance(crawl, str) and crawl and crawl.isprintable() and len(crawl.encode()) <= MAX_CRAWL_BYTES:
        return crawl
    raise InvalidArgument(f"a crawl's label is printable text of 1 to {MAX_CRAWL_BYTES} bytes, not {crawl!r:.100}")


class PutOptions(TypedDict, total=False):
    """How pages are written: the options that `put_page`, `put_pages`, `submit_page` and `put_page_async` share.

    Attributes:
        policies: what to do per verdict, instead of the schema's, such as ``{"exact": "reject"}``; None: the schema's.
        anchors: write the texts of the page's links into the `anchor` family of the linked pages.
        links: give the result its `links`.
        any_time: accept a time before 1990, or more than a day ahead of the clock.
        keep_body: store the body (the default); False stores only text and fingerprints, if bodies are kept elsewhere.
    """

    policies: Policies | None
    anchors: bool
    links: bool
    any_time: bool
    keep_body: bool


class WriteOptions(NamedTuple):
    """How a page is written.

    Attributes:
        policies: a policy for each verdict.
        anchors: write the texts of the page's links into the rows of the linked pages.
        links: list those pages in the result.
        any_time: accept times that `refusal_of_time` refuses.
        keep_body: store the body; else only text and fingerprints.
    """

    policies: Mapping[VerdictKind, Policy]
    anchors: bool = False
    links: bool = False
    any_time: bool = False
    keep_body: bool = True

    @classmethod
    def of(cls, schema_policies: Iterable[tuple[VerdictKind, Policy]], **options: Unpack[PutOptions]) -> WriteOptions:
        """The options of a call, with the policies of a schema if it has none.

        Raises:
            InvalidArgument: `policies` names no verdict or no policy.
        """
        flags: dict[str, Any] = dict(options)
        policies = flags.pop("policies", None)
        return cls(dict(schema_policies) if policies is None else checked_policies(policies), **flags)


class PutResult(NamedTuple):
    """The result of writing one page.

    Attributes:
        url: canonical URL of its row.
        timestamp: of the capture, in microseconds.
        verdict: against other URLs.
        previous: against the version before of this URL.
        previous_similarity: exact Jaccard coefficient with that version's text; 0.0 if there is none.
        stored: "body", "text" (without the body), "reference", "confirmed" (the same answer as before, or a 304),
            "visit" (a 304 of a page without a stored version), "rejected", "known" (the same capture was already
            stored: nothing written), or "refused" (see `error`).
        error: why the page was refused, with what to do; else "".
        known_as: for "known": how the capture was stored when it was written, such as "rejected"; else "".
        links: if requested: canonical URLs that a page of status 2xx links to, each once, in document order; at most
            1000, without itself and without URLs that cannot be fetched.
    """

    url: str
    timestamp: int
    verdict: Verdict
    previous: Previous
    previous_similarity: float
    stored: str
    error: str = ""
    known_as: str = ""
    links: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """For notebooks."""
        from docstore.model import markup

        fields: list[tuple[str, markup.Child]] = [
            ("URL", markup.url_text(self.url)),
            ("time", markup.moment(self.timestamp)),
            ("verdict", markup.verdict_of(self.verdict)),
            ("version before", markup.words(self.previous)),
            ("stored", markup.words(self.stored)),
            ("error", self.error),
        ]
        return str(markup.card("Written", fields))

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))


# --- which pages cannot be stored

MAX_BODY_BYTES = 1 << 30
"""Longer bodies are refused: a record's length has 32 bits, and a page is in memory as a whole."""
MAX_STATUS = 9999
"""Servers send codes beyond the three digits of the standard."""
MAX_HEADERS_BYTES = 1_000_000
"""Longer headers are refused: archive readers accept 1 MiB, so such a page could be exported but not ingested."""

EARLIEST_MICROS = 631_152_000_000_000
"""1990-01-01: the Web's first page is of that year."""
MOST_AHEAD_MICROS = 86_400_000_000
"""A day: for time zones and wrong clocks."""


def refusal_of_time(timestamp: object, now: int, *, any_time: bool = False) -> str:
    """Why a capture of this time is refused; "" if it is accepted.

    Args:
        timestamp: as given, microseconds since 1970.
        now: microseconds since 1970.
        any_time: also accept times before 1990 and more than a day ahead.
    """
    if not isinstance(timestamp, int):
        return f"its time must be an int, in microseconds since 1970, not {timestamp!r}"
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        return f"its time {timestamp} is not in [0, 2**63) microseconds since 1970"
    if any_time:
        return ""
    if timestamp < EARLIEST_MICROS:
        return (
            f"its time {timestamp} is before 1990: give microseconds since 1970, not seconds or milliseconds; "
            "any_time=True accepts it"
        )
    if timestamp > now + MOST_AHEAD_MICROS:
        return (
            f"its time {timestamp} is more than a day ahead of this machine's clock, {now}, both in microseconds since "
            "1970; any_time=True accepts it"
        )
    return ""


def _refusal_of_headers(headers: object) -> str:
    wanted = "headers must be pairs of str, such as (('Content-Type', 'text/html'),)"
    if isinstance(headers, str | Mapping) or not isinstance(headers, Iterable):
        return f"{wanted}, not {type(headers).__name__} {headers!r:.100}"
    for number, pair in enumerate(headers, 1):
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            return f"{wanted}; number {number} is {type(pair).__name__} {pair!r:.100}"
    return wanted


def refusal_of_fields(page: Page) -> str:
    """Why a page with invalid fields is refused; "" if they are valid.

    One page must not stop the others of its group, so code after this check may not raise for the content of a page.
    """
    body: object = page.body
    status: object = page.status
    if not isinstance(body, bytes):
        return f"the body must be bytes, not {type(body).__name__}"
    if len(page.body) > MAX_BODY_BYTES:
        return f"the body has {len(page.body)} bytes; at most {MAX_BODY_BYTES} are stored"
    if not isinstance(status, int) or not 0 <= status <= MAX_STATUS:
        return f"the status must be an int from 0 to {MAX_STATUS}, not {status!r}"
    try:
        lines = [name + value for name, value in page.headers]
        joined = "".join(lines)
    except (TypeError, ValueError):
        return _refusal_of_headers(page.headers)
    if any(type(pair) is not tuple for pair in page.headers):
        return _refusal_of_headers(page.headers)
    try:
        "".join((page.url, page.ip, page.payload_digest, page.docno)).encode("utf-8", "surrogateescape")
        headers = joined.encode("utf-8", "surrogateescape")
    except (TypeError, ValueError) as error:
        return (
            "url, ip, payload_digest, docno and headers must be str, without surrogates other than those of "
            f"surrogateescape: {error}"
        )
    if (length := len(headers) + len(": \r\n") * len(lines)) > MAX_HEADERS_BYTES:
        return f"the headers have {length} bytes; at most {MAX_HEADERS_BYTES} are stored"
    try:
        if page.crawl != "":
            checked_crawl(page.crawl)
    except InvalidArgument as error:
        return str(error)
    return ""


def body_bytes(page: Page) -> int:
    """Length of a page's body; 0 if it is not bytes, and the page will be refused."""
    body: object = page.body
    return len(body) if isinstance(body, bytes) else 0
