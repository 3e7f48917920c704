"""Errors as plain data, with the HTTP status of each, and back.

Knows `errors`.  The body of a failed answer is ``{"error": {"class": "InvalidArgument", "message": "...", ...}}``,
with the fields of a `CorruptionError` beside these.  An exception of any other class travels as `Internal`, without
its text: what it says may name what the asker must not see.
"""

from __future__ import annotations

from typing import Any, Final

from docstore.model.errors import (
    CommitUnknown,
    CorruptionError,
    DocstoreError,
    InvalidArgument,
    StorageError,
    StoreUnavailable,
    UnsupportedFormat,
)

STATUS: Final[dict[type[DocstoreError], int]] = {
    InvalidArgument: 400,
    StoreUnavailable: 503,
    UnsupportedFormat: 500,
    CorruptionError: 500,
    StorageError: 507,
    CommitUnknown: 500,
    DocstoreError: 500,
}
"""HTTP status by class."""

_BY_NAME: Final = {kind.__name__: kind for kind in STATUS} | {
    "Forbidden": StoreUnavailable,
    "NotFound": InvalidArgument,
}
"""By name; the last two are the server's own: no such right, and no such route or job."""
INTERNAL: Final = "Internal"
"""Class of what is no `DocstoreError`: a fault of the server."""
_CORRUPTION_WORDS: Final = ("path", "expected", "found", "remedy")
_MESSAGE_LIMIT: Final = 4000


def status_of(error: Exception) -> int:
    """The HTTP status of an answer with this error."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def error_fields(error: Exception, *, name: str = "", retry_after: float | None = None) -> dict[str, Any]:
    """An error as plain data.

    Args:
        error: what was raised.
        name: a class of the server's own, instead of that of `error`.
        retry_after: seconds after which the same may succeed.
    """
    if not isinstance(error, DocstoreError):
        error = DocstoreError("the server failed; its log says why")
        name = name or INTERNAL
    kind = next(kind for kind in STATUS if isinstance(error, kind))
    fields: dict[str, Any] = {
        "class": name or kind.__name__,
        "message": str(error),
        "exit_code": error.exit_code,
        "retry_after": retry_after or None,
    }
    if isinstance(error, CorruptionError):
        fields |= {one: getattr(error, one) for one in _CORRUPTION_WORDS}
        fields |= {"what": error.message, "offset": error.offset}
    elif isinstance(error, StorageError):
        fields["errno"] = error.errno
    return {"error": fields}


def error_of(given: object) -> DocstoreError:
    """The error that plain data says, to be raised; one that is not said properly is a plain `DocstoreError`."""
    fields = given.get("error") if isinstance(given, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("message"), str):
        return DocstoreError("the other side failed, and did not say why")
    message = fields["message"][:_MESSAGE_LIMIT]
    name = fields.get("class")
    kind = _BY_NAME.get(name, DocstoreError) if isinstance(name, str) else DocstoreError
    if kind is CorruptionError:
        words = {one: fields[one] for one in _CORRUPTION_WORDS if isinstance(fields.get(one), str)}
        what, offset = fields.get("what"), fields.get("offset")
        return CorruptionError(
            what if isinstance(what, str) else message, offset=offset if type(offset) is int else None, **words
        )
    error = kind(message)
    if isinstance(error, StorageError) and type(fields.get("errno")) is int:
        error.errno = fields["errno"]
    return error
