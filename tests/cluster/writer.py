"""A process that writes pages into a store on HBase, and notes what it was told; a test kills it.

    python writer.py ADDRESS NAME FIRST COUNT LEDGER [DURABILITY]

Writes bodies FIRST to FIRST + COUNT under URLs of its own; a third of them are of one host, which all writers share.  A
line `ack page verdict stored timestamp second waited` goes to the ledger, synced, once a page is answered; seconds
count from some moment, and the last are those since the page was given.  Started again, it writes all pages again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pages import page, words

import docstore
from docstore import Page
from docstore.model.errors import CommitUnknown, StorageError, StoreUnavailable

T0 = 1_700_000_000_000_000
GROUP = 128
TOP_LEVEL = ("com", "de", "io", "net", "org", "ru", "example")
HTML = (("Content-Type", "text/html"),)


def url_of(name: str, number: int) -> str:
    if number % 3 == 0:
        return f"https://one.example/{name}/{number}"
    return f"https://w{name}-{number % 50}.{TOP_LEVEL[number % len(TOP_LEVEL)]}/{number}"


def body_of(number: int) -> bytes:
    return page(words(number, 120), title=f"Page {number}")


def pages(name: str, numbers: range) -> Iterator[Page]:
    for number in numbers:
        yield Page(url_of(name, number), body_of(number), 200, HTML, T0)


def main(address: str, name: str, first: int, count: int, ledger: Path, durability: str) -> None:
    at = first
    with docstore.open(address, durability=durability) as store, ledger.open("ab", buffering=0) as answered:
        while at < first + count:
            numbers = range(at, min(at + GROUP, first + count))
            answered.write(b"".join(b"intent %d\n" % number for number in numbers))
            os.fsync(answered.fileno())
            given = os.times().elapsed
            try:
                for number, result in zip(numbers, store.put_pages(pages(name, numbers), threads=1), strict=True):
                    now = os.times().elapsed
                    what = f"{number} {result.verdict.kind} {result.stored} {result.timestamp}"
                    answered.write(f"ack {what} {now:.3f} {now - given:.3f}\n".encode())
                    at = number + 1
            except (CommitUnknown, StorageError, StoreUnavailable) as error:
                print(f"writer {name} at {at}: {error}", flush=True)
            os.fsync(answered.fileno())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]), (*sys.argv[6:], "sync")[0])
