"""The operator's page at `/`: what a store holds, and one page of it at a time.

HTML made by the server, readable without JavaScript.  No byte of a stored page reaches HTML unescaped (`autoescape`
holds for all templates, and none marks a value as safe: a test reads them); nothing is loaded from elsewhere.  GET
changes nothing.  POST starts and stops jobs, for a visitor who may, with the proof of a page that this server made.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from docstore.model import capture, keys, markup
from docstore.model.choices import REASON_WORDS, VerdictKind
from docstore.model.errors import CorruptionError, DocstoreError, InvalidArgument
from docstore.model.format import REASON_NOT_MODIFIED
from docstore.model.keys import shown_url, url_of
from docstore.model.markup import WIDTH, columns, counted, duration, moment, number, percent, size, verdict_bar
from docstore.model.types import ReadSpec, micros
from docstore.reading.documents import Document, DocumentReader, rejection_of
from docstore.reading.snippet import Snippet
from docstore.reports.html import report_html, style_sheet, style_source
from docstore.reports.measures import measures
from docstore.reports.survey import Survey, survey
from docstore.reports.worddiff import Change, Piece, word_diff
from docstore.serving.archive_captures import END_OF_TIMES, digits14
from docstore.serving.client_calls import Job, Role
from docstore.serving.messages import Route, read_pairs
from docstore.serving.request import (
    CHALLENGE,
    Admission,
    Refusal,
    RequestContext,
    Response,
    failure,
)
from docstore.serving.routes import place_after_key
from docstore.serving.service import DONE, Service
from docstore.serving.wire import read_report
from docstore.storage.captures import LiveCapture
from docstore.store import DocumentStore
from docstore.version import __version__

# --- routes

STARTED_HERE: Final = ("report", "compact", "sweep", "index", "check")
MOST_FORM_BYTES: Final = 10_000
LARGEST_TIME: Final = 2**62

Given = Mapping[str, str]
"""Parameters of a request."""
View = Callable[[Service, Sequence[Job], Given], dict[str, Any]]
"""Makes the values of a template, from the jobs that are remembered, the newest first, and the parameters."""
VIEWS: Final[Mapping[str, tuple[str, View]]] = {
    "/": ("overview.html", lambda service, jobs, _given: overview(service, jobs)),
    "/page": (
        "lookup.html",
        lambda service, _jobs, given: lookup(service.store, given.get("url", ""), _time(given, "at")),
    ),
    "/list": ("list.html", lambda service, _jobs, given: listing(service.store, given)),
    "/hosts": ("hosts.html", lambda service, jobs, _given: counts(service.store, jobs)),
    "/clusters": ("clusters.html", lambda service, jobs, _given: counts(service.store, jobs)),
    "/search": (
        "search.html",
        lambda service, _jobs, given: found(service.store, given),
    ),
    "/diff": (
        "diff.html",
        lambda service, _jobs, given: comparison(
            service.store, given.get("a", ""), _time(given, "a_at"), given.get("b", ""), _time(given, "b_at")
        ),
    ),
    "/jobs": ("jobs.html", lambda _service, _jobs, _given: {}),
}
"""Templates by path, and what makes their values."""
ANALYSING: Final = ("lookup.html",)
"""Their values need the analysis of a body."""


def make_page(admission: Admission) -> list[Route]:
    """The routes.  They need no role: a browser asks for a password only if an answer says so.

    Args:
        admission: who may do what.
    """

    def guarded(handler: Callable[[RequestContext, Service], Awaitable[Response]]) -> Any:
        """Let visitors in who may look, and show them their errors as a page."""

        async def answer(context: RequestContext, service: Service) -> Response:
            if admission.visitor(context) < Role.READ:
                return _denied()
            try:
                return await handler(context, service)
            except DocstoreError as error:
                return error_page(admission, context, service, error)

        return answer

    def shows(template: str, view: View) -> Any:
        async def show(context: RequestContext, service: Service) -> Response:
            base = _base(admission, context, service)
            given = dict(read_pairs(context.scope["query_string"]))
            workers = service.comparers if template in ANALYSING else service.readers
            values = await workers.run(context.client, view, service, base["jobs"], given)
            is_absent = values.get("page", True) is None or values.get("pages", True) is None
            return html(
                await service.readers.run(context.client, render, template, base | values), 404 if is_absent else 200
            )

        return guarded(show)

    async def change_jobs(context: RequestContext, service: Service) -> Response:
        """Start or stop a job; then its list."""
        if context.role < Role.ADMIN:
            raise Refusal(403, "starting and stopping jobs needs a token of the role admin")
        form = await _form(context)
        if not admission.is_proof(context, form.get("proof", "")):
            raise Refusal(403, "this form is of an earlier run of the server; load the page again")
        _change(service, form)
        return html(b"", 303, {"location": "/jobs"})

    async def show_style(_context: RequestContext, _service: Service) -> Response:
        """The style sheet; it says nothing of the store."""
        headers = {
            "x-content-type-options": "nosniff",
            "cache-control": "max-age=300",
            "content-security-policy": "default-src 'none'",
            "content-type": "text/css; charset=utf-8",
        }
        return Response(200, style_sheet().encode(), headers)

    async def show_report(context: RequestContext, service: Service) -> Response:
        """The newest report that a job has made, as `docstore report` writes it."""
        base = _base(admission, context, service)
        values = await service.readers.run(context.client, counts, service.store, base["jobs"])
        if values["made"] is None:
            return html(render("hosts.html", base | values), 404)
        raw = (await service.readers.run(context.client, report_html, values["made"])).encode("utf-8", "replace")
        policy = HEADERS["content-security-policy"].replace("'self'", style_source(), 1)
        return html(raw, headers={"content-security-policy": policy})

    return [
        *(Route("GET", path, Role.NONE, shows(*view)) for path, view in VIEWS.items()),
        Route("POST", "/jobs", Role.NONE, guarded(change_jobs)),
        Route("GET", "/report", Role.NONE, guarded(show_report)),
        Route("GET", "/page.css", Role.NONE, show_style),
    ]


def error_page(admission: Admission, context: RequestContext, service: Service, error: Exception) -> Response:
    """What went wrong, for a visitor who may look."""
    if admission.visitor(context) < Role.READ:
        return _denied()
    status, body, _ = failure(error)
    values = _base(admission, context, service) | {"message": body["error"]["message"]}
    return html(render("error.html", values), status)


def _time(given: Given, name: str) -> int | None:
    """A time in microseconds; None if it is not there."""
    value = given.get(name, "")
    if not value:
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 19 or int(value) > LARGEST_TIME:
        raise InvalidArgument(f"{name} is a time in microseconds since 1970, not {value[:40]!r}")
    return int(value)


def _base(admission: Admission, context: RequestContext, service: Service) -> dict[str, Any]:
    may_change = context.role >= Role.ADMIN
    jobs = service.jobs.list()
    return {
        "version": __version__,
        "store_name": service.store.backend.path.name,
        "client_name": context.client_name,
        "jobs": jobs,
        "running": [job for job in jobs if job.state == "running"],
        "trouble": service.trouble(),
        "may_change": may_change,
        "proof": admission.proof(context) if may_change else "",
        "archive_url": service.archive_url,
        "startable": STARTED_HERE,
    }


def _denied() -> Response:
    values = {"version": __version__, "store_name": "", "client_name": "", "running": [], "trouble": ""}
    return html(render("denied.html", values), 401, {"www-authenticate": CHALLENGE})


async def _form(context: RequestContext) -> Given:
    kind = context.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refusal(415, "this takes the form of its own page")
    return dict(read_pairs(await context.body(MOST_FORM_BYTES)))


def _change(service: Service, form: Given) -> None:
    if form.get("cancel"):
        service.jobs.cancel(form["cancel"])
        return
    kind = form.get("start", "")
    if kind not in STARTED_HERE:
        raise InvalidArgument(f"this page starts {', '.join(STARTED_HERE)}, not {kind[:100]!r}")
    options: dict[str, Any] = {}
    if kind == "compact":
        options["level"] = form.get("level", "fast")
    if kind == "sweep" and form.get("threshold"):
        try:
            options["threshold"] = float(form["threshold"])
        except ValueError as error:
            raise InvalidArgument(f"a threshold is a number such as 0.8, not {form['threshold'][:40]!r}") from error
    service.jobs.start(kind, options, is_local=False)


# --- templates into answers, with the headers that keep a browser from doing anything but showing them

HTML = "text/html"
# Referrers stay here.  `no-referrer` would also make a browser send `Origin: null` with our forms, which is refused.
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("docstore.serving"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for filter_ in (shown_url, size, number, moment, duration, pieces, figures):
        made.filters[filter_.__name__] = filter_
    made.filters["words"] = markup.words
    made.filters["short"] = markup.short
    made.filters["visible"] = markup.safe
    made.filters["url_parts"] = markup.url_parts
    made.filters["said"] = said_of
    made.globals["reason_words"] = REASON_WORDS
    for global_ in (address, percent, counted):
        made.globals[global_.__name__] = global_
    return made


def render(template: str, values: dict[str, Any]) -> bytes:
    """HTML of a template; bytes of no character set that a page had are shown as marks of what is missing."""
    return _environment().get_template(template).render(values).encode("utf-8", "replace")


def html(raw: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer that a browser may only show."""
    return Response(status, raw, {**HEADERS, "content-type": f"{HTML}; charset=utf-8", **(headers or {})})


