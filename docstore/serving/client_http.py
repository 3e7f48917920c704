"""One call until it is answered: where the server is, what is sent, what the answers mean, when it is sent again.

The connections are those of the standard library's `http.client`: TCP, TLS or a unix socket.  Proxies of the
environment are not used and redirects are not followed: a token goes to the server it is for.
"""

from __future__ import annotations

import http.client
import os
import random
import secrets
import select
import socket
import ssl
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlencode, urlsplit

from docstore.backends import names_server
from docstore.model.errors import CommitUnknown, DocstoreError, InvalidArgument, StoreUnavailable, UnsupportedFormat
from docstore.serving import wire
from docstore.version import __version__

# --- addresses

UNIX: Final = "unix"
DEFAULT_PORTS: Final = {"http": 8470, "https": 443}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class ServerAddress(NamedTuple):
    """Where a server is.

    Attributes:
        scheme: http, https or unix.
        host, port: of TCP.
        prefix: path before `/v1`, without a slash at its end.
        socket: path of a unix socket.
    """

    scheme: str
    host: str = ""
    port: int = 0
    prefix: str = ""
    socket: str = ""

    @property
    def is_local(self) -> bool:
        """Whether both ends are one machine, so that compression only costs time."""
        return self.scheme == UNIX or self.host in _LOOPBACK

    @property
    def authority(self) -> str:
        """What the `Host` header says."""
        if self.scheme == UNIX:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) == 443 else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{UNIX}:{self.socket}" if self.scheme == UNIX else f"{self.scheme}://{self.authority}{self.prefix}"


def parse_address(url: str) -> ServerAddress:
    """The parts of ``http://host:8470``, ``https://host/prefix`` or ``unix:/path/server.sock``.

    Raises:
        InvalidArgument: it is none of these.
    """
    if not names_server(url):
        raise InvalidArgument(f"a server is http://HOST:PORT, https://HOST or unix:/PATH, not {url!r:.200}")
    if url.startswith("unix:"):
        path = url.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/") or "\0" in path:
            raise InvalidArgument(
                f"the path of a socket is absolute, such as unix:/run/docstore.sock; not {url!r:.200}"
            )
        return ServerAddress(UNIX, socket=path)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna" if not (host or "").isascii() else "ascii")
    except ValueError as error:  # UnicodeError is one
        raise InvalidArgument(f"{url!r:.200} is no address of a server: {error}") from error
    if not host or any(character <= " " or character == "\x7f" for character in url):
        raise InvalidArgument(f"{url!r:.200} names no host; write http://HOST:PORT")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidArgument(
            f"the address of a server is scheme, host, port and path; a token goes into token=, not into {parts.scheme}://"
        )
    return ServerAddress(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))


def check_socket(path: str) -> None:
    """Refuse a socket that another user could have put there, before anything is sent to it.

    Raises:
        StoreUnavailable: it is of another user, or others may use it.
        OSError: there is none.
    """
    found = Path(path).lstat()
    if not stat.S_ISSOCK(found.st_mode):
        raise StoreUnavailable(f"{path} is no socket; nothing was sent")
    if found.st_uid != os.geteuid():
        raise StoreUnavailable(
            f"the socket {path} belongs to user {found.st_uid}, and this is user {os.geteuid()}; nothing was sent: run "
            "this as that user, or ask the server by its URL with a token"
        )
    if found.st_mode & 0o077:
        raise StoreUnavailable(
            f"the socket {path} has the mode {stat.S_IMODE(found.st_mode):04o}, so that others may use it; it must be "
            "0600; nothing was sent"
        )


