"""The pages of the demonstration, as two archives: real ones, repeated with small changes until there are enough.

Pure but for the files; must not know a store.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from docstore.archives.entries import PageEntry
from docstore.archives.export import ExportPage, WarcExport
from docstore.archives.reader import read
from docstore.model.types import Page

MIRRORED = 10
"""Of so many pages one is given to the other archive, too, under another host."""
CHANGED_WORDS = 12


def of_folder(folder: Path) -> Iterator[Page]:
    """Pages of all archives of a folder, in order of file names."""
    for path in sorted(folder.glob("*.warc.gz")):
        yield from (entry.page for entry in read(path) if isinstance(entry, PageEntry))


def grown(pages: Sequence[Page], count: int) -> list[Page]:
    """So many pages: those that there are, then copies on other hosts with a paragraph that no other page has."""
    made: list[Page] = []
    for turn in itertools.count():
        for page in pages[: count - len(made)]:
            made.append(page if turn == 0 else _changed(page, turn))
        if len(made) == count or not pages:
            return made
    return made


def _changed(page: Page, turn: int) -> Page:
    words = random.Random(f"{page.url} {turn}").choices("abcdefghijklmnop", k=3 * CHANGED_WORDS)
    text = " ".join("".join(words[at : at + 3]) for at in range(0, len(words), 3)).encode()
    parts = page.body.split(b"</p>")
    parts[len(parts) // 2] += b"<p>" + text
    body = b"</p>".join(parts) if page.body else b""
    return page._replace(url=on_host(page.url, f"copy{turn}"), body=body, payload_digest="")


def on_host(url: str, name: str) -> str:
    """A URL of a host of that name below its own."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}.{parts.netloc}").geturl()


def in_two(pages: Sequence[Page]) -> tuple[list[Page], list[Page]]:
    """Pages for two writers: all of a URL for one of them; some bodies go to both, under two URLs."""
    halves: tuple[list[Page], list[Page]] = [], []
    for number, page in enumerate(pages):
        half = zlib.crc32(page.url.encode()) % 2
        halves[half].append(page)
        if number % MIRRORED == 0:
            halves[1 - half].append(page._replace(url=on_host(page.url, "mirror")))
    return halves


def write(path: Path, pages: Sequence[Page]) -> None:
    """An archive of these pages."""
    with path.open("wb") as stream:
        writer = WarcExport(stream)
        for page in pages:
            writer.write(ExportPage(page))
