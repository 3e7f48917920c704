"""What a server is told: where it listens, who may ask it, and how much it takes at a time.

Knows nothing but its own fields and which of them do not go together.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from docstore.model.errors import InvalidArgument

DEFAULT_PORT = 8470
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server takes at a time; what goes beyond is refused, never queued without bound.

    Attributes:
        request_bytes: of one request's body, as it comes and decompressed.
        call_bytes: the same for calls that hold no pages, cells or results, see `messages.LONG_MESSAGES`.
        values: in one message; they are counted before any object is made.
        waiting_bytes: of all bodies that are in memory and of what they are decoded to; beyond it 429.
        requests: that are worked on at a time; beyond it 429.
        writes: groups of pages that wait for a commit or are in one; beyond it 429.
        streams: answers of many items that are read at a time, each with some MB in memory; beyond it 429.
        connections: of each listener; beyond it 503.
        header_bytes: of one request's line and headers.
        head_seconds: in which a request's line and headers are to come.
        body_seconds: that a body may take, beside a second for each `body_rate` bytes.
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
        host, port: of the API; port 0 takes a free one.
        unix: path of a socket that only this user may use; None for one in the store's folder.
        archive_host, archive_port: of the archive API, an origin of its own; None for none, port 0 for a free one.
            Without tokens whoever reaches it may read every page.
        archive_url: scheme, host and port by which others know the archive API; "" for what they ask by.
        token_file: who may do what; None where only this machine can ask.
        hosts: names beside those of this machine that a request may have in its Host header.
        origins: of web pages that may ask.
        trusted_proxies: addresses whose X-Forwarded-For is believed.
        backup_root: folder below which requests over TCP may have backups written.
        digests: give a written page the SHA-1 of its body as payload digest, where its client gives none.
        limits: how much it takes at a time.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    unix: Path | None = None
    archive_host: str = "127.0.0.1"
    archive_port: int | None = None
    archive_url: str = ""
    token_file: Path | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    backup_root: Path | None = None
    digests: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.token_file is None and not is_loopback(self.host):
            raise InvalidArgument(
                f"{self.host} can be reached from other machines, and without tokens anybody there could write and "
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
