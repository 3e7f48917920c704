"""Every answer, record and stored byte of small stores of many kinds, written down and compared.

    python -m tools.bench.dumps record OLD.json [--corpus FOLDER]      # in the checkout before
    python -m tools.bench.dumps record NEW.json [--corpus FOLDER]      # in the checkout after
    python -m tools.bench.dumps compare OLD.json NEW.json [--examples 20]

A change that moves rules from one language to another must not change one byte.  Each kind of store is what the pages
of one made-up crawl become under policies or events that take another path through the code: captures or bodies that
policies hide, bodies that are not kept, visits, deletes, damage, a dry run, an import.  The clock is fixed, and one
thread writes, so two checkouts that decide alike give equal dumps; only the identity of a store, random bytes of a
purge and the order of keys in rows of the manifest are left out.  It takes half a minute.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgpack

from docstore.archives.copying import copy_into
from docstore.backends import open_backend
from docstore.model.choices import Durability
from docstore.model.errors import DocstoreError
from docstore.model.format import (
    BACKUPS_ROW,
    BAND_SECRET_ROW,
    COPY_ROW,
    IDENTITY_ROW,
    PURGED_ROW,
    SEGMENT_DIRECTORY,
    SEGMENT_HEADER_BYTES,
    TABLE_TAGS,
)
from docstore.model.types import SAME_PAGE, GCPolicy, Page, Policy, Schema
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import sweep
from docstore.tablets.record import decode_ref
from tools.bench.harness import Section, load_pages, run_commands

DAY: Final = 86_400 * 10**6
T0: Final = 1_700_000_000 * 10**6
ROUNDS: Final = 5
SITES: Final = 6
SAMPLE_CRAWL: Final = Path(__file__).resolve().parents[2] / "examples"
EVERY_VERSION: Final = 1 << 20
_RANDOM_ROWS: Final = frozenset((IDENTITY_ROW, BAND_SECRET_ROW, PURGED_ROW, BACKUPS_ROW, COPY_ROW))
"""Rows of table `meta` with random bytes, or with the name of another store."""

_SYLLABLES: Final = ("ba", "de", "ki", "lo", "mu", "ran", "sto", "vel", "zin", "quo")
TITLES: Final = (
    "A plain title of a page",
    "\u0663\u0664 \u0967\u0968 \u4e94 12 34",  # digits of several scripts, and a numeral that is no digit
    "\u00b2 \u2155 \u2167 42",  # other numbers
    "Caf\u00e9 \u00c5ngstr\u00f6m \u1e9e \ufb01n",
    "",
    "\U0001f600 emoji and words of a title",
)

Dump = dict[str, Any]
Fetch = tuple[Page, dict[str, Any]]
"""A page, and the options with which it is put."""


# --- the crawl ---


def _words(source: random.Random, count: int) -> list[str]:
    return ["".join(source.choices(_SYLLABLES, k=3)) + str(source.randrange(50)) for _ in range(count)]


def _html(title: str, words: list[str], note: str = "", links: str = "") -> bytes:
    paragraphs = "".join(f"<p>{' '.join(words[start : start + 25])}</p>\n" for start in range(0, len(words), 25))
    body = f"<h1>{title}</h1>{paragraphs}{links}<!-- {note} -->"
    head = f"<head><meta charset=utf-8><title>{title}</title><meta name=description content='about {title}'></head>"
    return f"<!DOCTYPE html><html lang=en>{head}<body>{body}</body></html>".encode()


def _fetch(url: str, body: bytes, at: int, **fields: Any) -> Page:
    headers = (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Date", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ("X-Odd \udcff", "value \udc80 of bytes"),
        ("etag", '"one"'),
    )
    return Page(url, body, **{"headers": headers, "fetched_at": at, "crawl": f"crawl-{at // DAY % 2}", **fields})


def _rounds() -> Iterator[list[Page]]:
    """The pages of each round: new ones, equal ones, changed ones, parts and copies of others, and odd ones."""
    source = random.Random(20_260_401)
    texts = {place: _words(source, 60 + 37 * (place % 9)) for place in range(48)}
    for turn in range(ROUNDS):
        at = T0 + turn * DAY
        pages = []
        for place, words in texts.items():
            url = f"http://site{place % SITES}.example{'/' if place % 7 else '/a/b?c='}{place}"
            title = TITLES[place % len(TITLES)]
            odd_micros = place if place % 5 == 0 else 0
            change = (place + turn) % 8
            if change == 1:
                words[source.randrange(len(words))] = f"changed{turn}"
            elif change == 2:
                title += " again"
            elif change == 3:
                words += _words(source, 30)
            note = f"turn {turn}" if change == 4 else ""
            links = f"<a href='http://site{(place + 1) % SITES}.example/{place + 1}'>a link {turn}</a>"
            pages.append(_fetch(url, _html(title, words, note, links), at + odd_micros))
            if change == 5:  # the same page, a part of it and another title, on other sites
                again = _html(title, words, note, links)
                pages.append(_fetch(f"http://copy.example/{place}/{turn}", again, at + 1000))
                pages.append(_fetch(f"http://site{place % SITES}.example/copy/{turn}", again, at + 1000))
                pages.append(_fetch(f"http://part.example/{place}/{turn}", _html(title, words[:50]), at + 2000))
                pages.append(_fetch(f"http://title.example/{place}", _html(f"{title} {turn}", words), at + 3000))
        for number in range(4):  # a text that is boilerplate, because its titles tell the pages apart
            title = f"{texts[number][0]} {texts[number][1]} {turn}"
            pages.append(_fetch(f"http://shop.example/{turn}/{number}", _html(title, texts[47][:70]), at))
        pages += [
            _fetch("http://odd.example/blank", b"\xef\xbb\xbf \n\t", at),
            _fetch("http://odd.example/empty", b"", at),
            _fetch("http://odd.example/short", _html("short", ["few", "words"]), at),
            _fetch("http://odd.example/bytes", bytes(range(256)) * 4, at, headers=(("Content-Type", "image/png"),)),
            _fetch("http://odd.example/gone", _html("gone", texts[1]), at, status=404),
            _fetch("http://odd.example/moved", b"", at, status=301, headers=(("Location", "/short"),)),
            _fetch("http://odd.example/digest", _html("digest", texts[2]), at, payload_digest="sha1:" + "A2" * 16),
            _fetch("http://odd.example/docno", _html("docno", texts[3]), at, docno=f"GX-{turn}", ip="192.0.2.7"),
            _fetch("http://odd.example/feed", _FEED, at, headers=(("Content-Type", "application/rss+xml"),)),
            _fetch("http://odd.example/surrogates", _SURROGATES, at),
            _fetch("HTTP://Odd.example:80/%7euser/../x", _html("written otherwise", texts[4]), at),
            _fetch("urn:isbn:0451450523", _html("no host", texts[5]), at),
            _fetch("http://odd.example/late", _html("late", _words(source, 90)), at - 2 * DAY),
        ]
        yield pages


_FEED: Final = b"<rss><channel><title>List</title><item><title>One</title><link>http://site1.example/1</link></item></channel></rss>"
_SURROGATES: Final = (
    r'<script type="application/ld+json">{"headline": "a\ud800b 12", "articleBody": "'
    + r"words \udc80 of it " * 30
    + '"}</script>'
).encode()


def _visits(turn: int) -> Iterator[Page]:
    """Answers without a body: of stored pages, of one that is not stored, and before their page."""
    at = T0 + turn * DAY
    for place in range(0, 48, 3):
        url = f"http://site{place % SITES}.example{'/' if place % 7 else '/a/b?c='}{place}"
        yield _fetch(url, b"", at + DAY // 2, status=304, headers=(("ETag", f'"{turn}"'),))
    yield _fetch("http://odd.example/never-stored", b"", at, status=304)
    yield _fetch("http://odd.example/late", b"", at - 3 * DAY, status=304)


# --- the kinds of stores ---


class Life:
    """One store with a clock that only the crawl moves, and what is written down of it."""

    def __init__(self, folder: Path, schema: Schema) -> None:
        self.folder, self.schema = folder, schema
        self.now = T0
        self.said: list[str] = []
        self.path = folder / "store"
        self.store = self.open()

    def open(self) -> DocumentStore:
        backend = open_backend(self.path, create=True, schema=self.schema)
        return DocumentStore(backend, Durability.NONE, clock=lambda: self.now)

    def reopen(self) -> None:
        """All that is written is in files then."""
        self.store.close()
        self.store = self.open()

    def say(self, *what: object) -> None:
        self.said.append(" ".join(repr(one) for one in what))

    def put(self, store: DocumentStore, pages: Iterable[Page], **options: Any) -> None:
        for result in store.put_pages(pages, threads=1, any_time=True, links=True, **options):
            self.say("put", result)

    def crawl(self, **options: Any) -> None:
        for turn, pages in enumerate(_rounds()):
            self.now = T0 + turn * DAY
            self.put(self.store, pages, **options)


def _crawled(life: Life) -> None:
    life.crawl(anchors=True)


def _policies(life: Life) -> None:
    """Duplicates are referred to or rejected, by turns."""
    for turn, pages in enumerate(_rounds()):
        life.now = T0 + turn * DAY
        policy = (Policy.REFERENCE, Policy.REJECT, Policy.FLAG)[turn % 3]
        life.put(life.store, pages, policies=dict.fromkeys(SAME_PAGE, policy))
    life.say("rejected", list(life.store.rejected()))


def _bodies_not_kept(life: Life) -> None:
    for turn, pages in enumerate(_rounds()):
        life.now = T0 + turn * DAY
        policy = Policy.REFERENCE if turn % 2 else Policy.FLAG
        life.put(life.store, pages, keep_body=turn % 3 == 2, policies=dict.fromkeys(SAME_PAGE, policy))


def _visited(life: Life) -> None:
    for turn, pages in enumerate(_rounds()):
        life.now = T0 + turn * DAY
        life.put(life.store, _visits(turn), anchors=True)
        life.put(life.store, pages, anchors=True, policies=dict.fromkeys(SAME_PAGE, Policy.REJECT))
        life.put(life.store, pages[: turn + 5])  # known
        life.put(life.store, _visits(turn))


def _deleted(life: Life) -> None:
    """Rows and a crawl are deleted between the rounds, also purged, and a compaction removes what is left."""
    for turn, pages in enumerate(_rounds()):
        life.now = T0 + turn * DAY
        life.put(life.store, [*pages, *_visits(turn)])
        for place in range(turn, 48, 7):
            url = f"http://site{place % SITES}.example{'/' if place % 7 else '/a/b?c='}{place}"
            life.say("delete", url, life.store.delete(url, purge=place % 2 == 1, compact=False))
        if turn == 2:
            life.say("delete_crawl", life.store.delete_crawl("crawl-0"))
            life.store.compact()


def _damaged(life: Life) -> None:
    """A byte of several records is flipped; then the pages are judged, read, checked and stored again."""
    life.crawl()
    places = []
    for number, row in enumerate(life.store.table.scan_captures()):
        captures = life.store.table.row_captures(row.cells)
        refs = [value for live in captures for column, value in live.columns.items() if value[:1] == b"\x01"]
        if number % 9 == 0 and refs:
            places.append(decode_ref(_ref_of(refs[number % len(refs)])))
    life.store.close()
    for segment, offset, length in places:
        path = life.path / SEGMENT_DIRECTORY / f"{segment:08d}.seg"
        raw = bytearray(path.read_bytes())
        raw[offset + length - 3] ^= 255
        path.write_bytes(raw)
    life.store = life.open()
    _look(life, life.store)
    life.put(life.store, next(_rounds()))


def _ref_of(cell_value: bytes) -> bytes:
    """The ref after a tag and a varint."""
    at = 1
    while cell_value[at] >= 0x80:
        at += 1
    return cell_value[at + 1 :]


def _dry(life: Life) -> None:
    """Two rounds are stored, and the others judged over them by dry runs."""
    for turn, pages in enumerate(_rounds()):
        life.now = T0 + turn * DAY
        if turn < 2:
            life.put(life.store, pages)
            continue
        with life.store.dry_run() as dry:
            life.put(dry, [*pages, *_visits(turn)], policies=dict.fromkeys(SAME_PAGE, Policy.REFERENCE))
            _look(life, dry)


def _imported(life: Life) -> None:
    """Captures, notes of a sweep and visits go into another store, which then is the one that is looked at."""
    life.crawl()
    life.put(life.store, _visits(3))
    sweep(life.store)
    source, life.path = life.store, life.folder / "copy"
    life.store = life.open()
    life.say("copy", copy_into(source, life.store, threads=1).cells)
    source.close()


def _archived(folder: Path, life: Life) -> None:
    """Pages of the archives of a folder, as they were fetched."""
    life.now = T0 + 2000 * DAY
    life.put(life.store, load_pages(folder), anchors=True, policies=dict.fromkeys(SAME_PAGE, Policy.REFERENCE))


_TWO: Final = GCPolicy(max_versions=2)
_BY_AGE: Final = GCPolicy(max_age_seconds=3 * 86_400 + 0.0000005)
"""Half a microsecond, which is rounded to an even number: a capture of that age is just too old."""
_BOTH: Final = GCPolicy(max_versions=1, max_age_seconds=2.5 * 86_400, intersection=True)
KINDS: Final[dict[str, tuple[Schema, Callable[[Life], None]]]] = {
    "plain": (Schema(), _crawled),
    "policies": (Schema(), _policies),
    "captures by number": (Schema(captures=_TWO), _visited),
    "captures by age": (Schema(captures=_BY_AGE), _visited),
    "bodies by number": (Schema(bodies=GCPolicy(max_versions=1)), _visited),
    "bodies by age": (Schema(bodies=_BOTH), _visited),
    "bodies not kept": (Schema(), _bodies_not_kept),
    "visits": (Schema(title_rule=False), _visited),
    "deletes": (Schema(captures=_TWO), _deleted),
    "damage": (Schema(), _damaged),
    "dry run": (Schema(), _dry),
    "import": (Schema(), _imported),
    "sample crawl": (Schema(extractor="scored"), partial(_archived, SAMPLE_CRAWL)),
}


# --- what is written down ---


def _look(life: Life, store: DocumentStore) -> None:
    """Everything that a store answers about its pages, damaged or not."""
    for url in list(store.urls()):
        for ask in (lambda url=url: store.get(url, versions=EVERY_VERSION), lambda url=url: store.history(url)):
            try:
                life.say("read", url, _digest(repr(ask())))
            except DocstoreError as error:
                life.say("read", url, type(error).__name__, _placed(life, str(error)))
    for pages in list(_rounds())[-1:]:
        for page in pages[::6]:
            life.say("similar", page.url, store.similar(page.body))
    life.say("len", len(store), sorted(store.stats()["totals"].items()))
    for finding in sorted(repr(finding) for finding in check(store.backend)):
        life.say("check", _placed(life, finding))


def _placed(life: Life, text: str) -> str:
    return text.replace(str(life.folder), "FOLDER")


def _digest(value: bytes | str) -> str:
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return blake2b(raw, digest_size=12).hexdigest()


def _cells(store: DocumentStore) -> Iterator[tuple[str, str]]:
    """Every cell of every table: its place, and its value."""
    for table in TABLE_TAGS:
        for row in store.backend.engine.scan(table):
            is_random = table == "meta" and row.row_key in _RANDOM_ROWS
            for cell in row.cells:
                place = f"{table} {row.row_key!r} {cell.family} {cell.qualifier.hex()} {cell.timestamp}"
                yield place, "random" if is_random else _shown(cell.value)


def _shown(value: bytes) -> str:
    """A value; of a map of msgpack without the order of its keys."""
    try:
        fields = msgpack.unpackb(value, strict_map_key=False)
    except Exception:
        return value.hex()
    return repr(sorted(fields.items(), key=repr)) if isinstance(fields, dict) else value.hex()


def _files(life: Life) -> Iterator[tuple[str, str]]:
    """Segments without the identity in their headers, dictionaries and runs."""
    for folder in (SEGMENT_DIRECTORY, "dictionaries", "index"):
        for path in sorted((life.path / folder).rglob("*")):
            if path.is_file():
                raw = path.read_bytes()
                yield f"{folder} {path.name}", _digest(raw[SEGMENT_HEADER_BYTES * (folder == SEGMENT_DIRECTORY) :])


def _life(folder: Path, schema: Schema, tell: Callable[[Life], None]) -> Dump:
    """Live through a kind, twice looked at: as it was written, and after a sweep and a compaction."""
    life = Life(folder, schema)
    tell(life)
    life.now = T0 + (ROUNDS + 1) * DAY
    dump: Dump = {}
    for part in ("written", "compacted"):
        if part == "compacted":
            swept = sweep(life.store)
            life.say("sweep", swept.captures, swept.compared, swept.pairs, swept.clusters, swept.written)
            life.store.compact(level="best", full=True)
        _look(life, life.store)
        life.reopen()
        dump |= {f"{part} {place}": value for place, value in (*_cells(life.store), *_files(life))}
    dump |= {f"said {number}": line for number, line in enumerate(life.said)}
    life.store.close()
    return dump


def record(out: Path, *, kinds: tuple[str, ...] = tuple(KINDS), corpus: Path | None = None) -> Section:
    """Make a store of each kind, and one of a corpus, and write down all that they hold and answer as JSON."""
    section = Section("Dumped", f"python -m tools.bench.dumps record {out.name}", ["kind", "facts"])
    dumps: dict[str, Dump] = {}
    made = {kind: KINDS[kind] for kind in kinds}
    if corpus is not None:
        made["corpus"] = Schema(), partial(_archived, corpus)
    for kind, (schema, tell) in made.items():
        with tempfile.TemporaryDirectory(prefix="docstore-bench-") as folder:
            dumps[kind] = _life(Path(folder), schema, tell)
        section.rows.append((kind, f"{len(dumps[kind]):,}"))
    out.write_text(json.dumps(dumps, ensure_ascii=True, indent=0), encoding="ascii")
    return section


def compare(old: Path, new: Path, *, examples: int = 3) -> Section:
    """Count the facts that differ in two dumps, by their kind and first words, and list some; status 1 if any do."""
    before, after = (json.loads(path.read_text(encoding="ascii")) for path in (old, new))
    section = Section("Compared", "python -m tools.bench.dumps compare OLD NEW", ["kind", "facts", "differ"])
    are_equal = True
    for kind in sorted(before.keys() | after.keys()):
        one, other = before.get(kind, {}), after.get(kind, {})
        differing = [place for place in one.keys() | other.keys() if one.get(place) != other.get(place)]
        section.rows.append((kind, f"{len(one):,}", f"{len(differing):,}"))
        parts = Counter(" ".join(place.split(" ")[:2]) for place in differing)
        section.notes += [f"{kind}: {count:,} of {part}" for part, count in parts.most_common()]
        section.notes += [f"{place}: {one.get(place)} -> {other.get(place)}" for place in sorted(differing)[:examples]]
        are_equal = are_equal and not differing
    if not are_equal:
        print(section.render())
        sys.exit(1)
    return section


if __name__ == "__main__":
    run_commands(record, compare)
