"""A server's life: sockets, listeners in one event loop, signals, and a stop that loses nothing.

A stop goes so: listeners close; requests that are worked on are answered, whose writes are then committed; what comes
on open connections is refused; jobs are asked to stop; the store is closed by the caller, who opened it.  A second
signal ends the process at once: what was answered is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import re
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.serving.app import Api, logged
from docstore.serving.archive_app import ArchiveApp
from docstore.serving.request import ABORT, FLOW, Tokens
from docstore.serving.service import Service
from docstore.serving.settings import LOOPBACK_HOSTS, ArchiveSettings, Limits, Settings
from docstore.serving.telemetry import Log
from docstore.storage.heap import trim_heap
from docstore.store import DocumentStore

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep the interpreter from the others.  The default of 5 ms would be the time of a `get` that
comes while pages are analysed: it changes threads four times."""
EXIT_AT_ONCE: Final = 130
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def serve(store: DocumentStore, settings: Settings, on_ready: Callable[[Server], None], log: Log) -> None:
    """Serve a store until a signal stops it; the caller closes the store then.  In the main thread.

    Args:
        store: open, and used by nobody else.
        settings: where, and for whom.
        on_ready: called when everything listens, with the server, which says where.
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


class Server:
    """One run of a server, in the thread that calls `run`.

    Args:
        store: open; the caller closes it.
        settings: where, and for whom.
        log: of requests.
    Attributes:
        url: of the API, once it listens.
        unix: path of its socket, once it listens.
        archive_url: of the archive API, once it listens; "" if it is not served.
    """

    def __init__(self, store: DocumentStore, settings: Settings, log: Log) -> None:
        self.url = self.archive_url = ""
        self.unix = Path()
        self._store = store
        self._settings = settings
        self._log = log
        self._tokens = None if settings.token_file is None else Tokens(settings.token_file)
        self._service = Service(store, settings, log)
        self._api = Api(self._service, self._tokens, log)
        self._servers: list[uvicorn.Server] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_told = False

    def run(self, on_ready: Callable[[Server], None]) -> None:
        """Listen until told to stop; see `serve`."""
        self.unix = (self._settings.unix or default_socket_path(self._store.backend.path)).absolute()
        before = sys.getswitchinterval()
        with contextlib.ExitStack() as stack:
            tcp = stack.enter_context(tcp_socket(self._settings.bind, self._settings.port))
            unix = stack.enter_context(unix_socket(self.unix))
            stack.callback(remove_socket, self.unix)
            stack.callback(sys.setswitchinterval, before)
            sys.setswitchinterval(SWITCH_SECONDS)
            listeners: list[tuple[Any, list[socket.socket]]] = [(self._api, [tcp, unix])]
            if self._settings.archive_port is not None:
                archive = stack.enter_context(tcp_socket(self._settings.archive_bind, self._settings.archive_port))
                self.archive_url = self._settings.archive_url or _url(archive)
                app = self._archive_app()
                stack.callback(app.close)
                listeners.append((logged(app, "archive", self._service.metrics, self._log), [archive]))
            self._service.archive_url = self.archive_url
            self.url = _url(tcp)
            gc.freeze()  # what is there stays: a full collection need not look at it
            stack.enter_context(full_collections_by_clock())
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._run(listeners, on_ready))

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

    async def _run(self, listeners: list[tuple[Any, list[socket.socket]]], on_ready: Callable[[Server], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._is_told:
            return
        tasks = [asyncio.create_task(self._listen(*one)) for one in listeners]
        try:
            await self._started(tasks)
            self._store.backend.publish_server(f"unix:{self.unix}")
            on_ready(self)
            self._log.write(
                "listening",
                url=self.url,
                unix=str(self.unix),
                archive=self.archive_url or None,
                pid=os.getpid(),
            )
            stop = asyncio.create_task(self._stopping.wait())
            tidying = asyncio.create_task(tidy(watch=self._service.trouble))
            await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            tidying.cancel()
        finally:
            self._api.is_stopping = True
            self._store.backend.publish_server("")
            for server in self._servers:
                server.should_exit = True
            await self._service.jobs.stop(self._settings.limits.stop_seconds)
            await asyncio.gather(*tasks)
            await asyncio.to_thread(self._service.close)
            self._log.write("stopped")

    async def _listen(self, app: Any, sockets: list[socket.socket]) -> None:
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
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]  # the run has them
        self._servers.append(server)
        await server.serve(sockets=sockets)

    async def _started(self, tasks: list[asyncio.Task[None]]) -> None:
        while len(self._servers) < len(tasks) or not all(server.started for server in self._servers):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.001)

    def _archive_app(self) -> ArchiveApp:
        hosts = (*LOOPBACK_HOSTS, self._settings.archive_bind, *self._settings.hosts)
        return ArchiveApp(self._store, ArchiveSettings(hosts=hosts, base_url=self._settings.archive_url), self._tokens)

    def _reload_tokens(self) -> None:
        if self._tokens is None:
            return
        try:
            count = self._tokens.reload()
        except InvalidArgument as error:
            self._log.write("tokens kept", error=str(error))
        else:
            self._log.write("tokens read again", count=count)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# --- a connection, with bounds that uvicorn does not have: bytes and seconds of a request's head, and an abort
#
# Whatever comes next to a body (request line, headers, lengths of chunks, trailers) is counted: a client that sends it
# without end, or a byte a minute, is cut off.  The head and the body of an answer are sent together.
#
# Java's HttpClient offers HTTP/2 with each request (`Upgrade: h2c`).  The parser takes such a request for one without a
# body and stops after its head.  No upgrade is served, and a server may ignore an offer (RFC 9110, 7.8): the parser
# gets the same head again without it.

_FRAMING_PER_BODY_BYTE: Final = 8
"""A chunk of one byte has a length and two line ends around it."""
_JOINED_BYTES: Final = 64 << 10
"""Longer pieces are sent as they are: to copy them would cost more than a system call.  No more is held back."""


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """A protocol class with these limits, of which uvicorn makes one for each connection."""
    return type("BoundedProtocol", (_BoundedProtocol,), {"limits": limits})


class JoiningTransport:
    """A transport that sends in one piece what is written to it during one turn of the event loop.

    uvicorn writes head and body of an answer one after the other.  Each system call lets go of the interpreter's lock,
    which threads that write pages then keep for a while; and it wakes the client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it at the end of this turn, or at once where that is much: the transport then stops its writer."""
        if len(data) > _JOINED_BYTES:
            self._send()
            self._transport.write(data)
            return
        if not self._pieces:
            self._loop.call_soon(self._send)
        self._pieces.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > _JOINED_BYTES:
            self._send()

    def close(self) -> None:
        """Send what was written, and end the connection."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._pieces:
            joined = b"".join(self._pieces)
            self._pieces.clear()
            self._held_bytes = 0
            self._transport.write(joined)


