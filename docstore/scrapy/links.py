"""Whether the links of a duplicate page are followed: decided by where links of such pages have led.

Knows shapes of URLs and counts; must not know Scrapy, responses or stores.

A page can show the same text as another and lead elsewhere: a gallery of pictures without words, the first pages of an
archive.  And a page of a trap (a session id in each link, a calendar without end) leads to duplicates for ever.  The
page alone does not tell which it is; its links do.  So pages are grouped by the shape of their URL, and for each shape:

- at first a few links of each duplicate page are followed and the others are held;
- when ENOUGH of these have been judged and nearly all were duplicates, the shape is closed: held links are dropped,
  links of further duplicates too, but for one link of each page in ONE_IN: what it leads to is judged as well;
- when more than that were something new, the shape is open: held links and all later ones are followed.

What led where is remembered for the last RECENT links, so that a shape closes or opens later, too.  When a crawl has
nothing else to do, held links are released: a crawl that ends has dropped none for want of a sample.  A shape that an
earlier crawl closed starts closed (`LinkGate.close`): the same links would lead to the same duplicates.

A duplicate of a page that only an earlier crawl has seen stands for it, but that page may still come: the links wait
for it (`defer`).  If it comes unchanged, they are links of a duplicate like others; if the crawl has nothing else to
do, they are followed.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from enum import Enum
from random import Random
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

T = TypeVar("T")

AT_FIRST = 3
"""Links of a duplicate page that are followed before its shape is decided."""
ENOUGH = 10
"""Judged links that decide a shape."""
RECENT = 30
"""Judged links of a shape that are remembered."""
MOST_NEW = 0.1
"""Share of judged links that may lead to something new in a closed shape."""
ONE_IN = 16
"""Of so many duplicate pages of a closed shape one has one link followed.  That is less than one page for each, so that
samples of an endless trap die out."""
MOST_HELD = 20_000
MOST_SHAPES = 10_000
"""Shapes remembered; the one not used for longest goes first."""

_NUMBERED = re.compile(r"\d")


def shape_of(url: str) -> str:
    """Host, first part of the path and names of the query: what pages made by one template share.

    A part with a digit in it may be a number or a session id and is not told apart from others.
    """
    parts = urlsplit(url)
    first, _, rest = parts.path.lstrip("/").partition("/")
    first = "#" if _NUMBERED.search(first) else first
    names = "&".join(sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}))
    return f"{parts.netloc}/{first}{'/' if rest else ''}{'?' if names else ''}{names}"


class State(Enum):
    """What is known of a shape."""

    UNDECIDED = "undecided"
    CLOSED = "closed"
    OPEN = "open"


class Passed(NamedTuple, Generic[T]):
    """What becomes of some links.

    Attributes:
        follow: these are followed.
        held: so many wait for a decision.
        dropped: so many will not be followed.
        change: the shape has just changed to this state; else None.
    """

    follow: list[T]
    held: int = 0
    dropped: int = 0
    change: State | None = None


class _Shape(Generic[T]):
    def __init__(self) -> None:
        self.state = State.UNDECIDED
        self.led_to_new: deque[bool] = deque(maxlen=RECENT)
        self.held: list[T] = []
        self.pages = 0


class LinkGate(Generic[T]):
    """Decides about links of duplicate pages.  Not thread-safe.

    Args:
        most_held: links held at a time; further ones are followed.
        seed: of the choice among a page's links.
    """

    def __init__(self, most_held: int = MOST_HELD, seed: int = 0) -> None:
        self._most_held = most_held
        self._random = Random(seed)
        self._shapes: OrderedDict[str, _Shape[T]] = OrderedDict()
        self._deferred: dict[str, tuple[str, list[T]]] = {}
        """Shape and links of pages that stand for another, by its URL."""
        self.held = 0

    def state(self, shape: str) -> State:
        """What is known of a shape now."""
        known = self._shapes.get(shape)
        return State.UNDECIDED if known is None else known.state

    def admit(self, shape: str, links: list[T]) -> Passed[T]:
        """Decide about the links of a duplicate page."""
        known = self._known(shape)
        known.pages += 1
        if known.state is State.OPEN:
            return Passed(links)
        if known.state is State.CLOSED:
            sample = self._random.sample(links, min(1, len(links))) if known.pages % ONE_IN == 0 else []
            return Passed(sample, dropped=len(links) - len(sample))
        if self.held + len(links) > self._most_held:
            return Passed(links)
        order = self._random.sample(links, len(links))
        known.held += order[AT_FIRST:]
        self.held += len(order[AT_FIRST:])
        return Passed(order[:AT_FIRST], held=len(order[AT_FIRST:]))

    def learn(self, shape: str, *, is_new: bool) -> Passed[T]:
        """A link that was followed from a duplicate page of this shape led to something new, or to a duplicate."""
        known = self._known(shape)
        known.led_to_new.append(is_new)
        if len(known.led_to_new) < ENOUGH:
            return Passed([])
        share = sum(known.led_to_new) / len(known.led_to_new)
        state = State.CLOSED if share <= MOST_NEW else State.OPEN
        if state is known.state:
            return Passed([])
        known.state, held, known.held = state, known.held, []
        known.pages = 0
        self.held -= len(held)
        return Passed(held, change=state) if state is State.OPEN else Passed([], dropped=len(held), change=state)

    def close(self, shape: str) -> None:
        """Start with a shape closed, as an earlier crawl left it; what its samples lead to can open it."""
        known = self._known(shape)
        if known.state is State.UNDECIDED and True not in known.led_to_new:
            known.state = State.CLOSED
            known.led_to_new.extend([False] * ENOUGH)

    def defer(self, original: str, shape: str, links: list[T]) -> Passed[T]:
        """Let the links of a page that stands for another wait until that one comes."""
        if original in self._deferred or self.held + len(links) > self._most_held:
            return Passed(links)
        self._deferred[original] = shape, links
        self.held += len(links)
        return Passed([], held=len(links))

    def met(self, original: str) -> tuple[str, list[T]]:
        """Shape and links of the page that waits for this one, which has come; no links if none waits."""
        shape, links = self._deferred.pop(original, ("", []))
        self.held -= len(links)
        return shape, links

    def release(self) -> list[T]:
        """Some held links to follow when a crawl has nothing else to do; empty when none is held."""
        found = [link for original in list(self._deferred)[:AT_FIRST] for link in self.met(original)[1]]
        if found:
            return found  # these may lead to the pages for which others wait
        for known in self._shapes.values():
            taken, known.held = known.held[:ENOUGH], known.held[ENOUGH:]
            found += taken
        self.held -= len(found)
        return found

    def _known(self, shape: str) -> _Shape[T]:
        known = self._shapes.setdefault(shape, _Shape())
        self._shapes.move_to_end(shape)
        if len(self._shapes) > MOST_SHAPES:
            oldest = next((name for name, one in self._shapes.items() if not one.held and name != shape), None)
            if oldest is not None:
                del self._shapes[oldest]
        return known
