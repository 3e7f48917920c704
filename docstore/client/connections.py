"""Requests over kept-alive connections: TCP, TLS or a unix socket, by the standard library's `http.client`.

Knows bytes, headers and sockets; must not know what they mean.  Any number of threads may ask: each has a connection
of its own meanwhile.  Neither proxies of the environment nor redirects are followed: a token goes to the one it is for.
"""

from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from docstore.client.address import UNIX, Address, check_peer, check_socket

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
        """Close the connections that nobody uses."""
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
                return kept, self._exchange(kept, request)
            except Broken as broken:
                kept.close()
                if broken.reached and not isinstance(
                    broken.__cause__, http.client.RemoteDisconnected | ConnectionError
                ):
                    raise
                # The server closed the idle connection as this was sent; each write has a key, so it may go again.
        connection = self._connected()
        try:
            return connection, self._exchange(connection, request)
        except BaseException:
            connection.close()
            raise

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
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