# --- links, and points of a drawing


def address(path: str, **parameters: object) -> str:
    """A link within this page; parameters without a value are left out."""
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path


def places(times: Sequence[int]) -> list[float]:
    """Where times stand on a line; one alone stands in the middle."""
    first, last = min(times, default=0), max(times, default=0)
    if first == last:
        return [WIDTH / 2 for _ in times]
    return [round(20 + (WIDTH - 40) * (time - first) / (last - first), 1) for time in times]


# --- the first view: how much there is, verdicts, tablets, and what was written lately

RATE_HEIGHT = 60
MOST_TABLETS = 200


def overview(service: Service, jobs: Sequence[Job]) -> dict[str, Any]:
    """Values of `overview.html`."""
    stats = service.store.stats()
    minutes = service.metrics.minutes()
    hour_ago = time.time_ns() // 1000 - len(minutes) * 60_000_000
    totals = stats["totals"]
    verdicts = {str(kind): totals.get(f"verdict.{kind}", 0) for kind in VerdictKind}
    body_bytes = totals.get("body_bytes", 0)
    lately = minutes[-6:-1] or [0]
    return {
        "path": stats["path"],
        "urls": totals.get("urls", 0),
        "captures": totals.get("captures", 0),
        "visits": totals.get("visits", 0),
        "body_bytes": body_bytes,
        "directory_bytes": stats.get("directory_bytes", 0),
        "segment_bytes": stats.get("segment_bytes", 0),
        "mixed_bytes": stats.get("segment_bytes", 0)
        - sum(one.get("segment_bytes", 0) for one in stats.get("tablets", [])),
        "verdicts": verdict_bar(verdicts),
        "judged": sum(verdicts.values()),
        "kept": {word: totals.get(f"stored.{word}", 0) for word in ("body", "reference", "confirmed", "rejected")},
        "tablets": _tablets(stats.get("tablets", [])),
        "more_tablets": max(0, len(stats.get("tablets", [])) - MOST_TABLETS),
        "rate": columns(minutes, RATE_HEIGHT),
        "rate_height": RATE_HEIGHT,
        "per_minute": sum(lately) / len(lately),
        "most_per_minute": max(minutes, default=0),
        "hour": sum(minutes),
        "since": max(hour_ago, service.metrics.started),
        "troubles": _troubles(stats),
        "free_bytes": service.free_bytes(),
        "checked": _newest(jobs, "check"),
        "report": _newest(jobs, "report"),
    }


