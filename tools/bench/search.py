"""Search: how good its ranking is beside plain BM25, and how fast index and queries are.

    python -m tools.bench.search quality DOCUMENTS QUERIES JUDGEMENTS
    python -m tools.bench.search starts STORE
    python -m tools.bench.search speed STORE [--queries 1000]

The first takes a collection in SMART's format, such as Cranfield's cran.all.1400, cran.qry and cranqrel: each document
becomes a page with its title and text, and the reference gets the words of title and main text as the store has them,
under the same BM25 (bm25s, method lucene, k1 1.2, b .75).  The second takes a store of manuals, ingested with
--anchors and annotated with links and quality, and asks for each chapter by its name, in lower case and without the
number: the page where the chapter begins should come before its sections.  The third makes the index of a store from
nothing, in a folder of its own, and asks queries of one to four words that stand together on pages of the store.
"""

from __future__ import annotations

import html
import random
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import docstore
from docstore.dedup.kernel import words
from docstore.model.keys import url_of
from docstore.notes.annotate import annotate, find_annotator
from docstore.search.query import MOST_CHARACTERS
from docstore.search.results import SearchOptions
from docstore.store import DocumentStore
from docstore.text.finding import search_text
from tools.bench.harness import Section, run_commands

DEPTH = 1000
NOT_RELEVANT = "5"
_URL = "https://collection.example/{}"
_CHAPTER = re.compile(r"(?:.*: )?Chapter \d+\.\s+(.*)")
PAGES = "[pages]\nrank = 0.5\nhost = 0.1\n"
"""The weights of pages of docs/tutorial.md."""

Ranking = Callable[[str], list[str]]
"""A query -> numbers of documents, best first."""


def smart_records(path: Path) -> Iterator[dict[str, str]]:
    """Records of a file in SMART's format: fields by letter."""
    for record in re.split(r"^\.I ", path.read_text(encoding="utf-8", errors="replace"), flags=re.MULTILINE)[1:]:
        number, *parts = re.split(r"^\.([A-Z])[ ]*$", record, flags=re.MULTILINE)
        fields = zip(parts[::2], (" ".join(text.split()) for text in parts[1::2]), strict=True)
        yield {"I": number.strip(), **dict(fields)}


def judgements_of(path: Path) -> dict[int, set[str]]:
    """Relevant documents by the place of the query in its file, counted from 1."""
    found: dict[int, set[str]] = defaultdict(set)
    for line in path.read_text().splitlines():
        query, document, *grade = line.split()
        if grade[:1] != [NOT_RELEVANT]:
            found[int(query)].add(str(int(document)))
    return found


def quality(documents: Path, queries: Path, judgements: Path) -> Section:
    """MAP and P@10 of the search beside plain BM25 on the same fields."""
    import bm25s

    relevant = judgements_of(judgements)
    queried = enumerate((record["W"][:MOST_CHARACTERS] for record in smart_records(queries)), 1)
    asked = [(place, query) for place, query in queried if place in relevant]
    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
        _write(store, documents)
        numbers, texts = [], []
        for page in store.get_many(map(url_of, store.table.row_keys()), families=("text",)):
            if page is not None:
                numbers.append(page.url.rpartition("/")[2])
                texts.append(words(f"{page.newest.title}\n{page.newest.text}"))
        bm25 = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        bm25.index(texts, show_progress=False)

        def reference(query: str) -> list[str]:
            known = [word for word in words(query) if word in bm25.vocab_dict]
            found, _ = bm25.retrieve([known], k=min(DEPTH, len(numbers)), show_progress=False)
            return [numbers[number] for number in found[0]]

        annotate(store, find_annotator("quality", store, {}))
        store.search_index().update()
        section = Section(
            "Search: quality",
            "python -m tools.bench.search quality DOCUMENTS QUERIES JUDGEMENTS",
            ("ranking", "MAP", "P@10"),
            notes=[f"{len(numbers)} pages, {len(asked)} queries."],
        )
        for name, ranking in {"plain BM25 (bm25s)": reference, **dict(_rankings(store, Path(folder)))}.items():
            precisions = [_precisions(ranking(query), relevant[place]) for place, query in asked]
            average, at_ten = (statistics.mean(column) for column in zip(*precisions, strict=True))
            section.rows.append((name, f"{average:.4f}", f"{at_ten:.4f}"))
    return section


def _rankings(store: DocumentStore, folder: Path) -> Iterator[tuple[str, Ranking]]:
    """The search with its own boosts, and with one part of it left out or alone."""
    no_fields = "[fields]\nheadings = 0\ndescription = 0\nkeywords = 0\nanchor = 0\nurl = 0\nnote = 0\n"
    variants = {
        "docstore": "",
        "docstore with richness of pages": "[pages]\nrichness = 0.1\n",
        "docstore without nearness": "[words]\nnear = 0\n",
        "docstore without beginnings of words": "[words]\nbeginning = 0\n",
        "title and main text alone and alike, whole words": f"{no_fields}title = 1\n[words]\nnear = 0\nbeginning = 0\n",
    }
    for place, (name, boosts) in enumerate(variants.items()):
        path = folder / f"{place}.toml"
        path.write_text(boosts)

        def ranking(query: str, path: Path = path) -> list[str]:
            found = store.search(re.sub(r'["+:-]', " ", query), boosts=path, limit=DEPTH, collapse=False, length=0)
            return [hit.url.rpartition("/")[2] for hit in found.hits]

        yield name, ranking


