"""What a sweep computes: the rule of equal versions, and shingle sets of batches of texts and bodies.

Pure functions over columns, for threads of a sweep and for tasks on Spark (`docstore.spark`).  A batch is a dict of
columns, each a numpy array or a list of bytes, as in Arrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.dedup.comparable import (
    MIN_NEAR_WORDS,
    MIN_SAME_TEXT_WORDS,
    distinctive_words,
    status_class,
    text_compares,
)
from docstore.dedup.kernel import Kernel, joined_words, sketches_of_sets
from docstore.model import keys
from docstore.model.format import SCHEME_TEXT_2
from docstore.model.sets import Numbers, Sets
from docstore.model.types import Headers, header_of
from docstore.reading.documents import REDIRECT_STATUSES

# --- when two versions are equal: one rule for all stages and for verdicts
#
# With 50 words or more: equal text and equal distinctive words of the title (`dedup.comparable`).  With 20 to 49: equal
# text and equal title words in order.  With fewer, without text or without a 2xx status: equal body.  Only versions
# with 50 words or more are compared by shingles.

BY_BODY, BY_TITLE, BY_TEXT = 0, 1, 2
"""What two equal versions have in common: the body; text and title; text and distinctive title words."""


def _digest(sort: bytes, value: bytes) -> bytes:
    return blake3(sort + value).digest(16)


def identify(word_count: int, text_checksum: bytes, title: bytes, body: bytes) -> tuple[int, bytes]:
    """The rule by which a page with a text is equal to others, and its 16-byte identity under that rule."""
    if word_count >= MIN_NEAR_WORDS:
        return BY_TEXT, text_identity(text_checksum, title)
    if word_count >= MIN_SAME_TEXT_WORDS:
        said = joined_words(title.decode("utf-8", "surrogatepass"))
        return BY_TITLE, _digest(b"t", text_checksum + said.encode("utf-8", "surrogatepass"))
    return BY_BODY, body


def text_of(text_checksum: bytes, *, is_list: bool) -> bytes:
    """Identity of a text; a text of a feed or site map never equals that of a page."""
    return b"list" + text_checksum if is_list else text_checksum


def text_identity(text_checksum: bytes, title: bytes) -> bytes:
    """Identity of a text with the distinctive words of its title, 16 bytes."""
    distinctive = "\n".join(sorted(distinctive_words(title.decode("utf-8", "surrogatepass"))))
    return _digest(b"n", text_checksum + distinctive.encode("utf-8", "surrogatepass"))


def body_identity(status: int, body: bytes) -> bytes:
    """Identity of a body within its status class, 16 bytes."""
    return _digest(b"b%d:" % status_class(status), body)


LONG_TEXT_BYTES = 2048
"""A longer text is assumed to have 50 words.  If it has fewer, its pairs are dropped later."""


class Equality(NamedTuple):
    """How a version is equal to others.

    Attributes:
        is_good: a 2xx answer with a text.
        body: equal exactly for equal bodies of one status class, 16 bytes.
        equal_by: BY_BODY, BY_TITLE or BY_TEXT.
        identity: under that rule, 16 bytes.
    """

    is_good: bool
    body: bytes
    equal_by: int
    identity: bytes


def equality(
    status: int, body: bytes, text_checksum: bytes, title: bytes, *, is_list: bool, count_words: Callable[[], int]
) -> Equality:
    """The equality of a version.

    Args:
        status: HTTP status.
        body: checksum of the body.
        text_checksum: scheme byte and digest; b"" without words.
        title: in UTF-8.
        is_list: a feed or site map.
        count_words: words of its text; from 50 on any number of 50 or more.
    """
    is_good = text_compares(status) and len(text_checksum) == 17 and text_checksum[0] == SCHEME_TEXT_2
    body = body_identity(status, body)
    if not is_good:
        return Equality(False, body, BY_BODY, body)
    return Equality(True, body, *identify(count_words(), text_of(text_checksum, is_list=is_list), title, body))


# --- shingle sets

Columns: TypeAlias = dict[str, Any]
"""A batch: by name a numpy array of one dimension, or a list of bytes or None."""


class TextRule(NamedTuple):
    """How sets are made from texts: the parameters of the kernel, and whether sketches are made too."""

    extractor: str
    shingle_words: int
    sketches: bool
    vocabulary: str = ""

    @lru_cache(maxsize=4)  # noqa: B019 - rules are few and small
    def kernel(self) -> Kernel:
        """The kernel that follows this rule."""
        return Kernel(self.extractor, self.shingle_words, vocabulary=self.vocabulary)


def sets_of_texts(rule: TextRule, batch: Columns) -> Columns:
    """Shingle sets of texts.

    Args:
        batch: `text` (UTF-8), `equal_by` (uint8) and `identity` (uint64, two each) of each version.
    Returns:
        Columns as of `_columns`.
    """
    sets, counts = rule.kernel().shingle_sets(batch["text"], MIN_NEAR_WORDS)
    return _columns(sets, counts, batch["equal_by"], batch["identity"], rule.sketches)


def sets_of_bodies(rule: TextRule, batch: Columns) -> Columns:
    """Shingle sets of the texts of bodies, and the identities of their versions.

    Args:
        batch: `body`, `content_type` (UTF-8 or None) and `identity` (uint64, two each, of the body) of each version.
    """
    kernel = rule.kernel()
    texts, counts, equal_by, identities = [], [], [], []
    bodies = batch["identity"].reshape(-1, 2)
    for body, content_type, identity in zip(batch["body"], batch["content_type"], bodies, strict=True):
        analysis = kernel.analyse(body, None if content_type is None else content_type.decode("utf-8", "surrogatepass"))
        texts.append(analysis.main_bytes)
        counts.append(analysis.word_count)
        title = analysis.title.encode("utf-8", "surrogatepass")
        text = text_of(analysis.text_checksum, is_list=bool(analysis.entries))
        by, identified = identify(analysis.word_count, text, title, identity.tobytes())
        equal_by.append(by)
        identities.append(identified)
    sets, _ = kernel.shingle_sets(texts, 0)
    identity = np.frombuffer(b"".join(identities), np.uint64)
    return _columns(sets, np.array(counts, np.int64), np.array(equal_by, np.uint8), identity, rule.sketches)


def _columns(
    sets: Sets, counts: Numbers, equal_by: NDArray[np.uint8], identity: NDArray[np.uint64], sketches: bool
) -> Columns:
    """Sets as columns.

    Returns:
        `lengths` and `counts` (int64) of members and words of each; `members` (uint64), the sets in sequence, each
        ascending; `sketches` (uint8), 256 each if requested; `equal_by` and `identity` of each.
    """
    return {
        "lengths": sets.lengths,
        "counts": counts,
        "members": sets.members,
        "sketches": sketches_of_sets(sets) if sketches else np.empty(0, np.uint8),
        "equal_by": equal_by,
        "identity": identity,
    }


# --- threads

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_order(threads: int, work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """Results of the parts, in order, computed in threads; at most two parts a thread are in flight."""
    with ThreadPoolExecutor(threads, thread_name_prefix="docstore-sweep") as pool:
        window: deque[Future[Result]] = deque()
        for part in parts:
            window.append(pool.submit(work, part))
            if len(window) >= 2 * threads:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()


# --- where a page leads

_FOR_GOOD = (301, 308)


def target_of(row_key: bytes, reference: str | None) -> bytes | None:
    """The row to which a reference on a page leads."""
    target = keys.resolve(keys.url_of(row_key), reference) if reference else None
    return None if target is None else keys.row_key(target)


def moved_to(row_key: bytes, status: int, headers: Callable[[], Headers]) -> bytes | None:
    """The row to which a page has moved, by its answer; to another site only for good: 302 and 307 may be logins."""
    target = target_of(row_key, header_of(headers(), "location")) if status in REDIRECT_STATUSES else None
    may_move = target is not None and (status in _FOR_GOOD or keys.same_site(target, row_key))
    return target if may_move else None
