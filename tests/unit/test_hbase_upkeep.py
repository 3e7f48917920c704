"""Maintenance on HBase: what is dead goes, what lives stays, wherever it is killed and whoever writes beside it.

Here the cluster lies in memory, so that a process can be stopped before any write, and another one set to work there.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import memory_hbase
import pytest
from counts import stride
from faulty_files import SimulatedCrash
from memory_hbase import ADDRESS, MemoryCluster, open_store
from pages import changed, page, words
from queries import numbers

import docstore
from docstore import Page, Policy, PutResult, Schema, VerdictKind
from docstore.cli.main import main
from docstore.cluster import upkeep, upkeep_postings
from docstore.cluster.coding import FAMILIES, KEYS_TABLE
from docstore.cluster.commit import Counts
from docstore.cluster.rowindex import KeyRows
from docstore.dedup.kernel import Kernel
from docstore.model.capture import STORED_REFERENCE, VERDICT, StoredVerdict, decode_verdict, text_number
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.format import POSTING_BODY, POSTING_TEXT, TEXT_NUMBER_BYTES
from docstore.model.types import ColumnFamily, GCPolicy, ReadSpec, SetCell
from docstore.reports.check import check
from docstore.storage.reports import CompactionReport
from docstore.store import DocumentStore

ROOT = Path(__file__).parents[2]
T0 = 1_700_000_000_000_000
ONE_VERSION = Schema(captures=GCPolicy(max_versions=1))
BY_REFERENCE = {VerdictKind.NEAR: Policy.REFERENCE}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0)
    monkeypatch.setattr(upkeep_postings, "GRACE_SECONDS", 0)
    monkeypatch.setattr(upkeep, "NOTE_SECONDS", 0)
    return memory_hbase.use(monkeypatch)


def capture(name: str, seed: int, at: int, *, differs: int = 0) -> Page:
    text = words(seed, 120)
    body = page(changed(text, at, differs) if differs else text, title=f"Title {seed}")
    return Page(
        f"https://{name}.example/", body, 200, (), T0 + at * 1_000_000, payload_digest=f"sha1:{seed}", docno=name
    )


def fill(store: DocumentStore) -> None:
    """Pages that are alike, deleted ones, versions that a policy hides, a page whose writer died before it came."""
    pages = [capture(f"h{number}", number % 7, number) for number in range(12)]
    list(store.put_pages([*pages, capture("near", 3, 20, differs=2)], policies=BY_REFERENCE, anchors=True))
    list(store.put_pages([capture(f"h{number}", 100 + number, 50 + number) for number in range(4)]))
    for name in ("h4", "h5", "h11", "h3"):
        store.delete(f"https://{name}.example/")


def put_and_die(cluster: MemoryCluster, pages: list[Page]) -> None:
    """A writer that stops after its postings and before its pages."""
    with open_store() as store:

        def stop(what: str) -> None:
            if what == "check pages":
                raise SimulatedCrash(what)

        cluster.before_write = stop
        with suppress(SimulatedCrash):
            list(store.put_pages(pages))
        cluster.before_write = lambda _: None


def filled(cluster: MemoryCluster) -> None:
    with open_store(ONE_VERSION) as store:
        fill(store)
    put_and_die(cluster, [capture("died", 77, 70)])


def compact(**options: object) -> CompactionReport:
    with docstore.open(ADDRESS) as store:
        return store.compact(**options)  # type: ignore[arg-type]


def shown(store: DocumentStore) -> list[object]:
    return [(row.url, row.cells) for row in store.cells.scan()]


def contents() -> list[object]:
    with docstore.open(ADDRESS) as store:
        return shown(store)


def rows(cluster: MemoryCluster) -> dict[str, set[object]]:
    """The stored cells, without those with names of processes: fences, tokens and journals."""
    found: dict[str, set[object]] = {}
    for table, held in cluster.tables.items():
        for row, cells in held.items():
            if row.startswith((upkeep_postings.JOURNAL_ROW, b"tally")):
                continue
            values = cells if table == f"tests:{KEYS_TABLE}" else {}  # by which a posting of a text is removed
            found.setdefault(table, set()).update((row, at, values.get(at)) for at in cells if at[0] != b"w")
    return found


def verdict_of(store: DocumentStore, url: str) -> StoredVerdict:
    """Of the newest version of a page."""
    row = store.cells.read_row(url, ReadSpec(families=("dedup",), versions=1))
    assert row is not None, url
    return next(decode_verdict(cell.value) for cell in row.cells if (cell.family, cell.qualifier) == VERDICT)


def unposted(store: DocumentStore) -> list[str]:
    """URLs of live pages that the detector cannot find by their body, text or bands."""
    kernel = Kernel(store.schema.extractor, store.schema.shingle_words)
    found = [problem.where for problem in check(store.backend)]
    engine = store.backend.engine
    for row in store.cells.scan():
        document = store.get(row.url)
        if document is None or not document.body:
            continue
        verdict = verdict_of(store, row.url)
        if verdict.kind is VerdictKind.NEAR and verdict.stored == STORED_REFERENCE:
            continue
        one = kernel.analyse(document.body, "text/html")
        number = text_number(one.text_checksum)
        leads = engine.qualifiers("postings", bytes((POSTING_TEXT,)) + number, 64)
        bands = numbers(one.band_keys)[:16].tolist()
        held = store.backend.keys.read(bands)  # type: ignore[attr-defined]
        here = document.timestamp.to_bytes(8, "big") + document.row_key
        if here not in leads or not all(int.from_bytes(number, "big") in held.get(key, []) for key in bands):
            found.append(row.url)
    return found


def dead_postings(cluster: MemoryCluster) -> int:
    """Rows of dangling postings of texts and bands."""
    held = cluster.tables["tests:postings"]
    dead = 0
    pages = {qualifier for row, cells in held.items() if row[0] == POSTING_BODY for _, qualifier, _ in cells}
    for row, cells in held.items():
        for _, qualifier, _ in cells:
            if row[0] == POSTING_TEXT:
                dead += qualifier not in pages
    keys = KeyRows(cluster.client(), "tests")  # type: ignore[arg-type]
    numbers = (number.to_bytes(TEXT_NUMBER_BYTES, "big") for _, texts in keys.scan() for number in texts)
    return dead + sum(bytes((POSTING_TEXT,)) + number not in held for number in numbers)


def test_garbage_is_removed_and_live_data_stays(cluster: MemoryCluster) -> None:
    filled(cluster)
    before, counts = contents(), totals()
    claims = len(cluster.tables["tests:claims"])
    assert dead_postings(cluster)
    seen: list[tuple[int, int]] = []
    report = compact(on_progress=lambda done, total: seen.append((done, total)))
    assert contents() == before
    assert totals() == counts
    assert report.expired_cells and report.pruned_postings and report.dropped_claims
    assert len(cluster.tables["tests:claims"]) < claims
    assert dead_postings(cluster) == 0
    assert report.folded_sessions == 1  # the writer that died counted nothing
    assert "major_compact 'tests:pages'" in report.advice[0]
    assert seen[-1][0] == seen[-1][1]
    assert sorted(seen) == seen
    with docstore.open(ADDRESS) as store:
        assert unposted(store) == []
    again = compact()
    assert (again.expired_cells, again.pruned_postings, again.dropped_claims, again.restored_postings) == (0, 0, 0, 0)


def totals() -> dict[str, int]:
    with docstore.open(ADDRESS) as store:
        found: dict[str, int] = store.stats()["totals"]
        return found


def test_a_dry_run_counts_and_changes_nothing(cluster: MemoryCluster) -> None:
    filled(cluster)
    before = rows(cluster)
    report = compact(dry_run=True)
    assert report.expired_cells and report.dropped_claims and report.pruned_postings
    assert rows(cluster) == before


def test_options_of_segments_are_refused(cluster: MemoryCluster) -> None:
    open_store().close()
    for options, why in (({"tablets": [1]}, "no tablets"), ({"level": "best"}, "no levels")):
        with pytest.raises(InvalidArgument, match=why):
            compact(**options)


def test_commands_print_the_report_and_advice_for_hbase(
    cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(cluster)
    assert main(["compact", "--store", ADDRESS, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is True
    assert main(["compact", "--store", ADDRESS, "--progress"]) == 0
    said = capsys.readouterr()
    assert "counts folded" in said.out and "segments" not in said.out
    assert "major_compact 'tests:pages'" in said.err
    assert main(["delete", "https://h1.example/", "--purge", "--store", ADDRESS]) == 0
    assert "major_compact" in capsys.readouterr().err
    assert main(["compact", "7", "--store", ADDRESS]) == InvalidArgument.exit_code
    assert "no tablets" in capsys.readouterr().err
    assert main(["check", "--store", ADDRESS]) == 0


# --- killed


def killed_before(cluster: MemoryCluster, number: int) -> bool:
    """Run maintenance and kill it before a write; whether it was."""
    left = number

    def stop(_: str) -> None:
        nonlocal left
        if not left:
            raise SimulatedCrash("stopped")
        left -= 1

    cluster.before_write = stop
    try:
        compact()
    except SimulatedCrash:
        return True
    finally:
        cluster.before_write = lambda _: None
    return False


def test_a_run_killed_before_any_write_is_repeated_with_the_same_result(cluster: MemoryCluster) -> None:
    filled(cluster)
    start = {table: {row: dict(cells) for row, cells in held.items()} for table, held in cluster.tables.items()}
    shown_before, counts = contents(), totals()
    compact()
    expected = rows(cluster)
    number = 0
    while True:
        cluster.tables = {table: {row: dict(cells) for row, cells in held.items()} for table, held in start.items()}
        was_killed = killed_before(cluster, number)
        assert contents() == shown_before, number
        assert totals() == counts, number
        compact()
        assert rows(cluster) == expected, number
        assert totals() == counts, number
        if not was_killed:
            break
        number += stride(3)
    assert number > 30
    with docstore.open(ADDRESS) as store:
        assert unposted(store) == []


# --- beside writers


def at_write(cluster: MemoryCluster, number: int, work: Callable[[], None]) -> Callable[[], bool]:
    """Do something before the write of a number; -> tells whether it was done."""
    left = number
    done = False

    def count(_: str) -> None:
        nonlocal left, done
        left -= 1
        if left == -1:
            done = True
            cluster.before_write = lambda _: None
            work()
            cluster.before_write = count

    cluster.before_write = count
    return lambda: done


def put(*pages: Page) -> list[PutResult]:
    with docstore.open(ADDRESS) as store:
        return list(store.put_pages(pages))


AGAIN = [capture("died", 77, 70), capture("twin", 77, 90), capture("h4", 4, 95), capture("h40", 4, 96)]
"""The page that did not come and one with its body; two pages whose text was deleted with the last page that had it."""


def restored(start: dict[str, dict[bytes, memory_hbase.Row]]) -> dict[str, dict[bytes, memory_hbase.Row]]:
    return {table: {row: dict(cells) for row, cells in held.items()} for table, held in start.items()}


def beside(cluster: MemoryCluster, run: Callable[[int], bool], step: int) -> Iterator[int]:
    """Runs with something at every write, or every so many, each from the same store; then all must be well."""
    filled(cluster)
    start = restored(cluster.tables)
    number = 0
    while True:
        cluster.tables = restored(start)
        was_done = run(number)
        cluster.before_write = lambda _: None
        compact()  # restores postings that were removed during a write
        with docstore.open(ADDRESS) as store:
            assert unposted(store) == [], number
            documents = [store.get(one.url) for one in AGAIN]
            kinds = [verdict_of(store, one.url).kind for one in AGAIN]
        for one, document in zip(AGAIN, documents, strict=True):
            assert document is not None and document.body == one.body, number
        assert kinds[:2].count(VerdictKind.NEW) == 1, (number, kinds)
        assert kinds[2:].count(VerdictKind.NEW) == 1, (number, kinds)
        assert put(capture("more", 77, 200))[0].verdict.kind is VerdictKind.EXACT
        assert put(capture("near4", 4, 201, differs=2))[0].verdict.kind is VerdictKind.NEAR, number
        assert totals()["captures"] == 18, number
        yield number
        if not was_done:
            return
        number += step


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_pages_written_during_any_step_of_maintenance_are_not_lost(cluster: MemoryCluster, step: int) -> None:
    def run(number: int) -> bool:
        was_done = at_write(cluster, number, lambda: put(*AGAIN) and None)
        compact()
        if not was_done():
            put(*AGAIN)
        return was_done()

    assert max(beside(cluster, run, step)) > 30


def test_maintenance_during_any_write_of_a_writer_loses_nothing(cluster: MemoryCluster) -> None:
    def run(number: int) -> bool:
        was_done = at_write(cluster, number, lambda: compact() and None)
        put(*AGAIN)
        return was_done()

    assert max(beside(cluster, run, stride(2))) > 10


# --- counts


def test_counts_are_exact_if_sessions_write_after_the_fold(cluster: MemoryCluster) -> None:
    with open_store() as one, open_store() as two:
        for number in range(3):
            list(one.put_pages([capture(f"one{number}", 2 * number, number)]))
            list(two.put_pages([capture(f"two{number}", 2 * number + 1, number)]))
            assert compact().folded_sessions == 2
            assert totals()["captures"] == 2 * (number + 1)
            assert sum(row.startswith(b"tally") for row in cluster.tables["tests:meta"]) == 1
        # A session that has failed reads its own counts again: they are in the one row.
        counts = Counts(two.backend.engine, two.backend.session)
        two.backend.engine.mutate_rows(counts.rows({"captures": 1}), Durability.SYNC)
        assert totals()["captures"] == 7


def test_a_session_that_deletes_what_another_one_wrote_counts_below_zero(cluster: MemoryCluster) -> None:
    with open_store() as one, open_store() as two:
        list(one.put_pages([capture(f"one{number}", number, number) for number in range(3)]))
        for url in [row.url for row in one.cells.scan(limit=2)]:
            assert two.delete(url)
        assert (totals()["captures"], totals()["urls"]) == (1, 1)
        compact()
        list(two.put_pages([capture("two", 9, 9)]))
        assert (totals()["captures"], totals()["urls"]) == (2, 2)


def test_a_session_of_any_name_counts(cluster: MemoryCluster) -> None:
    with open_store() as store:
        for session in (b"\x00" * 8, b"-foldee.", b"\xff" * 8):
            counts = Counts(store.backend.engine, session)
            store.backend.engine.mutate_rows(counts.rows({"captures": 1}), Durability.SYNC)
        assert totals() == {"captures": 3}
        compact()
        assert totals() == {"captures": 3}


# --- chunks


def test_unreferenced_chunks_are_removed_after_the_grace_period(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"<p>" + random.Random(1).randbytes(20_000)
    monkeypatch.setattr("docstore.cluster.values.CHUNK_BYTES", 2000)
    now = [1000.0]
    monkeypatch.setattr(upkeep.StoreUpkeep.__init__, "__kwdefaults__", {"clock": lambda: now[0]})
    with open_store(Schema(families=(ColumnFamily("mine"),))) as store:
        store.put_page("https://long.example/", body, fetched_at=T0)
        store.put_page("https://other.example/", body[:-9], fetched_at=T0)
        store.put_page("https://long.example/", body, fetched_at=T0 + 5_000_000)  # confirms: shows the same value
        store.cells.apply("https://own.example/", [SetCell("mine", b"value", T0, body)])
        store.delete("https://other.example/")
    put_and_die(cluster, [Page("https://died.example/", body[:-5], 200, (), T0)])
    many = len(cluster.tables["tests:chunks"])
    assert compact().waiting_chunked == 2
    now[0] += upkeep.CHUNK_GRACE_SECONDS - 1
    assert (compact().waiting_chunked, len(cluster.tables["tests:chunks"])) == (2, many)
    now[0] += 1
    report = compact()
    assert (report.removed_chunked, report.waiting_chunked) == (2, 0)
    assert report.removed_chunk_bytes > 0
    assert 0 < len(cluster.tables["tests:chunks"]) < many
    with docstore.open(ADDRESS) as store:
        long, own = store.get("https://long.example/"), store.cells.read_row("https://own.example/")
        assert long is not None and long.body == body
        assert own is not None and [cell.value for cell in own.cells] == [body]
        assert list(check(store.backend)) == []
    assert put(Page("https://died.example/", body[:-5], 200, (), T0))[0].stored == "body"


# --- snapshots


def test_snapshots_in_the_documented_order_have_all_that_their_pages_need(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstore.cluster.values.CHUNK_BYTES", 2000)
    documented = re.search(r"in the order ([a-z, ]+);", (ROOT / "docs" / "hbase.md").read_text(encoding="utf-8"))
    assert documented is not None
    order = documented[1].split(", ")
    assert sorted(order) == sorted(FAMILIES)
    snapshots: dict[str, dict[bytes, memory_hbase.Row]] = {}
    with open_store() as store:
        for number, table in enumerate(order):
            list(store.put_pages([capture(f"h{number}", number, number)]))
            store.put_page(f"https://long{number}.example/", b"<p>" + random.Random(number).randbytes(20_000))
            snapshots |= restored({f"tests:{table}": cluster.tables[f"tests:{table}"]})
    cluster.tables = snapshots
    with docstore.open(ADDRESS) as store:
        assert list(check(store.backend)) == []
        documents = [store.get(row.url) for row in store.cells.scan()]
    assert documents and all(document is not None and document.body for document in documents)
