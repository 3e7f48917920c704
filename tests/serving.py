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

START_SECONDS = 30.0


def http_client(url: str, timeout: float = 30, **named: Any) -> httpx.Client:
    """A client that reads no certificates: that takes as long as many requests."""
    return httpx.Client(base_url=url, timeout=timeout, verify=False, **named)


@dataclass
class Serving:
    """A running server.

    Attributes:
        store: that it serves.
        log: what it wrote, line by line.
        http: a client of its port.
        local: a client of its socket.
        server: it says where it listens.
    """

    store: DocumentStore
    log: io.StringIO
    http: httpx.Client
    local: httpx.Client
    server: Server
    thread: threading.Thread
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

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

    written = io.StringIO()
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
            made = Serving(store, written, http, local, server, thread)
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
