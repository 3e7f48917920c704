"""The page of `docstore report`: one HTML file with its drawings in it, which loads nothing and runs nothing.

URLs and titles of stored pages are text, never links: a crawl may hold pages of strangers.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final
from xml.etree.ElementTree import Element

from docstore.model import markup
from docstore.model.choices import REASON_WORDS, VerdictKind
from docstore.model.markup import (
    WIDTH,
    Child,
    counted,
    duration,
    element,
    moment,
    number,
    percent,
    size,
    url_text,
    verdict_bar,
    words,
)
from docstore.reports.survey import MOST_URLS, Survey

BAR_HEIGHT: Final = 28
TIME_HEIGHT: Final = 160
LENGTH_HEIGHT: Final = 90
SHOWN: Final = 12
"""Rows of a list; JSON has more."""
SHOWN_NAMES: Final = 8
TITLE_CHARACTERS: Final = 120
SHAPE_CHARACTERS: Final = 160
_UNITS: Final = {60: "a minute", 600: "ten minutes", 3600: "an hour", 21_600: "six hours", 86_400: "a day"}
_UNITS_LATER: Final = {604_800: "a week", 2_419_200: "four weeks", 31_449_600: "52 weeks"}
_KEPT: Final = {
    "body": "body stored",
    "text": "text stored, without the body",
    "reference": "stored by reference",
    "confirmed": "unchanged since the capture before",
    "rejected": "rejected: no body kept",
    "visit": "visit of a page that was not stored",
}


@lru_cache(maxsize=1)
def style_sheet() -> str:
    """The style sheet of this page and of the operator's."""
    return files("docstore.reports").joinpath("style.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def style_source() -> str:
    """What a content security policy calls the style sheet in this page."""
    return f"'sha256-{b64encode(hashlib.sha256(style_sheet().encode()).digest()).decode()}'"


def report_html(made: Survey) -> str:
    """The report of a store as one HTML page."""
    policy = f"default-src 'none'; style-src {style_source()}; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{made.name} \u00b7 docstore report"),
    )
    sheet = element("style")
    sheet.text = style_sheet()
    head.append(sheet)
    sections: list[Element] = []
    if made.totals.captures:
        sections += [element("div", _verdicts(made), _kept(made), class_="two"), _over_time(made)]
        sections += [_clusters(made), _hosts(made), *_traps(made), _texts(made)]
    body = element(
        "body",
        element("main", _title(made), _figures(made), *sections, _sizes(made), id="content"),
        element(
            "footer",
            element("span", f"docstore {made.version}"),
            element("span", f"counted in {duration(made.seconds)}"),
            element("span", "times in UTC"),
        ),
        class_="report",
    )
    return "<!doctype html>\n" + markup.render(element("html", head, body, lang="en")) + "\n"


def _title(made: Survey) -> Element:
    when = f"As of {moment(made.made, seconds=False)}"
    if made.newest:
        when += f"; captures from {moment(made.oldest, seconds=False)} to {moment(made.newest, seconds=False)}"
    damaged = (
        f"{counted(made.damaged, 'row')} could not be read; `docstore check` says which." if made.damaged else None
    )
    return element(
        "div",
        element("h1", made.name),
        element("p", when, class_="quiet"),
        element("p", damaged, class_="notice") if damaged else None,
        class_="title",
    )


def _figures(made: Survey) -> Element:
    duplicates = made.totals.duplicates
    stored = sum(room.stored_bytes for room in made.room.values())
    visits = f", and {counted(made.visits, 'visit')}" if made.visits else ""
    figures = [
        (number(made.urls), f"pages of {counted(made.host_count, 'host')}"),
        (number(made.totals.captures), "captures" + visits),
        (percent(duplicates, made.totals.captures), f"duplicates of other pages, {number(duplicates)}"),
        (size(made.totals.body_bytes), f"bodies as fetched, {size(stored)} on disk"),
    ]
    return element(
        "section",
        *(element("div", element("b", figure), element("span", label)) for figure, label in figures),
        class_="figures",
        aria_label="Totals",
    )


def _section(heading: str, *children: Child, about: str = "") -> Element:
    return element("section", element("h2", heading), element("p", about, class_="quiet") if about else None, *children)


# --- drawings


def _rect(x: float, y: float, width: float, height: float, title: str, class_: str | None = None) -> Element:
    label = element("title", title)
    place = {"x": round(x, 2), "y": round(y, 2), "width": round(width, 2), "height": round(height, 2)}
    return element("rect", label, class_=class_, **place)


def _drawing(class_: str, height: int, label: str, shapes: Iterable[Element]) -> Element:
    view = {"viewBox": f"0 0 {WIDTH} {height}", "preserveAspectRatio": "none"}
    return element("svg", *shapes, class_=class_, role="img", aria_label=label, **view)


def _axis(*labels: str) -> Element:
    return element("p", *(element("span", label) for label in labels), class_="axis quiet")


