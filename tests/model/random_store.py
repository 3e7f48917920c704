"""Random lives of a store, each answer compared with that of a plain model (`tests.model.store_model`).

    python -m tests.model.random_store --seeds 500        # seeds 0 to 499
    python -m tests.model.random_store --first 17 --seeds 1

A seed gives a `Setting` and a list of operations.  `replay` runs them on a real store and on the model, and compares
every verdict, `get`, `history`, `in`, `similar`, `find`, the pairs of a sweep and the answer of `check`.  A seed that
fails is shortened, and printed as Python that fails in the same way.  Only public calls are used, so that the inside of
the store may change.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, groupby
from pathlib import Path
from random import Random
from typing import Any

from docstore import Page, Policy, Previous, PutResult, Schema, VerdictKind
from docstore.archives.copying import copy_into
from docstore.backends import open_backend
from docstore.model.choices import Durability
from docstore.model.types import SAME_PAGE
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex
from docstore.tablets.backup import restore
from tests.model.store_model import (
    DAY,
    GC,
    HTML,
    MILLISECOND,
    MIN_NEAR_WORDS,
    MIN_SAME_TEXT_WORDS,
    NEAR,
    POLICIES,
    T0,
    TITLES,
    Ask,
    Body,
    Capture,
    Delete,
    DeleteCrawl,
    Do,
    Expected,
    Fetch,
    Live,
    Model,
    Operation,
    Put,
    Seen,
    Setting,
    overlap,
    raw_body,
    reader,
    same_title,
    url_of,
)


class Mismatch(AssertionError):
    """The store and the model do not say the same."""


# --- a store and its model, side by side


class Run:
    """Runs operations on a store in a folder, and compares."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting, self.folder = setting, folder
        self.model = Model(setting)
        self.counts: Counter[str] = Counter()
        self.stores = 0
        self.store = self._open(folder / "0")

    def _open(self, path: Path) -> DocumentStore:
        captures, bodies = self.model.policies
        schema = Schema(captures=captures, bodies=bodies, title_rule=self.setting.titles_held)
        return DocumentStore(
            open_backend(path, create=True, schema=schema), Durability.NONE, clock=lambda: self.model.now
        )

    def do(self, operation: Operation) -> None:
        if isinstance(operation, Put):
            self._put(operation)
        elif isinstance(operation, Delete):
            row_key = self._row_key(operation.url)
            row = self.model.rows.pop(row_key, None)
            self.model.changed(row_key)
            was_there = self.store.delete(url_of(operation.url), purge=operation.purge)
            self._same("delete", was_there, row is not None and bool(row.captures))
            if operation.purge and was_there:
                self.model.compact()  # of a crawl a purge leaves that to a call of its own
        elif isinstance(operation, DeleteCrawl):
            rows = self.model.delete_crawl(operation.crawl)
            self._same("rows", self.store.delete_crawl(operation.crawl, purge=operation.purge), rows)
            self._do(Do("check"))
        elif isinstance(operation, Ask):
            self._similar(operation.of) if operation.what == "similar" else self._find(operation.of)
        else:
            self._do(operation)
        self._read_all()

    def _do(self, operation: Do) -> None:
        what = operation.what
        if what == "days":
            self.model.now += operation.days * DAY
            self.model.changed()
        elif what.startswith("compact"):
            self.store.compact(level=what.partition(" ")[2] or "fast")
            self.model.compact()
        elif what == "sweep":
            self._sweep()
        elif what == "reindex":
            reindex(self.store)
            self._same("unseen after reindex", reindex(self.store, dry_run=True).unseen, 0)
        elif what == "reopen":
            self.store.close()
            self.store = self._open(self.folder / str(self.stores))
        elif what == "copy":
            self.stores += 1
            path = self.folder / str(self.stores)
            if self.stores % 2:
                target = self._open(path)
                copy_into(self.store, target)
                self.store.close()
                self.model.compact()
            else:
                self.store.backup(self.folder / f"{self.stores} backup")
                self.store.close()
                restore(self.folder / f"{self.stores} backup", path)
                target = self._open(path)
            self.store = target
        rejected = {
            (self.model.urls[key], one.at)
            for key in self.model.rows
            for one in self.model.live(key)
            if one.capture.stored == "rejected"
        }
        self._same("rejected", {(url, at) for url, at, _ in self.store.rejected()}, rejected)
        problems = [f"{problem.where}: {problem.what}" for problem in check(self.store.backend)]
        self._same(f"check after {what}", problems, [])
        for row_key, url in self.model.urls.items():
            for one in self.model.pages(row_key):
                found = self.store.get(url, at=one.at)
                right = one.at, one.status, one.page.body.raw if one.has_body else None
                self._same(f"get {url} at {one.at}", found and (found.timestamp, found.status, found.body), right)

    def _row_key(self, name: str) -> bytes:
        row_key = self.store.cells.row_key(url_of(name))
        self.model.urls[row_key] = url_of(name)
        return row_key

    def _same(self, what: str, found: object, right: object) -> None:
        if found != right:
            raise Mismatch(f"{what}:\n  found {found!r:.1500}\n  right {right!r:.1500}")

    # --- writing

    def _put(self, put: Put) -> None:
        pages = [
            Page(
                url_of(one.url),
                raw_body(one, self.setting.titles_held),
                one.status,
                HTML,
                T0 + one.day * DAY,
                docno=one.docno,
                crawl=one.crawl,
            )
            for one in put.fetches
        ]
        store, model = self.store, self.model
        if put.dry_run:
            store, self.model = store.dry_run(), copy.deepcopy(model)
        try:
            results = list(store.put_pages(pages, policies=POLICIES[put.policy], any_time=True))
            self._same("results", len(results), len(pages))
            for fetch, one, result in zip(put.fetches, pages, results, strict=True):
                self.counts["pages"] += 1
                try:
                    self._take(fetch, one, result, POLICIES[put.policy])
                except Mismatch as error:
                    raise Mismatch(f"{fetch} {put.policy}{' dry run' * put.dry_run}: {error}") from None
        finally:
            if put.dry_run:
                store.close()
                self.model = model

    def _take(self, fetch: Fetch, one: Page, result: PutResult, policies: dict[VerdictKind, Policy]) -> None:
        """Compare the answer to a page with what is right, and take the page into the model."""
        self._same("error", result.error, "")
        row_key = self._row_key(fetch.url)
        at = T0 + fetch.day * DAY
        if fetch.status == 304:
            self._take_visit(fetch, row_key, at, result)
            return
        body = reader().body(one.body)
        taken = self.model.row(row_key).captures
        while at in taken and (taken[at].stored == "visit" or taken[at].body.raw != body.raw):
            at += MILLISECOND
        self._same("timestamp", result.timestamp, at)
        known = taken.get(at)
        if known is not None and known.stored != "rejected":
            self._same("stored", (result.stored, result.known_as), ("known", known.stored))
            assert known.verdict is not None
            self._same_verdict(result, known.verdict)
            return
        previous = self.model.previous(row_key, at)
        self._same("previous", result.previous, self._previous(body, previous))
        verdict = self._of_own_host(row_key, body, fetch.status, result, policies)
        if verdict is None:
            verdict = self._judged(row_key, body, fetch.status, result)
        stored = self._stored(row_key, body, fetch.status, previous, verdict, policies)
        if (
            known is not None
            and known.verdict is not None
            and (known.verdict[:2], known.stored) == (verdict[:2], stored)
        ):
            self._same("stored", (result.stored, result.known_as), ("known", "rejected"))
            return
        self._same("stored", result.stored, stored)
        confirms = previous.source if previous is not None and stored == "confirmed" else None
        self.model.add(Capture(row_key, at, fetch, body, fetch.status, stored, verdict, confirms))

    def _previous(self, body: Body, previous: Live | None) -> Previous:
        if previous is None:
            return Previous.NONE
        if previous.page.body.raw == body.raw:
            return Previous.SAME_BYTES
        return Previous.SAME_TEXT if body.words and body.words == previous.page.body.words else Previous.CHANGED

    def _stored(
        self,
        row_key: bytes,
        body: Body,
        status: int,
        previous: Live | None,
        verdict: Expected,
        policies: dict[VerdictKind, Policy],
    ) -> str:
        """What becomes of a body."""
        is_same = previous is not None and previous.page.body.raw == body.raw
        if is_same and previous is not None and previous.has_body and previous.status // 100 == status // 100:
            return "confirmed"
        policy = policies.get(verdict.kind, Policy.FLAG)
        if verdict.of is None or policy is Policy.FLAG or not self.model.has_body(verdict.of):
            return "body"
        if policy is Policy.REFERENCE:
            return "reference"
        may_reject = policy is Policy.REJECT_ANY or self.model.host(row_key) == self.model.host(verdict.of[1])
        return "rejected" if may_reject and self.model.stands(verdict.of) else "body"

    def _take_visit(self, fetch: Fetch, row_key: bytes, at: int, result: PutResult) -> None:
        """A 304 confirms the version before it; after a rejected fetch it confirms none and has its verdict."""
        taken = self.model.row(row_key).captures
        while at in taken and taken[at].stored != "visit":
            at += MILLISECOND
        self._same("timestamp", result.timestamp, at)
        known = taken.get(at)
        version, rejected = self.model.previous(row_key, at), self.model.rejected_last(row_key, at)
        if known is not None and known.confirms is not None:
            rejected = None  # it keeps what it confirmed when it was written
        if rejected is not None:
            version = None
        if known is not None:
            answer = "known", "visit" if known.confirms is None else "confirmed"
        else:
            answer = "visit" if version is None else "confirmed", ""
        self._same("stored", (result.stored, result.known_as), answer)
        right = version.verdict if version is not None else rejected.verdict if rejected is not None else None
        self._same_verdict(result, right or Expected(VerdictKind.NEW))
        if known is not None:
            return
        body, verdict, source = Body(b""), None, None
        if rejected is not None:
            self.counts["visits after a rejected fetch"] += 1
            body = rejected.body
        if version is not None:
            body, verdict, source = version.page.body, version.verdict, version.source
        self.model.add(Capture(row_key, at, fetch, body, fetch.status, "visit", verdict, source))

    # --- verdicts

    def _judged(self, row_key: bytes, body: Body, status: int, result: PutResult) -> Expected:
        """The verdict that the store gave, found right: at least by a known fault, or by what an index may miss."""
        right = self.model.verdict(row_key, body, status)
        if self._is(result, right):
            return right
        other = self.model.verdict(row_key, body, status, is_open=True)
        if self._is(result, other):
            self.counts["reference text"] += 1
            return other
        for may_miss in (right, other):
            sure_kinds = (VerdictKind.EXACT, VerdictKind.SAME_TEXT)
            if may_miss.may_miss and may_miss.kind not in sure_kinds:
                found = self._as_answered(result)
                if found.kind is VerdictKind.NEW or found[:3] in may_miss.others:
                    self.counts[f"missed {may_miss.kind}"] += 1
                    return found
        self._same_verdict(result, right)
        raise AssertionError("not reached")

    def _of_own_host(
        self, row_key: bytes, body: Body, status: int, result: PutResult, policies: dict[VerdictKind, Policy]
    ) -> Expected | None:
        """The verdict by which `reject` rejects a page, if it names another one than that against all hosts.

        It names a page of the own host that shows what it did, by a kind that is rejected.
        """
        rejected = [kind for kind in SAME_PAGE if policies.get(kind) is Policy.REJECT]
        general = self.model.verdict(row_key, body, status)
        if not rejected or general.kind not in SAME_PAGE or result.stored in ("confirmed", "reference"):
            return None
        foreign = general.of is not None and self.model.host(general.of[1]) != self.model.host(row_key)
        if not foreign and policies.get(general.kind) is not Policy.REJECT:
            return None
        found = [
            own
            for is_open in (False, True)
            if (own := self.model.verdict(row_key, body, status, is_open=is_open, own_host=True)).kind in rejected
            and own.of is not None
            and self.model.has_body(own.of)
        ]
        for own in found if "rejected" in (result.stored, result.known_as) else ():
            if self._is(result, own):
                self.counts["own host"] += own[:2] != general[:2]
                return own
        if foreign and len(found) == 2 and not any(own.may_miss for own in found):
            raise Mismatch(f"not rejected by the page of its own host:\n  found {result}\n  right {found[0][:3]}")
        return None

    def _as_answered(self, result: PutResult) -> Expected:
        given = result.verdict
        of = (given.of_timestamp, self.store.cells.row_key(given.of_url)) if given.of_url else None
        return Expected(given.kind, of, given.similarity)

    def _is(self, result: PutResult, right: Expected) -> bool:
        found = self._as_answered(result)
        return found[:2] == right[:2] and abs(found.similarity - right.similarity) < 1e-9

    def _same_verdict(self, result: PutResult, right: Expected) -> None:
        if not self._is(result, right):
            raise Mismatch(f"verdict:\n  found {result.verdict} {result.stored}\n  right {right[:3]}")

    # --- reading

    def _read_all(self) -> None:
        """Compare every row."""
        for row_key, url in self.model.urls.items():
            live = self.model.pages(row_key)
            self._same(f"in {url}", url in self.store, bool(live))
            found = self.store.get(url)
            right = (live[0].at, live[0].page.body.raw if live[0].has_body else None) if live else None
            self._same(f"get {url}", found and (found.timestamp, found.body), right)
            then = self.store.get(url, at=T0 + 4 * DAY, families=("page",))
            self._same(
                f"get {url} of day 4",
                then and then.timestamp,
                next((one.at for one in live if one.at <= T0 + 4 * DAY), None),
            )
            shown = [one for one in self.store.history(url) if not _is_rejected(one)]
            times = [(one.timestamp, one.newest.crawl) for one in shown]
            self._same(f"history {url}", times, [(one.at, one.capture.crawl) for one in live])
            if live and found is not None:
                self._same(f"status {url}", found.status, live[0].status)
                body = live[0].page.body
                text = tuple(re.findall(r"\w+", (found.text or "").lower())) if body.is_html else ()
                self._same(f"text {url}", text, body.words)

    def _find(self, docno: str) -> None:
        right = {
            key
            for key in self.model.rows
            for one in self.model.pages(key)
            if (one.page if one.capture.stored == "visit" else one.capture).fetch.docno == docno
        }
        found = {self.store.cells.row_key(one.url) for one in self.store.find(docno=docno)}
        self._same(f"find {docno}", found, right)

    def _similar(self, name: str) -> None:
        row_key = self._row_key(name)
        live = self.model.pages(row_key)
        if not live or not live[0].has_body:  # it is asked by its body
            return
        body, status = live[0].page.body, live[0].status
        found = {one.url: one for one in self.store.similar(url_of(name), limit=1000)}
        pages = [one for key in self.model.rows if key != row_key for one in self.model.seen(key)]
        for one in pages:
            url, its = self.model.urls[one.pointer[1]], one.capture.body
            verdict = one.capture.verdict
            is_open = (
                one.capture.stored == "reference" and verdict is not None and verdict.kind is not VerdictKind.EXACT
            )
            is_same = its.raw == body.raw and not body.is_blank and one.status // 100 == status // 100
            compare = one.status // 100 == status // 100 == 2 and its.is_html and body.is_html
            is_same |= (
                compare
                and its.words == body.words
                and len(body.words) >= MIN_SAME_TEXT_WORDS
                and its.title == body.title
            )
            if is_same and not is_open:
                self._same(f"similar to {name}: {url} is there", url in found, True)
        for url, answer in found.items():
            at = self.store.cells.row_key(url)
            bodies = [one.capture.body for one in self.model.seen(at) if one.pointer[0] == answer.timestamp]
            if not bodies:
                raise Mismatch(f"similar to {name}: {answer} is not live")
            its = bodies[0]
            exact = overlap(body.words, its.words)[0]
            is_true = its.raw == body.raw or its.words == body.words or abs(exact - answer.similarity) < 1e-9
            self._same(f"similar to {name}: {answer} is true, {exact}", is_true, True)

    def _sweep(self) -> None:
        """All pairs of a sweep at the threshold, against all pairs."""
        path = self.folder / "pairs.tsv"
        sweep(self.store, SweepOptions(pairs=path, all_pairs=True, threads=1))
        found = set()
        for line in path.read_text("utf-8").splitlines():
            first, first_at, second, second_at, _ = line.split("\t")
            found.add(frozenset(((first, int(first_at)), (second, int(second_at)))))
        versions = [one for key in self.model.rows for one in self._versions(key)]
        right = set()
        for one, other in combinations(versions, 2):
            if one.pointer[1] != other.pointer[1] and _is_pair(one, other):
                ends = ((self.model.urls[two.pointer[1]], two.pointer[0]) for two in (one, other))
                right.add(frozenset(ends))
        self.counts["pairs"] += len(right)
        if found != right:
            raise Mismatch(f"pairs of a sweep:\n  not found {right - found}\n  not right {found - right}")

    def _versions(self, row_key: bytes) -> Iterator[Seen]:
        """Successive live captures with the same body and status class are one version."""
        for _, group in groupby(self.model.seen(row_key), key=lambda one: (one.capture.body.raw, one.status // 100)):
            first = next(group)
            if not first.capture.body.is_blank:
                yield first


def _is_rejected(document: Any) -> bool:
    verdict = document.newest.verdict
    return verdict is not None and getattr(verdict, "stored", "") == "rejected"


def _is_pair(one: Seen, other: Seen) -> bool:
    first, second = one.capture.body, other.capture.body
    if first.raw == second.raw:
        return one.status // 100 == other.status // 100
    if not (one.status // 100 == other.status // 100 == 2 and first.is_html and second.is_html):
        return False
    if min(len(first.words), len(second.words)) >= MIN_NEAR_WORDS:
        return overlap(first.words, second.words)[0] >= NEAR
    same = first.words == second.words and len(first.words) >= MIN_SAME_TEXT_WORDS
    return same and same_title(first, second)


def replay(setting: Setting, operations: Iterable[Operation]) -> Counter[str]:
    """Run operations on a store of its own and on the model.

    Returns:
        How many pages and pairs were compared, and what the index missed.
    Raises:
        Mismatch: they differ.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Run(setting, Path(folder))
        try:
            for operation in operations:
                run.do(operation)
        finally:
            run.store.close()
    return run.counts


# --- random operations


def random_life(seed: int) -> tuple[Setting, list[Operation]]:
    """The setting and the operations of a seed."""
    choose = Random(seed)
    setting = Setting(
        choose.choice(["none"] * 4 + list(GC)),
        choose.random() < 0.7,
    )
    hosts = choose.choice(["a", "ab", "abcd"])
    urls = [f"{host}/{number}" for host in hosts for number in range(choose.choice([3, 6, 10]))]
    bases = choose.sample(range(21), choose.randint(1, 4))
    policies = list(POLICIES)
    home = choose.choice(policies)

    def fetch(url: str | None = None) -> Fetch:
        return Fetch(
            url or choose.choice(urls),
            choose.choice([*bases * 6, -1, -2]),
            choose.choice([0, 0, 0, 0, 1, 2, 3, 4, *range(5, 13)]),
            choose.choice([0, 0, 0, *range(len(TITLES))]),
            choose.choice([0, 0, 0, 12, 21, 102]),
            choose.choice([200] * 12 + [404, 500, 304, 304, 304]),
            choose.randint(0, 8),
            choose.choice(["", "", "D1", "D2"]),
            choose.choice(["", "x", "x", "y"]),
        )

    def put() -> Put:
        policy = home if choose.random() < 0.7 else choose.choice(policies)
        return Put(tuple(fetch() for _ in range(choose.choice([1, 2, 5, 12]))), policy, choose.random() < 0.1)

    def crowd() -> Put:
        """One text in more bodies than an index looks at."""
        base, variant, title = choose.choice(bases), choose.randint(0, 12), choose.randrange(len(TITLES))
        day = choose.randint(0, 8)
        hosts_of = choose.choice(["a", "abcd"])
        size = 140 if day % 2 else 70
        paths = [f"{choose.choice(hosts_of)}/c{n}" for n in range(size)] if choose.random() < 0.6 else ["a/c"] * size
        many = [Fetch(url, base, variant, title, n, 200, day) for n, url in enumerate(paths)]
        return Put(tuple(many), choose.choice(["flag", "reference"]))

    operations: list[Operation] = []
    for _ in range(choose.randint(8, 24)):
        kind = choose.random()
        if kind < 0.55:
            operations.append(put())
        elif kind < 0.57:
            operations.append(crowd())
        elif kind < 0.66:
            operations.append(Delete(choose.choice(urls), choose.random() < 0.3))
        elif kind < 0.69:
            operations.append(DeleteCrawl(choose.choice("xy"), choose.random() < 0.3))
        elif kind < 0.78:
            operations.append(Ask("similar", choose.choice(urls)))
        elif kind < 0.82:
            operations.append(Ask("find", choose.choice(["D1", "D2"])))
        elif kind < 0.88:
            operations.append(Do("days", choose.randint(1, 4)))
        else:
            work = ["compact", "compact best", "sweep", "sweep", "reindex", "copy", "reopen", "check"]
            operations.append(Do(choose.choice(work)))
    operations += [Ask("similar", choose.choice(urls)), Do("sweep"), Do("compact"), Do("reopen"), Do("check")]
    return setting, operations


def fails(setting: Setting, operations: Sequence[Operation]) -> Exception | None:
    """How a replay fails; None if it does not."""
    try:
        replay(setting, operations)
    except Exception as error:  # whatever a store raises here is a fault
        return error
    return None


def shortened(setting: Setting, operations: list[Operation]) -> list[Operation]:
    """Operations, and pages of them, left out as long as what is left fails."""
    before: list[Operation] = []
    while before != operations:
        before = operations
        operations = _without(operations, lambda rest: fails(setting, rest) is not None)
        for place in range(len(operations)):
            operations = _with_fewer_pages(setting, operations, place)
    return operations


def _with_fewer_pages(setting: Setting, operations: list[Operation], place: int) -> list[Operation]:
    put = operations[place]
    if not isinstance(put, Put):
        return operations

    def replaced(fetches: list[Fetch]) -> list[Operation]:
        return [*operations[:place], put._replace(fetches=tuple(fetches)), *operations[place + 1 :]]

    return replaced(_without(list(put.fetches), lambda rest: fails(setting, replaced(rest)) is not None))


def _without(items: list[Any], still_fails: Callable[[list[Any]], bool]) -> list[Any]:
    size = len(items) // 2
    while size:
        start = 0
        while start < len(items):
            rest = [*items[:start], *items[start + size :]]
            if still_fails(rest):
                items = rest
            else:
                start += size
        size //= 2
    return items


def shown(setting: Setting, operations: Iterable[Operation]) -> str:
    """A replay as Python."""
    lines = [f"    {operation!r}," for operation in operations]
    return "\n".join([f"replay({setting!r}, [", *lines, "])"])


def run_seed(seed: int) -> Counter[str]:
    """Replay a seed; a failure shows the shortest operations that were found to fail.

    Raises:
        Mismatch: the store and the model differ, or the store raised an error.
    """
    setting, operations = random_life(seed)
    try:
        return replay(setting, operations)
    except Exception as error:
        short = shortened(setting, operations)
        again = fails(setting, short) or error
        raise Mismatch(f"seed {seed}: {type(again).__name__}: {again}\n{shown(setting, short)}") from error


def main() -> int:
    """Run seeds; 1 if one fails."""
    parser = argparse.ArgumentParser(description="Random lives of a store against a model.")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            counts.update(run_seed(seed))
        except Mismatch as error:
            failed += 1
            print(error, flush=True)
    print(f"{options.seeds} seeds, {failed} failed: {dict(sorted(counts.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