def check_peer(connected: socket.socket, path: str) -> None:
    """Refuse who answers at a socket if it is another user: the path may have changed hands since `check_socket`.

    Raises:
        StoreUnavailable: the process at the other end is of another user.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    if user != os.geteuid():
        raise StoreUnavailable(f"user {user} answers at the socket {path}, and this is user {os.geteuid()}")


# --- backoff: exponential with jitter, for a bounded time


FIRST_PAUSE_SECONDS: Final = 0.05
"""The longest first pause; each next one is twice as long."""
LONGEST_PAUSE_SECONDS: Final = 5.0
"""Unless the server asks for a longer one."""


class Backoff:
    """The attempts of one call.

    Args:
        patience_seconds: how long it is made again, from its first failure on; 0 makes it once.
        clock: seconds, monotonic.
        share: a random number from 0 to 1.
    Attributes:
        has_reached: the server may have got one of them.
    """

    def __init__(
        self,
        patience_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._share = share
        self._failures = 0
        self._began: float | None = None
        self.has_reached = False

    def pause(self, error: DocstoreError, retry_after: float | None = None) -> float:
        """Seconds to wait before the next attempt.

        Args:
            error: why this one failed; raised when patience is at its end.
            retry_after: seconds that the server asked for.
        """
        now = self._clock()
        if self._began is None:
            self._began = now
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**self._failures)
        pause = (retry_after or 0.0) + longest * (0.5 + self._share() / 2)
        self._failures = min(self._failures + 1, 60)
        if now + pause - self._began > self._patience_seconds:
            raise error
        return pause

    def succeeded(self) -> None:
        """Something came of the last attempt: the next failure is a first one."""
        self._failures = 0
        self._began = None


# --- calls

MOST_IDLE: Final = 8
"""Connections kept for the next call."""
CONNECT_SECONDS: Final = 10.0
READ_BYTES: Final = 1 << 18


Request: TypeAlias = tuple[str, str, dict[str, str], bytes | None]
"""What is sent: method, path with query, headers and body."""


class ServerAnswer(NamedTuple):
    """What came back: its status, its plain data, None if it is not of docstore, and when to come again."""

    status: int
    given: Any
    seconds: float | None


class RequestBroken(Exception):
    """A request without an answer.

    Attributes:
        reached: the server may have got it.
    """

    def __init__(self, why: str, *, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


class Call(NamedTuple):
    """What is asked.

    Attributes:
        method, path: of the route.
        kind: type of the result; None for none.
        field: of the answer that is the result; "" for all of it.
        query: parameters; those that are None are left out.
        message: the body, for msgpack; None has none.
        writes: it changes the store, so that it carries a key by which the server knows it again.
        may_be_absent: the result is None if the server says that there is no such page.
    """

    method: str
    path: str
    kind: Any = None
    field: str = ""
    query: Mapping[str, object] = {}
    message: object = None
    writes: bool = False
    may_be_absent: bool = False


ANSWER_LIMIT_BYTES: Final = 1 << 31
COMPRESSED_BYTES: Final = 4096
"""Shorter requests are sent as they are."""
_TRY_AGAIN: Final = (408, 425, 429, 502, 503, 504)
_WHAT_NEXT: Final = (
    "do the same again; before a read-modify-write or check-and-mutate read the row, as they would be done twice"
)


class Session:
    """What all calls of one client have in common.  Thread-safe.

    Args:
        address: of the server.
        token: that the client has.
        patience_seconds: how long calls are made again.
        timeout_seconds: that a send or a receive may take.
    Attributes:
        boot: names the run of the server, once it has said so.
        connections: to the server.
    """

    def __init__(
        self, address: ServerAddress, token: str | None, patience_seconds: float, timeout_seconds: float
    ) -> None:
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidArgument("a token is printable ASCII, as the server's token file has it")
        self.address = address
        self.boot = ""
        self.connections = Connections(address, timeout_seconds)
        self.patience_seconds = patience_seconds
        self._common = {"host": address.authority, "user-agent": f"docstore/{__version__}"}
        if token:
            self._common["authorization"] = f"Bearer {token}"
        self._common["accept-encoding"] = "identity" if address.is_local else "zstd"

    def ask(self, call: Call) -> Any:
        """The result of a call.

        Raises:
            DocstoreError: the server says that it failed.
            StoreUnavailable: there was no answer for too long, and nothing was written.
            CommitUnknown: it may have been applied, and there was no answer for too long.
            UnsupportedFormat: the answer cannot be understood.
        """
        answer = self.answer(call)
        if answer.status < 300:
            return call.method == "HEAD" or self.result(call, answer.given)
        is_absent = answer.status == 404 and (call.method == "HEAD" or _class(answer.given) == wire.ABSENT)
        if call.may_be_absent and is_absent:
            return None
        raise self.error(answer)

    def answer(self, call: Call) -> ServerAnswer:
        """The answer to a call, whatever it says; the request is sent until there is one."""
        request = self._request(call, wire.MSGPACK)
        attempts = Backoff(self.patience_seconds)
        while True:
            answer: ServerAnswer | RequestBroken
            try:
                with self.connections.answer(request) as response:
                    answer = self._whole(response)
            except RequestBroken as broken:
                answer = broken
            pause = self._pause(call, attempts, answer)
            if pause is None and isinstance(answer, ServerAnswer):
                return answer
            time.sleep(pause or 0.0)

    def items(
        self, kind: Any, next_call: Callable[[Any, int], Call | None], *, key: Callable[[Any], Any] | None = None
    ) -> Iterator[Any]:
        """The items of a stream; one that is cut off is asked for again, from where it was.

        Args:
            kind: of an item.
            next_call: makes the call for what comes after an item, None for the first, and so many items; None if there
                is no more to ask for.
            key: if the route starts from the beginning each time: what orders its items, so that those before are
                dropped.
        """
        attempts = Backoff(self.patience_seconds)
        last: Any = None
        count = 0
        while (call := next_call(last, count)) is not None:
            answer: ServerAnswer | RequestBroken
            try:
                with self.connections.answer(self._request(call, wire.FRAMES)) as response:
                    if response.status == 200:
                        for items in self._frames(response, kind):
                            attempts.succeeded()
                            if key is not None and last is not None:
                                items = [item for item in items if key(item) > key(last)]
                            last, count = (items[-1] if items else last), count + len(items)
                            yield from items
                        return
                    answer = self._whole(response)
            except RequestBroken as broken:
                answer = broken
            pause = self._pause(call, attempts, answer)
            if pause is None and isinstance(answer, ServerAnswer):
                raise self.error(answer)
            time.sleep(pause or 0.0)

    def _frames(self, response: http.client.HTTPResponse, kind: Any) -> Iterator[list[Any]]:
        """The items of a stream, frame by frame, up to its end.

        Raises:
            RequestBroken: it was cut off.
            DocstoreError: the server failed in the middle of it.
        """
        reader = wire.FrameReader()
        while raw := self.connections.read(response):
            for frame, value in reader.feed(raw):
                if frame is wire.FrameKind.ERROR:
                    raise wire.error_of(value)
                if frame is wire.FrameKind.ITEMS:
                    yield wire.read(list[kind], value, "items")
        if not reader.ended:
            raise RequestBroken("the stream was cut off", reached=True)

    def result(self, call: Call, given: Any) -> Any:
        """What an answer gives.

        Raises:
            UnsupportedFormat: it cannot be understood.
        """
        if call.kind is None:
            return None
        try:
            if not call.field:
                return wire.read(call.kind, given, "the answer")
            if not isinstance(given, dict) or call.field not in given:
                raise InvalidArgument(f"the answer lacks {call.field}")
            return wire.read(call.kind, given[call.field], call.field)
        except InvalidArgument as wrong:
            raise UnsupportedFormat(
                f"the answer of {self.address} is not what docstore {__version__} knows ({wrong}): use the same "
                "version on both sides"
            ) from wrong

    def error(self, answer: ServerAnswer) -> DocstoreError:
        """What an answer says that is none, to be raised."""
        if answer.given is not None:
            return wire.error_of(answer.given)
        return StoreUnavailable(
            f"{self.address} answers with HTTP status {answer.status}, and not as docstore does; check the address, "
            "and what stands in between"
        )

    # --- pieces

    def _request(self, call: Call, accept: str) -> Request:
        """What is sent for a call; its key is the same however often it is sent."""
        headers = {**self._common, "accept": accept}
        body = None
        if call.message is not None:
            body = wire.to_msgpack(call.message)
            headers["content-type"] = wire.MSGPACK
            if not self.address.is_local and len(body) >= COMPRESSED_BYTES:
                body = wire.compressed(body)
                headers["content-encoding"] = "zstd"
        if call.writes:
            headers["idempotency-key"] = f"{self.boot or 'unknown'}.{secrets.token_hex(16)}"
        query = {name: _parameter(value) for name, value in call.query.items() if value is not None}
        target = self.address.prefix + call.path + (f"?{urlencode(query)}" if query else "")
        return call.method, target, headers, body

    def _whole(self, head: http.client.HTTPResponse) -> ServerAnswer:
        raw = b"".join(iter(lambda: self.connections.read(head), b""))
        boot = head.headers.get("docstore-boot", "")
        if boot.isascii() and boot.isprintable() and len(boot) <= 80:
            self.boot = boot or self.boot
        given = _plain(head.headers, raw)
        return ServerAnswer(head.status, given, _seconds(head.headers.get("retry-after"), given))

    def _pause(self, call: Call, attempts: Backoff, answer: ServerAnswer | RequestBroken) -> float | None:
        """Seconds to wait before the request is sent again; None if the answer is to be taken.

        Raises:
            CommitUnknown, StoreUnavailable: see `ask`.
        """
        error: DocstoreError
        if isinstance(answer, RequestBroken):
            attempts.has_reached = attempts.has_reached or answer.reached
            if call.writes and attempts.has_reached:
                error = CommitUnknown(
                    f"{self.address} did not answer ({answer}): the write may be applied; {_WHAT_NEXT}"
                )
            elif attempts.has_reached:
                error = StoreUnavailable(f"{self.address} did not answer ({answer}); ask again")
            else:
                error = StoreUnavailable(
                    f"no server answers at {self.address}: {answer}; is `docstore serve` running there?"
                )
            return attempts.pause(error)
        if answer.status not in _TRY_AGAIN or (answer.seconds is None and answer.given is not None):
            return None  # without a time to come again the store itself is not available: that stays so
        # A proxy says 502 and 504: the server behind it may have got the request.
        attempts.has_reached = attempts.has_reached or answer.status in (502, 504)
        error = self.error(answer)
        if call.writes and attempts.has_reached:
            error = CommitUnknown(f"{error}; an earlier attempt may be applied; {_WHAT_NEXT}")
        return attempts.pause(error, answer.seconds)


def _plain(headers: Any, raw: bytes) -> Any:
    """The plain data of an answer; None if it is not of docstore."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in wire.MEDIA_TYPES:
        return None
    try:
        if headers.get("content-encoding") == "zstd":
            raw = wire.decompressed(raw, ANSWER_LIMIT_BYTES)
        return wire.decode(raw, media_type) if raw else None
    except InvalidArgument:
        return None


