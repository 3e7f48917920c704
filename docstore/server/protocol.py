"""One connection, with bounds that uvicorn does not have: bytes and seconds of a request's head, and an abort.  The
head and the body of an answer are sent together.

Knows uvicorn's protocol class; must not know what is asked.  Whatever comes beside a body (request line, headers,
lengths of chunks, trailers) is counted: a client that sends it without end, or a byte a minute, is cut off.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from docstore.server.settings import Limits

ABORT: Final = "docstore.abort"
"""Under which an ASGI scope has a function that ends the connection at once, whatever waits to be sent."""
_FRAMING_PER_BODY_BYTE: Final = 8
"""A chunk of one byte has a length and two line ends around it."""
_JOINED_BYTES: Final = 64 << 10
"""Longer pieces are sent as they are: to copy them would cost more than a system call.  No more is held back."""


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """A protocol class with these limits."""

    class BoundedProtocol(_BoundedProtocol):
        """The class that uvicorn makes one of for each connection."""

    BoundedProtocol.limits = limits
    return BoundedProtocol


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
        self._is_in_request = False

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
        """Take bytes, and count what is no body."""
        self._framing_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._framing_bytes > self.limits.header_bytes + _FRAMING_PER_BODY_BYTE * self._body_bytes + len(data):
            self.send_400_response(f"More than {self.limits.header_bytes} bytes of headers.")
        elif not self._is_in_request and self._is_idle():
            self._start_head_timer()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._framing_bytes = self._body_bytes = 0
        self._start_head_timer()
        self.scope[ABORT] = self._abort  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        """Its head is here."""
        self._stop_head_timer()
        self._is_in_request = True
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