def _share(part: float, whole: float) -> Element:
    """A share as a small bar, and as a number."""
    width = WIDTH * part / whole if whole else 0.0
    drawn = _drawing("share", 10, percent(part, whole), [_rect(0, 0, width, 10, percent(part, whole))])
    return element("span", percent(part, whole), drawn, class_="shared")


def _key(kind: str) -> Element:
    return element("span", element("span", class_=f"key {kind}"), words(kind))


# --- sections


def _verdicts(made: Survey) -> Element:
    total = made.totals.captures
    bars = verdict_bar(made.totals.verdicts)
    drawn = _drawing(
        "bars",
        BAR_HEIGHT,
        "Shares of verdicts; the table has the numbers",
        (
            _rect(
                bar["x"],
                0,
                bar["width"],
                BAR_HEIGHT,
                f"{words(bar['name'])} {percent(bar['value'], total)}",
                f"fill {bar['name']}",
            )
            for bar in bars
            if bar["width"]
        ),
    )
    rows = [(_key(bar["name"]), number(bar["value"]), percent(bar["value"], total)) for bar in bars]
    return _section("Verdicts", drawn, _plain(rows), about="What each capture was when it was written.")


def _plain(rows: Iterable[Sequence[Child]]) -> Element:
    made = markup.table((), rows, right=(1, 2))
    made.set("class", "plain")
    return made


def _explained(reason: str) -> Element:
    """A reason of verdicts, and below it what it means."""
    meaning = REASON_WORDS.get(reason)
    return element("div", words(reason), element("div", meaning, class_="quiet") if meaning else None)


def _kept(made: Survey) -> Element:
    total = made.totals.captures
    rows: list[Sequence[Child]] = [
        (_KEPT.get(name, words(name)), number(count), percent(count, total)) for name, count in made.stored.items()
    ]
    saved = f"Sharing bytes with equal and similar pages saved {size(made.totals.saved_bytes)}."
    reasons: list[Sequence[Child]] = [
        (_explained(name), number(count), percent(count, total)) for name, count in sorted(made.totals.reasons.items())
    ]
    return _section(
        "How they were stored",
        _plain(rows),
        *([element("h3", "Reasons"), _plain(reasons)] if reasons else []),
        about=saved,
    )


