"""One store in a directory and one on HBase, written with the same pages in the same run, then read.

    python -m tools.cluster start
    python -m tools.bench.hbase --corpus DIR --limit 1500

Prints pages a second of one writer and of two, calls, milliseconds of one `get`, and bytes on disk.  The cluster is the
tool's own: its tables are disabled at the end, so that their files are complete and can be counted.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import docstore
from docstore.hbase.backend import HBaseBackend
from docstore.hbase.client import Client
from docstore.hbase.coding import FAMILIES
from docstore.hbase.tables import drop_tables
from docstore.model.types import Page
from docstore.store import DocumentStore
from tools.bench.harness import Section, load_pages, machine
from tools.cluster.artifacts import cache_folder, default_root, fetch
from tools.cluster.settings import HOST, Cluster, load

READS = 300
GROUP_PAGES = 256
COMMAND = "python -m tools.bench.hbase --corpus DIR --limit {}"


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


def calls_of(store: DocumentStore) -> int:
    """Calls to gateways up to now."""
    assert isinstance(store.opened, HBaseBackend)
    return store.opened.client.calls


def two_writers(address: str, corpus: Path, limit: int) -> float:
    """Seconds that two processes take, each for half of the pages; starting them is not counted."""
    command = [sys.executable, "-m", "tools.bench.hbase", "--corpus", str(corpus), "--limit", str(limit), "--half"]
    writers = [
        subprocess.Popen([*command, str(half), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for half in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    began = time.perf_counter()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0]
    return time.perf_counter() - began


def half(pages: Sequence[Page], number: int, address: str) -> None:
    """One of two writers: every other page, once the other is ready too."""
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


def run(corpus: Path, limit: int) -> Section:
    """Measure."""
    pages = load_pages(corpus, limit)
    urls = [page.url for page in pages]
    cluster = load(default_root(cache_folder()))
    if cluster is None:
        sys.exit("no cluster: python -m tools.cluster start")
    first = f"{HOST}:{cluster.port('gateway0')}"
    with tempfile.TemporaryDirectory() as folder:
        with docstore.open(Path(folder, "store"), create=True) as local:
            local_seconds = write(local, pages)
            local_get = read(local, urls)
        local_bytes = sum(file.stat().st_size for file in Path(folder, "store").rglob("*") if file.is_file())
        reserve = Path(folder, "store", "RESERVE")
        local_bytes -= reserve.stat().st_size if reserve.exists() else 0
    seconds: dict[str, float] = {}
    with docstore.open(f"hbase://{first}/bench_one", create=True) as store:
        list(store.put_pages(pages[:1]))
        before = calls_of(store)
        seconds["one"] = write(store, pages)
        calls = calls_of(store) - before
        get_ms = read(store, urls)
        counts = store.stats()["totals"]
    docstore.open(f"hbase://{cluster.addresses}/bench_two", create=True).close()
    seconds["two"] = two_writers(f"hbase://{cluster.addresses}/bench_two", corpus, limit)
    hbase_bytes = stored_bytes(cluster, "bench_one")
    with Client(cluster.addresses.split(",")) as client:
        for namespace in ("bench_one", "bench_two"):
            drop_tables(client, namespace)
    new = counts.get("verdict.new", 0)
    rows = [
        ("a directory", _rate(pages, local_seconds), "1", "", f"{local_get:.1f}", f"{local_bytes:,}"),
        (
            "HBase, one writer, one gateway",
            _rate(pages, seconds["one"]),
            f"{local_seconds / seconds['one']:.2f}",
            f"{calls / len(pages):.2f}",
            f"{get_ms:.1f}",
            f"{hbase_bytes:,} ({hbase_bytes / local_bytes:.2f}x)",
        ),
        ("HBase, two writers", _rate(pages, seconds["two"]), f"{local_seconds / seconds['two']:.2f}", "", "", ""),
    ]
    columns = ("store", "pages/s", "of a directory's", "calls a page", "get p50, ms", "bytes")
    note = f"{len(pages)} pages, {new} of them new; {len(pages) // GROUP_PAGES + 1} groups of {GROUP_PAGES}."
    return Section("A store on HBase", COMMAND.format(limit), columns, list(rows), [note])


def _rate(pages: Sequence[Page], seconds: float) -> str:
    return f"{len(pages) / seconds:.0f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.hbase", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of WARC files")
    parser.add_argument("--limit", type=int, default=1500, help="at most so many pages")
    parser.add_argument("--half", nargs=2, metavar=("NUMBER", "ADDRESS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.half:
        half(load_pages(given.corpus, given.limit), int(given.half[0]), given.half[1])
        return
    print(machine())
    print(run(given.corpus, given.limit).render())


if __name__ == "__main__":
    main()
