"""By what versions are equal, and what they are named by in that: one rule for all stages of a sweep.

Pure; must not know rows.  Versions are equal by the same rules as in verdicts.  With 50 words or more: the text, and
the words of the title that `dedup.comparable` uses.  With 20 to 49: the text, and the title's words in order.  With
fewer, without text or without a 2xx status: the body.  Only versions with 50 words or more are compared further.
"""

from __future__ import annotations

from blake3 import blake3

from docstore.dedup.comparable import MIN_NEAR_WORDS, MIN_SAME_TEXT_WORDS, distinctive_words, status_class
from docstore.reference.words import words

BY_BODY, BY_TITLE, BY_TEXT = 0, 1, 2
"""What a version must have in common with another to be its equal: body; text and title; text and title words."""


def _digest(sort: bytes, value: bytes) -> bytes:
    return blake3(sort + value).digest(16)


def identify(word_count: int, text_checksum: bytes, title: bytes, body: bytes) -> tuple[int, bytes]:
    """By what a good page of so many words is equal to others, and the 16 bytes in which it equals them."""
    if word_count >= MIN_NEAR_WORDS:
        return BY_TEXT, text_identity(text_checksum, title)
    if word_count >= MIN_SAME_TEXT_WORDS:
        said = " ".join(words(title.decode("utf-8", "surrogatepass")))
        return BY_TITLE, _digest(b"t", text_checksum + said.encode("utf-8", "surrogatepass"))
    return BY_BODY, body


def text_of(text_checksum: bytes, *, is_list: bool) -> bytes:
    """Names a text among pages, or among feeds and site maps."""
    return b"list" + text_checksum if is_list else text_checksum


def text_identity(text_checksum: bytes, title: bytes) -> bytes:
    """Names a text under titles of which all have the same words, 16 bytes."""
    found = "\n".join(sorted(distinctive_words(title.decode("utf-8", "surrogatepass"))))
    return _digest(b"n", text_checksum + found.encode("utf-8", "surrogatepass"))


def body_identity(status: int, body: bytes) -> bytes:
    """Names a body by its checksum among those of its status class, 16 bytes."""
    return _digest(b"b%d:" % status_class(status), body)