def _newest(jobs: Sequence[Job], kind: str) -> Job | None:
    """The newest job of a kind that is done."""
    return next((job for job in jobs if job.kind == kind and job.state == DONE), None)


def _tablets(tablets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    starts = [_start(tablet["start"]) for tablet in tablets]
    ends = [*starts[1:], ""]
    return [
        {
            "number": tablet["number"],
            "start": start,
            "end": end,
            "raw_bytes": tablet["raw_bytes"],
            "segment_bytes": tablet.get("segment_bytes", 0),
        }
        for tablet, start, end in zip(tablets[:MOST_TABLETS], starts, ends, strict=False)
    ]


def _start(row_key: str) -> str:
    """The URL that a row key stands for, if it is a whole one."""
    try:
        return url_of(row_key.encode()) if row_key else ""
    except ValueError:
        return row_key


def _troubles(stats: dict[str, Any]) -> list[str]:
    found = []
    if stats.get("lost"):
        found.append(f"{len(stats['lost'])} losses of captures or commits; `docstore check` names them")
    if stats.get("unreadable"):
        found.append(f"{len(stats['unreadable'])} values cannot be read; `docstore check` names them")
    if stats.get("set_aside_bytes"):
        found.append(f"{size(stats['set_aside_bytes'])} of records that no row names are in set-aside/")
    return found


# --- one URL: its captures, what was said of each, its text, its duplicates, and its neighbours by name

MOST_CAPTURES = 300
MOST_CHARACTERS = 60_000
MOST_DUPLICATES = 50
MOST_ANCHORS = 50
FAMILIES = ("http", "text", "dedup")


def lookup(store: DocumentStore, url: str, at: int | None) -> dict[str, Any]:
    """Values of `lookup.html`; `page` is None if there is no such page.

    Raises:
        InvalidArgument: not a URL that could be stored.
    """
    url = keys.stored_url(store.__contains__, url)
    found = store.get(url, at=at, families=FAMILIES)
    if found is None:
        others = [other for other in keys.equivalents(url, variants_too=True) if other in store]
        rejected = rejection_of(store.history(url), at)
        return {"url": url, "page": None, "others": others, "rejected": rejected, "at": at, "folder": _folder(url)}
    newest = store.get(url, versions=MOST_CAPTURES + 1, families=("http", "dedup"))
    history = () if newest is None else newest.captures
    captures = list(history[:MOST_CAPTURES])
    shown_now = found.newest
    text = shown_now.shown_text
    return {
        "url": url,
        "page": found,
        "now": shown_now,
        "verdict": shown_now.shown_verdict,
        "line": [
            {"x": x, "capture": one, "is_shown": one.timestamp == shown_now.timestamp}
            for x, one in zip(places([one.timestamp for one in captures]), captures, strict=True)
        ],
        "has_more": len(history) > MOST_CAPTURES,
        "text": text[:MOST_CHARACTERS],
        "is_cut": len(text) > MOST_CHARACTERS,
        "headers": shown_now.headers or (),
        "duplicates": _duplicates(store, url),
        "canonical": _canonical(store, found),
        "anchors": [
            (cell.qualifier.decode("utf-8", "replace"), cell.value.decode("utf-8", "replace"))
            for cell in islice(store.anchors(url), MOST_ANCHORS)
        ],
        "folder": _folder(url),
        "digits": digits14(shown_now.timestamp) if 0 <= shown_now.timestamp < END_OF_TIMES else "",
        "at": at,
    }


def _duplicates(store: DocumentStore, url: str) -> list[Any]:
    try:
        return store.similar(url, limit=MOST_DUPLICATES)
    except CorruptionError:  # its text cannot be read: everything else is shown
        return []


def _canonical(store: DocumentStore, page: Document) -> tuple[str, float] | None:
    """The page that stands for it since the last sweep, and the similarity to it."""
    family, qualifier = capture.CANONICAL_PAGE
    row = store.cells.read_row(page.row_key, ReadSpec(families=(family,), qualifier_prefix=qualifier, versions=1))
    cell = next((one for one in row.cells if one.qualifier == qualifier), None) if row else None
    if cell is None:
        return None
    place = capture.decode_cluster_place(cell.value)
    return keys.url_of(place.row_key), place.similarity


def _folder(url: str) -> str:
    return url[: url.rindex("/") + 1] if url.count("/") > 2 else url


# --- lists of pages: by the beginning of the URL, by verdict, by when they were written

LISTED_ROWS = 100
SCANNED_ROWS = 20_000
"""Of one view: a few seconds.  Pages of a rare verdict may be far apart."""


def listing(store: DocumentStore, given: Given) -> dict[str, Any]:
    """Values of `list.html`: of each page the newest capture that is wanted, in the order of row keys.

    Args:
        store: to be listed.
        given: `prefix` of the URLs; `verdict` of the capture, which may be a rejected one; `since`, when it was
            written, as ISO 8601 in UTC; `after`, the row key after which to go on, in hexadecimal.
    Raises:
        InvalidArgument: one of these is wrong.
    """
    prefix, verdict, since = (given.get(name, "").strip() for name in ("prefix", "verdict", "since"))
    after = given.get("after", "")
    if verdict and verdict not in list(VerdictKind):
        raise InvalidArgument(f"verdict must be one of {', '.join(VerdictKind)}, not {verdict[:40]!r}")
    earliest = _since(since)
    start, end = keys.prefix_range(prefix) if prefix else (b"", None)
    pages: list[dict[str, Any]] = []
    rows, last, is_more = 0, b"", False
    for row in store.table.scan_captures(max(start, place_after_key(after)), end):
        if rows == SCANNED_ROWS:
            is_more = True
            break
        captures = store.table.row_captures(row.cells)
        wanted = next((one for one in captures if _is_wanted(store, row.row_key, one, verdict, earliest)), None)
        if wanted is not None:
            if len(pages) == LISTED_ROWS:
                is_more = True
                break
            pages.append(_listed(store, row.row_key, wanted))
        rows, last = rows + 1, row.row_key
    return {
        "prefix": prefix,
        "verdict": verdict,
        "since": since,
        "kinds": [str(kind) for kind in VerdictKind],
        "pages": pages,
        "rows": rows,
        "next": last.hex() if is_more else "",
        "after": after,
    }


def _since(text: str) -> int:
    """The time that a person has typed, in microseconds; 0 for none."""
    try:
        moment_ = datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)
        return micros(moment_ if moment_.tzinfo else moment_.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"a time is such as 2026-11-25 or 2026-11-25 14:30, in UTC, not {text[:40]!r}") from error


