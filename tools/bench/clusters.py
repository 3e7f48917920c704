"""A store on an HBase cluster, and the sweep on Spark, beside a store in a directory and the sweep in one process.

    python -m tools.cluster start
    python -m tools.bench.clusters hbase --corpus DIR --limit 1500
    python -m tools.bench.clusters verdicts --corpus DIR --store hbase://HOST:PORT/NAMESPACE [--limit 1000]
    python -m tools.bench.clusters spark STORE [--master local[2]] [--threads 2]

The first prints pages a second of one writer and of two, calls, milliseconds of one `get`, and bytes on disk; then what
each process took of the processors.  The cluster is the tool's own: its tables are disabled at the end, so that their
files are complete and can be counted.  A store in a directory is written before and after those on HBase, for other
work on the machine comes and goes.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import docstore
from docstore.cluster.backend import HBaseBackend, drop_tables
from docstore.cluster.client import Client
from docstore.cluster.coding import FAMILIES
from docstore.model.types import Page, Schema
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from tools.bench.harness import Section, folder_bytes, load_pages, machine, processor_seconds, run_commands
from tools.bench.verdicts import compare
from tools.bench.verdicts import verdicts as verdicts_of
from tools.cluster.hbase import HOST, Cluster, Processes, cache_folder, default_root, fetch, load

READS = 300
NAMESPACES = ("bench_one", "bench_two")
COMMAND = "python -m tools.bench.clusters hbase --corpus DIR --limit {}"


def write(store: DocumentStore, pages: Sequence[Page]) -> float:
    """Write pages; -> seconds."""
    began = time.perf_counter()
    for _ in store.put_pages(pages):
        pass
    return time.perf_counter() - began


def read(store: DocumentStore, urls: Sequence[str]) -> float:
    """The median of a `get`, in milliseconds."""
    taken = []
    for url in random.Random(1).choices(urls, k=READS):
        began = time.perf_counter()
        assert store.get(url) is not None
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


class Counted:
    """What a writer asked of a cluster.

    Attributes:
        groups: of pages.
        batches: of rows that were read or written together, conditional writes aside.
        conditions: conditional writes.
        calls: to gateways.
    """

    groups = batches = conditions = calls = 0


@contextmanager
def counted(store: DocumentStore) -> Iterator[Counted]:
    """Count what a store on HBase asks."""
    opened, found = store.opened, Counted()
    assert isinstance(opened, HBaseBackend)
    client, engine, before = opened.client, opened.engine, opened.client.calls
    with (
        patch.object(engine, "read_ahead", wraps=engine.read_ahead) as ahead,
        patch.object(client, "in_parallel", wraps=client.in_parallel) as together,
        patch.object(engine, "in_parallel", wraps=engine.in_parallel) as steps,
        patch.object(client, "check_and_mutate_all", wraps=client.check_and_mutate_all) as conditional,
    ):
        yield found
    found.groups = sum(len(call.args) == 3 for call in ahead.call_args_list)  # with the postings of a group
    found.calls = client.calls - before
    asked = [call for call in together.call_args_list if call.args[1]]
    found.batches = len(asked) - conditional.call_count - sum(bool(call.args[1]) for call in steps.call_args_list)
    found.conditions = sum(len(call.args[1]) for call in conditional.call_args_list)


CLIENT, ALL, IDLE = "writers", "all of the machine", "idle"


def all_processor_seconds(cluster: Cluster, processes: Processes) -> dict[str, float]:
    """Seconds of processors taken up to now: by this process and those it has started and seen end, by
    each server, by nobody, and by all."""
    tick = 1 / os.sysconf("SC_CLK_TCK")
    found = {CLIENT: sum(os.times()[:4])}
    for name in cluster.servers():
        process = processes.process_id(name)
        assert process is not None, f"{name} does not run"
        found[name] = processor_seconds(process)
    machine_ticks = [int(one) for one in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    found[IDLE] = (machine_ticks[3] + machine_ticks[4]) * tick
    found[ALL] = sum(machine_ticks) * tick
    return found


def two_writers(address: str, corpus: Path, limit: int) -> float:
    """Seconds that two processes take, each for half of the pages; starting them is not counted."""
    command = [sys.executable, "-m", "tools.bench.clusters", "half", "--corpus", str(corpus), "--limit", str(limit)]
    writers = [
        subprocess.Popen([*command, str(half), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for half in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        while writer.stdout.readline() != b"ready\n":
            pass
    began = time.perf_counter()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0]
    return time.perf_counter() - began


def half(number: int, address: str, *, corpus: Path, limit: int) -> None:
    """One of two writers: every other page, once the other is ready too."""
    pages = load_pages(corpus, limit)
    with docstore.open(address) as store:
        list(store.put_pages(pages[:1]))  # loads what is loaded at the first write
        print("ready", flush=True)
        sys.stdin.read()
        write(store, pages[number::2])


def stored_bytes(cluster: Cluster, namespace: str) -> int:
    """Bytes of a store's files in HDFS, one replica, without logs; its tables are disabled."""
    with Client(cluster.addresses.split(",")) as client:
        for table in FAMILIES:
            client.disable_table(namespace, table)
    jars = fetch(cache_folder())
    command = ["java", "-cp", f"{cluster.root}/conf:{jars}/*", "org.apache.hadoop.fs.FsShell", "-du", "-s"]
    done = subprocess.run(
        [*command, f"/hbase/data/{namespace}"], check=True, capture_output=True, text=True, timeout=120
    )
    return int(done.stdout.split()[0])


