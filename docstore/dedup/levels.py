"""The index of band keys and 0-mod-p fingerprints as few sorted runs: cost that stays flat as documents come.

Knows `runs`, `packing` and a `RunStorage` seam; must not know the engine, files, or what a key stands for.

Postings are derived state.  The truth is a log that the owner keeps elsewhere (rows written with the pages): group
after group, each with a number.  Groups gather in a table in memory; every `flush_texts` texts the table becomes a run;
neighbouring runs of like size are merged, in the background, so that no write ever waits for a merge.  A run is named
by the groups that it holds, ``first, end``: after a crash the runs that no other run covers are the index, whatever
follows the last of them is added again from the log, and half a run is no run.

Look-up: the runs, oldest first, then the table in memory, until a key has its `bucket_limit` texts.  Each run keeps the
first texts of each key, so answers do not depend on which runs are merged by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers
from docstore.dedup.packing import Packing, packing
from docstore.dedup.ranking import IndexQuery, Proposal
from docstore.dedup.runs import Keys, Run, bound_buckets, merged_parts, pruned_parts, run_parts
from docstore.dedup.slices import LIST_LIMIT
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import RUN_PLACE_BITS, RUN_TEXT_GONE

FLUSH_POSTINGS: Final = 1 << 17
"""Postings gathered in memory before they become a run, however few texts they are of: some 5 MB in native code."""
_MERGED_AT_CLOSE_BYTES: Final = 32 << 20


class Span(NamedTuple):
    """Groups that a run holds: ``first <= group < end``; its name on storage."""

    first: int
    end: int


class RunStorage(Protocol):
    """Where runs lie; an implementation translates its own errors.

    What is asked for may be carried out later, in the background; but the sources of a merge are removed only after
    `merged` has named it, which is when it is durable.
    """

    def names(self) -> list[Span]:
        """Runs that are there, in any order."""
        ...

    def write(self, name: Span, parts: Iterable[bytes | memoryview]) -> NDArray[np.uint8]:
        """Write a run and give it for reading; becomes durable later."""
        ...

    def merge(self, name: Span, parts: Iterator[bytes | memoryview], size_bytes: int) -> None:
        """Write a run of about that size in the background; one of that name stays in force until then."""
        ...

    def merged(self) -> list[Span]:
        """Runs that `merge` has made durable since the last call."""
        ...

    def open(self, name: Span) -> NDArray[np.uint8]:
        """Open a run for reading."""
        ...

    def remove(self, name: Span, held: object = None) -> None:
        """Let a run go, and the object; buffers of it that are still held stay readable."""
        ...

    def settle(self, largest_merge_bytes: int | None = None) -> None:
        """Wait until everything asked for is done, but for merges that are larger."""
        ...


class _Named(NamedTuple):
    """One run with its name and its level: the power of `fan_in` that its size comes to."""

    name: Span
    level: int
    run: Run


class _Pruning(NamedTuple):
    """Runs that are made anew without texts that are gone.

    Attributes:
        live: numbers of texts that stay, ascending.
        end: runs of groups from here on are left as they are.
        done: runs that were made anew, or are being.
    """

    live: Keys
    end: int
    done: set[Span]


class RunLevels:
    """Key -> text numbers, in a few sorted runs and a table in memory.

    Not thread-safe: one sequencer owns it.

    Attributes:
        end: groups below this number are held by runs; once the storage has settled the log may forget them.  Those
            from here on must be added again after `__init__`.
        pruned_postings: that `begin_prune` has dropped so far.
    """

    def __init__(
        self,
        storage: RunStorage,
        *,
        bucket_limit: int = 64,
        flush_texts: int = 2048,
        fan_in: int = 2,
        kernel: Packing | None = None,
    ) -> None:
        """Open what the storage holds.

        Args:
            storage: where runs lie.
            bucket_limit: texts kept of one key, and given by a look-up: the first ones.
            flush_texts: texts gathered in memory before they become a run.
            fan_in: runs of one level that are merged into one of the next; more means less merging and more runs to
                ask.
            kernel: native code or the reference; None takes native code where there is any.
        Raises:
            CorruptionError: a run is damaged or missing; remove all of them and derive the postings again.
        """
        if fan_in < 2 or flush_texts < 1 or not 1 <= bucket_limit <= LIST_LIMIT:
            raise InvalidArgument(
                f"fan_in {fan_in} must be at least 2, flush_texts {flush_texts} at least 1 and bucket_limit "
                f"{bucket_limit} from 1 to {LIST_LIMIT}"
            )
        self._storage = storage
        self._bucket_limit = bucket_limit
        self._flush_texts = flush_texts
        self._fan_in = fan_in
        self._kernel = packing() if kernel is None else kernel
        self._runs: list[_Named] = []
        self._opened: list[Run] = []
        self._merges: dict[Span, list[_Named]] = {}
        self._pruning: _Pruning | None = None
        self._recent = self._kernel.recent()
        self._is_whole = True
        self.end = self.pruned_postings = 0
        self._open()
        self._first = self._next = self.end
        self._begun = False

    def _open(self) -> None:
        for name in sorted(self._storage.names(), key=lambda name: (name.first, -name.end)):
            if name.end <= self.end:
                self._storage.remove(name)  # covered by a merged run
                continue
            if name.first != self.end:
                raise CorruptionError(
                    "a run of postings is missing", expected=f"one from group {self.end}", found=f"group {name.first}"
                )
            self._runs.append(self._named(name, self._storage.open(name)))
            self.end = name.end
        self._opened = [entry.run for entry in self._runs]

    def _named(self, name: Span, buffer: NDArray[np.uint8]) -> _Named:
        run = self._kernel.open(buffer)
        level = 0
        while self.fills(run.texts, run.postings) >= self._fan_in ** (level + 1):
            level += 1
        return _Named(name, level, run)

    def fills(self, texts: int, postings: int) -> int:
        """How many full tables in memory so many texts and postings come to."""
        return max(texts // self._flush_texts, postings // FLUSH_POSTINGS)

    # --- reading ---

    @property
    def run_count(self) -> int:
        """Runs that a look-up asks."""
        return len(self._runs)

    def text_numbers(self) -> Keys:
        """Numbers of all texts in runs, (n,) uint64; one posted twice is there twice.  Any thread may ask."""
        parts = [run.text_numbers(slice(0, run.texts)) for run in self._opened]
        numbers = np.concatenate([np.empty(0, np.uint64), *parts])
        held: Keys = numbers[numbers != RUN_TEXT_GONE]
        return held

    def find(self, keys: Keys) -> tuple[Numbers, Keys]:
        """Look up the keys of one page, or of many, in all that has been posted.

        Args:
            keys: (m,) uint64.
        Returns:
            For each posting found: which key (index in `keys`, ascending), and its text number as uint64; of one key
            the first `bucket_limit` texts, in order of arrival.
        Raises:
            CorruptionError: a run is damaged.
        """
        return self._kernel.find(self._opened, self._recent, self._kernel.mix(keys), self._bucket_limit)

    def propose(self, query: IndexQuery) -> Proposal:
        """Texts to compare a page with, of all that has been posted.

        Raises:
            CorruptionError: a run is damaged.
        """
        proposal = self._kernel.propose(self._opened, self._recent, query, self._bucket_limit)
        if RUN_TEXT_GONE in proposal.numbers:
            proposal.numbers.remove(RUN_TEXT_GONE)
        return proposal

    # --- writing ---

    def log_keys(self, *keys: Keys) -> bytes:
        """What `post` takes, and what a log keeps: keys mixed, five bytes each; see `runs.key_bytes`."""
        return self._kernel.log_keys(*keys)

    def post(self, text: int, logged: bytes) -> None:
        """Add the postings of one text, seen by look-ups from now on.

        Args:
            text: its number, 48 bits.
            logged: of `log_keys`, different keys.
        """
        self._recent.post(text, logged)
        self._is_whole = False

    def end_group(self, group: int) -> None:
        """Say that what was posted since the last call is this group of the log.

        Args:
            group: its number; groups come in order, without a gap.
        Raises:
            CorruptionError: a run that was being merged is damaged.
            StorageError: a run cannot be written; nothing is lost while the log is there.
        """
        if group != self._next:
            raise InvalidArgument(f"group {group} does not follow {self._next - 1}; end every group once, in order")
        self._next = group + 1
        if not self._is_whole:
            self._is_whole = True
            if not self._begun:  # not at open: most processes read, or write a page or two
                self._begun = True
                self._begin_merges()
        self._adopt()
        if self.fills(len(self._recent), self._recent.postings) >= 1:
            self.flush()

    def flush(self) -> None:
        """Turn the table in memory into a run, between two groups; `end` moves on to the next one."""
        if not self._is_whole:
            raise InvalidArgument("a group is under way; end it before you flush")
        if self._next > self._first:
            self._write(self._kernel.contents(recent) for recent in [self._recent])

    def _write(self, contents: Iterator[tuple[Keys, Keys]]) -> None:
        """Make a run of what comes, once the storage asks for it, and empty the table."""

        def parts() -> Iterator[bytes | memoryview]:
            for postings, texts in contents:
                yield from run_parts(self._kernel, bound_buckets(postings, self._bucket_limit), texts)

        name = Span(self._first, self._next)
        self._replace(len(self._runs), 0, self._named(name, self._storage.write(name, parts())))
        self._recent = self._kernel.recent()
        self.end = self._first = self._next
        self._begun = True
        self._begin_merges()

    def _replace(self, at: int, count: int, entry: _Named) -> None:
        self._runs[at : at + count] = [entry]
        self._opened = [each.run for each in self._runs]

    # --- merging ---

    def settle(self) -> None:
        """Wait until there is nothing more to merge."""
        self._begin_merges()
        self._storage.settle()
        while self._merges:
            self._adopt()
            self._storage.settle()

    def close(self) -> None:
        """Finish small merges, so that a store that is opened for a page or two does not gather runs; write no more."""
        self._storage.settle(_MERGED_AT_CLOSE_BYTES)
        self._adopt()

    def _begin_merges(self) -> None:
        """Hand neighbours to the storage of which the oldest is no larger than the largest of the others."""
        if self._pruning is not None:
            self._prune_on(self._pruning)
        at = -1 if self._pruning is not None else len(self._runs) - self._fan_in
        while at >= 0:
            sources = self._runs[at : at + self._fan_in]
            if self._may_merge(sources):
                self._begin_merge(sources)
            at -= 1

    def _busy(self) -> set[Span]:
        return {source.name for merging in self._merges.values() for source in merging}

    def _may_merge(self, sources: Sequence[_Named]) -> bool:
        busy = self._busy()
        return (
            sources[0].level <= max(source.level for source in sources[1:])
            and sum(source.run.texts for source in sources) <= 1 << RUN_PLACE_BITS
            and not any(source.name in busy for source in sources)
        )

    def _begin_merge(self, sources: list[_Named]) -> None:
        name = Span(sources[0].name.first, sources[-1].name.end)
        runs = [source.run for source in sources]
        parts = merged_parts(self._kernel, runs, self._bucket_limit)
        self._storage.merge(name, parts, sum(run.storage_bytes for run in runs))
        self._merges[name] = sources

    def _adopt(self) -> None:
        """Put runs that were merged in the place of their sources."""
        names = self._storage.merged()
        for name in names:
            sources = self._merges.pop(name)
            entry = self._named(name, self._storage.open(name))
            if sources[0].name == name:
                self.pruned_postings += sources[0].run.postings - entry.run.postings
            self._replace(self._runs.index(sources[0]), len(sources), entry)
            while sources:
                source = sources.pop()
                if source.name != name:
                    self._storage.remove(source.name, source.run)
        if names or self._pruning is not None:
            self._begin_merges()

    # --- pruning

    def begin_prune(self, live: Keys) -> None:
        """Have the runs made anew, in the background, without texts that are gone; there are no merges until then.

        Args:
            live: (n,) uint64, the numbers of texts that stay, ascending.  What is posted from now on stays as well.
        """
        self._pruning = _Pruning(live, self.end, set())

    def is_pruned(self) -> bool:
        """Take up what was done in the background, and have it go on: some steps a run.  Gives whether all is done.

        Raises:
            CorruptionError: a run is damaged.
            StorageError: no room; each run is as it was, or without texts that are gone.
        """
        self._adopt()
        return self._pruning is None

    def _prune_on(self, pruning: _Pruning) -> None:
        busy = self._busy()
        for entry in self._runs:
            if entry.name.end <= pruning.end and entry.name not in pruning.done | busy:
                parts = pruned_parts(self._kernel, entry.run, pruning.live, self._bucket_limit)
                self._storage.merge(entry.name, parts, entry.run.storage_bytes)
                self._merges[entry.name] = [entry]
                pruning.done.add(entry.name)
        if not self._merges:
            self._pruning = None