def _is_wanted(store: DocumentStore, row_key: bytes, live: LiveCapture, verdict: str, earliest: int) -> bool:
    if (live.arrived or live.timestamp) < earliest:
        return False
    if not verdict:
        return live.shows_page
    said = DocumentReader(store.table, store.backend.values).verdict(row_key, live)
    return said is not None and said.kind == verdict and said.reason != REASON_NOT_MODIFIED


def _listed(store: DocumentStore, row_key: bytes, live: LiveCapture) -> dict[str, Any]:
    """What a list says of a capture."""

    reader = DocumentReader(store.table, store.backend.values)

    def text(column: capture.Column) -> str:
        value = reader.readable(row_key, live, column)
        return (value or b"").decode("utf-8", "replace")  # without one that cannot be read the rest is shown

    verdict = reader.verdict(row_key, live)
    return {
        "url": url_of(row_key),
        "timestamp": live.timestamp,
        "title": text(capture.TITLE),
        "status": text(capture.STATUS),
        "verdict": None if verdict is None else capture.shown_verdict(verdict),
        "stored": "" if verdict is None else verdict.stored,
    }


# --- two captures side by side: which words went, which came

MOST_COMPARED = 40_000
"""Of each text: what is longer is compared up to here, so that a comparison takes no more than a second or so."""


