"""What the index answers, as types: pages like one, and rejected pages whose original is gone.

Types only, without numpy: a client that holds no store reads them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from docstore.model.plain import Plain
from docstore.model.types import Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class Similar(Plain):
    """A live page like another.

    Attributes:
        url: of the page.
        timestamp: of its version, in microseconds since 1970.
        kind: exact, same_text, near, contained (in either direction) or similar; new if titles set the two apart.
        similarity: exact Jaccard coefficient of the texts.
        contained: share of the asking page's shingles that lie in this one.
        contains: share of this page's shingles that lie in the asking one.
        reason: "title_mismatch" if titles set the two apart; else "".
    """

    url: str
    timestamp: int
    kind: VerdictKind
    similarity: float
    contained: float
    contains: float
    reason: str = ""


class Loss(enum.StrEnum):
    """What became of the page that another was rejected for."""

    GONE = "gone"
    """It was deleted, a policy hides it, or it cannot be seen for another reason."""
    CHANGED = "changed"
    """Its URL shows something else now; the old version can still be read."""


@dataclass(frozen=True, slots=True)
class Orphan(Plain):
    """A page that was rejected as a duplicate of a page that does not show that content any more.

    Attributes:
        url: of the page that was rejected, and not stored since.
        timestamp: of its capture, in microseconds since 1970.
        checksum: of its body: scheme byte and digest; b"" where a policy hides it.
        verdict: for which it was rejected.
        loss: what became of the page that the verdict names.
    """

    url: str
    timestamp: int
    checksum: bytes
    verdict: Verdict
    loss: Loss