def _parameter(value: object) -> str:
    """A parameter of a query.  A lone surrogate becomes U+FFFD, as which the store reads it in a URL."""
    if isinstance(value, bool):
        return str(value).lower()
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _class(given: Any) -> object:
    error = given.get("error") if isinstance(given, dict) else None
    return error.get("class") if isinstance(error, dict) else None


def _seconds(header: str | None, given: Any) -> float | None:
    """How long the server asks to wait; None if it does not."""
    error = given.get("error") if isinstance(given, dict) else None
    said = error.get("retry_after") if isinstance(error, dict) else None
    for value in (said, header):
        try:
            seconds = float(value) if value is not None else -1.0
        except (TypeError, ValueError):  # a date, say
            continue
        if 0 <= seconds <= 3600:
            return seconds
    return None


# --- connections: TCP, TLS or a unix socket.  Any number of threads may ask, each has its own meanwhile


class Connections:
    """Connections to one server.  Thread-safe; a forked child makes its own.

    Args:
        address: of the server.
        timeout_seconds: that a send or a receive may take.
    """

    def __init__(self, address: ServerAddress, timeout_seconds: float) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._in_use: dict[http.client.HTTPResponse, http.client.HTTPConnection] = {}
        self._process = os.getpid()
        self._is_closed = False
        self._tls = ssl.create_default_context() if address.scheme == "https" else None

    def check_open(self) -> None:
        """Refuse calls after `close`."""
        if self._is_closed:
            raise StoreUnavailable("this store is closed; connect again")

    @contextmanager
    def answer(self, request: Request) -> Iterator[http.client.HTTPResponse]:
        """Send a request; gives its answer, whose head was read.  Its connection is kept if all of it is read.

        Raises:
            RequestBroken: there is none.
        """
        response = self._asked(request)
        try:
            yield response
        finally:
            self._release(response)

    def _asked(self, request: Request) -> http.client.HTTPResponse:
        self.check_open()
        kept = self._kept()
        if kept is not None:
            try:
                return self._sent(kept, request)
            except RequestBroken as broken:
                if broken.reached and not isinstance(
                    broken.__cause__, http.client.RemoteDisconnected | ConnectionError
                ):
                    raise
                # The server closed the idle connection as this was sent; each write has a key, so it may go again.
        return self._sent(self._connected(), request)

    def close(self) -> None:
        """Close the idle connections."""
        self._is_closed = True
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def read(self, answer: http.client.HTTPResponse) -> bytes:
        """The next bytes of an answer; b"" at its end.

        Raises:
            RequestBroken: it was cut off.
        """
        try:
            if chunk := answer.read1(READ_BYTES):
                return chunk
            if not answer.isclosed():
                answer.read()  # the end of a chunked body
        except (OSError, http.client.HTTPException) as error:
            raise RequestBroken(_words(error), reached=True) from error
        if answer.length:
            raise RequestBroken(f"the answer was cut off, {answer.length} bytes before its end", reached=True)
        return b""

    def _release(self, answer: http.client.HTTPResponse) -> None:
        connection = self._in_use.pop(answer)
        with self._lock:
            is_whole = answer.isclosed() and not answer.will_close
            if is_whole and self._process == os.getpid() and len(self._idle) < MOST_IDLE and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    # --- pieces

    def _sent(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        method, target, headers, body = request
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was read: the answer says why
                connection.request(method, target, body, headers)
            response = connection.getresponse()
            if method != "HEAD" and response.length is None and not response.chunked:
                # `http.client` takes a head that was cut off for a whole one; every whole one says how its body ends.
                raise RequestBroken("the head of the answer was cut off", reached=True)
            self._in_use[response] = connection
            return response
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise RequestBroken(_words(error), reached=True) from error
        except BaseException:
            connection.close()
            raise

    def _connected(self) -> http.client.HTTPConnection:
        address = self._address
        timeout = min(CONNECT_SECONDS, self._timeout_seconds)
        connection: http.client.HTTPConnection
        if address.scheme == UNIX:
            connection = http.client.HTTPConnection("localhost", timeout=timeout)
            connection.auto_open = 0  # it would connect to a port
        elif self._tls is not None:
            connection = http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=self._tls)
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        try:
            if address.scheme == UNIX:
                check_socket(address.socket)
                connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.sock.settimeout(timeout)
                connection.sock.connect(address.socket)
                check_peer(connection.sock, address.socket)
            else:
                connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise RequestBroken(_words(error), reached=False) from error
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(self._timeout_seconds)
        return connection

    def _kept(self) -> http.client.HTTPConnection | None:
        """A connection of an earlier call that the server has not closed since."""
        with self._lock:
            if self._process != os.getpid():  # they belong to the parent; closing the child's copies ends nothing
                self._idle, self._process = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if connection.sock is not None and not _is_readable(connection.sock):
                    return connection
                connection.close()
        return None


def _is_readable(idle: socket.socket) -> bool:
    """Whether an idle connection has something to read, which is its end."""
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