class DiffRow(NamedTuple):
    """A block of both texts, or a run of blocks without a change."""

    old: list[Piece]
    new: list[Piece]
    unchanged: int = 0


def comparison(store: DocumentStore, one: str, one_at: int | None, other: str, other_at: int | None) -> dict[str, Any]:
    """Values of `diff.html`.  Without another URL and time: with the version before.

    Raises:
        InvalidArgument: not URLs that could be stored.
    """
    one_url = keys.stored_url(store.__contains__, one)
    other_url = keys.stored_url(store.__contains__, other) if other else one_url
    if not other and other_at is None:
        found = store.get(one_url, at=one_at, versions=2, families=FAMILIES)
        pages = [] if found is None else [Document(found.row_key, (each,)) for each in reversed(found.captures)]
    else:
        read = (store.get(one_url, at=one_at, families=FAMILIES), store.get(other_url, at=other_at, families=FAMILIES))
        pages = [page for page in read if page is not None]
    values: dict[str, Any] = {"one": one_url, "other": other_url, "one_at": one_at, "other_at": other_at}
    if len(pages) < 2:
        return values | {"pages": None}
    texts = [page.text or "" for page in pages]
    old, new = pages[0].newest, pages[1].newest
    is_measured = None not in (old.text, new.text, old.checksum, new.checksum)
    rows = side_by_side(texts[0][:MOST_COMPARED], texts[1][:MOST_COMPARED])
    changed = [row for row in rows if not row.unchanged]
    return values | {
        "pages": pages,
        "rows": rows,
        "is_same": not changed,
        "measured": measures(old, new, store.schema) if is_measured else None,
        "is_cut": max(map(len, texts)) > MOST_COMPARED,
        "old_words": _words(row.old for row in changed),
        "new_words": _words(row.new for row in changed),
    }


