"""What a server is told: where it listens, who may ask it, how much it takes at a time; the same for the archive API.

Imports nothing but errors: a bound is a number here, and its reader says what happens at it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from docstore.model.errors import InvalidArgument

DEFAULT_PORT = 8470
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server takes at a time; what goes beyond is refused, never queued without bound.

    Attributes:
        request_bytes: of one request's body, as it comes and decompressed.
        call_bytes: the same for calls that hold no pages, cells or results, see `messages.takes`.
        values: in one message; they are counted before any object is made.
        waiting_bytes: of all bodies that are in memory and of what they are decoded to; beyond it 429.
        requests: that are worked on at a time; beyond it 429.
        client_requests: the same for one client: its token, or its address if it has none.
        writes: groups of pages that wait for a commit or are in one; beyond it 429.
        streams: answers of many items that are read at a time, each with some MB in memory; beyond it, and beyond half
            of it for one client, 429.
        connections: of each listener; beyond it 503.
        header_bytes: of one request's line and headers.
        head_seconds: in which a request's line and headers are to come.
        body_seconds: that a body may take, next to a second for each `body_rate` bytes.
        body_rate: bytes a second below which a body is too slow.
        send_seconds: in which a client has to take the next part of an answer.
        idle_seconds: that a connection is kept without a request.
        stop_seconds: that a stop waits for requests in work.
        batch_pages: in one request.
        urls: in one request that reads many pages.
    """

    request_bytes: int = 64 * MIB
    call_bytes: int = MIB
    values: int = 1 << 20
    waiting_bytes: int = 256 * MIB
    requests: int = 512
    client_requests: int = 256
    writes: int = 64
    streams: int = 128
    connections: int = 1024
    header_bytes: int = 64 << 10
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    body_rate: int = 64 << 10
    send_seconds: float = 30.0
    idle_seconds: float = 75.0
    stop_seconds: float = 30.0
    batch_pages: int = 1024
    urls: int = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a server listens, and who may ask it.

    Attributes:
        bind, port: of the API; port 0 takes a free one.
        unix: path of a socket that only this user may use; None for one in the store's folder.
        archive_bind, archive_port: of the archive API, an origin of its own; None for none, port 0 for a free one.
            Without tokens everybody who reaches it may read every page.
        archive_url: scheme, host and port by which others know the archive API; "" for what they ask by.
        token_file: who may do what; None where only this machine can ask.
        hosts: names next to those of this machine that a request may have in its Host header.
        origins: of web pages that may ask.
        trusted_proxies: addresses whose X-Forwarded-For is believed.
        backup_root: folder below which requests over TCP may have backups written.
        payload_digests: give a written page the SHA-1 of its body as payload digest, where its client gives none.
        limits: how much it takes at a time.
    """

    bind: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    unix: Path | None = None
    archive_bind: str = "127.0.0.1"
    archive_port: int | None = None
    archive_url: str = ""
    token_file: Path | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    backup_root: Path | None = None
    payload_digests: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.token_file is None and not is_loopback(self.bind):
            raise InvalidArgument(
                f"{self.bind} can be reached from other machines, and without tokens anybody there could write and "
                "delete; give --token-file, or listen on 127.0.0.1"
            )
        if self.token_file is None and self.trusted_proxies:
            raise InvalidArgument(
                "behind a proxy every request seems to come from this machine; give --token-file with --trusted-proxy"
            )


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone; a name can be any address but `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# --- the archive API

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class ArchiveSettings(NamedTuple):
    """Settings of the archive API.

    Attributes:
        hosts: names by which clients may address it, without port.  A request with another `Host` is refused, so that
            no site can point its own name here (DNS rebinding).
        base_url: scheme, host and port that links carry, such as "https://archive.example.org"; "" takes those of the
            request.
        threads: that look up captures and bodies.
        scan_threads: that run questions over many URLs; apart, so that they do not hold up single look-ups.
        waiting: requests that may wait for a thread, half of them of one client; one more is answered 503.
        scan_rows: most rows and captures that a question looks at.
        scan_seconds: most time that a question takes.
        answer_bytes: most bytes of a CDX answer.
        answer_rows: most rows of an answer to a question over many URLs that gives no `limit`.
        row_captures: most captures of one URL that a question looks at; `from` and `to` lead to the others.
        timemap_mementos: most mementos of one TimeMap; it names the next one.
        digest_bytes: most bytes of bodies that a question reads to work out digests.
        body_bytes: most bytes of bodies that are being sent, all answers together.
        send_seconds: a client that takes longer for an answer is cut off; more for a large one, by
            `send_bytes_per_second`.
        send_bytes_per_second: slowest client that is waited for.
        keep_digests: write digests that were worked out into the store.
    """

    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    base_url: str = ""
    threads: int = 4
    scan_threads: int = 2
    waiting: int = 256
    scan_rows: int = 100_000
    scan_seconds: float = 10.0
    answer_bytes: int = 32 * MIB
    answer_rows: int = 10_000
    row_captures: int = 10_000
    timemap_mementos: int = 10_000
    digest_bytes: int = 32 * MIB
    body_bytes: int = 512 * MIB
    send_seconds: float = 30.0
    send_bytes_per_second: int = 50_000
    keep_digests: bool = True
