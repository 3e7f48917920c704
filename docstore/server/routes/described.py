"""How a route says what it takes, gives and needs: in its options, from which the OpenAPI is made.

Knows grades; must not know any route.
"""

from __future__ import annotations

from typing import Any, Final

from docstore.server.tokens import Grade

GRADE: Final = "grade"
TAKES: Final = "takes"
GIVES: Final = "gives"
STREAMS: Final = "streams"
RAW: Final = "raw"


def opens(grade: Grade, *, takes: Any = None, gives: Any = None, streams: Any = None) -> dict[str, Any]:
    """Options of a route.

    Args:
        grade: that an asker needs.
        takes: type of its message; `bytes` for a body as it comes.
        gives: type of its answer; `bytes` for one as it is.
        streams: type of the items of its answer.
    """
    return {GRADE: grade, TAKES: takes, GIVES: gives, STREAMS: streams}