def side_by_side(old: str, new: str) -> list[DiffRow]:
    """Blocks of both texts next to each other; runs of equal ones are counted, but for one at each end of a change."""
    blocks: list[DiffRow] = []
    left: list[Piece] = []
    right: list[Piece] = []
    for piece in [*word_diff(old, new), Piece(Change.BREAK, "")]:
        if piece.text:
            left += [piece] if piece.change is not Change.NEW else []
            right += [piece] if piece.change is not Change.OLD else []
        elif piece.change is Change.BREAK and (left or right):
            blocks.append(DiffRow(left, right))
            left, right = [], []
    return _folded(blocks)


def _folded(blocks: list[DiffRow]) -> list[DiffRow]:
    is_changed = [any(piece.change is not Change.SAME for piece in (*row.old, *row.new)) for row in blocks]
    shown: list[DiffRow] = []
    hidden = 0
    for index, row in enumerate(blocks):
        if any(is_changed[max(0, index - 1) : index + 2]):
            shown += [DiffRow([], [], hidden)] if hidden else []
            shown.append(row)
            hidden = 0
        else:
            hidden += 1
    return shown + ([DiffRow([], [], hidden)] if hidden else [])


def _words(sides: Any) -> int:
    return sum(len(piece.text.split()) for side in sides for piece in side if piece.change is not Change.SAME)


# --- a search: a page of results

HITS = 10
LAST_HIT = 1000
SEARCH_SECONDS = 2.0


