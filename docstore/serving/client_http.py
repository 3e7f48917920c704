"""One call until it is answered: where the server is, kept-alive connections to it, what is sent and when it is sent
again.

`Connections` is the transport of the client for threads, by the standard library's `http.client`; `docstore.aio` brings
its own and takes all else from here.  Neither proxies of the environment nor redirects are followed: a token goes to
the one it is for.
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
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar
from urllib.parse import urlencode, urlsplit

from docstore.backends import names_server
from docstore.model.errors import CommitUnknown, DocstoreError, InvalidArgument, StoreUnavailable, UnsupportedFormat
from docstore.serving import wire as shapes
from docstore.serving import wire_frames as frames
from docstore.serving.client_calls import Call, Listing
from docstore.serving.wire_frames import error_of
from docstore.version import __version__

# --- addresses

UNIX: Final = "unix"
DEFAULT_PORTS: Final = {"http": 8470, "https": 443}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class Address(NamedTuple):
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


def parse_address(url: str) -> Address:
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
        return Address(UNIX, socket=path)
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
    return Address(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))


def check_socket(path: str) -> None:
    """Refuse a socket that another user could have put there, before anything is sent to it.

    Raises:
        StoreUnavailable: there is none, it is of another user, or others may use it.
    """
    try:
        found = Path(path).lstat()
    except OSError as error:
        raise StoreUnavailable(f"no server answers at {path}: {error.strerror}") from error
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


class Retries(NamedTuple):
    """How long a call that failed is made again.

    Attributes:
        patience_seconds: from its first failure on; 0 makes it once.
        first_seconds: longest first pause; each next one is twice as long.
        most_seconds: longest pause, unless the server asks for a longer one.
    """

    patience_seconds: float = 30.0
    first_seconds: float = 0.05
    most_seconds: float = 5.0


class Backoff:
    """The attempts of one call.

    Args:
        retries: how long.
        clock: seconds, monotonic.
        share: a random number from 0 to 1.
    """

    def __init__(
        self,
        retries: Retries,
        clock: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._retries = retries
        self._clock = clock
        self._share = share
        self._failures = 0
        self._began: float | None = None

    def pause(self, error: DocstoreError, retry_after: float | None = None) -> float:
        """Seconds to wait before the next attempt.

        Args:
            error: why this one failed; raised when patience is at its end.
            retry_after: seconds that the server asked for.
        """
        now = self._clock()
        if self._began is None:
            self._began = now
        longest = min(self._retries.most_seconds, self._retries.first_seconds * 2.0**self._failures)
        pause = (retry_after or 0.0) + longest * (0.5 + self._share() / 2)
        self._failures = min(self._failures + 1, 60)
        if now + pause - self._began > self._retries.patience_seconds:
            raise error
        return pause

    def succeeded(self) -> None:
        """Something came of the last attempt: the next failure is a first one."""
        self._failures = 0
        self._began = None


# --- connections: TCP, TLS or a unix socket.  Any number of threads may ask, each has its own meanwhile

MOST_IDLE = 8
"""Connections kept for the next call."""
CONNECT_SECONDS = 10.0
READ_BYTES = 1 << 18


class Request(NamedTuple):
    """What is sent; `target` is path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None


