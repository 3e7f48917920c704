"""What a write costs as a store fills with the hardest of one kind: processor time of the first pages and the last.

    python -m tools.bench.growth [--pages N] [--only NAME] [--seconds S]

Each scenario writes N pages that meet at one place of the store: one body under many URLs, one URL with many bodies, a
page that many others refer to.  A page's cost is printed for each twentieth of N (a thousand of 20,000), and the ratio
of the last to the first, which should stay near 1.  A scenario is cut off after S seconds of processor time.  Of the
scenario `versions` the history of its URL is read, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from docstore.model.choices import VerdictKind
from docstore.model.types import Page, Policy, PutResult
from docstore.store import DocumentStore
from tools.bench.harness import Section, fresh_store, one_core, run_commands

COMMAND = "python -m tools.bench.growth"
PAGES = 20_000
SLICES = 20
SECONDS = 300.0
SHOWN_SLICES = (0, 4, 9, 14, 19)
START = 1_600_000_000_000_000
"""September 2020, in microseconds."""
MILLISECOND = 1000


@lru_cache(maxsize=4)
def body(number: int = 0, words: int = 120) -> bytes:
    """A page of its own words; the same for the same number."""
    text = " ".join(f"w{number}x{place}" for place in range(words))
    return f"<html><head><title>Page</title></head><body><p>{text}</p></body></html>".encode()


def _write(store: DocumentStore, pages: Iterable[Page], policy: Policy = Policy.FLAG) -> list[PutResult]:
    policies = dict.fromkeys((VerdictKind.EXACT, VerdictKind.NEAR), policy)
    return list(store.put_pages(pages, policies=policies, threads=1))


class Scenario(NamedTuple):
    """Pages of one kind: what they are, the page of a number among so many, and what is done with them."""

    about: str
    page: Callable[[int, int], Page]
    policy: Policy = Policy.FLAG
    deleted: bool = False

    def write(self, store: DocumentStore, count: int, step: int) -> Iterator[None]:
        """Write one slice of pages a step."""
        for begin in range(0, count, step):
            for result in _write(store, (self.page(n, count) for n in range(begin, begin + step)), self.policy):
                if self.deleted:
                    store.delete(result.url)
            yield


def _at(url: str, source: bytes, number: int) -> Page:
    return Page(url, source, fetched_at=START + number * MILLISECOND)


def _one_body(number: int, _: int) -> Page:
    return _at(f"http://a.example/{number}", body(), number)


def _two_statuses(number: int, count: int) -> Page:
    late = number % 2
    page = _at(f"http://a.example/{number}", body(), number + late * count)
    return page._replace(status=200 if late else 404)


def _other_version(number: int, _: int) -> Page:
    source = body(number % 1000, 270).replace(b"</p>", body(number, 30) + b"</p>")
    return _at(f"http://a.example/{number % 1000}", source, number)


SCENARIOS: dict[str, Scenario] = {
    "one-body": Scenario("One body under different URLs", _one_body),
    "one-body-referred-to": Scenario(
        "One body under different URLs, stored by reference", _one_body, policy=Policy.REFERENCE
    ),
    "one-body-deleted": Scenario(
        "One body under different URLs, each slice deleted before the next", _one_body, deleted=True
    ),
    "one-time": Scenario(
        "Different bodies at one URL and time", lambda n, _: Page("http://a.example/", body(n, 30), fetched_at=START)
    ),
    "versions": Scenario("One URL with ever other bodies", lambda n, _: _at("http://a.example/", body(n, 30), n)),
    "two-statuses": Scenario("One body that came with 404 and, later, with 200", _two_statuses),
    "two-bodies": Scenario(
        "One URL that flips between two bodies", lambda n, _: _at("http://a.example/", body(n % 2), n)
    ),
    "other-texts": Scenario(
        "Different texts, of 500 hosts", lambda n, _: Page(f"http://h{n % 500}.example/{n}", body(n, 300))
    ),
    "other-versions": Scenario(
        "A thousand URLs, each with ever other versions: one word in ten is another", _other_version
    ),
    "other-sites": Scenario(
        "The same 200 pages of 7 KB, of ever other hosts",
        lambda n, _: Page(f"http://h{n // 200}.example/{n % 200}", body(n % 200, 1000)),
    ),
}


def measure(scenario: Scenario, count: int, most_seconds: float) -> list[float]:
    """Microseconds of processor time a page, for each slice that was written in time."""
    step = max(1, count // SLICES)
    found: list[float] = []
    with fresh_store() as store:
        _write(store, [Page("http://warm.example/", b"warm", fetched_at=START)])
        began = before = time.process_time()
        for _ in scenario.write(store, step * SLICES, step):
            now = time.process_time()
            found.append((now - before) / step * 1e6)
            if now - began > most_seconds:
                break
            before = time.process_time()
    return found


def read_history(count: int) -> float:
    """Seconds of processor time for the history of a URL with so many versions: the best of three."""
    found: list[float] = []
    with fresh_store() as store:
        _write(store, (SCENARIOS["versions"].page(number, count) for number in range(count)))
        for _ in range(3):
            before = time.process_time()
            assert len(store.history("http://a.example/")) == count
            found.append(time.process_time() - before)
    return min(found)


def main(*, pages: int = PAGES, only: tuple[str, ...] = tuple(SCENARIOS), seconds: float = SECONDS) -> Section:
    """What a page costs as pages of its kind become many, at most so many seconds for a kind."""
    step = max(1, pages // SLICES)
    heads = [f"us a page at {(number + 1) * step:,}" for number in SHOWN_SLICES]
    section = Section("Growth: what a page costs as its kind becomes many", COMMAND, ("what", *heads, "last / first"))
    for name in only:
        with one_core():
            found = measure(SCENARIOS[name], pages, seconds)
        cells = [f"{found[number]:.0f}" if number < len(found) else "" for number in SHOWN_SLICES]
        reached = "" if len(found) == SLICES else f" (cut off at {len(found) * step:,})"
        about = SCENARIOS[name].about
        section.rows.append((f"{about}{reached}", *cells, f"{found[-1] / found[0]:.2f}"))
        print(name, " ".join(f"{one:.0f}" for one in found), flush=True)
    if "versions" in only:
        section.notes.append(f"The history of a URL with {pages:,} versions takes {read_history(pages):.2f} s.")
    return section


if __name__ == "__main__":
    run_commands(main)