def found(store: DocumentStore, given: Given) -> dict[str, Any]:
    """Values of `search.html`; what is wrong with a query is a message next to the box."""
    query, start = given.get("query", ""), given.get("from", "")
    filters = {name: given.get(name, "").strip() for name in ("host", "lang", "since", "until")}
    first = min(int(start), LAST_HIT) if start.isascii() and start.isdecimal() else 0
    values: dict[str, Any] = {
        "query": query,
        "filters": filters,
        "found": None,
        "hits": (),
        "start": first,
        "next": 0,
        "message": "",
    }
    if not query.strip() and not any(filters.values()):
        return values
    try:
        times: Any = {name: _since(filters[name]) if filters[name] else None for name in ("since", "until")}
        options: Any = {**times, "host": filters["host"] or None, "lang": filters["lang"] or None}
        results = store.search(query, limit=HITS + 1, offset=first, seconds=SEARCH_SECONDS, **options)
    except InvalidArgument as error:
        return values | {"message": str(error)}
    is_more = len(results.hits) > HITS and first + HITS <= LAST_HIT
    return values | {"found": results, "hits": results.hits[:HITS], "next": first + HITS if is_more else 0}


def pieces(snippet: Snippet | None) -> list[str]:
    """A snippet in pieces: every second one is a word of the query."""
    return [] if snippet is None else snippet.text("\0", "\0").split("\0")


# --- hosts and clusters of the whole store, as a report counts them; and what jobs say of their results

COUNTED_AT_ONCE: Final = 5_000
"""Captures of a store that is counted while its page is made, which takes half a second."""


def counts(store: DocumentStore, jobs: Sequence[Job]) -> dict[str, Any]:
    """Values of `hosts.html` and `clusters.html`.

    A small store is counted now.  Of a larger one these are the counts of the newest job `report`, if there is one.
    """
    now = store.stats()["totals"].get("captures", 0)
    is_small = now <= COUNTED_AT_ONCE
    job = _newest(jobs, "report")
    made: Survey | None = None
    if is_small:
        made = survey(store)
    elif job is not None:
        made = read_report(Survey, job.result)
    return {
        "made": made,
        "is_small": is_small,
        "is_counting": any(job.kind == "report" and job.state == "running" for job in jobs),
        "written": 0 if made is None else max(0, now - made.written),
    }


def said_of(job: Job) -> str:
    """The result of a job that is done, in words."""
    result = job.result
    if isinstance(result, int):
        return counted(result, "row")
    if not isinstance(result, Mapping):
        return ""

    def each(*named: tuple[str, str]) -> str:
        return ", ".join(counted(result.get(name, 0), one) for name, one in named)

    match job.kind:
        case "report":
            return read_report(Survey, result).summary()
        case "check":
            return counted(result["count"], "problem") if result["count"] else "no damage"
        case "sweep":
            return each(("captures", "capture"), ("pairs", "pair"), ("clusters", "cluster"))
        case "compact":
            freed = max(0, result["old_bytes"] - result["new_bytes"])
            return f"{each(('rows', 'row'), ('values', 'value'))} moved, {size(freed)} freed"
        case "backup":
            return f"{counted(result['segments'], 'segment')}, {size(result['copied_bytes'])} copied"
        case "index":
            return ", ".join(f"{number(result[name])} {name}" for name in ("added", "changed", "removed"))
        case "reindex":
            return f"{counted(result['pages'], 'page')}, {number(result['posted'])} posted again"
        case "dedup-stats":
            return (
                f"{counted(result['total']['captures'], 'capture')}, {counted(result['clustered'], 'page')} in clusters"
            )
        case _:
            return ""


def figures(result: object) -> list[tuple[str, str]]:
    """The figures of a job's result, with words and units; what is 0, and lists, are left out."""
    shown: list[tuple[str, str]] = []
    for name, value in result.items() if isinstance(result, Mapping) else ():
        label = markup.words(name.removesuffix("_bytes"))
        if isinstance(value, str) and value:
            shown.append((label, value))
        elif isinstance(value, int | float) and value:
            if name == "seconds":
                shown.append(("time", duration(value)))
            elif name.endswith("_bytes"):
                shown.append((label, size(value)))
            else:
                shown.append((label, number(value) if type(value) is int else str(value)))
    return shown
