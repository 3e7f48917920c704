"""The graph of links: ranks of pages and weights of hosts, as notes; and the frontier, which pages to fetch next.

The edges are the `anchor:` cells: the row is the target, the qualifier the page that links to it.  So targets that are
not stored are in the graph.  For `frontier`, entries of stored feeds and site maps are links too.

*PageRank* (Brin and Page 1998, damping .85): the rank of a page without links is distributed to all pages.  Ranks are
multiples of the average page, so that 1 is average in a store of any size.  *HITS* (Kleinberg 1999): hub and authority,
scaled to a maximum of 1.  The weight of a host is the sum of the ranks of its pages, as a multiple of the average host.

Memory: about 200 bytes for each URL and 8 bytes for each link.
"""

from __future__ import annotations

import argparse
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from docstore.cli import output
from docstore.cli.opening import open_in
from docstore.model import keys
from docstore.model.capture import ENTRIES, STATUS, TEXT_CHECKSUM, decode_entries
from docstore.model.choices import FRONTIER_ORDERS
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, CorruptionError, InvalidArgument
from docstore.model.types import DUPLICATES, ReadSpec
from docstore.notes.annotate import Annotator, Fields
from docstore.reports.dedup import stats_of
from docstore.reports.patterns import shape_of
from docstore.storage.writes import ANCHOR_FAMILY

if TYPE_CHECKING:
    from docstore.attach import Store

Numbers: TypeAlias = NDArray[np.float64]
DAMPING: Final = 0.85
MAX_ROUNDS: Final = 200
TOLERANCE: Final = 1e-9
"""The iteration ends when the sum of the changes is smaller; all ranks add up to 1."""
WEB: Final = ("http://", "https://")
STORED, KNOWN = 1, 2
"""A page with a body; a row with other captures, such as a rejected page, which is not fetched either."""


