"""What a version of docstore makes of a corpus, written down and compared with what another version makes of it.

    python -m tools.bench.verdicts record CORPUS OLD.json      # with the version before
    python -m tools.bench.verdicts record CORPUS NEW.json      # with the version after
    python -m tools.bench.verdicts compare OLD.json NEW.json [--examples 20]

A record has, for each policy, the answer to each page of the corpus and, read back by URL after the store was closed
and opened again, the verdict and the checksums of each capture.  Everything runs in one thread, so that the processor
time in user mode of the writes, which is recorded too, can be compared.  `compare` ends with status 1 if answers,
verdicts or checksums differ.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import docstore
from docstore import PutResult
from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.model.types import SAME_PAGE, Policy
from docstore.reading.documents import Capture
from tools.bench.harness import Section, folder_bytes, one_core, run_commands

POLICIES: Final = ("flag", "reference", "reject")
_OWN_CHECKSUM: Final = frozenset(("body", "text", "verdict"))
"""Fields of a capture that are recorded by themselves; all others get one checksum together."""

_VERSIONS: Final = 1 << 20

Entry = dict[str, Any]
"""What is recorded of one answer or one capture: plain values by name."""


def record(corpus: Path, out: Path, *, policies: tuple[str, ...] = POLICIES) -> Section:
    """Ingest every archive of a folder once for each policy, read all pages back, and write a record as JSON."""
    columns = ["policy", "pages", "captures read", "user seconds of the writes", "bytes on disk"]
    section = Section("Recorded", f"python -m tools.bench.verdicts record CORPUS {out.name}", columns)
    record: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="docstore-bench-") as folder, one_core():
        for policy in policies:
            address = Path(folder, policy)
            made = record[policy] = _ingested(corpus, address, policy)
            made |= {"captures": _read_back(address), "bytes": folder_bytes(address)}
            counts = f"{len(made['answers']):,}", f"{len(made['captures']):,}"
            section.rows.append((policy, *counts, f"{made['user_seconds']:.2f}", f"{made['bytes']:,}"))
    out.write_text(json.dumps(record), encoding="utf-8")
    return section


def _ingested(corpus: Path, address: Path, policy: str) -> dict[str, Any]:
    policies = {kind: Policy(policy) for kind in SAME_PAGE}
    answers: dict[str, Entry] = {}
    used = 0.0
    with docstore.open(address, create=True, durability="none") as store:
        for archive in sorted(corpus.rglob("*.warc.gz")):
            pages = [entry.page for entry in read(archive) if isinstance(entry, PageEntry)]
            began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            results = list(store.put_pages(pages, policies=policies, threads=1, any_time=True))
            used += resource.getrusage(resource.RUSAGE_SELF).ru_utime - began
            name = archive.relative_to(corpus)
            answers |= {
                f"{name} {number} {one.url} {one.timestamp}": _answer(one) for number, one in enumerate(results)
            }
    return {"user_seconds": used, "answers": answers}


def _answer(result: PutResult) -> Entry:
    return {**result.verdict._asdict(), **result._asdict(), "kind": str(result.verdict.kind), "verdict": ""}


def _read_back(address: Path) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    with docstore.open(address, read_only=True) as store:
        for url in store.urls():
            document = store.get(url, versions=_VERSIONS)
            listed = [
                *store.history(url),
                *([] if document is None else [document]),
            ]  # a rejected capture is only listed
            for capture in (capture for one in listed for capture in one.captures):
                found[f"{url} {capture.timestamp}"] = _capture(capture)
    return found


def _capture(capture: Capture) -> Entry:
    others = sorted((name, value) for name, value in capture._asdict().items() if name not in _OWN_CHECKSUM and value)
    entry = {
        name: "" if value is None else blake2b(_bytes(value), digest_size=12).hexdigest()
        for name, value in (("body", capture.body), ("text", capture.text), ("others", repr(others)))
    }
    stored, shown = capture.verdict, capture.shown_verdict
    if stored is None or shown is None:
        return entry
    about = {name: getattr(stored, name) for name in ("previous", "previous_similarity", "stored")}
    return {**shown._asdict(), **about, **entry, "kind": str(shown.kind)}


def _bytes(value: bytes | str) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def difference(old: Entry | None, new: Entry | None) -> str:
    """In what two answers, or two captures, differ; "" for equal ones."""
    if old is None or new is None:
        return "not there before" if old is None else "not there now"
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return f"{old.get('kind')} -> {new.get('kind')}" if "kind" in names else ", ".join(names)


def compare(old: Path, new: Path, *, examples: int = 0) -> Section:
    """Count the differences of two records by what they are, and list some of each; status 1 if there are any."""
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (old, new))
    section = Section("Compared", "python -m tools.bench.verdicts compare OLD NEW", ["policy", "of", "change", "count"])
    are_equal = before.keys() == after.keys()
    for policy in sorted(before.keys() | after.keys()):
        one, other = before.get(policy, {}), after.get(policy, {})
        for part in ("answers", "captures"):
            changes, shown = _changes(one.get(part, {}), other.get(part, {}), examples)
            section.rows += [(policy, part, change or "none", f"{count:,}") for change, count in changes.most_common()]
            section.notes += shown
            are_equal = are_equal and changes.keys() <= {""}
        for name in ("user_seconds", "bytes"):
            was, now = one.get(name, 0), other.get(name, 0)
            section.rows.append((policy, name, f"{was:,.2f} -> {now:,.2f}", f"{now / was - 1:+.1%}" if was else ""))
    if not are_equal:
        print(section.render())
        sys.exit(1)
    return section


def _changes(before: dict[str, Entry], after: dict[str, Entry], examples: int) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    shown: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        change = difference(was, now)
        counts[change] += 1
        if change and counts[change] <= examples:
            shown.append(f"- {change}: {key}: {was} -> {now}")
    return counts, shown


if __name__ == "__main__":
    run_commands(record, compare)
