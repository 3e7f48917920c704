"""A server's life: sockets, listeners in one event loop, signals, and a stop that loses nothing.

Knows uvicorn and the applications; must not know routes.  A stop goes so: listeners close; requests that are worked on
are answered, whose writes are then committed; what comes on open connections is refused; jobs are asked to stop; the
store is closed by whoever opened it.  A second signal ends the process at once: what was answered is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import uvicorn

from docstore.model.errors import InvalidArgument
from docstore.server.app import make_api
from docstore.server.archive.app import ArchiveApp, archive_app
from docstore.server.archive.settings import LOOPBACK_HOSTS, ArchiveSettings
from docstore.server.jobs import Jobs
from docstore.server.listeners import default_socket_path, remove_socket, tcp_socket, unix_socket
from docstore.server.memory import full_collections_by_clock, tidy
from docstore.server.metrics import Metrics
from docstore.server.noting import Noting
from docstore.server.protocol import bounded_protocol
from docstore.server.records import Log
from docstore.server.service import Service
from docstore.server.settings import Settings
from docstore.server.tokens import Tokens
from docstore.store import DocumentStore

if TYPE_CHECKING:
    from litestar.types import ASGIApp

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep the interpreter from the others.  The default of 5 ms would be the time of a `get` that
comes while pages are analysed: it changes threads four times."""
EXIT_AT_ONCE: Final = 130
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a server listens.

    Attributes:
        url: of the API.
        unix: path of its socket.
        archive_url: of the archive API, or "".
    """

    url: str
    unix: Path
    archive_url: str


def serve(store: DocumentStore, settings: Settings, on_ready: Callable[[Addresses], None], log: Log) -> None:
    """Serve a store until a signal stops it; the caller closes the store then.  In the main thread.

    Args:
        store: open, and used by nobody else.
        settings: where, and for whom.
        on_ready: called when everything listens.
        log: of requests.
    Raises:
        StoreUnavailable: a port or socket is taken.
        InvalidArgument: an address, path or token file is wrong.
    """
    server = Server(store, settings, log)
    before = {number: signal.signal(number, server.on_signal) for number in (*STOP_SIGNALS, signal.SIGHUP)}
    try:
        server.run(on_ready)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Listener(NamedTuple):
    """An application, and the sockets on which it is asked."""

    app: ASGIApp
    sockets: list[socket.socket]


class Server:
    """One run of a server, in the thread that calls `run`.

    Args:
        store: open; whoever opened it closes it.
        settings: where, and for whom.
        log: of requests.
    """

    def __init__(self, store: DocumentStore, settings: Settings, log: Log) -> None:
        self._store = store
        self._settings = settings
        self._log = log
        self._tokens = None if settings.token_file is None else Tokens(settings.token_file)
        self._jobs = Jobs(store, log, settings.backup_root)
        self._service = Service(store, settings, Metrics(), os.urandom(8).hex(), self._jobs, log)
        self._api = make_api(self._service, self._tokens, log)
        self._servers: list[uvicorn.Server] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_told = False

    def run(self, on_ready: Callable[[Addresses], None]) -> None:
        """Listen until told to stop; see `serve`."""
        unix_path = self._settings.unix or default_socket_path(self._store.opened.path)
        before = sys.getswitchinterval()
        with contextlib.ExitStack() as stack:
            tcp = stack.enter_context(tcp_socket(self._settings.host, self._settings.port))
            unix = stack.enter_context(unix_socket(unix_path.absolute()))
            stack.callback(remove_socket, unix_path.absolute())
            stack.callback(sys.setswitchinterval, before)
            sys.setswitchinterval(SWITCH_SECONDS)
            listeners = [_Listener(self._api.app, [tcp, unix])]
            archive_url = ""
            if self._settings.archive_port is not None:
                archive = stack.enter_context(tcp_socket(self._settings.archive_host, self._settings.archive_port))
                archive_url = self._settings.archive_url or _url(archive)
                app = self._archive_app()
                stack.callback(app.close)
                listeners.append(_Listener(Noting(app, "archive", self._service.metrics, self._log), [archive]))
            self._service.archive_url = archive_url
            addresses = Addresses(_url(tcp), unix_path.absolute(), archive_url)
            gc.freeze()  # what is there stays: a full collection need not look at it
            stack.enter_context(full_collections_by_clock())
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._run(listeners, addresses, on_ready))

    def stop(self) -> None:
        """Tell it to stop; from any thread, or a signal handler."""
        self._is_told = True
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    def on_signal(self, number: int, _frame: object) -> None:
        """What a signal does: the first of a kind that stops stops, the second ends the process at once."""
        if number == signal.SIGHUP:
            self._reload_tokens()
        elif self._is_told:
            os._exit(EXIT_AT_ONCE)
        else:
            self._log.write("stopping", signal=signal.Signals(number).name)
            self.stop()

    async def _run(
        self, listeners: list[_Listener], addresses: Addresses, on_ready: Callable[[Addresses], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._is_told:
            return
        tasks = [asyncio.create_task(self._listen(*one)) for one in listeners]
        try:
            await self._started(tasks)
            self._store.opened.publish_server(f"unix:{addresses.unix}")
            on_ready(addresses)
            self._log.write(
                "listening",
                url=addresses.url,
                unix=str(addresses.unix),
                archive=addresses.archive_url or None,
                pid=os.getpid(),
            )
            stop = asyncio.create_task(self._stopping.wait())
            tidying = asyncio.create_task(tidy(watch=self._service.health.trouble))
            await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            tidying.cancel()
        finally:
            self._api.gate.is_stopping = True
            self._store.opened.publish_server("")
            for server in self._servers:
                server.should_exit = True
            await self._jobs.stop(self._settings.limits.stop_seconds)
            await asyncio.gather(*tasks)
            await asyncio.to_thread(self._service.close)
            self._log.write("stopped")

    async def _listen(self, app: ASGIApp, sockets: list[socket.socket]) -> None:
        limits = self._settings.limits
        proxies = list(self._settings.trusted_proxies)
        config = uvicorn.Config(
            app,
            http=bounded_protocol(limits),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=proxies or None,
            timeout_keep_alive=round(limits.idle_seconds),
            timeout_graceful_shutdown=round(limits.stop_seconds),
        )
        server = _Server(config)
        self._servers.append(server)
        await server.serve(sockets=sockets)

    async def _started(self, tasks: list[asyncio.Task[None]]) -> None:
        while len(self._servers) < len(tasks) or not all(server.started for server in self._servers):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.001)

    def _archive_app(self) -> ArchiveApp:
        hosts = (*LOOPBACK_HOSTS, self._settings.archive_host, *self._settings.hosts)
        return archive_app(self._store, ArchiveSettings(hosts=hosts, base_url=self._settings.archive_url), self._tokens)

    def _reload_tokens(self) -> None:
        if self._tokens is None:
            return
        try:
            count = self._tokens.reload()
        except InvalidArgument as error:
            self._log.write("tokens kept", error=str(error))
        else:
            self._log.write("tokens read again", count=count)


class _Server(uvicorn.Server):
    """A listener among several: signals are not its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the run."""
        yield


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Of uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - not there on every system
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