@dataclass(slots=True)
class LinkGraph:
    """Pages and links, n URLs.

    Attributes:
        urls: (n,) of the pages.
        hosts: (n,) int64 index into host_names.
        host_names: of the hosts.
        states: (n,) uint8 STORED, KNOWN, or 0 for a target that is not stored.
        timestamps: (n,) int64 of the newest capture of a stored page.
        sources, targets: (links,) int64 indices of URLs.
        listed: how many stored feeds and site maps list a URL; empty without entries.
        published: the newest date of a URL in one of them.
    """

    urls: list[str]
    hosts: NDArray[np.int64]
    host_names: list[str]
    states: NDArray[np.uint8]
    timestamps: NDArray[np.int64]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    listed: dict[int, int]
    published: dict[int, str]

    def ranks(self) -> Numbers:
        """PageRank of each URL, as a multiple of the average."""
        size = len(self.urls)
        outgoing = np.bincount(self.sources, minlength=size)
        shares = 1.0 / outgoing[self.sources]
        ranks = np.full(size, 1.0 / max(1, size))
        for _ in range(MAX_ROUNDS):
            moved = np.bincount(self.targets, ranks[self.sources] * shares, minlength=size)
            changed = (1 - DAMPING) / size + DAMPING * (moved + ranks[outgoing == 0].sum() / size) if size else ranks
            converged = float(np.abs(changed - ranks).sum()) < TOLERANCE
            ranks = changed
            if converged:
                break
        return ranks * size

    def hubs_and_authorities(self) -> tuple[Numbers, Numbers]:
        """HITS of each URL; the largest of each kind is 1."""
        size = len(self.urls)
        hubs, authorities = np.ones(size), np.zeros(size)
        for _ in range(MAX_ROUNDS if len(self.sources) else 0):
            authorities = _scaled_to_1(np.bincount(self.targets, hubs[self.sources], minlength=size))
            changed = _scaled_to_1(np.bincount(self.sources, authorities[self.targets], minlength=size))
            converged = float(np.abs(changed - hubs).max()) < TOLERANCE
            hubs = changed
            if converged:
                break
        return (hubs, authorities) if len(self.sources) else (np.zeros(size), authorities)

    def incoming(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many pages of other hosts, and of the same host, link to each URL."""
        is_internal = self.hosts[self.sources] == self.hosts[self.targets]
        size = len(self.urls)
        external = np.bincount(self.targets[~is_internal], minlength=size)
        return external, np.bincount(self.targets[is_internal], minlength=size)

    def host_weights(self, ranks: Numbers) -> Numbers:
        """The sum of the ranks of each host's pages, as a multiple of the average host."""
        sums = np.bincount(self.hosts, ranks, minlength=len(self.host_names))
        return np.asarray(sums / max(sums.mean(), 1e-300) if len(sums) else sums, np.float64)


def read_graph(store: Store, *, entries: bool = False) -> LinkGraph:
    """The links of a store.

    Args:
        store: to read.
        entries: also take entries of feeds and site maps as links.
    """
    numbers: dict[str, int] = {}
    states, timestamps = array("B"), array("q")
    sources, targets = array("q"), array("q")
    listed: dict[int, int] = {}
    published: dict[int, str] = {}

    def number_of(url: str) -> int:
        number = numbers.setdefault(url, len(numbers))
        if number == len(states):
            states.append(0)
            timestamps.append(0)
        return number

    spec = ReadSpec((ANCHOR_FAMILY, "dedup", "http"), versions=1, keys_only=True)
    for row in store.cells.scan(spec=spec):
        if not row.url.startswith(WEB):  # rows with the state of crawlers are not pages
            continue
        number = number_of(row.url)
        for cell in row.cells:
            if cell.family == ANCHOR_FAMILY:
                source_url = cell.qualifier.decode("utf-8", "replace")
                if source_url.startswith(WEB) and source_url != row.url:
                    sources.append(number_of(source_url))
                    targets.append(number)
            else:
                states[number] = max(states[number], KNOWN) if states[number] != STORED else STORED
                if cell[:2] == TEXT_CHECKSUM:
                    states[number], timestamps[number] = STORED, cell.timestamp
    if entries:
        for source_url, entry_url, date in _entries(store):
            source, target = number_of(source_url), number_of(entry_url)
            if source != target:
                sources.append(source)
                targets.append(target)
                listed[target] = listed.get(target, 0) + 1
                published[target] = max(published.get(target, ""), date)
    urls = list(numbers)
    hosts: dict[str, int] = {}
    host_of = [hosts.setdefault(_host(url), len(hosts)) for url in urls]
    return LinkGraph(
        urls,
        np.array(host_of, np.int64),
        list(hosts),
        np.array(states, np.uint8),
        np.array(timestamps, np.int64),
        np.array(sources, np.int64),
        np.array(targets, np.int64),
        listed,
        published,
    )


def _entries(store: Store) -> Iterator[tuple[str, str, str]]:
    """Entries of stored feeds and site maps: URL of the feed, of the entry, and its date or ""."""
    family, qualifier = ENTRIES
    for row in store.cells.scan(spec=ReadSpec((family,), qualifier, versions=1)):
        for cell in row.cells:
            try:
                entries = decode_entries(cell.value)
            except CorruptionError:  # `docstore check` lists it
                continue
            for url in dict.fromkeys(entry.url for entry in entries):
                resolved = keys.resolve(row.url, url)
                if resolved is not None and resolved.startswith(WEB):
                    yield row.url, resolved, next(entry.published for entry in entries if entry.url == url)


def _scaled_to_1(values: NDArray[Any]) -> Numbers:
    return np.asarray(values / max(float(values.max()), 1e-300), np.float64)


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


# --- the annotator


def links(_store: Store, _lists: Mapping[str, Path]) -> Annotator:
    """`links`: rank, hub, authority, in-links from other hosts and from its own, and weight of the host."""
    return Annotator("links", "1", of_store=_link_notes)


def _link_notes(store: Store) -> Iterator[tuple[bytes, int, Fields]]:
    graph = read_graph(store)
    ranks, (hubs, authorities) = graph.ranks(), graph.hubs_and_authorities()
    external, internal = graph.incoming()
    weights = graph.host_weights(ranks)
    for number in np.flatnonzero(graph.states == STORED).tolist():
        yield (
            keys.row_key(graph.urls[number]),
            int(graph.timestamps[number]),
            {
                "rank": _rounded(ranks[number]),
                "hub": _rounded(hubs[number]),
                "authority": _rounded(authorities[number]),
                "inlinks": int(external[number]),
                "internal": int(internal[number]),
                "host_weight": _rounded(weights[graph.hosts[number]]),
            },
        )


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")  # so that a few new pages do not change the notes of all others


# --- docstore frontier


class Target(NamedTuple):
    """A page that is not stored and that stored pages link to.

    Attributes:
        url: of the page.
        rank: PageRank, 1 for the average URL.
        inlinks, internal: number of stored pages of other hosts, and of its own host, that link to it or list it.
        listed: of these, feeds and site maps.
        published: its newest date in one of those, or "".
        host: of the page.
        host_weight: sum of the ranks of the host's pages, 1 for the average host.
    """

    url: str
    rank: float
    inlinks: int
    internal: int
    listed: int
    published: str
    host: str
    host_weight: float


class Host(NamedTuple):
    """A host: its weight, how many of its pages are stored, and how many targets of links are not."""

    host: str
    weight: float
    stored: int
    targets: int


def frontier(graph: LinkGraph, by: str = "rank", host: str | None = None) -> Iterator[Target]:
    """Link targets that are not stored, the best first.

    Args:
        graph: of the store, with the entries of its site maps.
        by: "rank"; "inlinks" from other hosts; or "host": the heaviest host first, its best targets first.
        host: only targets of this host.
    Raises:
        InvalidArgument: no such order.
    """
    if by not in FRONTIER_ORDERS:
        raise InvalidArgument(f"by is one of {', '.join(FRONTIER_ORDERS)}, not {by!r:.100}")
    ranks = graph.ranks()
    external, internal = graph.incoming()
    weights = graph.host_weights(ranks)
    absent = np.flatnonzero(graph.states == 0)
    # The last key of lexsort is the primary one; ties keep the order of rows.
    first: list[NDArray[Any]] = [-weights[graph.hosts]] if by == "host" else [-external if by == "inlinks" else -ranks]
    order = np.lexsort([key[absent] for key in (-internal, -external, -ranks, graph.hosts * (by == "host"), *first)])
    wanted = None if host is None else host.lower()
    for number in absent[order].tolist():
        name = graph.host_names[graph.hosts[number]]
        if wanted is None or name == wanted:
            yield Target(
                graph.urls[number],
                _rounded(ranks[number]),
                int(external[number]),
                int(internal[number]),
                graph.listed.get(number, 0),
                graph.published.get(number, ""),
                name,
                _rounded(weights[graph.hosts[number]]),
            )


_REDIRECTS: Final = ReadSpec(STATUS[:1], STATUS[1], versions=1)
_CLOSED: Final = ReadSpec((ANCHOR_FAMILY,), b"links:", versions=1)
"""In the rows of a crawler, which have these URLs: what it has decided about the links of duplicates."""
_CRAWLER_ROWS: Final = "urn:docstore:links:"


def with_redirects(graph: LinkGraph, store: Store) -> LinkGraph:
    """The graph with stored redirects as targets that are not stored."""
    redirects = {row.url for row in store.cells.scan(spec=_REDIRECTS) if row.cells[0].value[:1] == b"3"}
    graph.states[[number for number, url in enumerate(graph.urls) if url in redirects]] = 0
    return graph


def worth_fetching(graph: LinkGraph, store: Store, targets: Iterable[Target]) -> Iterator[Target]:
    """Targets that promise something new: outside of crawler traps, and linked from pages whose links are followed.

    Left out are URLs of patterns whose pages are duplicates or show one text; URLs that differ from a stored or earlier
    one only in parameters that never change the content; and links that only duplicates of closed templates have.
    """
    stats = stats_of(store, "pattern")
    expressions = {pattern.expression for pattern in stats.patterns if pattern.is_trap}
    expressions.update(expression for same in stats.same_texts for expression in same.expressions)
    parameters = {(trap.host, trap.parameter) for trap in stats.traps if trap.is_trap}
    seen = {_reduced(graph.urls[number], parameters) for number in np.flatnonzero(graph.states).tolist()}
    closed = np.zeros(len(graph.urls), np.int64)
    closed[_closed_sources(graph, store)] = 1
    size = len(graph.urls)
    linking = np.bincount(graph.targets, minlength=size)
    followed = linking - np.bincount(graph.targets, closed[graph.sources], size)
    numbers = {url: number for number, url in enumerate(graph.urls)}
    for target in targets:
        number, reduced = numbers[target.url], _reduced(target.url, parameters)
        is_trap = reduced in seen or any(
            shape_of(target.url, any_name=each)[1] in expressions for each in (False, True)
        )
        if not is_trap and (followed[number] or not linking[number]):
            seen.add(reduced)
            yield target


def _reduced(url: str, parameters: set[tuple[str, str]]) -> str:
    """A URL without parameters that never change the content."""
    address, _, query = url.partition("?")
    host = urlsplit(url).hostname or "" if query and parameters else ""
    kept = [text for text in query.split("&") if (host, text.partition("=")[0]) not in parameters]
    return f"{address}?{'&'.join(kept)}"


def _closed_sources(graph: LinkGraph, store: Store) -> list[int]:
    """Numbers of duplicate pages of those templates whose links crawlers do not follow any more."""
    closed = {
        row.url.removeprefix(_CRAWLER_ROWS) + cell.qualifier.removeprefix(b"links:").decode("utf-8", "replace")
        for row in store.cells.scan(prefix=_CRAWLER_ROWS, spec=_CLOSED)
        for cell in row.cells
        if cell.value == b"closed"
    }
    pages = np.unique(graph.sources).tolist() if closed else ()
    numbers = [number for number in pages if keys.template_of(graph.urls[number]) in closed]
    documents = store.get_many([graph.urls[number] for number in numbers], families=("dedup",))
    verdicts = [None if document is None else document.newest.shown_verdict for document in documents]
    return [n for n, verdict in zip(numbers, verdicts, strict=True) if verdict is None or verdict.kind in DUPLICATES]


def host_table(graph: LinkGraph) -> list[Host]:
    """The hosts of a graph, the heaviest first."""
    weights = graph.host_weights(graph.ranks())
    size = len(graph.host_names)
    stored = np.bincount(graph.hosts[graph.states == STORED], minlength=size)
    absent = np.bincount(graph.hosts[graph.states == 0], minlength=size)
    hosts = [
        Host(name, _rounded(weights[number]), int(stored[number]), int(absent[number]))
        for number, name in enumerate(graph.host_names)
    ]
    return sorted(hosts, key=lambda host: (-host.weight, host.host))


def run_frontier(args: argparse.Namespace) -> int:
    """List the targets."""
    if args.hosts and (args.host is not None or args.by != "rank"):
        raise InvalidArgument("--hosts lists all hosts by weight; leave --host and --by out")
    with ExitStack() as stack:
        store = open_in(stack, args)
        graph = read_graph(store, entries=True)
        targets: Iterable[Target | Host] = host_table(graph) if args.hosts else ()
        if args.all and not args.hosts:
            targets = list(frontier(with_redirects(graph, store), args.by, args.host))
        elif not args.hosts:
            targets = list(worth_fetching(graph, store, frontier(graph, args.by, args.host)))
    printed = 0
    for item in targets:
        if printed == args.limit:
            break
        printed += 1
        if args.json:
            output.json_line(item._asdict())
        elif isinstance(item, Host):
            output.line(f"{item.weight:g}\t{item.stored}\t{item.targets}\t{item.host}")
        else:
            output.line(item.url)
    if not printed:
        no_links = (
            "the store has no links: `docstore ingest --anchors`, `DOCSTORE_ANCHORS = True` in Scrapy's settings, and "
            "`anchors=True` of put_page write them"
        )
        output.note("no link target is missing" if len(graph.sources) else no_links)
    return EXIT_OK if printed else EXIT_NOTHING_FOUND
