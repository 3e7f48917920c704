"""Why a request is refused before it reaches the store, and errors as answers.

Knows `wire.errors` and HTTP statuses; must not know routes.
"""

from __future__ import annotations

from typing import Any, Final

from litestar.exceptions import HTTPException

from docstore.model.errors import DocstoreError, InvalidArgument, StoreUnavailable
from docstore.wire.errors import error_fields, status_of

BUSY_SECONDS: Final = 1
"""When to come again after 429."""
STOPPING_SECONDS: Final = 5
"""When to come again after 503."""
ABSENT: Final = "Absent"
"""The kind of a 404 that says: the store has no such page."""


class Refusal(DocstoreError):
    """A request that is answered with a status of its own.

    Attributes:
        status: of the answer.
        kind: name of the class that a client raises.
        retry_after: seconds, or 0.
    """

    def __init__(self, status: int, message: str, *, kind: str = "", retry_after: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind or (
            StoreUnavailable.__name__ if status in (401, 403, 408, 429, 503) else InvalidArgument.__name__
        )
        self.retry_after = retry_after


def absent(url: str, why: str = "") -> Refusal:
    """The answer where there is no such page."""
    return Refusal(404, f"the store has no page of {url[:500]}{why}", kind=ABSENT)


def busy(what: str) -> Refusal:
    """The answer where a bounded queue is full: nothing was done."""
    return Refusal(429, f"{what}; nothing was done, ask again in {BUSY_SECONDS} s", retry_after=BUSY_SECONDS)


def stopping() -> Refusal:
    """The answer to what comes after a stop."""
    return Refusal(503, "the server is stopping; nothing was done", retry_after=STOPPING_SECONDS)


def failure(error: Exception) -> tuple[int, dict[str, Any], int]:
    """An exception as status, body and seconds after which to come again (0 for none)."""
    if isinstance(error, Refusal):
        return error.status, error_fields(error, name=error.kind, retry_after=error.retry_after), error.retry_after
    if isinstance(error, HTTPException):  # of the framework: no route, a parameter of another type
        message = error.detail + (f": {_details(error.extra)}" if error.extra else "")
        return error.status_code, error_fields(InvalidArgument(message[:2000])), 0
    return status_of(error), error_fields(error), 0


def is_bug(error: Exception) -> bool:
    """Whether nobody foresaw an exception: its traceback belongs into the log."""
    return not isinstance(error, DocstoreError | HTTPException) or (
        isinstance(error, HTTPException) and error.status_code >= 500
    )


def _details(extra: Any) -> str:
    found = extra if isinstance(extra, list) else [extra]
    words = [f"{one.get('key', '')}: {one.get('message', '')}" if isinstance(one, dict) else str(one) for one in found]
    return "; ".join(words)
