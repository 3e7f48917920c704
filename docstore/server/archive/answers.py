"""Answers of the archive API, and what makes them safe: headers without line ends, types that no browser guesses.

Knows HTTP; must not know the store.  Every answer says that nothing in it may run: it has an origin of its own without
rights (`sandbox`), loads nothing (`default-src 'none'`), and its type is taken as it is told (`nosniff`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from docstore.model.types import Headers

PLAIN = "text/plain; charset=utf-8"
LONGEST_HEADER = 30_000
"""Readers of HTTP in Python take 64 KiB a header."""
SAFETY: Headers = (
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


class Answer(NamedTuple):
    """One answer.

    Attributes:
        status: of HTTP, 200 to 599.
        headers: in order, without length and without those of `SAFETY`.
        body: all of it.
        length: of the body; None takes that of `body`.  For a HEAD whose body was not read.
        held_bytes: counted as being sent, until it is.
    """

    status: int
    headers: Headers
    body: bytes = b""
    length: int | None = None
    held_bytes: int = 0


def plain(status: int, text: str, headers: Headers = ()) -> Answer:
    """An answer in words."""
    return Answer(status, (("Content-Type", PLAIN), *headers), text.encode("utf-8", "replace") + b"\n")


def as_json(status: int, said: Mapping[str, object], headers: Headers = ()) -> Answer:
    """An answer as one JSON object."""
    return Answer(status, (("Content-Type", "application/json"), *headers), json.dumps(said).encode() + b"\n")


def is_token(name: str) -> bool:
    """Whether this can be the name of a header."""
    return _TOKEN.fullmatch(name) is not None


def one_line(value: str) -> str:
    """A value that cannot end a header: control characters become a blank."""
    return _CONTROL.sub(" ", value).strip()


def encoded_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI wants them; what is no header is left out."""
    return [
        (name.encode("ascii"), one_line(value).encode("utf-8", "surrogateescape"))
        for name, value in headers
        if is_token(name)
    ]