def _check_target(target: bytes, hosts: list[bytes]) -> None:
    """Refuse an absolute target (``GET http://HOST/PATH``) that names another host than the Host header.

    The header is checked against the names of this server, and the target is the one that counts (RFC 9112, 3.2.2).

    Raises:
        ValueError: the parser makes a 400 of it.
    """
    scheme, _, rest = target.partition(b"://")
    authority = re.split(rb"[/?#]", rest, maxsplit=1)[0]
    if scheme.lower() not in (b"http", b"https") or [authority.lower()] != [host.lower() for host in hosts]:
        raise ValueError("the target names another host than the Host header")


class _BoundedProtocol(HttpToolsProtocol):
    limits: Limits

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._framing_bytes = 0
        self._body_bytes = 0
        self._is_in_head = self._is_in_request = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or drop it where there are too many: an answer would cost more than it says."""
        super().connection_made(cast(asyncio.Transport, JoiningTransport(transport, self.loop)))
        if len(self.connections) > self.limits.connections:
            transport.abort()
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the parser.  Bytes outside the body are counted, so that endless headers end it."""
        self._unset_keepalive_if_required()
        self._framing_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self.transport.is_closing():
            return
        if self._framing_bytes > self.limits.header_bytes + _FRAMING_PER_BODY_BYTE * self._body_bytes + len(data):
            self.send_400_response(f"More than {self.limits.header_bytes} bytes of headers.")
        elif self._is_in_head or (not self._is_in_request and self._is_idle()):
            self._start_head_timer()

    def _parse(self, data: bytes) -> None:
        """Parse bytes; the head of a request that offers an upgrade is parsed again without the offer."""
        rest = memoryview(data)
        while rest:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offer:
                rest = rest[offer.args[0] :]
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)  # the other one is closed if the head says so
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            self.parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        """The head of the request that has just been parsed, without its offer of another protocol."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                value = b",".join(one for one in value.split(b",") if one.strip().lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(name + b": " + value)
        return b"\r\n".join((*lines, b"", b""))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._framing_bytes = self._body_bytes = 0
        self._is_in_head = True
        self.scope[ABORT] = self._abort  # type: ignore[typeddict-unknown-key]
        self.scope[FLOW] = self.flow  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        """Its head is here."""
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("this is no proxy")  # the parser makes a 400 of it
        if self.parser.should_upgrade():  # its head will be parsed again
            return
        self._stop_head_timer()
        self._is_in_head, self._is_in_request = False, True
        if not self.url.startswith(b"/") and self.url != b"*":
            _check_target(self.url, [value for name, value in self.headers if name == b"host"])
        if sum(len(name) + len(value) for name, value in self.headers) > self.limits.header_bytes:
            raise ValueError("too many bytes of headers")  # the parser makes a 400 of it
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._framing_bytes -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is here."""
        if self.parser.should_upgrade():
            return
        self._is_in_request = False
        super().on_message_complete()

    def _is_idle(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self._abort)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


