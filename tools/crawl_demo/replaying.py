"""A reader who looks at stored pages through pywb all the time, as long as the demonstration lasts.

Knows pywb's addresses and what was acknowledged; must not know the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from random import Random

from tools.crawl_demo.acks import Ack
from tools.crawl_demo.processes import ask

PAUSE_SECONDS = 0.2


class Reader:
    """Replays acknowledged pages by chance.

    Attributes:
        right: pages that had their title.
        missing: those that did not come.
    """

    def __init__(self, port: int, acks: Callable[[], list[Ack]]) -> None:
        self._port = port
        self._acks = acks
        self._stop = threading.Event()
        self.right = 0
        self.missing = 0

    def run(self) -> None:
        """Until told to stop."""
        random = Random(1)
        while not self._stop.wait(PAUSE_SECONDS):
            if acks := self._acks():
                is_right = replays(self._port, random.choice(acks))
                self.right += is_right
                self.missing += not is_right

    def stop(self) -> None:
        """End it."""
        self._stop.set()


def replays(port: int, ack: Ack) -> bool:
    """Whether pywb shows a page as it was fetched."""
    digits = f"{datetime.fromtimestamp(ack.timestamp / 1e6, UTC):%Y%m%d%H%M%S}"
    found = ask(port, f"/web/{digits}mp_/{ack.url}")
    return found.status == 200 and f"<h1>{escape(ack.title)}</h1>" in found.body


@contextmanager
def reading(port: int, acks: Callable[[], list[Ack]]) -> Iterator[Reader]:
    """A reader in a thread."""
    reader = Reader(port, acks)
    thread = threading.Thread(target=reader.run, name="reader")
    thread.start()
    try:
        yield reader
    finally:
        reader.stop()
        thread.join()
