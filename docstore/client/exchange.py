"""One call until it is answered: what is sent, what the answers mean, when it is sent again.  No I/O.

Knows `wire`, HTTP's headers and statuses.  The clients of threads and of asyncio send and wait; all else is here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Generic, NoReturn, TypeVar
from urllib.parse import urlencode

from docstore.client.address import Address
from docstore.client.calls import Call
from docstore.client.connections import Answer, Broken, Request
from docstore.client.retries import Attempts, Retries
from docstore.model.errors import CommitUnknown, DocstoreError, InvalidArgument, StoreUnavailable, UnsupportedFormat
from docstore.version import __version__
from docstore.wire import frames, shapes
from docstore.wire.errors import error_of

_T = TypeVar("_T")

ANSWER_LIMIT_BYTES = 1 << 31
COMPRESSED_BYTES = 4096
"""Shorter requests are sent as they are."""
_TRY_AGAIN = (408, 425, 429, 502, 503, 504)
_ABSENT = "Absent"
_WHAT_NEXT = (
    "do the same again; before a read-modify-write or check-and-mutate read the row, as they would be done twice"
)


class Session:
    """What all calls of one client have in common.

    Attributes:
        address: of the server.
        boot: names the run of the server, once it has said so.
        retries: how long calls are made again.
    """

    def __init__(self, address: Address, token: str | None, retries: Retries) -> None:
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidArgument("a token is printable ASCII, as the server's token file has it")
        self.address = address
        self.boot = ""
        self.retries = retries
        self._common = {"host": address.authority, "user-agent": f"docstore/{__version__}"}
        if token:
            self._common["authorization"] = f"Bearer {token}"
        self._common["accept-encoding"] = "identity" if address.is_local else "zstd"

    def request(self, call: Call[Any], accept: str) -> Request:
        """What is sent for a call; its key is the same however often it is sent.

        Raises:
            InvalidArgument: an argument cannot be sent.
        """
        headers = {**self._common, "accept": accept}
        body = None
        if call.message is not None:
            body = shapes.to_msgpack(call.message)
            headers["content-type"] = shapes.MSGPACK
            if not self.address.is_local and len(body) >= COMPRESSED_BYTES:
                body = frames.compressed(body)
                headers["content-encoding"] = "zstd"
        if call.writes:
            headers["idempotency-key"] = f"{self.boot or 'unknown'}.{secrets.token_hex(16)}"
        query = {name: _parameter(value) for name, value in call.query.items() if value is not None}
        try:
            target = self.address.prefix + call.path + (f"?{urlencode(query)}" if query else "")
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"an argument has a lone surrogate and cannot be sent: {error}") from error
        return Request(call.method, target, headers, body)

    def heard(self, headers: Mapping[str, str]) -> None:
        """Note what every answer says."""
        boot = headers.get("docstore-boot", "")
        if boot.isascii() and boot.isprintable() and len(boot) <= 80:
            self.boot = boot or self.boot


class Exchange(Generic[_T]):
    """One call.

    Attributes:
        request: what is sent, each time the same.
    """

    def __init__(self, session: Session, call: Call[_T], attempts: Attempts, accept: str = shapes.MSGPACK) -> None:
        self._session = session
        self._call = call
        self._attempts = attempts
        self._reached = False
        self.request = session.request(call, accept)

    def broke(self, broken: Broken) -> float:
        """Seconds to wait before the request is sent again.

        Raises:
            CommitUnknown: it may have been applied, and there was no answer for too long.
            StoreUnavailable: it was not.
        """
        self._reached = self._reached or broken.reached
        where = self._session.address
        error: DocstoreError
        if self._call.writes and self._reached:
            error = CommitUnknown(f"{where} did not answer ({broken}): the write may be applied; {_WHAT_NEXT}")
        elif self._reached:
            error = StoreUnavailable(f"{where} did not answer ({broken}); ask again")
        else:
            error = StoreUnavailable(f"no server answers at {where}: {broken}; is `docstore serve` running there?")
        return self._attempts.pause(error)

    def refused(self, answer: Answer) -> float | None:
        """Seconds to wait before the request is sent again; None where the answer is to be taken.

        Raises:
            StoreUnavailable: it was refused for too long.
        """
        self._session.heard(answer.headers)
        if answer.status not in _TRY_AGAIN:
            return None
        given = self._plain(answer)
        says_when = _seconds(answer.headers.get("retry-after"), given)
        if says_when is None and given is not None:
            return None  # the store itself is not available: that stays so
        self._reached = self._reached or answer.status in (502, 504)  # a proxy: the server behind it may have got it
        error = StoreUnavailable(self._words(answer)) if given is None else error_of(given)
        if self._call.writes and self._reached:
            error = CommitUnknown(f"{error}; an earlier attempt may be applied; {_WHAT_NEXT}")
        return self._attempts.pause(error, says_when)

    def result(self, answer: Answer) -> _T:
        """What the call gives.

        Raises:
            DocstoreError: the server says that it failed.
            UnsupportedFormat: the answer cannot be understood.
        """
        call = self._call
        given = self._plain(answer)
        if answer.status < 300:
            try:
                return call.result(given)
            except InvalidArgument as wrong:
                raise UnsupportedFormat(
                    f"the answer of {self._session.address} is not what docstore {__version__} knows ({wrong}): use "
                    "the same version on both sides"
                ) from wrong
        if answer.status == 404 and call.absent is not None and (call.method == "HEAD" or _class(given) == _ABSENT):
            return call.absent()
        if given is None:
            raise StoreUnavailable(self._words(answer))
        error = error_of(given)
        if call.failed is not None:
            return call.failed(given, error)
        raise error

    def fail(self, answer: Answer) -> NoReturn:
        """Raise what an answer says that was to be a stream."""
        given = self._plain(answer)
        raise StoreUnavailable(self._words(answer)) if given is None else error_of(given)

    def _plain(self, answer: Answer) -> Any:
        """The plain data of an answer; None where it is not of docstore."""
        media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in shapes.MEDIA_TYPES:
            return None
        try:
            raw = answer.body
            if answer.headers.get("content-encoding") == "zstd":
                raw = frames.decompressed(raw, ANSWER_LIMIT_BYTES)
            return shapes.decode(raw, media_type) if raw else None
        except InvalidArgument:
            return None

    def _words(self, answer: Answer) -> str:
        return (
            f"{self._session.address} answers with HTTP status {answer.status}, and not as docstore does; check the "
            "address, and what stands in between"
        )


def _parameter(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _class(given: Any) -> object:
    error = given.get("error") if isinstance(given, dict) else None
    return error.get("class") if isinstance(error, dict) else None


def _seconds(header: str | None, given: Any) -> float | None:
    """How long the server asks to wait; None where it does not."""
    error = given.get("error") if isinstance(given, dict) else None
    said = error.get("retry_after") if isinstance(error, dict) else None
    for value in (said, header):
        try:
            seconds = float(value) if value is not None else -1.0
        except (TypeError, ValueError):  # a date, say
            continue
        if 0 <= seconds <= 3600:
            return seconds
    return None