def hbase(*, corpus: Path, limit: int = 1500) -> list[Section]:
    """One store in a directory and one on HBase, written with the same pages in the same run, then read."""
    pages = load_pages(corpus, limit)
    urls = [page.url for page in pages]
    cluster = load(default_root(cache_folder()))
    if cluster is None:
        sys.exit("no cluster: python -m tools.cluster start")
    processes = Processes(cluster, fetch(cache_folder()))
    first = f"{HOST}:{cluster.port('gateway0')}"
    local = [local_store(pages)]
    seconds: dict[str, float] = {}
    with Client(cluster.addresses.split(",")) as client:
        for namespace in filter(client.has_namespace, NAMESPACES):  # of a run that broke off
            drop_tables(client, namespace)
    with docstore.open(f"hbase://{first}/bench_one", create=True) as store:
        list(store.put_pages(pages[:1]))
        before = all_processor_seconds(cluster, processes)
        with counted(store) as asked:
            seconds["one"] = write(store, pages)
        after = all_processor_seconds(cluster, processes)
        get_ms = read(store, urls)
        counts = store.stats()["totals"]
    local.append(local_store(pages))
    docstore.open(f"hbase://{cluster.addresses}/bench_two", create=True).close()
    before_two = all_processor_seconds(cluster, processes)
    seconds["two"] = two_writers(f"hbase://{cluster.addresses}/bench_two", corpus, limit)
    after_two = all_processor_seconds(cluster, processes)
    local.append(local_store(pages))
    hbase_bytes = stored_bytes(cluster, "bench_one")
    with Client(cluster.addresses.split(",")) as client:
        for namespace in NAMESPACES:
            drop_tables(client, namespace)
    beside = {"one": statistics.mean([local[0].seconds, local[1].seconds])}
    beside["two"] = statistics.mean([local[1].seconds, local[2].seconds])
    mean = statistics.mean(one.seconds for one in local)
    local_get = statistics.median(one.get_ms for one in local)
    new = counts.get("verdict.new", 0)
    rows = [
        ("a directory", _rate(pages, mean), "1", "", f"{local_get:.1f}", f"{local[0].size_bytes:,}"),
        (
            "HBase, one writer, one gateway",
            _rate(pages, seconds["one"]),
            f"{beside['one'] / seconds['one']:.2f}",
            f"{asked.calls / len(pages):.2f}",
            f"{get_ms:.1f}",
            f"{hbase_bytes:,} ({hbase_bytes / local[0].size_bytes:.2f}x)",
        ),
        ("HBase, two writers", _rate(pages, seconds["two"]), f"{beside['two'] / seconds['two']:.2f}", "", "", ""),
    ]
    columns = ("store", "pages/s", "of a directory's", "calls a page", "get p50, ms", "bytes")
    note = (
        f"{len(pages)} pages, {new} of them new, in {asked.groups} groups; {asked.batches / asked.groups:.1f} batches "
        f"a group, {asked.conditions / len(pages):.2f} conditional writes a page."
    )
    one, two = _differences(before, after, len(pages)), _differences(before_two, after_two, len(pages))
    local_taken = statistics.mean(one.processor_seconds for one in local) * 1000 / len(pages)
    return [
        Section("A store on HBase", COMMAND.format(limit), columns, list(rows), [note]),
        Section(
            "Seconds of processors for 1,000 pages",
            COMMAND.format(limit),
            ("process", "one writer", "two writers"),
            [
                ("a store in a directory instead", f"{local_taken:.2f}", ""),
                *((name, f"{one[name]:.2f}", f"{two[name]:.2f}") for name in one),
            ],
            ["Two writers: with starting them and reading the corpus, which pages/s leave out."],
        ),
    ]


