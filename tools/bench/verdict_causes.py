"""Why two stores of the same input say different things of a page: what came into main text, and what left it.

    python -m tools.bench.verdict_causes OLD NEW [--list 3]

OLD and NEW are directories of stores that were made from the same archives.  For each capture whose verdicts differ,
the lines of its main text in both stores are compared; where they are the same, those of the pages that the two
verdicts name.  A line is of the *frame* where ten pages or more of its host have it in one of the stores (in a manual:
menus, notices, headings of every page), a *date* where it is a stamp (`reference.scored`), and the *page's own*
otherwise.  A change has the cause that most of the words are of that came or went.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import docstore
from docstore.model.capture import MAIN
from docstore.model.types import ReadSpec
from docstore.reference.scored import is_stamp
from tools.bench.harness import Section
from tools.bench.verdict_changes import Said, difference, verdicts

COMMAND: Final = "python -m tools.bench.verdict_causes OLD NEW"
FRAME_PAGES: Final = 10
SHORT: Final = "short_text"
AS_BEFORE: Final = "the same texts, compared or ranked otherwise"
_TEXTS_HELD: Final = 4096

Verdicts = dict[tuple[str, int], Said]
"""Of each capture: URL and timestamp."""


class Line(NamedTuple):
    """A line of main text of a page of a host."""

    host: str
    text: str


class Change(NamedTuple):
    """One capture that is answered otherwise."""

    url: str
    kind: str
    old: Said
    new: Said
    whose: str
    lost: frozenset[Line]
    gained: frozenset[Line]


class Texts:
    """Main texts of one store, as lines."""

    def __init__(self, store: docstore.DocumentStore) -> None:
        self._store = store
        self.lines = lru_cache(_TEXTS_HELD)(self._lines)

    def _lines(self, url: str, at: int) -> frozenset[Line]:
        document = self._store.get(url, at=at, families=("text",)) if url else None
        text = (document.text or "") if document is not None else ""
        host = urlsplit(url).netloc
        return frozenset(Line(host, line) for line in text.split("\n") if line)

    def pages_with(self, wanted: frozenset[Line]) -> Counter[Line]:
        """How many pages have each of the lines."""
        counts: Counter[Line] = Counter()
        for row in self._store.cells.scan(spec=ReadSpec(families=MAIN[:1], qualifier_prefix=MAIN[1], keys_only=True)):
            counts.update(self.lines(row.url, row.cells[0].timestamp) & wanted)
        return counts


def changes(before: Verdicts, after: Verdicts, old: Texts, new: Texts) -> Iterator[Change]:
    """Captures that both stores answer, and otherwise."""
    for url, at in sorted(before.keys() & after.keys()):
        was, now = before[url, at], after[url, at]
        kind = difference(was, now)
        if not kind:
            continue
        whose = "the page"
        lost, gained = _moved(url, at, old, new)
        if not lost and not gained:
            whose = "the page named"
            moved = [_moved(each, at, old, new) for each in {was.of, now.of} if each]
            lost = frozenset().union(*(each for each, _ in moved))
            gained = frozenset().union(*(each for _, each in moved))
        yield Change(url, kind, was, now, whose, lost, gained)


def _moved(url: str, at: int, old: Texts, new: Texts) -> tuple[frozenset[Line], frozenset[Line]]:
    was, now = old.lines(url, at), new.lines(url, at)
    return was - now, now - was


def cause(change: Change, frame: frozenset[Line]) -> str:
    """In words, why the answer is another one."""
    if change.new.reason == SHORT != change.old.reason:
        return "under 50 words now"
    if change.old.reason == SHORT != change.new.reason:
        return "50 words or more now"
    if not change.lost and not change.gained:
        return AS_BEFORE
    words: Counter[str] = Counter()
    for lines, what in ((change.lost, "left"), (change.gained, "came in")):
        for line in lines:
            kind = "dates" if is_stamp(line.text) else "lines of the frame" if line in frame else "lines of its own"
            words[f"{kind} {what}"] += len(line.text.split())
    (most, _), *_ = words.most_common(1)
    return f"{change.whose}: {most}"


def compare(old_path: Path, new_path: Path, most: int) -> Section:
    """Each kind of change by its causes, and some examples of each pair."""
    before, after = dict(verdicts(old_path)), dict(verdicts(new_path))
    with docstore.open(old_path) as old_store, docstore.open(new_path) as new_store:
        old, new = Texts(old_store), Texts(new_store)
        found = list(changes(before, after, old, new))
        wanted = frozenset().union(*(each.lost | each.gained for each in found))
        frame = frozenset(
            line for texts in (old, new) for line, pages in texts.pages_with(wanted).items() if pages >= FRAME_PAGES
        )
    by_cause: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for each in found:
        by_cause[_group(each.kind), cause(each, frame)].append(each)
    total = Counter(_group(each.kind) for each in found)
    section = Section("Causes of changed verdicts", COMMAND, ["change", "captures", "causes"])
    for kind, count in total.most_common():
        causes = sorted(((len(of), why) for (one, why), of in by_cause.items() if one == kind), reverse=True)
        section.rows.append((kind, f"{count:,}", "; ".join(f"{number:,} {why}" for number, why in causes)))
    for (kind, why), of in sorted(by_cause.items()):
        section.notes += [_example(kind, why, each) for each in of[:most]]
    return section


def _group(kind: str) -> str:
    """Other similarities and pages together, whatever the verdict."""
    return "same verdict, other similarity or page" if ":" in kind and "reason" not in kind else kind


def _example(kind: str, why: str, change: Change) -> str:
    def shown(lines: frozenset[Line]) -> str:
        return " / ".join(sorted(line.text[:80] for line in lines)[:5]) or "nothing"

    return (
        f"- {kind}; {why}: {change.url}: {change.old.similarity:.3f} {change.old.of} to {change.new.similarity:.3f} "
        f"{change.new.of}; left: {shown(change.lost)}; came in: {shown(change.gained)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.bench.verdict_causes", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--list", type=int, default=0, help="so many examples of each cause")
    arguments = parser.parse_args()
    print(compare(arguments.old, arguments.new, arguments.list).render())
