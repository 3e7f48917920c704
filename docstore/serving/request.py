"""One request before its route: who sends it, what they may do, its body in bounded time and memory, refusals.

A browser lets any web page send requests to this machine.  So a request must name this server as its Host (an
attacker's name that resolves to 127.0.0.1 does not), and one that a web page makes must come from a page of this
server, or from an origin that was allowed.  Tokens are kept and compared as digests: a comparison takes the same time
wherever two tokens differ, and a dump of memory has none that is not in use.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import ipaddress
import os
import stat
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import zstandard
from blake3 import blake3

from docstore.model.errors import DocstoreError, InvalidArgument, StoreUnavailable
from docstore.serving.client_calls import Role
from docstore.serving.settings import Limits, Settings
from docstore.serving.wire import ABSENT, error_fields, status_of

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

# --- tokens: a file that only its owner can read; a line is ``ROLE TOKEN [name]``, with ROLE read, write or admin

SHORTEST_TOKEN = 16
CHALLENGE = 'Basic realm="docstore", charset="UTF-8"'
"""Lets a browser ask for a name and a password."""


class Tokens:
    """The tokens of a file.

    Args:
        path: of the file.
    Raises:
        InvalidArgument: it cannot be read, others can read it, or a line is wrong; the message names the line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens = _read(path)

    def reload(self) -> int:
        """Read the file again; -> how many tokens there are.  On an error the old ones stay."""
        self._tokens = _read(self._path)
        return len(self._tokens)

    def find(self, given: str) -> tuple[Role, str] | None:
        """Role and name of the token that was given; compares with all of them."""
        digest = _digest(given)
        found = None
        for known, role, name in self._tokens:
            if hmac.compare_digest(known, digest):
                found = role, name
        return found

    def of_header(self, authorization: str, schemes: Sequence[str]) -> tuple[Role, str] | None:
        """The token of an Authorization header.

        Args:
            authorization: its value; "" for none.
            schemes: that are taken: "bearer", and "basic", whose password is the token, whatever the user is called.
        """
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() not in schemes:
            return None
        return self.find(given.strip() if scheme.lower() == "bearer" else _password(given))


