"""What a store on HBase says of pages, and what a store in a directory says of the same pages in the same order.

    python -m tools.cluster start
    python -m tools.bench.hbase_verdicts --corpus DIR --store hbase://HOST:PORT/NAMESPACE [--limit 1000]

A write on HBase looks for likenesses by the 16 bands of a text alone, a write in a directory also by its other
fingerprints.  Every verdict that differs is counted.  The tables are removed at the end.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import docstore
from docstore.cluster.backend import HBaseBackend, drop_tables
from docstore.cluster.client import Client
from docstore.model.types import Schema
from tools.bench.harness import Section, load_pages, machine
from tools.bench.verdict_changes import compare, verdicts


def run(corpus: Path, limit: int | None, address: str, most: int) -> Section:
    """Write both, compare, and remove the tables."""
    pages = load_pages(corpus, limit)
    schema = Schema(keyed_bands=False)  # else each store chooses other bands
    gateways, _, namespace = address.removeprefix("hbase://").rstrip("/").partition("/")
    with tempfile.TemporaryDirectory() as folder:
        try:
            for store_address in (f"{folder}/store", address):
                with docstore.open(store_address, create=True, schema=schema) as store:
                    for _ in store.put_pages(pages):
                        pass
                    on_hbase = isinstance(store.opened, HBaseBackend)
            assert on_hbase, f"{address} is no store on HBase"
            said = Counter(one.kind for _, one in verdicts(f"{folder}/store"))
            section = compare(f"{folder}/store", address, most)
        finally:
            with Client(gateways.split(",")) as client:
                drop_tables(client, namespace)
    section.title = "Verdicts of a store in a directory, and on HBase"
    section.command = "python -m tools.bench.hbase_verdicts --corpus DIR --store hbase://HOST:PORT/NAMESPACE"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in said.most_common())
    section.notes.append(f"{len(pages):,} pages; in the directory {kinds}.")
    return section


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.hbase_verdicts", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of WARC files")
    parser.add_argument("--limit", type=int, help="at most so many pages")
    parser.add_argument("--store", required=True, help="address of a store that is not there yet")
    parser.add_argument("--list", type=int, default=0, help="so many examples of each change")
    given = parser.parse_args()
    print(machine())
    print(run(given.corpus, given.limit, given.store, given.list).render())


if __name__ == "__main__":
    main()