class Answer(NamedTuple):
    """What came back; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Broken(Exception):
    """A request without an answer.

    Attributes:
        reached: the server may have got it.
    """

    def __init__(self, why: str, *, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        check_socket(self._path)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        check_peer(self.sock, self._path)


class Connections:
    """Connections to one server.  Thread-safe; a forked child makes its own.

    Args:
        address: of the server.
        timeout_seconds: that a send or a receive may take.
    """

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._process = os.getpid()
        self._tls = ssl.create_default_context() if address.scheme == "https" else None

    def ask(self, request: Request) -> Answer:
        """Send a request and read its whole answer.

        Raises:
            Broken: there is none.
        """
        with self.opened(request) as (status, headers, chunks):
            return Answer(status, headers, b"".join(chunks))

    @contextmanager
    def opened(self, request: Request) -> Iterator[tuple[int, Mapping[str, str], Iterator[bytes]]]:
        """Send a request; gives status and headers, and the body as it comes.

        Raises:
            Broken: there is no answer, or not all of it.
        """
        connection, response = self._sent(request)
        keep = False
        try:
            if request.method != "HEAD" and response.length is None and not response.chunked:
                # `http.client` takes a head that was cut off for a whole one; every whole one says how its body ends.
                raise Broken("the head of the answer was cut off", reached=True)
            headers = {name.lower(): value for name, value in response.getheaders()}
            yield response.status, headers, _chunks(response)
            keep = response.isclosed() and not response.will_close
        finally:
            if keep:
                self._keep(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # --- pieces

    def _sent(self, request: Request) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A connection on which the request has gone out, and the head of its answer."""
        kept = self._kept()
        if kept is not None:
            try:
                return kept, self._send(kept, request)
            except Broken as broken:
                kept.close()
                if broken.reached and not isinstance(
                    broken.__cause__, http.client.RemoteDisconnected | ConnectionError
                ):
                    raise
                # The server closed the idle connection as this was sent; each write has a key, so it may go again.
        connection = self._connected()
        try:
            return connection, self._send(connection, request)
        except BaseException:
            connection.close()
            raise

    def _send(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was read: the answer says why
                connection.request(request.method, request.target, body=request.body, headers=dict(request.headers))
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Broken(_words(error), reached=True) from error

    def _connected(self) -> http.client.HTTPConnection:
        address = self._address
        timeout = min(CONNECT_SECONDS, self._timeout_seconds)
        connection: http.client.HTTPConnection
        if address.scheme == UNIX:
            connection = _UnixConnection(address.socket, timeout)
        elif self._tls is not None:
            connection = http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=self._tls)
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise Broken(_words(error), reached=False) from error
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

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if self._process == os.getpid() and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := response.read1(READ_BYTES):
            yield chunk
        if not response.isclosed():
            response.read()  # the end of a chunked body
        if response.length:
            raise Broken(f"the answer was cut off, {response.length} bytes before its end", reached=True)
    except (OSError, http.client.HTTPException) as error:
        raise Broken(_words(error), reached=True) from error


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


# --- one call: what is sent, what the answers mean, when it is sent again.  No I/O

_T = TypeVar("_T")
_Item = TypeVar("_Item")

ANSWER_LIMIT_BYTES = 1 << 31
COMPRESSED_BYTES = 4096
"""Shorter requests are sent as they are."""
_TRY_AGAIN = (408, 425, 429, 502, 503, 504)
_ABSENT = "Absent"
_WHAT_NEXT = (
    "do the same again; before a read-modify-write or check-and-mutate read the row, as they would be done twice"
)


class Session:
    """What all calls of one client have in common.

    Attributes:
        address: of the server.
        boot: names the run of the server, once it has said so.
        retries: how long calls are made again.
    """

    def __init__(self, address: Address, token: str | None, retries: Retries) -> None:
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidArgument("a token is printable ASCII, as the server's token file has it")
        self.address = address
        self.boot = ""
        self.retries = retries
        self._common = {"host": address.authority, "user-agent": f"docstore/{__version__}"}
        if token:
            self._common["authorization"] = f"Bearer {token}"
        self._common["accept-encoding"] = "identity" if address.is_local else "zstd"

    def request(self, call: Call[Any], accept: str) -> Request:
        """What is sent for a call; its key is the same however often it is sent.

        Raises:
            InvalidArgument: an argument cannot be sent.
        """
        headers = {**self._common, "accept": accept}
        body = None
        if call.message is not None:
            body = shapes.to_msgpack(call.message)
            headers["content-type"] = shapes.MSGPACK
            if not self.address.is_local and len(body) >= COMPRESSED_BYTES:
                body = frames.compressed(body)
                headers["content-encoding"] = "zstd"
        if call.writes:
            headers["idempotency-key"] = f"{self.boot or 'unknown'}.{secrets.token_hex(16)}"
        query = {name: _parameter(value) for name, value in call.query.items() if value is not None}
        try:
            target = self.address.prefix + call.path + (f"?{urlencode(query)}" if query else "")
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"an argument has a lone surrogate and cannot be sent: {error}") from error
        return Request(call.method, target, headers, body)

    def heard(self, headers: Mapping[str, str]) -> None:
        """Note what every answer says."""
        boot = headers.get("docstore-boot", "")
        if boot.isascii() and boot.isprintable() and len(boot) <= 80:
            self.boot = boot or self.boot