def _write(store: DocumentStore, documents: Path) -> None:
    for record in smart_records(documents):
        title, text = html.escape(record.get("T", "")), html.escape(record.get("W", ""))
        body = f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{text}</p>".encode()
        store.put_page(_URL.format(record["I"]), body, headers={"Content-Type": "text/html; charset=utf-8"})


def _precisions(ranking: Sequence[str], relevant: set[str]) -> tuple[float, float]:
    """Average precision, and precision at ten."""
    found, total = 0, 0.0
    for place, number in enumerate(ranking, 1):
        if number in relevant:
            found += 1
            total += found / place
    return total / len(relevant), len(relevant.intersection(ranking[:10])) / 10


def starts(store: Path) -> Section:
    """How often the first page of a chapter comes first if it is asked for by its name."""
    with tempfile.TemporaryDirectory() as folder, docstore.open(store) as opened:
        opened.search_index(folder).update()
        names: dict[str, set[str]] = defaultdict(set)
        for page in opened.get_many(map(url_of, opened.table.row_keys()), families=("text",)):
            if page is not None and (chapter := _CHAPTER.fullmatch(page.newest.title or "")):
                names[chapter[1].lower()].add(page.url)
        section = Section(
            "Search: start pages",
            "python -m tools.bench.search starts STORE",
            ("ranking", "first", "among three", "mean reciprocal rank"),
            notes=[f"{len(names)} names of chapters."],
        )
        off = {"docstore": "", "with pages as in the tutorial": PAGES}
        alone = {f"with {kind} alone": f"[pages]\n{kind} = 0.5\n" for kind in ("rank", "host", "richness")}
        for place, (name, boosts) in enumerate({**off, **alone}.items()):
            path = Path(folder) / f"{place}.toml"
            path.write_text(boosts)
            ranks = []
            for query, urls in names.items():
                given = re.sub(r'["+:-]', " ", query)
                hits = opened.search(given, index=folder, boosts=path, limit=20, collapse=False, length=0).hits
                ranks.append(next((rank for rank, hit in enumerate(hits, 1) if hit.url in urls), DEPTH))
            shares = [statistics.mean(rank <= most for rank in ranks) for most in (1, 3)]
            shares.append(statistics.mean(1 / rank for rank in ranks))
            section.rows.append((name, *(f"{share:.3f}" for share in shares)))
    return section


def speed(store: Path, *, queries: int = 1000) -> Section:
    """Pages a second into the index, its size, and how long queries take."""
    with tempfile.TemporaryDirectory() as folder, docstore.open(store) as opened:
        index = opened.search_index(folder)
        before = time.process_time()
        report = index.update()
        seconds = time.process_time() - before
        bodies = opened.stats()["totals"]["body_bytes"]
        section = Section(
            "Search: speed",
            "python -m tools.bench.search speed STORE",
            ("what", "measured"),
            [
                ("pages", f"{report.pages}, {bodies / 1e6:.0f} MB of bodies; in the index {index.searcher().num_docs}"),
                ("index made, processor time", f"{seconds:.1f} s, {report.pages / seconds:.0f} pages/s"),
                ("index", f"{report.index_bytes / 1e6:.1f} MB, {report.index_bytes / bodies:.1%} of the bodies"),
            ],
        )
        asked = _queries_of(opened, queries)
        options: dict[str, SearchOptions] = {
            "ten hits": {"collapse": False, "length": 0},
            "the same, collapsed, with snippets": {},
        }
        for name, given in options.items():
            for query in asked[:20]:
                opened.search(query, index=folder, **given)
            times = []
            for query in asked:
                before = time.process_time()
                opened.search(query, index=folder, **given)
                times.append(1000 * (time.process_time() - before))
            times.sort()
            p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
            section.rows.append((f"a query, {name}, processor time, p50 and p99", f"{p50:.1f} and {p99:.1f} ms"))
    return section


def _queries_of(store: DocumentStore, count: int) -> list[str]:
    """Runs of one to four words of pages, the same for the same store."""
    choose = random.Random(1)
    rows = list(store.table.row_keys())
    found: list[str] = []
    while len(found) < count:
        page = store.get(url_of(choose.choice(rows)), families=("text",))
        text = search_text(page.text or "").split() if page is not None else []
        if len(text) > 20:
            start = choose.randrange(len(text) - 4)
            found.append(" ".join(text[start : start + choose.randint(1, 4)]))
    return found


if __name__ == "__main__":
    run_commands(quality, starts, speed)