def _password(given: str) -> str:
    try:
        decoded = base64.b64decode(given.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _read(path: Path) -> list[tuple[bytes, Role, str]]:
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read the token file {path}: {error}") from error
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidArgument(f"others can read or change the token file {path}; run `chmod 600 {path}`")
    tokens = [_token(path, number, line) for number, line in enumerate(lines, 1) if _says_something(line)]
    if not tokens:
        raise InvalidArgument(f"the token file {path} has no token; write a line such as `write {'x' * 8}...`")
    return tokens


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _token(path: Path, number: int, line: str) -> tuple[bytes, Role, str]:
    words = line.split()
    roles = {role.name.lower(): role for role in Role if role}
    if not 2 <= len(words) <= 3 or words[0] not in roles:
        raise InvalidArgument(
            f"{path}:{number}: write `read TOKEN`, `write TOKEN` or `admin TOKEN`, and perhaps a name"
        )
    if len(words[1]) < SHORTEST_TOKEN:
        raise InvalidArgument(
            f"{path}:{number}: the token has {len(words[1])} characters; at least {SHORTEST_TOKEN}, such as "
            "`openssl rand -hex 24` gives"
        )
    return _digest(words[1]), roles[words[0]], words[2] if len(words) == 3 else f"line {number}"


# --- refusals, and errors as answers

BUSY_SECONDS: Final = 1
"""When to come again after 429."""
STOPPING_SECONDS: Final = 5
"""When to come again after 503."""


class Refusal(DocstoreError):
    """A request that is answered with a status of its own.

    Attributes:
        status: of the answer.
        kind: name of the class that a client raises.
        retry_after: seconds, or 0.
        allow: the methods that the path has, for 405.
    """

    def __init__(
        self, status: int, message: str, *, kind: str = "", retry_after: int = 0, allow: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind or (
            StoreUnavailable.__name__ if status in (401, 403, 408, 429, 503) else InvalidArgument.__name__
        )
        self.retry_after = retry_after
        self.allow = ", ".join(allow)


def absent(url: str, why: str = "") -> Refusal:
    """The answer if there is no such page."""
    return Refusal(404, f"the store has no page of {url[:500]}{why}", kind=ABSENT)


def busy(what: str) -> Refusal:
    """The answer where a bounded queue is full: nothing was done."""
    return Refusal(429, f"{what}; nothing was done, ask again in {BUSY_SECONDS} s", retry_after=BUSY_SECONDS)


def stopping() -> Refusal:
    """The answer to what comes after a stop."""
    return Refusal(503, "the server is stopping; nothing was done", retry_after=STOPPING_SECONDS)


def failure(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """An exception as status, body and headers of its answer."""
    headers: dict[str, str] = {}
    if isinstance(error, Refusal):
        status, body = error.status, error_fields(error, name=error.kind, retry_after=error.retry_after)
        if error.retry_after:
            headers["retry-after"] = str(error.retry_after)
        if error.allow:
            headers["allow"] = error.allow
    else:
        status, body = status_of(error), error_fields(error)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status in (408, 413):
        headers["connection"] = "close"
    return status, body, headers


# --- the context of a request: its client, its body, its answer, and what it holds until it is answered

ABORT: Final = "docstore.abort"
"""Under which an ASGI scope has a function that ends the connection at once, whatever waits to be sent."""
FLOW: Final = "docstore.flow"
"""Under which an ASGI scope has the flow control of its connection."""
ZSTD: Final = "zstd"
NOT_MODIFIED: Final = 304
IDEMPOTENCY_KEY: Final = "idempotency-key"
_WINDOW_BYTES: Final = 8 << 20
"""A frame that asks for more memory to be decompressed is refused; level 19 of zstd asks for this much."""
_PIECE_BYTES: Final = 1 << 20
_STEP_BYTES: Final = 256
"""Of a frame of unknown length at a time.  Four bytes can stand for 128 KiB: these come to 8 MiB at most."""
_SENT_STEP_BYTES: Final = 256 << 10
"""A longer answer is sent in steps: uvicorn waits for a slow client before each message, and not after the last one."""
_COUNTED_BYTES: Final = 1 << 20
"""Longer answers take room; of shorter ones as many wait as there may be requests."""
LONG_BYTES: Final = 32 << 10
"""What is longer is decoded in a thread."""


class MemoryBudget:
    """Bytes of bodies in memory, all requests together.  Thread-safe.

    Args:
        limit_bytes: that fit in.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.taken_bytes = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        """Whether so many bytes fit in, which are taken then; one body alone always fits."""
        with self._lock:
            if self.taken_bytes and self.taken_bytes + count > self.limit_bytes:
                return False
            self.taken_bytes += count
            return True

    def release(self, count: int) -> None:
        """Free bytes that were taken."""
        with self._lock:
            self.taken_bytes -= count


class Response(NamedTuple):
    """An answer: its status, its body, which may come in parts, and its headers by their names in lower case."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    headers: dict[str, str]


class RequestContext:
    """What is known of one request.

    Args:
        scope: of ASGI; its headers are read once.
        line: `receive`, which gives the parts of the body, and `send` of ASGI.
        limits: of the server.
        memory: that all bodies share.
    Attributes:
        request_id: in the log and in the answer.
        role: what the client may do.
        client_name: name of the token, "local" or "".
        client: who shares the server with others: the name of the token, else the address; "" until it is admitted.
        is_local: it came through the unix socket.
        path: that is asked for, decoded.
        route: the path of the route that answers, by which the request is counted.
        headers: the last one of each name, in lower case.
        received_bytes: of the body, so far.
        body_digest: of the body as it came, once all of it is here; b"" before that, and without an idempotency key.
        answer_headers: that the answer gets where it does not set them itself.
        status: of the answer; 0 before it begins.
        sent_bytes: of its body.
        is_stuck: the client did not take it in time.
    """

    def __init__(
        self, scope: Any, line: tuple[Receive, Send], limits: Limits, memory: MemoryBudget, request_id: str
    ) -> None:
        self.scope = scope
        self.path: str = scope["path"]
        self.request_id = request_id
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.route = "other"
        self.role = Role.NONE
        self.client_name = self.client = ""
        self.method: str = scope["method"]
        server = scope.get("server")
        self.is_local = server is not None and server[1] is None
        self.received_bytes = 0
        self.body_digest = b""
        self._limits = limits
        self._most_bytes = limits.request_bytes
        self._receive, self._send = line
        self.answer_headers: dict[str, str] = {}
        self.status = 0
        self.sent_bytes = 0
        self.is_stuck = False
        self._memory = memory
        self._held_bytes = 0
        self._body: bytes | None = None

    async def body(self, most_bytes: int | None = None) -> bytes:
        """The whole body, decompressed.

        Args:
            most_bytes: that it may have, as it comes and decompressed; never more than any request may.
        Raises:
            Refusal: it is too long (413), too slow (408), or there is no room for it (429).
        """
        if self._body is None:
            self._most_bytes = min(most_bytes or self._most_bytes, self._most_bytes)
            raw = await self._received()
            encoding = self.headers.get("content-encoding", "").strip().lower()
            if encoding in ("", "identity"):
                self._body = raw
            elif encoding == ZSTD:
                self._body = await self._decompressed(raw)
            else:
                raise Refusal(415, f"Content-Encoding {encoding!r:.50} is none of zstd, identity")
        return self._body

    async def answer(self, response: Response) -> None:
        """Send an answer; the client has to take each part in time.

        Raises:
            Refusal: 429, there is no room for a long answer that was read; that nothing was done is true of GET alone.
        """
        status, body, headers = response
        named = self.answer_headers | headers
        if isinstance(body, bytes) and status != NOT_MODIFIED:
            named["content-length"] = str(len(body))
            if self.method == "GET" and len(body) > _COUNTED_BYTES:
                self.hold(len(body))
        self.status = status
        head = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
        await self._send_part({"type": "http.response.start", "status": status, "headers": head})
        if isinstance(body, bytes):
            for start in range(0, max(1, len(body)), _SENT_STEP_BYTES):
                await self._send_body(body[start : start + _SENT_STEP_BYTES], start + _SENT_STEP_BYTES < len(body))
            return
        async with contextlib.aclosing(body) as parts:
            gone = asyncio.create_task(self._gone())
            try:
                async for part in parts:
                    if gone.done():
                        return
                    if part:
                        await self._send_body(part, True)
                await self._send_body(b"", False)
            finally:
                gone.cancel()

    async def _gone(self) -> None:
        """Wait until the client has gone; what else it sends is dropped."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _send_body(self, part: bytes, more: bool) -> None:
        await self._send_part({"type": "http.response.body", "body": part, "more_body": more})

    async def _send_part(self, message: Any) -> None:
        self.sent_bytes += len(message.get("body", b""))
        if takes_at_once(self.scope):
            await self._send(message)
            return
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                await self._send(message)
        except TimeoutError:
            self.is_stuck = True
            raise

    def release(self) -> None:
        """Free what the request holds; it is answered."""
        self._body = None
        self._memory.release(self._held_bytes)
        self._held_bytes = 0

    async def _received(self) -> bytes:
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 19 and int(announced) > self._most_bytes:
            raise self._too_long()
        loop = asyncio.get_running_loop()
        started = loop.time()
        parts: list[bytes] = []
        hasher = blake3() if IDEMPOTENCY_KEY in self.headers else None
        try:
            while True:
                until = started + self._limits.body_seconds + self.received_bytes / self._limits.body_rate
                async with asyncio.timeout_at(until):
                    message: Any = await self._receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the connection ended inside the body")
                part = message.get("body", b"")
                self.received_bytes += len(part)
                if self.received_bytes > self._most_bytes:
                    raise self._too_long()
                self.hold(len(part))
                parts.append(part)
                if hasher is not None:  # part by part: a long body would stop the event loop
                    hasher.update(part)
                if not message.get("more_body", False):
                    self.body_digest = b"" if hasher is None else hasher.digest()
                    return b"".join(parts) if len(parts) > 1 else bytes(part)
        except TimeoutError as error:
            raise Refusal(
                408, f"the body came too slowly: {self.received_bytes} bytes in {loop.time() - started:.0f} s"
            ) from error

    async def _decompressed(self, raw: bytes) -> bytes:
        """A body out of zstd; memory is bounded whatever it says of itself."""
        try:
            claimed = zstandard.frame_content_size(raw)
            if claimed > self._most_bytes:
                raise self._too_long()
            if claimed >= 0:
                self.hold(claimed)
                return await _in_thread_if_long(max(len(raw), claimed), _decompress, raw, claimed)
            return await self._decompressed_in_pieces(raw)
        except zstandard.ZstdError as error:
            raise Refusal(400, f"the body is no zstd: {error}") from error

    async def _decompressed_in_pieces(self, raw: bytes) -> bytes:
        """Out of a frame that does not say its length, as a compressor writes it that reads from a pipe."""
        found = _pieces(raw)
        pieces: list[bytes] = []
        length = 0
        while piece := await _in_thread_if_long(len(raw) + length, _next_piece, found):
            length += len(piece)
            if length > self._most_bytes:
                raise self._too_long()
            self.hold(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    def hold(self, count: int) -> None:
        """Count memory that the request takes until it is answered.

        Raises:
            Refusal: 429, there is no room.
        """
        memory = self._memory
        if not memory.take(count):
            raise busy(f"requests of {memory.taken_bytes} bytes wait here, and {memory.limit_bytes} is the most")
        self._held_bytes += count

    def _too_long(self) -> Refusal:
        return Refusal(413, f"the body has more than {self._most_bytes} bytes; send less at a time, see GET /v1")


def _decompress(raw: bytes, claimed: int) -> bytes:
    raw_bytes = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompress(raw, allow_extra_data=False)
    if len(raw_bytes) != claimed:
        raise zstandard.ZstdError(f"{len(raw_bytes)} bytes where the frame says {claimed}")
    return raw_bytes


def _pieces(raw: bytes) -> Iterator[bytes]:
    """The raw bytes of one frame, a few at a time.

    `stream_reader` would take a frame that was cut off, or the first one of several, for the whole.

    Raises:
        ZstdError: it is damaged, cut off, or more bytes follow it.
    """
    decoder = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
    for start in range(0, len(raw), _STEP_BYTES):
        if not decoder.eof and (piece := decoder.decompress(raw[start : start + _STEP_BYTES])):
            yield piece
        used = min(start + _STEP_BYTES, len(raw)) - len(decoder.unused_data)
        if decoder.eof and used < len(raw):
            raise zstandard.ZstdError(f"there are {len(raw) - used} bytes after its frame; send one frame")
    if not decoder.eof:
        raise zstandard.ZstdError("it was cut off")


def _next_piece(pieces: Iterator[bytes]) -> bytes:
    """About as many bytes as are worth a step; b"" at the end."""
    taken: list[bytes] = []
    count = 0
    for piece in pieces:
        taken.append(piece)
        count += len(piece)
        if count >= _PIECE_BYTES:
            break
    return b"".join(taken)


async def _in_thread_if_long(length: int, call: Callable[..., bytes], *args: Any) -> bytes:
    """Call what takes as long as its bytes are many: for many in a thread, so that the event loop goes on."""
    return call(*args) if length < LONG_BYTES else await asyncio.to_thread(call, *args)


def takes_at_once(scope: Any) -> bool:
    """Whether the connection takes the next part of an answer without waiting: a timeout takes as long as to send."""
    flow = scope.get(FLOW)
    return flow is not None and not flow.write_paused


# --- admission: Host, Origin and token

LOCAL = "local"
"""The client of the unix socket, and every client if there are no tokens."""


def client_of(scope: Any, token_name: str) -> str:
    """Who shares the server with others: the name of a token, which many machines may use; without one the address."""
    address = scope.get("client")
    return token_name if token_name not in ("", LOCAL) else address[0] if address else LOCAL


class Admission:
    """Decides who may ask.

    Args:
        settings: names and origins that are allowed.
        tokens: who may do what; None where only this machine can ask, and may do everything.
    """

    def __init__(self, settings: Settings, tokens: Tokens | None) -> None:
        self._hosts = {"localhost", settings.bind.lower(), *(host.lower() for host in settings.hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in settings.origins}
        self._tokens = tokens
        self._secret = os.urandom(32)

    def admit(self, context: RequestContext) -> None:
        """Decide what a client may do: its role and name.

        Raises:
            Refusal: the request names another host, or comes from a web page of another origin.
        """
        if context.is_local:
            context.role, context.client_name = Role.ADMIN, LOCAL
            return
        host = self._checked_host(context)
        self._check_origin(context, host)
        if self._tokens is None:
            context.role, context.client_name = Role.ADMIN, LOCAL
            return
        token = self._tokens.of_header(context.headers.get("authorization", ""), ("bearer",))
        if token is not None:
            context.role, context.client_name = token

    # Visitors of the operator's page: HTTP Basic with a token as the password; changes carry a proof.  A browser keeps
    # Basic credentials for one origin, host and port: unlike a cookie they never reach the archive API, which shows
    # stored pages on another port.  It sends them by itself, so a form carries a proof that only a page of this server
    # can hold; requests of other origins are refused before that.

    def visitor(self, context: RequestContext) -> Role:
        """What a visitor of the page may do; names it in the context."""
        if context.role is Role.NONE and self._tokens is not None:
            token = self._tokens.of_header(context.headers.get("authorization", ""), ("basic",))
            if token is not None:
                context.role, context.client_name = token
        return context.role

    def proof(self, context: RequestContext) -> str:
        """What a form of this visitor carries."""
        return hmac.new(self._secret, context.client_name.encode(), hashlib.sha256).hexdigest()

    def is_proof(self, context: RequestContext, given: str) -> bool:
        """Whether a form came from a page that this visitor was shown."""
        return hmac.compare_digest(self.proof(context).encode(), given.encode("utf-8", "replace"))

    def _checked_host(self, context: RequestContext) -> str:
        given = _values(context, b"host")
        if len(given) != 1:
            raise Refusal(400, "a request has one Host header")
        host = given[0].lower()
        if (name := host_name(host)) not in self._hosts and not _is_address(name):
            raise Refusal(403, f"this server is not {name[:100]!r}; `docstore serve --allow-host NAME` makes it so")
        return host

    def _check_origin(self, context: RequestContext, host: str) -> None:
        origins = _values(context, b"origin") if "origin" in context.headers else []
        for origin in origins:
            if origin.lower() not in self._origins | {f"http://{host}", f"https://{host}"}:
                raise Refusal(
                    403, f"pages of {origin[:100]!r} may not ask; `docstore serve --allow-origin ORIGIN` lets them"
                )
        if origins or context.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return
        is_link = context.headers.get("sec-fetch-mode") == "navigate" and context.method == "GET"
        if not is_link or context.path.startswith("/v1"):
            raise Refusal(403, "web pages of other origins may not ask")


def check_role(context: RequestContext, needed: Role) -> None:
    """Refuse a client who may not do this.

    Raises:
        Refusal: 401 without a token that is known, 403 with one of a lower role.
    """
    if context.role >= needed:
        return
    if context.role is Role.NONE:
        raise Refusal(401, "give a token: `Authorization: Bearer TOKEN`")
    raise Refusal(403, f"this needs a token of the role {needed.name.lower()}; yours is {context.role.name.lower()}")


def host_name(host: str) -> str:
    """The name or address in a Host header, without its port."""
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name if ":" in name and (not port or port.startswith(":")) else host
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    """Whether it is an address: no name that somebody else could let resolve to ours."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _values(context: RequestContext, name: bytes) -> list[str]:
    headers: Iterable[tuple[bytes, bytes]] = context.scope["headers"]
    return [value.decode("latin-1") for key, value in headers if key == name]