def _over_time(made: Survey) -> Element:
    unit = made.unit_seconds * 1_000_000
    first = made.periods[0].since
    count = (made.periods[-1].since - first) // unit + 1
    most = max(sum(period.verdicts.values()) for period in made.periods)
    step = WIDTH / max(count, 12)

    def shapes() -> Iterable[Element]:
        yield element("line", x1=0, x2=WIDTH, y1=TIME_HEIGHT, y2=TIME_HEIGHT)
        for period in made.periods:
            y: float = TIME_HEIGHT
            when = moment(period.since, seconds=False)
            for kind in reversed(VerdictKind):
                found = period.verdicts.get(kind, 0)
                height = (TIME_HEIGHT - 4) * found / most
                if found:
                    y -= height
                    title = f"{when}: {number(found)} {words(kind)}"
                    yield _rect((period.since - first) // unit * step, y, step * 0.86, height, title, f"fill {kind}")

    length = (_UNITS | _UNITS_LATER).get(made.unit_seconds, f"{made.unit_seconds // 86_400:,} days")
    drawn = _drawing("columns time", TIME_HEIGHT, f"Captures by verdict over time, {length} a column", shapes())
    ends = [moment(made.oldest, seconds=False)[:10], moment(made.newest, seconds=False)[:10]]
    if ends[0] == ends[1]:
        ends = [moment(made.oldest), moment(made.newest)]
    kinds = [_key(kind) for kind in VerdictKind if made.totals.verdicts.get(kind)]
    keys = element("p", *kinds, class_="keys")
    about = f"By the time of the capture; a column is {length}, the highest has {counted(most, 'capture')}."
    return _section("Verdicts over time", drawn, _axis(*dict.fromkeys(ends)), keys, about=about)


def _clusters(made: Survey) -> Element:
    if not made.cluster_count:
        return _section("Clusters", about="No page is a copy of another one; `docstore sweep` compares all pairs.")
    source = "the last sweep, and by verdicts where it has none" if made.swept else "their verdicts"
    pages, clusters = counted(made.clustered, "page"), counted(made.cluster_count, "cluster")
    about = f"{pages} in {clusters}, by {source}; the largest first, with some of their pages."
    if made.cluster_error:
        about += f" There are more small ones, and a count may be {number(made.cluster_error)} too small."

    def item(title: str, url: str, figure: str) -> Element:
        named = element("bdi", markup.short(title, TITLE_CHARACTERS), class_="name") if title else None
        return element("li", element("b", figure, class_="n"), element("span", named, url_text(url), class_="what"))

    shown = [
        element(
            "ul",
            item(one.title, one.url, f"{number(one.pages)} pages"),
            *(item(member.title, member.url, f"{member.similarity:.3f}") for member in one.members),
            class_="cluster",
        )
        for one in made.clusters[:SHOWN]
    ]
    return _section("Clusters", element("div", *shown, class_="clusters"), about=about)


def _hosts(made: Survey) -> Element:
    rows = [
        (url_text(one.host or "no host"), number(one.urls), size(one.body_bytes), _share(one.duplicates, one.captures))
        for one in made.hosts[:SHOWN]
    ]
    more = made.host_count - len(rows)
    table = markup.table(("Host", "Pages", "Bodies", "Duplicates"), rows, right=(1, 2))
    return _section("Hosts", table, element("p", f"And {number(more)} more.", class_="quiet") if more > 0 else None)


def _traps(made: Survey) -> Iterable[Element]:
    cut = f" Of {counted(made.cut_hosts, 'host')} only {number(MOST_URLS)} URLs were counted." if made.cut_hosts else ""
    if made.patterns:
        shapes = []
        for one in made.patterns[:SHOWN]:
            shape = element("code", markup.short(one.shape, SHAPE_CHARACTERS), class_="url")
            example = element("span", url_text(one.example), class_="quiet")
            named = element("span", shape, element("br"), example)
            shapes.append((named, number(one.urls), _share(one.duplicates, one.urls)))
        about = "Shapes of URLs of which many repeat other pages; a crawler that skips them loses little."
        yield _section("Traps", markup.table(("Shape", "URLs", "Duplicates"), shapes, right=(1,)), about=about + cut)
    if made.parameters:
        names = [
            (element("bdi", f"{one.parameter} of {one.host}", class_="url"), number(one.urls), number(one.pages))
            for one in made.parameters[:SHOWN]
        ]
        about = "Query parameters that never changed what a page shows: without them so many URLs are so many pages."
        yield _section(
            "Parameters", markup.table(("Parameter", "URLs", "Pages"), names, right=(1, 2)), about=about + cut
        )
    if made.same_texts:
        texts = [(url_text(one.example), number(one.urls)) for one in made.same_texts[:SHOWN]]
        about = "Texts that five URLs and more of one host show: empty lists, logins, pages that are not there."
        yield _section("One text at many URLs", markup.table(("As at", "URLs"), texts, right=(1,)), about=about + cut)


def _texts(made: Survey) -> Element:
    counts = {length: count for length, count in made.text_bytes if length}
    bins = [1 << bit for bit in range(min(counts).bit_length() - 1, max(counts).bit_length())] if counts else []
    most = max(counts.values(), default=1)
    step = WIDTH / max(len(bins), 8)
    drawn = _drawing(
        "columns",
        LENGTH_HEIGHT,
        "Pages by the length of their text",
        [
            element("line", x1=0, x2=WIDTH, y1=LENGTH_HEIGHT, y2=LENGTH_HEIGHT),
            *(
                _rect(
                    at * step,
                    LENGTH_HEIGHT - LENGTH_HEIGHT * counts.get(low, 0) / most,
                    step * 0.9,
                    LENGTH_HEIGHT * counts.get(low, 0) / most,
                    f"{size(low)} to {size(2 * low)}: {counted(counts.get(low, 0), 'page')}",
                )
                for at, low in enumerate(bins)
            ),
        ],
    )
    empty = dict(made.text_bytes).get(0, 0)
    about = f"The length of the main text, doubled with each column; {counted(empty, 'page')} without."
    languages = made.annotated or made.declared
    unknown = made.urls - sum(languages.values())
    named = "Language, annotated" if made.annotated else "Language, as the page says"
    lists = element(
        "div",
        _names(named, languages, made.urls, unknown),
        _names("Media type", made.media_types, made.urls, made.urls - sum(made.media_types.values())),
        _names("Status", made.statuses, made.urls, 0),
        class_="three",
    )
    ends = _axis(size(bins[0]), size(2 * bins[-1])) if bins else None
    return _section("Texts", drawn, ends, lists, about=about)


def _names(heading: str, counts: Mapping[str, int], total: int, unknown: int) -> Element:
    rows = [(name, number(count), percent(count, total)) for name, count in list(counts.items())[:SHOWN_NAMES]]
    rest = sum(list(counts.values())[SHOWN_NAMES:])
    rows += [("others", number(rest), percent(rest, total))] if rest else []
    rows += [("not known", number(unknown), percent(unknown, total))] if unknown > 0 else []
    return element("div", element("h3", heading), _plain(rows))


def _sizes(made: Survey) -> Element:
    total = sum(room.stored_bytes for room in made.room.values())
    rows = [
        (
            name,
            size(room.raw_bytes) if room.raw_bytes else "",
            size(room.stored_bytes),
            _share(room.stored_bytes, total),
        )
        for name, room in made.room.items()
        if room.stored_bytes or room.raw_bytes
    ]
    about = "Bodies, texts and other long values are compressed records; the next `docstore compact` removes garbage."
    return _section("Sizes", markup.table(("Part", "As written", "On disk", "Share"), rows, right=(1, 2)), about=about)
