"""A server for tests: in a thread, on a free port and a socket, over a store that the test looks into as well."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from docstore.model.errors import StoreUnavailable
from docstore.serving.run import Server
from docstore.serving.settings import Limits, Settings
from docstore.serving.telemetry import Log
from docstore.serving.wire import FrameKind, FrameReader
from docstore.store import DocumentStore, open_store

START_SECONDS = 60.0
LOG_SECONDS = 60.0


def http_client(url: str, timeout: float = 60, **named: Any) -> httpx.Client:
    """A client that reads no certificates: that takes as long as many requests."""
    return httpx.Client(base_url=url, timeout=timeout, verify=False, **named)


class Written(io.StringIO):
    """A stream that says when something is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def write(self, text: str) -> int:
        with self.changed:
            self.changed.notify_all()
            return super().write(text)


@dataclass
class Serving:
    """A running server.

    Attributes:
        store: that it serves.
        log: into which it writes.
        written: what the log has written to its stream; a thread writes it, so `logged` waits for it.
        http: a client of its port.
        local: a client of its socket.
        server: it says where it listens.
    """

    store: DocumentStore
    log: Log
    written: Written
    http: httpx.Client
    local: httpx.Client
    server: Server
    thread: threading.Thread
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    def logged(self) -> str:
        """All lines that were logged until now, and one that this call logs."""
        mark = f"read after {len(self.written.getvalue())} characters"
        self.log.write(mark)
        with self.written.changed:
            assert self.written.changed.wait_for(lambda: mark in self.written.getvalue(), LOG_SECONDS)
        return self.written.getvalue()

    def client(self, **named: Any) -> httpx.Client:
        """One more client of its port."""
        made = http_client(self.server.url, **named)
        self.clients.append(made)
        return made


@contextmanager
def serving(folder: Path, *, limits: Limits | None = None, **named: Any) -> Iterator[Serving]:
    """A server over a store in a folder, made if it is not there.

    Args:
        folder: of the store.
        limits: of the server.
        named: fields of `Settings`.
    """
    settings = replace(Settings(port=0, limits=limits or Limits()), **named)
    ready = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            server.run(lambda _server: ready.set())
        except BaseException as error:
            errors.append(error)
            ready.set()

    written = Written()
    log = Log(written)
    with open_store(folder, create=True, durability="flush") as store:
        server = Server(store, settings, log)
        thread = threading.Thread(target=run, name="test-server")
        thread.start()
        assert ready.wait(START_SECONDS)
        if errors:
            thread.join()
            raise errors[0]
        transport = httpx.HTTPTransport(uds=str(server.unix), verify=False)
        with (
            http_client(server.url) as http,
            http_client("http://docstore", transport=transport) as local,
        ):
            made = Serving(store, log, written, http, local, server, thread)
            try:
                yield made
            finally:
                server.stop()
                thread.join()
                for client in made.clients:
                    client.close()
                log.close()


def frames_of(raw: bytes) -> list[tuple[FrameKind, Any]]:
    """The frames of a whole stream."""
    reader = FrameReader()
    found = reader.feed(raw)
    if not reader.ended:
        raise StoreUnavailable("the stream was cut off")
    return found