class PendingCall(Generic[_T]):
    """One call.

    Attributes:
        request: what is sent, each time the same.
    """

    def __init__(self, session: Session, call: Call[_T], backoff: Backoff, accept: str = shapes.MSGPACK) -> None:
        self._session = session
        self._call = call
        self._backoff = backoff
        self._reached = False
        self.request = session.request(call, accept)

    def broke(self, broken: Broken) -> float:
        """Seconds to wait before the request is sent again.

        Raises:
            CommitUnknown: it may have been applied, and there was no answer for too long.
            StoreUnavailable: it was not.
        """
        self._reached = self._reached or broken.reached
        where = self._session.address
        error: DocstoreError
        if self._call.writes and self._reached:
            error = CommitUnknown(f"{where} did not answer ({broken}): the write may be applied; {_WHAT_NEXT}")
        elif self._reached:
            error = StoreUnavailable(f"{where} did not answer ({broken}); ask again")
        else:
            error = StoreUnavailable(f"no server answers at {where}: {broken}; is `docstore serve` running there?")
        return self._backoff.pause(error)

    def refused(self, answer: Answer) -> float | None:
        """Seconds to wait before the request is sent again; None where the answer is to be taken.

        Raises:
            StoreUnavailable: it was refused for too long.
        """
        self._session.heard(answer.headers)
        if answer.status not in _TRY_AGAIN:
            return None
        given = self._plain(answer)
        says_when = _seconds(answer.headers.get("retry-after"), given)
        if says_when is None and given is not None:
            return None  # the store itself is not available: that stays so
        self._reached = self._reached or answer.status in (502, 504)  # a proxy: the server behind it may have got it
        error = StoreUnavailable(self._words(answer)) if given is None else error_of(given)
        if self._call.writes and self._reached:
            error = CommitUnknown(f"{error}; an earlier attempt may be applied; {_WHAT_NEXT}")
        return self._backoff.pause(error, says_when)

    def result(self, answer: Answer) -> _T:
        """What the call gives.

        Raises:
            DocstoreError: the server says that it failed.
            UnsupportedFormat: the answer cannot be understood.
        """
        call = self._call
        given = self._plain(answer)
        if answer.status < 300:
            try:
                return call.result(given)
            except InvalidArgument as wrong:
                raise UnsupportedFormat(
                    f"the answer of {self._session.address} is not what docstore {__version__} knows ({wrong}): use "
                    "the same version on both sides"
                ) from wrong
        if answer.status == 404 and call.absent is not None and (call.method == "HEAD" or _class(given) == _ABSENT):
            return call.absent()
        if given is None:
            raise StoreUnavailable(self._words(answer))
        error = error_of(given)
        if call.failed is not None:
            return call.failed(given, error)
        raise error

    def items(self, listing: Listing[_Item], reader: frames.FrameReader, chunk: bytes) -> Iterator[_Item]:
        """The items of a listing in the next bytes of its stream; `reader.ended` says that there are no more.

        Raises:
            DocstoreError: the server says that it failed.
        """
        for frame in reader.feed(chunk):
            if frame.kind is frames.FrameKind.ERROR:
                raise error_of(frame.value)
            if frame.kind is frames.FrameKind.ITEMS:
                self._backoff.succeeded()
                yield from listing.take(frame.value)

    def fail(self, answer: Answer) -> NoReturn:
        """Raise what an answer says that was to be a stream."""
        given = self._plain(answer)
        raise StoreUnavailable(self._words(answer)) if given is None else error_of(given)

    def _plain(self, answer: Answer) -> Any:
        """The plain data of an answer; None where it is not of docstore."""
        media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in shapes.MEDIA_TYPES:
            return None
        try:
            raw = answer.body
            if answer.headers.get("content-encoding") == "zstd":
                raw = frames.decompressed(raw, ANSWER_LIMIT_BYTES)
            return shapes.decode(raw, media_type) if raw else None
        except InvalidArgument:
            return None

    def _words(self, answer: Answer) -> str:
        return (
            f"{self._session.address} answers with HTTP status {answer.status}, and not as docstore does; check the "
            "address, and what stands in between"
        )


def _parameter(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _class(given: Any) -> object:
    error = given.get("error") if isinstance(given, dict) else None
    return error.get("class") if isinstance(error, dict) else None


def _seconds(header: str | None, given: Any) -> float | None:
    """How long the server asks to wait; None where it does not."""
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
