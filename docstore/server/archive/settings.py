"""What an operator may set of the archive API, and the bounds of every answer.

Imports nothing of the package: a bound is a number here, and its reader says what happens at it.
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 1 << 20
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
        waiting: requests that may wait for a thread; one more is answered 503.
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
