"""What a crawl was told is stored, line by line in a file that a crash leaves whole.

Knows items with the answer of the store; must not know servers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Self

from scrapy.crawler import Crawler


class Ack(NamedTuple):
    """A page that the store has answered for.

    Attributes:
        url: of its row.
        timestamp: of the capture, in microseconds.
        sha256: of its body as it was fetched.
        title: as it was fetched.
    """

    url: str
    timestamp: int
    sha256: str
    title: str


class AckWriter:
    """A pipeline behind docstore's: notes each item that has an answer in the file of the setting DEMO_ACKS."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Path(crawler.settings["DEMO_ACKS"]))

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if answer := item.get("docstore"):
            ack = Ack(answer["url"], answer["timestamp"], item["sha256"], item["title"])
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(ack) + "\n")
        return item


def read(path: Path) -> list[Ack]:
    """All that were noted; a line that is being written is left for the next time."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [Ack(*json.loads(line)) for line in lines]
