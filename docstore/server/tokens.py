"""Who may do what: tokens of three grades, in a file that only its owner can read.

Knows the file's form; must not know requests.  A line is ``GRADE TOKEN [name]``, with GRADE read, write or admin; empty
lines and lines that begin with # say nothing.  Tokens are kept and compared as digests: a comparison takes the same
time wherever two tokens differ, and a dump of memory has none that is not in use.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from docstore.model.errors import InvalidArgument

SHORTEST_TOKEN = 16
CHALLENGE = 'Basic realm="docstore", charset="UTF-8"'
"""Lets a browser ask for a name and a password."""


class Grade(enum.IntEnum):
    """What a request may do; each grade may what the ones before it may."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


class Token(NamedTuple):
    """One token of the file."""

    digest: bytes
    grade: Grade
    name: str


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

    def find(self, given: str) -> Token | None:
        """The token that was given; compares with all of them."""
        digest = _digest(given)
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def of_header(self, authorization: str, schemes: Sequence[str]) -> Token | None:
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


def _read(path: Path) -> list[Token]:
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


def _token(path: Path, number: int, line: str) -> Token:
    words = line.split()
    grades = {grade.name.lower(): grade for grade in Grade if grade}
    if not 2 <= len(words) <= 3 or words[0] not in grades:
        raise InvalidArgument(
            f"{path}:{number}: write `read TOKEN`, `write TOKEN` or `admin TOKEN`, and perhaps a name"
        )
    if len(words[1]) < SHORTEST_TOKEN:
        raise InvalidArgument(
            f"{path}:{number}: the token has {len(words[1])} characters; at least {SHORTEST_TOKEN}, such as "
            "`openssl rand -hex 24` gives"
        )
    return Token(_digest(words[1]), grades[words[0]], words[2] if len(words) == 3 else f"line {number}")
