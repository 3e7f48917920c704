"""What the tests of the terminal share: running a command in this process, and pages to write."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from docstore.cli.main import main

WORDS = [
    "store",
    "crawl",
    "page",
    "tablet",
    "row",
    "column",
    "family",
    "version",
    "segment",
    "record",
    "bloom",
    "filter",
    "index",
    "posting",
    "verdict",
]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def objects(self) -> list[dict[str, Any]]:
        """Every line of stdout as one JSON object."""
        return [json.loads(line) for line in self.out.splitlines()]

    def object(self) -> dict[str, Any]:
        """The only JSON object on stdout."""
        (only,) = self.objects()
        return only


class Terminal:
    """Runs `docstore` commands on one store."""

    def __init__(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = store
        self._capsys = capsys

    def __call__(self, command: str, *words: str) -> Answer:
        code = main([command, *words, "--store", str(self.store)])
        captured = self._capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    def on(self, store: Path) -> Terminal:
        """The same on another store."""
        return Terminal(store, self._capsys)

    def bare(self, *words: str) -> Answer:
        """Without `--store`."""
        code = main(list(words))
        captured = self._capsys.readouterr()
        return Answer(code, captured.out, captured.err)


def article(seed: int, words: int = 120) -> list[str]:
    """Words of a made-up article, the same for the same seed."""
    chooser = random.Random(seed)
    return [f"{chooser.choice(WORDS)}{chooser.randrange(1000)}" for _ in range(words)]


def html(title: str, words: list[str]) -> bytes:
    """A page with that title and those words."""
    paragraphs = "".join(f"<p>{' '.join(words[i : i + 20])}.</p>\n" for i in range(0, len(words), 20))
    return f"<!doctype html><html><head><title>{title}</title></head><body>{paragraphs}</body></html>".encode()


def warc(path: Path, pages: list[tuple[str, str, bytes]], *, compress: bool = True) -> Path:
    """Write a WARC file of HTML responses: (URL, WARC-Date, body)."""
    from io import BytesIO

    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=compress, warc_version="1.1")
        for url, date, body in pages:
            headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html; charset=utf-8")], protocol="HTTP/1.1")
            record = writer.create_warc_record(
                url, "response", payload=BytesIO(body), http_headers=headers, warc_headers_dict={"WARC-Date": date}
            )
            writer.write_record(record)
    return path


def python() -> str:
    """The interpreter that runs the tests."""
    return sys.executable
