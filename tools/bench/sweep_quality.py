"""How right and how fast a sweep is, on a corpus with an independent truth.

    python -m tools.bench.sweep_quality CORPUS_DIR TRUTH_DIR [--parts own write truth speed] [--keep STORE]

CORPUS_DIR holds WARC files.  TRUTH_DIR holds what an exact join by other code found in them: `pages.tsv` (page, url,
date, words, file, shingles) and `pairs.tsv` (page1, page2, shared, either) of visible text, 5-word shingles, J >= 0.5.

Scored are `own`: the pairs of a sweep as the store is, against an exact join over our own shingle sets; `write`: what
the write path flagged, against the same join; `truth`: a sweep with `--text visible --shingle-words 5` against the
truth, with a margin of .03, because the two do not agree on what a word is; `speed`: on one core, verification and
write-back included.  Pairs of versions of one URL are left out, pages under 50 words are apart.  Pairs are arrays of
numbers (`exact_join.PairSet`): the full corpus of 121,351 pages with 4.4 million true pairs takes minutes.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import numpy as np

import docstore
from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.dedup.kernel import Kernel
from docstore.model.choices import VerdictKind
from docstore.model.keys import canonical_url, url_of
from docstore.model.sets import Numbers, Sets
from docstore.model.types import PutResult
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from docstore.sweep.kernels import BY_TEXT
from docstore.sweep.pages import Versions, read_versions
from tools.bench.exact_join import PairSet, exact_join, recall
from tools.bench.harness import Section, machine, one_core, run_commands

THRESHOLD = 0.8
MARGIN = 0.03
SHORT_WORDS = 50
SIZES = ((50, 100), (100, 250), (250, 1 << 40))
COMMAND = "python -m tools.bench.sweep_quality CORPUS_DIR TRUTH_DIR"
PARTS = ("own", "write", "truth", "speed")
DUPLICATES = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR)


@dataclass
class Names:
    """Versions of a store by number, in the order of (row key, timestamp).

    Attributes:
        number_of: URL, tab, timestamp -> number.
        rows: (n,) row of each.
        archive: (n,) number of the archive that each came from, by the truth's list of pages.
        words: (n,) of each, as the truth counts them; 0 where it does not know the page.
        page: (pages of the truth,) which version each is; -1 for none.
    """

    number_of: dict[str, int]
    rows: Numbers
    archive: Numbers
    words: Numbers
    page: Numbers


def named(versions: Versions, truth: Path) -> Names:
    """Number the versions of a store, and find each page of the truth among them."""
    urls = [url_of(versions.row_keys[number]) for number in range(len(versions.row_keys))]
    stamps = versions.timestamps.tolist()
    count = len(urls)
    by_url: dict[str, list[int]] = defaultdict(list)
    for number, url in enumerate(urls):
        by_url[url].append(number)
    archives: dict[str, int] = {}
    archive, words = np.zeros(count, np.int64), np.zeros(count, np.int64)
    page: list[int] = []
    with (truth / "pages.tsv").open(encoding="utf-8") as stream:
        next(stream)
        for line in stream:
            _, url, date, word_count, name, _ = line.split("\t")
            at = int(datetime.fromisoformat(date).timestamp()) * 1_000_000
            number = max((one for one in by_url[canonical_url(url)] if stamps[one] <= at), default=-1)
            page.append(number)
            if number >= 0 and not words[number]:
                words[number] = int(word_count)
                archive[number] = archives.setdefault(name, len(archives))
    number_of = {f"{url}\t{at}": number for number, (url, at) in enumerate(zip(urls, stamps, strict=True))}
    return Names(number_of, versions.rows, archive, words, np.array(page, np.int64))


def ingest(store: DocumentStore, corpus: Path) -> list[PutResult]:
    """Write all pages in the order of file names."""
    results: list[PutResult] = []
    for path in sorted(corpus.glob("*.warc.gz")):
        results.extend(store.put_pages(entry.page for entry in read(path) if isinstance(entry, PageEntry)))
    return results


@dataclass
class OwnTruth:
    """An exact join over the shingle sets of the stored texts.

    Attributes:
        pairs: at the threshold, of versions of different URLs.
        shingles: (n,) of each version that is compared by its text; 0 for the others.
    """

    pairs: PairSet
    shingles: Numbers


def own_truth(store: DocumentStore, versions: Versions) -> OwnTruth:
    """Join all texts with each other."""
    kernel = Kernel(store.schema.extractor, store.schema.shingle_words)
    fetch = store.backend.values.fetch
    numbers = np.flatnonzero(versions.equal_by == BY_TEXT)
    sets = [
        kernel.shingles(fetch(versions.texts[number]).decode("utf-8", "surrogatepass")) for number in numbers.tolist()
    ]
    lengths = np.array([len(one) for one in sets], np.int64)
    pairs = exact_join(Sets(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(sets)), THRESHOLD)
    first, second = numbers[pairs.first], numbers[pairs.second]
    apart = versions.rows[first] != versions.rows[second]
    shingles = np.zeros(len(versions.rows), np.int64)
    shingles[numbers] = lengths
    similarity = pairs.shared / pairs.either
    return OwnTruth(PairSet.of(len(versions.rows), first[apart], second[apart], similarity[apart]), shingles)


def independent_truth(names: Names, folder: Path) -> PairSet:
    """Pairs of the truth, of versions of different URLs that both have 50 words."""
    table = np.loadtxt(folder / "pairs.tsv", np.int64, delimiter="\t", skiprows=1, ndmin=2)
    table = table[table[:, 2] >= (THRESHOLD - MARGIN) * table[:, 3]]
    first, second = names.page[table[:, 0]], names.page[table[:, 1]]
    good = (first >= 0) & (second >= 0) & (names.rows[first] != names.rows[second])
    good &= (names.words[first] >= SHORT_WORDS) & (names.words[second] >= SHORT_WORDS)
    similarity = table[good, 2] / table[good, 3]
    return PairSet.of(len(names.rows), first[good], second[good], similarity)


def swept(
    store: DocumentStore, names: Names, folder: Path, text: str | None = None, shingle_words: int | None = None
) -> tuple[PairSet, SweepReport, float]:
    """Pairs of a dry sweep, its report, and the seconds of computing that it took."""
    path = folder / "pairs.tsv"
    options = SweepOptions(
        threshold=THRESHOLD, all_pairs=True, dry_run=True, pairs=path, text=text, shingle_words=shingle_words
    )
    began = time.process_time()
    report = sweep(store, options)
    seconds = time.process_time() - began
    return PairSet.listed(path, names.number_of), report, seconds


# --- scores


def against_own(truth: OwnTruth, names: Names, found: PairSet) -> Section:
    """A sweep as the store is, against the exact join."""
    section = Section("Sweep against the exact join over our own shingle sets", COMMAND, ("measure", "value"))
    compared = found.both(truth.shingles > 0)
    wrong = np.abs(found.similarity_in(truth.pairs) - found.similarity)[compared] > 1e-6
    shares = recall(truth.pairs, found, names.archive)
    section.rows += [
        ("pairs at J >= 0.8, both 50 words and more", str(len(truth.pairs))),
        ("found of these, with the same similarity", str(int(compared.sum()) - int(wrong.sum()))),
        ("precision", f"{1 - wrong.mean() if len(wrong) else 1.0:.4f}"),
        ("recall, mean over archives", f"{shares.archives:.4f}"),
        ("recall, mean over pages", f"{shares.pages:.4f}"),
        ("recall, per pair", f"{shares.pairs:.4f}"),
        ("pairs with a page under 50 words (equal ones)", str(int((~compared).sum()))),
    ]
    smaller = np.minimum(truth.shingles[truth.pairs.first], truth.shingles[truth.pairs.second])
    for low, high in SIZES:
        some = truth.pairs.where((smaller >= low) & (smaller < high))
        name = f"{low} to {high}" if high < 1 << 30 else f"{low} and more"
        share = recall(some, found, names.archive).pairs
        section.rows.append((f"recall where the smaller has {name} shingles", f"{share:.4f} of {len(some)}"))
    return section


def at_write_time(truth: OwnTruth, names: Names, results: list[PutResult]) -> Section:
    """What the write path flagged, of pages that had an earlier one at J >= 0.8 when they came."""
    section = Section("Flagged at write time", COMMAND, ("measure", "value"))
    count = len(names.rows)
    order = np.full(count, len(results), np.int64)
    flagged, contained = np.zeros(count, bool), np.zeros(count, bool)
    said = np.zeros(count)
    for place, result in enumerate(results):
        number = names.number_of.get(f"{result.url}\t{result.timestamp}", -1)
        if number >= 0 and order[number] == len(results):
            order[number] = place
            flagged[number] = result.verdict.kind in DUPLICATES
            contained[number] = result.verdict.kind is VerdictKind.CONTAINED
            said[number] = result.verdict.similarity
    first, second = truth.pairs.first, truth.pairs.second
    later = np.where(order[first] > order[second], first, second)
    best = np.zeros(count)
    np.maximum.at(best, later, truth.pairs.similarity)
    due = best > 0
    nearest = due & flagged & (np.abs(best - said) < 1e-9)
    pages, caught = int(due.sum()), int((due & flagged).sum())
    section.rows += [
        ("pages with an earlier one at J >= 0.8", str(pages)),
        ("flagged exact, same_text or near", f"{caught / max(1, pages):.4f}"),
        ("flagged contained instead", f"{int((due & contained).sum()) / max(1, pages):.4f}"),
        ("of the flagged, named the nearest earlier page", f"{int(nearest.sum()) / max(1, caught):.4f}"),
        ("flagged without an earlier page at J >= 0.8", str(int((flagged & ~due & (truth.shingles > 0)).sum()))),
    ]
    return section


def against_truth(truth: PairSet, names: Names, found: PairSet, report: SweepReport, seconds: float) -> Section:
    """A sweep of visible text against the independent truth."""
    section = Section("Sweep against the independent truth", COMMAND, ("measure", "value"))
    long = found.where(found.both(names.words >= SHORT_WORDS))
    known = long.places_in(truth) >= 0
    doubtful = int((~known).sum())
    doubt = recall(long, long.where(~known), names.archive)
    archive = np.where(names.archive[long.first] == names.archive[long.second], names.archive[long.first], -1)
    most = np.bincount(archive[~known] + 1, minlength=2)[1:].max()
    wanted = truth.where(truth.similarity >= THRESHOLD + MARGIN)
    shares = recall(wanted, found, names.archive)
    section.rows += [
        ("compared", f"{report.text} text, {report.shingle_words}-word shingles"),
        ("pairs found, both 50 words and more", str(len(long))),
        ("of these with a true J under .77", f"{doubtful} ({doubtful / max(1, len(long)):.2%})"),
        ("the same, mean over archives / over pages", f"{doubt.archives:.2%} / {doubt.pages:.2%}"),
        ("the same without the archive that has most of them", f"{(doubtful - most) / max(1, len(long) - most):.2%}"),
        ("true pairs at J >= .83", str(len(wanted))),
        ("recall of these, mean over archives", f"{shares.archives:.4f}"),
        ("recall of these, mean over pages", f"{shares.pages:.4f}"),
        ("recall of these, per pair", f"{shares.pairs:.4f}"),
        ("pages per second of computing, text made anew from bodies", f"{report.captures / seconds:.0f}"),
    ]
    return section


def speed(store: DocumentStore) -> Section:
    """A sweep of the store as it is, on one core, columns written."""
    section = Section("Speed of a sweep", COMMAND, ("measure", "value"))
    reports, seconds = [], []
    with one_core():
        for _ in range(2):
            began = time.process_time()
            reports.append(sweep(store, SweepOptions(threshold=THRESHOLD, threads=1)))
            seconds.append(time.process_time() - began)
    report, again = reports
    stages = ", ".join(f"{name} {spent:.2f}" for name, spent in report.stage_seconds.items())
    section.rows += [
        ("machine", f"one core of {machine()}"),
        ("captures", str(report.captures)),
        ("pages per second of computing, columns of each cluster written", f"{report.captures / seconds[0]:.0f}"),
        ("the same, nothing to write", f"{again.captures / seconds[1]:.0f}"),
        ("pages per second of wall time", f"{report.captures / report.seconds:.0f}"),
        ("seconds of wall time by stage", stages),
        ("candidates verified", str(report.candidates)),
        ("pages whose columns were written", str(report.written)),
        ("most memory of the process until then", f"{getrusage(RUSAGE_SELF).ru_maxrss >> 10} MB"),
    ]
    return section


def main(
    corpus: Path, truth: Path, *, parts: tuple[str, ...] = PARTS, keep: Path | None = None, store: Path | None = None
) -> Iterator[Section]:
    """Score a sweep of a corpus.

    --keep makes the store there, in place of what is there, and leaves it; --store is a store of this corpus, in place
    of making one, and leaves out `write`.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = store or keep or folder / "store"
        results: list[PutResult] = []
        if store is None:
            shutil.rmtree(path, ignore_errors=True)
            with docstore.open(path, create=True, durability="none") as made:
                results = ingest(made, corpus)
        with docstore.open(path) as opened:
            versions = read_versions(opened)
            names = named(versions, truth)
            if "own" in parts or ("write" in parts and results):
                own = own_truth(opened, versions)
                if "own" in parts:
                    yield against_own(own, names, swept(opened, names, folder)[0])
                if "write" in parts and results:
                    yield at_write_time(own, names, results)
                del own
            if "truth" in parts:
                pairs = independent_truth(names, truth)
                yield against_truth(pairs, names, *swept(opened, names, folder, "visible", 5))
            if "speed" in parts:
                yield speed(opened)


if __name__ == "__main__":
    run_commands(main)