class Local(NamedTuple):
    """A store in a directory: seconds and processor seconds to write it, milliseconds of a `get`, bytes."""

    seconds: float
    processor_seconds: float
    get_ms: float
    size_bytes: int


def local_store(pages: Sequence[Page]) -> Local:
    """Write a store in a directory, and read it."""
    with tempfile.TemporaryDirectory() as folder:
        before = sum(os.times()[:2])
        with docstore.open(Path(folder, "store"), create=True) as local:
            seconds = write(local, pages)
            taken = sum(os.times()[:2]) - before
            get_ms = read(local, [page.url for page in pages])
        return Local(seconds, taken, get_ms, folder_bytes(Path(folder), without="RESERVE"))


def _differences(before: dict[str, float], after: dict[str, float], pages: int) -> dict[str, float]:
    return {name: 1000 * (after[name] - before[name]) / pages for name in after}


def _rate(pages: Sequence[Page], seconds: float) -> str:
    return f"{len(pages) / seconds:.0f}"


def verdicts(*, corpus: Path, store: str, limit: int | None = None, examples: int = 0) -> Section:
    """What a store on HBase says of pages, and what one in a directory says of the same pages in the same order.

    A write on HBase looks for likenesses by the 16 bands of a text alone, a write in a directory also by its other
    fingerprints.  Every verdict that differs is counted.  The tables are removed at the end.
    """
    pages = load_pages(corpus, limit)
    schema = Schema(keyed_bands=False)  # else each store chooses other bands
    gateways, _, namespace = store.removeprefix("hbase://").rstrip("/").partition("/")
    with tempfile.TemporaryDirectory() as folder:
        try:
            for address in (f"{folder}/store", store):
                with docstore.open(address, create=True, schema=schema) as opened:
                    for _ in opened.put_pages(pages):
                        pass
                    on_hbase = isinstance(opened.opened, HBaseBackend)
            assert on_hbase, f"{store} is no store on HBase"
            said = Counter(one.kind for _, one in verdicts_of(f"{folder}/store"))
            section = compare(f"{folder}/store", store, examples)
        finally:
            with Client(gateways.split(",")) as client:
                drop_tables(client, namespace)
    section.title = "Verdicts of a store in a directory, and on HBase"
    section.command = "python -m tools.bench.clusters verdicts --corpus DIR --store hbase://HOST:PORT/NAMESPACE"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in said.most_common())
    section.notes.append(f"{len(pages):,} pages; in the directory {kinds}.")
    return section


STAGES = ("start", "versions", "candidates", "shingles", "pairs", "listing", "clusters")


def spark(store: Path, *, master: str = "local[2]", threads: int = 2) -> Section:
    """The sweep on Spark beside the sweep in one process: the same store, the same run, start-up aside.

    The store is opened for reading; nothing is written into its rows.  Both give the same pairs, which is checked.
    `start` is the session, and each core's first Python process with the kernels loaded.
    """
    section = Section(
        "The sweep on Spark",
        f"python -m tools.bench.clusters spark STORE --master {master}",
        ("engine", *(f"{stage} s" for stage in STAGES), "all but start s", "ratio"),
    )
    reports: dict[str, SweepReport] = {}
    with tempfile.TemporaryDirectory(prefix="docstore-bench-") as folder:
        found = []
        for engine in ("local", "spark"):
            pairs = Path(folder) / f"{engine}.tsv"
            settings = (("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1"))
            options = SweepOptions(
                engine=engine,
                master=master,
                threads=threads,
                dry_run=True,
                pairs=pairs,
                shared=Path(folder),
                settings=settings,
            )
            with docstore.open(store) as opened:
                reports[engine] = sweep(opened, options)
            found.append(pairs.read_bytes())
    base = work_seconds(reports["local"])
    for engine, report in reports.items():
        seconds = [f"{report.stage_seconds.get(stage, 0.0):.1f}" for stage in STAGES]
        work = work_seconds(report)
        section.rows.append((engine, *seconds, f"{work:.1f}", f"{work / base:.2f}"))
    report = reports["local"]
    section.notes.append(
        f"{report.documents} pages, {report.candidates} candidates, {report.pairs} pairs; "
        f"pairs files {'are equal' if found[0] == found[1] else 'DIFFER'}; {threads} threads; {machine()}."
    )
    return section


def work_seconds(report: SweepReport) -> float:
    """Seconds of a sweep without its start."""
    return report.seconds - report.stage_seconds.get("start", 0.0)


if __name__ == "__main__":
    run_commands(hbase, verdicts, spark, half)
