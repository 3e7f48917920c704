"""Decide whether to follow the links of duplicate pages, by the results of links that were followed before.

A duplicate page may have links to new pages: a gallery of pictures without words, the first pages of an archive.  Or it
is a page of a crawler trap (a session id in each link, an endless calendar), whose links lead to duplicates for ever.
Only the results of its links tell which.  So pages are grouped by the shape of their URL.  A shape has three states:

- undecided: a few links of each duplicate page are followed, and the others are held;
- closed, after ENOUGH results that are nearly all duplicates: held and later links are dropped, except one link of one
  page in ONE_IN, whose result is counted too;
- open, after ENOUGH results with more new pages: held links and all later ones are followed.

The last RECENT results of a shape count, so a closed shape may open later, and the reverse.  When the crawl is idle,
held links are released, so that no link is dropped because the sample was too small.  A shape that an earlier crawl
closed starts closed (`LinkGate.close`), because the same links would lead to the same duplicates.

A duplicate of a page that only an earlier crawl has seen replaces that page in this crawl.  But that page may still
arrive, so the links of the duplicate wait for it (`defer`).  If it arrives unchanged, they are treated as links of a
duplicate.  If the crawl is idle, they are followed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import Enum
from random import Random
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

AT_FIRST = 3
"""Links of a duplicate page that are followed before its shape is decided."""
ENOUGH = 10
"""Number of results that decide a shape."""
RECENT = 30
"""Number of results that are kept for a shape."""
MOST_NEW = 0.1
"""Highest share of new pages among the results of a closed shape."""
ONE_IN = 16
"""One duplicate page in this many of a closed shape has one link followed.  That is less than one link for each page,
so the samples of an endless trap come to an end."""
MAX_HELD_LINKS = 20_000
MAX_SHAPES = 10_000
"""Number of shapes that are kept; the least recently used is dropped first."""


class State(Enum):
    """The decision about a shape."""

    UNDECIDED = "undecided"
    CLOSED = "closed"
    OPEN = "open"


class Passed(NamedTuple, Generic[T]):
    """The decision about some links.

    Attributes:
        follow: links to follow.
        held: number of links that wait for a decision.
        dropped: number of links that will not be followed.
        change: the new state of the shape if it has just changed; else None.
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
        max_held: limit of held links; further ones are followed.
        seed: of the random choice among a page's links.
    """

    def __init__(self, max_held: int = MAX_HELD_LINKS, seed: int = 0) -> None:
        self._max_held = max_held
        self._random = Random(seed)
        self._shapes: OrderedDict[str, _Shape[T]] = OrderedDict()
        self._deferred: dict[str, tuple[str, list[T]]] = {}
        """By URL of an original: shape and links of the page that replaces it."""
        self.held = 0

    def state(self, shape: str) -> State:
        """The state of a shape."""
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
        if self.held + len(links) > self._max_held:
            return Passed(links)
        order = self._random.sample(links, len(links))
        known.held += order[AT_FIRST:]
        self.held += len(order[AT_FIRST:])
        return Passed(order[:AT_FIRST], held=len(order[AT_FIRST:]))

    def learn(self, shape: str, *, is_new: bool) -> Passed[T]:
        """Record the result of a link that was followed from a duplicate page of this shape."""
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
        """Close a shape that an earlier crawl closed; the results of its samples can open it."""
        known = self._known(shape)
        if known.state is State.UNDECIDED and True not in known.led_to_new:
            known.state = State.CLOSED
            known.led_to_new.extend([False] * ENOUGH)

    def defer(self, original: str, shape: str, links: list[T]) -> Passed[T]:
        """Hold the links of a page that replaces an original until the original arrives."""
        if original in self._deferred or self.held + len(links) > self._max_held:
            return Passed(links)
        self._deferred[original] = shape, links
        self.held += len(links)
        return Passed([], held=len(links))

    def arrived(self, original: str) -> tuple[str, list[T]]:
        """When an original arrives: shape and links of the page that replaced it; no links if there is none."""
        shape, links = self._deferred.pop(original, ("", []))
        self.held -= len(links)
        return shape, links

    def release(self) -> list[T]:
        """Some held links to follow when the crawl is idle; empty if none is held."""
        released = [link for original in list(self._deferred)[:AT_FIRST] for link in self.arrived(original)[1]]
        if released:
            return released  # they may lead to the originals of other deferred links
        for known in self._shapes.values():
            released += known.held[:ENOUGH]
            del known.held[:ENOUGH]
        self.held -= len(released)
        return released

    def _known(self, shape: str) -> _Shape[T]:
        known = self._shapes.setdefault(shape, _Shape())
        self._shapes.move_to_end(shape)
        if len(self._shapes) > MAX_SHAPES:
            oldest = next((name for name, other in self._shapes.items() if not other.held and name != shape), None)
            if oldest is not None:
                del self._shapes[oldest]
        return known
