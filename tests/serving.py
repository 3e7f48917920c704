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
from docstore.serving.run import Addresses, Server
from docstore.serving.settings import Limits, Settings
from docstore.serving.telemetry import Log
from docstore.serving.wire import FrameKind, FrameReader
from docstore.store import DocumentStore, open_store

START_SECONDS = 30.0


@dataclass
class Serving:
    """A running server.

    Attributes:
        addresses: where it listens.
        store: that it serves.
        log: what it wrote, line by line.
        http: a client of its port.
        local: a client of its socket.
    """

    addresses: Addresses
    store: DocumentStore
    log: io.StringIO
    http: httpx.Client
    local: httpx.Client
    server: Server
    thread: threading.Thread
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.addresses.url.rpartition(":")[2])

    def client(self, **named: Any) -> httpx.Client:
        """One more client of its port."""
        made = httpx.Client(base_url=self.addresses.url, **named)
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
    found: list[Addresses] = []
    errors: list[BaseException] = []

    def on_ready(addresses: Addresses) -> None:
        found.append(addresses)
        ready.set()

    def run() -> None:
        try:
            server.run(on_ready)
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
        transport = httpx.HTTPTransport(uds=str(found[0].unix))
        with (
            httpx.Client(base_url=found[0].url, timeout=30) as http,
            httpx.Client(base_url="http://docstore", transport=transport, timeout=30) as local,
        ):
            made = Serving(found[0], store, written, http, local, server, thread)
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
