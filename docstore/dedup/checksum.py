"""Checksums of a body and of a text: scheme byte and digest, by name of the algorithm.

Knows `format` and `errors`.  Must not know what is done with equal checksums.

A checksum *decides alone* where equal checksums may be taken for equal bytes: at least 128 bits, and no way known to
make two bodies with one checksum.  With the others length and bytes are compared before a body counts as `exact`.

==============  ======  =====  ==============
name            scheme  bytes  decides alone
==============  ======  =====  ==============
``blake3``           1     32  yes
``byte_sum``         2      8  no
``adler32``          3      4  no
``crc32``            4      4  no
``md5``              5     16  no (broken)
``sha1``             6     20  no (broken)
``sha256``           7     32  yes
``blake2b``          8     32  yes
==============  ======  =====  ==============

Digests are as their standards print them; Adler-32 and CRC-32 are big-endian (RFC 1950's order), the byte sum too.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from blake3 import blake3

from docstore.model import format as disk
from docstore.model.errors import InvalidArgument


class Algorithm(NamedTuple):
    """One checksum algorithm.

    Attributes:
        scheme: its number in `format`.
        digest: bytes -> digest.
        decides_alone: equal checksums may be taken for equal bytes.
    """

    scheme: int
    digest: Callable[[bytes], bytes]
    decides_alone: bool


def byte_sum(body: bytes) -> int:
    """Sum of the byte values, modulo 2**64: of "Tropical fish" 0x508."""
    return int(np.frombuffer(body, np.uint8).sum(dtype=np.uint64))


ALGORITHMS: Final[dict[str, Algorithm]] = {
    "blake3": Algorithm(disk.SCHEME_BLAKE3_256, lambda body: blake3(body).digest(), True),
    "byte_sum": Algorithm(disk.SCHEME_BYTE_SUM, lambda body: byte_sum(body).to_bytes(8, "big"), False),
    "adler32": Algorithm(disk.SCHEME_ADLER32, lambda body: zlib.adler32(body).to_bytes(4, "big"), False),
    "crc32": Algorithm(disk.SCHEME_CRC32, lambda body: zlib.crc32(body).to_bytes(4, "big"), False),
    "md5": Algorithm(disk.SCHEME_MD5, lambda body: hashlib.md5(body, usedforsecurity=False).digest(), False),
    "sha1": Algorithm(disk.SCHEME_SHA1, lambda body: hashlib.sha1(body, usedforsecurity=False).digest(), False),
    "sha256": Algorithm(disk.SCHEME_SHA256, lambda body: hashlib.sha256(body).digest(), True),
    "blake2b": Algorithm(disk.SCHEME_BLAKE2B_256, lambda body: hashlib.blake2b(body, digest_size=32).digest(), True),
}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name.

    Raises:
        InvalidArgument: there is none.
    """
    try:
        return ALGORITHMS[name]
    except KeyError as error:
        known = ", ".join(ALGORITHMS)
        raise InvalidArgument(f"no checksum is named {name!r}; choose one of {known}") from error


def body_checksum(body: bytes, name: str = "blake3") -> bytes:
    """Scheme byte and digest of a body.

    Raises:
        InvalidArgument: no algorithm has that name.
    """
    chosen = algorithm(name)
    return bytes((chosen.scheme,)) + chosen.digest(body)


def checksum_matches(checksum: bytes, body: bytes) -> bool:
    """Whether a body has this checksum, whatever its algorithm; False for an unknown scheme."""
    for known in ALGORITHMS.values():
        if checksum[:1] == bytes((known.scheme,)):
            return known.digest(body) == checksum[1:]
    return False


def decides_alone(checksum: bytes) -> bool:
    """Whether bodies with this checksum, scheme byte included, are the same without a look at their bytes."""
    return any(known.scheme == checksum[0] and known.decides_alone for known in ALGORITHMS.values())
