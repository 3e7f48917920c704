"""How right and how fast a sweep is, on a corpus with an independent truth.

    python -m tools.bench.sweep_quality CORPUS_DIR TRUTH_DIR [--keep STORE]

CORPUS_DIR holds WARC files.  TRUTH_DIR holds what an exact join by other code found in them: `pages.tsv` (page, url,
date, words, file, shingles) and `pairs.tsv` (page1, page2, shared, either) of visible text, 5-word shingles, J >= 0.5.

Scored are (a) the pairs of a sweep as the store is, against an exact join over our own shingle sets; the same for what
the write path flagged; (b) a sweep with `--text visible --shingle-words 5` against the truth, with a margin of .03,
because the two do not agree on what a word is; (c) the speed, on one core, verification and write-back included.
Pairs of versions of one URL are left out, pages under 50 words are apart.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

import docstore
from docstore.dedup.join import Sets, exact_join
from docstore.dedup.kernel import Kernel
from docstore.formats.entries import PageEntry
from docstore.formats.reader import read
from docstore.keys import canonical_url, url_of
from docstore.model import Page, PutResult, VerdictKind
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from docstore.sweep.pages import BY_TEXT, read_versions
from tools.bench.harness import Section, machine, one_core

THRESHOLD = 0.8
MARGIN = 0.03
SHORT_WORDS = 50
SIZES = ((50, 100), (100, 250), (250, 1 << 40))
COMMAND = "python -m tools.bench.sweep_quality CORPUS_DIR TRUTH_DIR"
DUPLICATES = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR)

Version = tuple[str, int]
Pair = tuple[Version, Version]


@dataclass
class Truth:
    """Pairs of versions that there are.

    Attributes:
        similarity: of each pair, of versions of different URLs and 50 words or more.
        words: of each version.
        package: of each version: the archive that it came from.
    """

    similarity: dict[Pair, float] = field(default_factory=dict)
    words: dict[Version, int] = field(default_factory=dict)
    package: dict[Version, str] = field(default_factory=dict)


def ingest(store: DocumentStore, corpus: Path) -> tuple[list[PutResult], dict[Version, str]]:
    """Write all pages in the order of file names; -> results, and the archive of each."""
    results: list[PutResult] = []
    package: dict[Version, str] = {}
    for path in sorted(corpus.glob("*.warc.gz")):
        pages: Iterable[Page] = (entry.page for entry in read(path) if isinstance(entry, PageEntry))
        for result in store.put_pages(pages):
            results.append(result)
            package[result.url, result.timestamp] = path.name.removesuffix(".warc.gz")
    return results, package


def own_truth(store: DocumentStore, package: dict[Version, str]) -> Truth:
    """An exact join over the shingle sets of the stored texts."""
    versions = read_versions(store)
    kernel = Kernel(store.schema.extractor, store.schema.shingle_words)
    numbers = np.flatnonzero(versions.equal_by == BY_TEXT)
    names = [(url_of(versions.row_keys[n]), int(versions.timestamps[n])) for n in numbers.tolist()]
    shingles = []
    truth = Truth(package=package)
    for name, number in zip(names, numbers.tolist(), strict=True):
        text = store.opened.placement.fetch(versions.texts[number]).decode("utf-8", "surrogatepass")
        shingles.append(kernel.shingles(text))
        truth.words[name] = len(shingles[-1])
    lengths = [len(one) for one in shingles]
    sets = Sets(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), np.concatenate(shingles))
    pairs = exact_join(sets, THRESHOLD)
    for first, second, shared, either in zip(*(column.tolist() for column in pairs), strict=True):
        one, other = names[first], names[second]
        if one[0] != other[0]:
            low, high = sorted((one, other))
            truth.similarity[low, high] = shared / either
    return truth


def read_truth(folder: Path, known: Iterable[Version]) -> Truth:
    """The independent truth, in terms of the versions that the store has."""
    by_url: dict[str, list[int]] = defaultdict(list)
    for url, timestamp in known:
        by_url[url].append(timestamp)
    truth = Truth()
    names: list[Version] = []
    for line in (folder / "pages.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        _, url, date, words, package, _ = line.split("\t")
        url = canonical_url(url)
        at = int(datetime.fromisoformat(date).timestamp()) * 1_000_000
        stored = [timestamp for timestamp in by_url[url] if timestamp <= at]
        names.append((url, max(stored, default=at)))
        truth.words.setdefault(names[-1], int(words))
        truth.package.setdefault(names[-1], package)
    for line in (folder / "pairs.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        first, second, shared, either = map(int, line.split("\t"))
        one, other = sorted((names[first], names[second]))
        if one[0] != other[0] and min(truth.words[one], truth.words[other]) >= SHORT_WORDS:
            truth.similarity[one, other] = shared / either
    return truth


def swept(store: DocumentStore, folder: Path, **options: object) -> tuple[dict[Pair, float], SweepReport]:
    """Pairs of a dry sweep."""
    path = folder / "pairs.tsv"
    given = SweepOptions(threshold=THRESHOLD, all_pairs=True, dry_run=True, pairs=path, **options)  # type: ignore[arg-type]
    report = sweep(store, given)
    found: dict[Pair, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        one, at, other, other_at, similarity = line.split("\t")
        first, second = sorted(((one, int(at)), (other, int(other_at))))
        found[first, second] = float(similarity)
    return found, report


# --- scores


def recalls(truth: Truth, wanted: dict[Pair, float], found: dict[Pair, float]) -> tuple[float, float, float]:
    """Recall as the mean over archives, as the mean over pages, and over all pairs."""
    per_page: dict[Version, list[bool]] = defaultdict(list)
    per_package: dict[str, list[bool]] = defaultdict(list)
    for pair in wanted:
        hit = pair in found
        for version in pair:
            per_page[version].append(hit)
        for package in {truth.package[version] for version in pair}:
            per_package[package].append(hit)
    means = [[sum(hits) / len(hits) for hits in groups.values()] for groups in (per_package, per_page)]
    packages, pages = (sum(mean) / len(mean) if mean else 1.0 for mean in means)
    return packages, pages, sum(pair in found for pair in wanted) / len(wanted) if wanted else 1.0


def against_own(truth: Truth, found: dict[Pair, float]) -> Section:
    """Score (a)."""
    section = Section("Sweep against the exact join over our own shingle sets", COMMAND, ("measure", "value"))
    comparable = {pair: value for pair, value in found.items() if all(version in truth.words for version in pair)}
    wrong = sum(abs(truth.similarity.get(pair, 0.0) - value) > 1e-6 for pair, value in comparable.items())
    packages, pages, pairs = recalls(truth, truth.similarity, found)
    section.rows += [
        ("pairs at J >= 0.8, both 50 words and more", str(len(truth.similarity))),
        ("found of these, with the same similarity", str(len(comparable) - wrong)),
        ("precision", f"{1 - wrong / max(1, len(comparable)):.4f}"),
        ("recall, mean over archives", f"{packages:.4f}"),
        ("recall, mean over pages", f"{pages:.4f}"),
        ("recall, per pair", f"{pairs:.4f}"),
        ("pairs with a page under 50 words (equal ones)", str(len(found) - len(comparable))),
    ]
    for low, high in SIZES:
        some = {
            pair: value
            for pair, value in truth.similarity.items()
            if low <= min(truth.words[version] for version in pair) < high
        }
        name = f"{low} to {high}" if high < 1 << 30 else f"{low} and more"
        share = sum(pair in found for pair in some) / len(some) if some else 1.0
        section.rows.append((f"recall where the smaller has {name} shingles", f"{share:.4f} of {len(some)}"))
    return section


def at_write_time(truth: Truth, results: list[PutResult]) -> Section:
    """What the write path flagged, of pages that had an earlier one at J >= 0.8 when they came."""
    section = Section("Flagged at write time", COMMAND, ("measure", "value"))
    order = {(result.url, result.timestamp): number for number, result in reversed(list(enumerate(results)))}
    due = {max(pair, key=order.__getitem__) for pair in truth.similarity}
    kinds = {(result.url, result.timestamp): result.verdict.kind for result in results}
    flagged = sum(kinds[version] in DUPLICATES for version in due)
    contained = sum(kinds[version] is VerdictKind.CONTAINED for version in due)
    best: dict[Version, float] = defaultdict(float)
    for pair, value in truth.similarity.items():
        later = max(pair, key=order.__getitem__)
        best[later] = max(best[later], value)
    named = [(result.url, result.timestamp) for result in results if result.verdict.kind in DUPLICATES]
    judged = [version for version in named if version in truth.words]
    exact = sum(
        abs(best[result.url, result.timestamp] - result.verdict.similarity) < 1e-9
        for result in results
        if (result.url, result.timestamp) in due and result.verdict.kind in DUPLICATES
    )
    section.rows += [
        ("pages with an earlier one at J >= 0.8", str(len(due))),
        ("flagged exact, same_text or near", f"{flagged / max(1, len(due)):.4f}"),
        ("flagged contained instead", f"{contained / max(1, len(due)):.4f}"),
        ("of the flagged, named the nearest earlier page", f"{exact / max(1, flagged):.4f}"),
        ("flagged without an earlier page at J >= 0.8", str(sum(version not in due for version in judged))),
    ]
    return section


def against_truth(truth: Truth, found: dict[Pair, float], report: SweepReport) -> Section:
    """Score (b)."""
    section = Section("Sweep against the independent truth", COMMAND, ("measure", "value"))
    long = {
        pair: value
        for pair, value in found.items()
        if all(truth.words.get(version, 0) >= SHORT_WORDS for version in pair)
    }
    doubtful = sum(truth.similarity.get(pair, 0.0) < THRESHOLD - MARGIN for pair in long)
    wanted = {pair: value for pair, value in truth.similarity.items() if value >= THRESHOLD + MARGIN}
    packages, pages, pairs = recalls(truth, wanted, found)
    section.rows += [
        ("compared", f"{report.text} text, {report.shingle_words}-word shingles"),
        ("pairs found, both 50 words and more", str(len(long))),
        ("of these with a true J under .77", f"{doubtful} ({doubtful / max(1, len(long)):.2%})"),
        ("true pairs at J >= .83", str(len(wanted))),
        ("recall of these, mean over archives", f"{packages:.4f}"),
        ("recall of these, mean over pages", f"{pages:.4f}"),
        ("recall of these, per pair", f"{pairs:.4f}"),
    ]
    return section


def speed(path: Path) -> Section:
    """A sweep of the store as it is, on one core, columns written."""
    section = Section("Speed of a sweep", COMMAND, ("measure", "value"))
    with docstore.open(path) as store, one_core():
        report = sweep(store, SweepOptions(threshold=THRESHOLD, threads=1))
        again = sweep(store, SweepOptions(threshold=THRESHOLD, threads=1))
        visible = sweep(store, SweepOptions(threshold=THRESHOLD, threads=1, text="visible", dry_run=True))
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.stage_seconds.items())
    section.rows += [
        ("machine", f"one core of {machine()}"),
        ("kernel", Kernel().name),
        ("documents", str(report.documents)),
        ("pages/s, pairs verified, columns of each cluster written", f"{report.documents / report.seconds:.0f}"),
        ("seconds by stage", stages),
        ("candidates verified", str(report.candidates)),
        ("pages whose columns were written", str(report.written)),
        ("pages/s, nothing to write", f"{again.documents / again.seconds:.0f}"),
        ("pages/s, visible text made from bodies", f"{visible.documents / visible.seconds:.0f}"),
    ]
    return section


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--keep", type=Path, help="make the store here, in place of what is there, and leave it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = args.keep or folder / "store"
        shutil.rmtree(path, ignore_errors=True)
        with docstore.open(path, create=True, durability="none") as store:
            results, package = ingest(store, args.corpus)
            own = own_truth(store, package)
            print(against_own(own, swept(store, folder)[0]).render())
            print(at_write_time(own, results).render())
            truth = read_truth(args.truth, versions_of(store))
            print(against_truth(truth, *swept(store, folder, text="visible", shingle_words=5)).render())
        print(speed(path).render())


def versions_of(store: DocumentStore) -> set[Version]:
    """Versions as a sweep numbers them."""
    versions = read_versions(store)
    return {(url_of(key), int(at)) for key, at in zip(versions.row_keys, versions.timestamps, strict=True)}


if __name__ == "__main__":
    main()
