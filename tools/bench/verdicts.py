"""What two stores of the same input say of each page: every verdict that differs, counted by kind.

    python -m tools.bench.verdicts OLD NEW [--examples 20]

OLD and NEW are addresses of stores that were made from the same archives by two versions of docstore, by two schemas,
or on two backends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import docstore
from docstore.model.capture import VERDICT, decode_verdict
from docstore.model.keys import url_of
from docstore.model.types import ReadSpec
from tools.bench.harness import Section, run_commands

_SPEC = ReadSpec(families=(VERDICT[0],), qualifier_prefix=VERDICT[1])
_SIMILARITY_STEP = 1e-9


class Said(NamedTuple):
    """What a store says of one capture."""

    kind: str
    of: str
    similarity: float
    reason: str
    previous: str


def verdicts(path: str | Path) -> Iterator[tuple[tuple[str, int], Said]]:
    """Each capture's (URL, timestamp) and verdict, in row-key order."""
    with docstore.open(path) as store:
        for row in store.cells.scan(spec=_SPEC):
            for cell in row.cells:
                found = decode_verdict(cell.value)
                of = url_of(found.of_row_key) if found.of_row_key else ""
                said = Said(str(found.kind), of, found.similarity, found.reason, str(found.previous))
                yield (row.url, cell.timestamp), said


def difference(old: Said | None, new: Said | None) -> str:
    """In what two verdicts differ; "" for equal ones."""
    if old is None or new is None:
        return "not stored before" if old is None else "not stored now"
    if old.kind != new.kind:
        return f"{old.kind} -> {new.kind}"
    if old.of != new.of:
        better = new.similarity - old.similarity
        if abs(better) < _SIMILARITY_STEP:
            return f"{old.kind}: another page, equal similarity"
        return f"{old.kind}: another page, {'more' if better > 0 else 'less'} similar"
    if abs(old.similarity - new.similarity) >= _SIMILARITY_STEP:
        return f"{old.kind}: same page, other similarity"
    if old.previous != new.previous:
        return f"previous: {old.previous} -> {new.previous}"
    return f"{old.kind}: other reason" if old.reason != new.reason else ""


def changes(old: str, new: str, *, examples: int = 0) -> Section:
    """Count the differences of two stores of the same input by what they are, and list some of each."""
    before = dict(verdicts(old))
    after = dict(verdicts(new))
    counts: Counter[str] = Counter()
    same = 0
    shown: dict[str, list[str]] = {}
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        change = difference(was, now)
        if not change:
            same += 1
            continue
        counts[change] += 1
        listed = shown.setdefault(change, [])
        if len(listed) < examples:
            listed.append(f"- {change}: {key[0]} at {key[1]}: {_words(was)} -> {_words(now)}")
    command = "python -m tools.bench.verdicts OLD NEW"
    section = Section("Changed verdicts", command, ["change", "captures", "of all"])
    total = max(1, len(before))
    section.rows += [(change, f"{count:,}", f"{count / total:.3%}") for change, count in counts.most_common()]
    section.rows.append(("none", f"{same:,}", f"{same / total:.3%}"))
    section.notes += ["\n".join(lines) for lines in shown.values()]
    return section


def _words(said: Said | None) -> str:
    return "nothing" if said is None else f"{said.kind} {said.similarity:.3f} {said.of or said.reason}".rstrip()


if __name__ == "__main__":
    run_commands(changes)
