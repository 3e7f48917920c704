"""Names in the index: pages by row and time, texts and bodies by prefixes of their checksums.

It does not import numpy, because reading imports this file.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from docstore.model.errors import InvalidArgument
from docstore.model.format import TEXT_NUMBER_BYTES, TIMESTAMP_MAX

_BODY_HEAD_BYTES = 8


class PagePointer(NamedTuple):
    """The target of a posting: sorts oldest first, then by row key."""

    timestamp: int
    row_key: bytes


def checked_names(payload_digest: str, docno: str, limit: int | None) -> None:
    """Check the arguments of `find`.

    Raises:
        InvalidArgument: neither name is given, one is not a storable text, or the limit is below 1.
    """
    try:
        "".join((payload_digest, docno)).encode("utf-8", "surrogateescape")
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidArgument(
            f"payload_digest and docno must be str, without surrogates other than those of surrogateescape: {error}"
        ) from error
    if not payload_digest and not docno:
        raise InvalidArgument("find needs a payload_digest or a docno")
    if limit is not None and limit < 1:
        raise InvalidArgument(f"limit must be at least 1, not {limit}")


_DIGEST_BYTES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}


def parse_digest(text: str) -> tuple[str, bytes] | None:
    """Algorithm and value of a digest as crawlers record it; None if it has no known form.

    Crawlers write the value in hexadecimal or in base32, in either case, and the name with or without a hyphen:
    ``sha1:3I42...``, ``SHA-256:ab12...``.  A value without a name is SHA-1, as in CDX files.
    """
    name, colon, value = text.rpartition(":")
    algorithm = name.lower().replace("-", "") if colon else "sha1"
    length = _DIGEST_BYTES.get(algorithm)
    if length is None:
        return None
    try:
        digest = (
            bytes.fromhex(value)
            if len(value) == 2 * length
            else base64.b32decode(value.upper() + "=" * (-len(value) % 8))
        )
    except ValueError:
        return None
    return (algorithm, digest) if len(digest) == length else None


def normal_digest(text: str) -> str:
    """A recorded digest in one form, so that two crawlers' ways to write it compare equal; others stay as they are."""
    parsed = parse_digest(text)
    return f"{parsed[0]}:{parsed[1].hex()}" if parsed else text


def place_after(pointer: PagePointer) -> str:
    """A capture as a string, for a request for the captures after it."""
    return f"{pointer.timestamp}-{pointer.row_key.hex()}"


def parse_place(place: str) -> PagePointer:
    """Decode the string of `place_after`.

    Raises:
        InvalidArgument: it is not such a string.
    """
    timestamp, _, row_key = place.partition("-")
    try:
        pointer = PagePointer(int(timestamp), bytes.fromhex(row_key))
    except ValueError:
        pointer = PagePointer(-1, b"")
    if not 0 <= pointer.timestamp <= TIMESTAMP_MAX:
        raise InvalidArgument(f"after must be the `next` of an answer, TIME-HEXADECIMAL, not {place[:100]!r}")
    return pointer


def text_number(text_checksum: bytes) -> bytes:
    """Prefix of a text checksum's digest: the text's name in every bucket."""
    return text_checksum[1 : 1 + TEXT_NUMBER_BYTES]


def body_head(body_checksum: bytes) -> bytes:
    """Scheme byte and prefix of a body checksum's digest."""
    return body_checksum[: 1 + _BODY_HEAD_BYTES]
