"""HTML of what a store says, for report, notebooks and operator's page: elements, and values as people read them.

Elements are those of `xml.etree`, which escapes every text and attribute when it renders: no caller puts markup
together from strings.  Text of pages is not trusted: `safe` removes what could reorder or hide what is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from docstore.model.choices import VerdictKind
from docstore.model.keys import shown_url
from docstore.model.types import Verdict

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_DIRECTION_MARKS: Final = re.compile("[\u061c\u200e\u200f]")
"""Removed: Arabic and Hebrew text stays readable without them, and with one a name can look like another."""
_URL_PART: Final = re.compile("[^/?&=_-]*[/?&=_-]+|[^/?&=_-]+")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
URL_CHARACTERS: Final = 72
"""Of a URL that is shown; the whole one is its title."""
WIDTH: Final = 1000
"""Of drawings, in their own units."""

Child = Element | str | None
"""What an element holds: elements and texts; None is left out."""


# --- values as people read them


def safe(text: str) -> str:
    """Text without lone surrogates, direction marks and control characters other than tab and line feed."""
    return _DIRECTION_MARKS.sub("", _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n")))


def short(text: str, most: int = URL_CHARACTERS) -> str:
    """Text of at most so many characters; longer text is cut in the middle, because a URL differs at its ends."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}\u2026{text[len(text) - end :]}"


def size(count: float) -> str:
    """Bytes in a unit of three digits."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"


def number(count: int) -> str:
    """A count with thousands apart."""
    return f"{count:,}"


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: 1 page, 2 pages."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def percent(part: float, whole: float) -> str:
    """A share; a small one is not nothing."""
    if not whole or not part:
        return "0%"
    share = 100 * part / whole
    return "< 0.1%" if share < 0.1 else f"{share:.1f}%"


def moment(micros: int, *, seconds: bool = True) -> str:
    """A time in UTC; one out of the calendar's range as its number."""
    try:
        return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M{':%S' if seconds else ''}}"
    except OverflowError:
        return f"{micros} microseconds"


def duration(seconds: float) -> str:
    """A time span in its largest units."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def words(name: str) -> str:
    """A name of the code as words: same_text is "same text"."""
    return name.replace("_", " ")


# --- lines of a drawing


def verdict_bar(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Verdicts as parts of one bar, in their rank: where each begins, how wide it is, and whose it is."""
    total = sum(counts.values())
    bars: list[dict[str, Any]] = []
    x = 0.0
    for kind in VerdictKind:
        count = counts.get(kind, 0)
        width = WIDTH * count / total if total else 0.0
        bars.append({"x": round(x, 2), "width": round(width, 2), "name": str(kind), "value": count})
        x += width
    return bars


def columns(counts: Sequence[int], height: int) -> list[dict[str, Any]]:
    """A column for each count; `width` is its height here."""
    most = max(counts, default=0) or 1
    step = WIDTH / max(len(counts), 1)
    return [
        {"x": round(index * step, 2), "width": round(height * count / most, 2), "value": count}
        for index, count in enumerate(counts)
    ]


# --- elements


def element(tag: str, *children: Child, **attributes: object) -> Element:
    """An HTML or SVG element.

    Args:
        tag: its name.
        children: in their order.
        attributes: by name; `class_` is `class`, `aria_label` is `aria-label`.  None leaves one out.
    """
    given = {
        name.rstrip("_").replace("_", "-"): safe(str(value)) for name, value in attributes.items() if value is not None
    }
    made = Element(tag, given)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child:
            last = made[-1] if len(made) else None
            if last is None:
                made.text = (made.text or "") + safe(child)
            else:
                last.tail = (last.tail or "") + safe(child)
    return made


def render(root: Element) -> str:
    """An element as HTML."""
    return ElementTree.tostring(root, encoding="unicode", method="html")


def url_text(url: str, most: int = URL_CHARACTERS) -> Element:
    """A URL as text, not as a link; the whole of it is in the title."""
    shown = safe(shown_url(url))
    first, *others = url_parts(short(shown, most)) or [""]
    parts = (child for part in others for child in (element("wbr"), part))
    return element("bdi", first, *parts, class_="url", title=shown if len(shown) > most else None)


def url_parts(url: str) -> list[str]:
    """The parts of a URL between which a line may end, so that no word of it is broken."""
    return _URL_PART.findall(url)


def table(headings: Sequence[str], rows: Iterable[Sequence[Child]], right: Sequence[int] = ()) -> Element:
    """A table; columns of `right` have numbers."""

    def row(tag: str, cells: Sequence[Child]) -> Element:
        made = (element(tag, cell, class_="n" if at in right else None) for at, cell in enumerate(cells))
        return element("tr", *made)

    head = element("thead", row("th", headings)) if headings else None
    return element("table", head, element("tbody", *(row("td", cells) for cells in rows)))


# --- notebooks


def card(title: str, rows: Iterable[tuple[str, Child]], *more: Child) -> str:
    """A result in a notebook: a title, its fields that are not empty, and what follows."""
    fields = table((), [(element("b", name), value) for name, value in rows if value not in (None, "")])
    return render(element("div", element("b", title), fields, *more))


def verdict_of(verdict: Verdict) -> Element:
    """A verdict in a line: near, 0.848, of a URL."""
    of: list[Child] = [f" {verdict.similarity:.3f} of ", url_text(verdict.of_url)] if verdict.of_url else []
    reason = f" ({words(verdict.reason)})" if verdict.reason else None
    return element("span", element("b", words(verdict.kind)), *of, reason)