# --- sockets, made before anything is promised

LONGEST_SOCKET_PATH = 107
"""Bytes of a socket's path that Linux takes."""
SOCKET_NAME = "server.sock"
BACKLOG = 1024


def tcp_socket(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        StoreUnavailable: the port is taken.
        InvalidArgument: there is no such address.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InvalidArgument(f"cannot listen on {host!r}: {error}") from error
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise StoreUnavailable(
                f"port {port} of {host} is taken; give another with --port, or 0 for a free one"
            ) from error
        raise InvalidArgument(f"cannot listen on {host}, port {port}: {error}") from error
    made.setblocking(False)
    return made


def unix_socket(path: Path) -> socket.socket:
    """A socket that only this user can use.

    Raises:
        InvalidArgument: nothing can be made there.
        StoreUnavailable: another server listens there.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise InvalidArgument(f"{path} is too long for a socket: {LONGEST_SOCKET_PATH} bytes at most; give --unix PATH")
    _remove_dead(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # no moment in which others can connect
    try:
        made.bind(os.fsencode(path))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise InvalidArgument(f"cannot make the socket {path}: {error}; give another with --unix PATH") from error
    finally:
        os.umask(before)
    made.setblocking(False)
    return made


def default_socket_path(store: Path) -> Path:
    """Where the socket of a store lies: in its folder, or where that path is too long in a folder of its own."""
    path = store.absolute() / SOCKET_NAME
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    return Path(tempfile.mkdtemp(prefix="docstore-")) / SOCKET_NAME


def remove_socket(path: Path) -> None:
    """Remove a socket that was made here, with the folder that was made for it."""
    with suppress(OSError):
        path.unlink()
    if path.parent.name.startswith("docstore-") and path.parent.parent == Path(tempfile.gettempdir()):
        with suppress(OSError):
            path.parent.rmdir()


def _remove_dead(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise InvalidArgument(f"{path} is there and is no socket; give another with --unix PATH")
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidArgument(f"cannot look at {path}: {error}") from error
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fsencode(path))
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(FileNotFoundError):
                path.unlink()
        except OSError as error:
            raise InvalidArgument(f"cannot ask who listens on {path}: {error}") from error
        else:
            raise StoreUnavailable(f"another server listens on {path}; give another with --unix PATH")


# --- memory of a process that runs for weeks
#
# Cycles among young objects are found as always.  A full collection looks at everything that caches hold, and nobody
# gets the interpreter meanwhile: with caches full that took .2 s, and under a load of writes Python began one every
# 2.5 s, of which each found a few hundred objects.  So here they come by the clock.

TRIM_SECONDS: Final = 10.0
COLLECT_SECONDS: Final = 60.0
_NEVER: Final = 1 << 30
"""Collections of the middle generation before a full one."""


@contextlib.contextmanager
def full_collections_by_clock() -> Iterator[None]:
    """Python begins no full collection meanwhile: `tidy` does."""
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def tidy(
    trim_seconds: float = TRIM_SECONDS,
    collect_seconds: float = COLLECT_SECONDS,
    watch: Callable[[], object] | None = None,
) -> None:
    """Collect garbage each minute, and give freed memory back to the system each ten seconds, until cancelled.

    Args:
        trim_seconds, collect_seconds: how often.
        watch: called as often as memory is given back, in a thread.
    """
    collected = time.monotonic()
    while True:
        await asyncio.sleep(trim_seconds)
        if time.monotonic() - collected >= collect_seconds:
            gc.collect()
            collected = time.monotonic()
        await asyncio.to_thread(trim_heap)
        if watch is not None:
            await asyncio.to_thread(watch)
