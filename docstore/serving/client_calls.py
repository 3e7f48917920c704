"""The calls that a server answers, each declared once by the store's own method; and records that only a server has.

`RemoteStore` and `RemoteCells` list the calls.  The client sends the arguments of the method, the server reads them and
calls the same method, and the OpenAPI shows them: names, types, defaults and the type of the answer are written in its
signature alone.  What has a body, is a stream or a job, or comes in parts is no such call: the client has a method for
it, and the server a route (`routes.py`).
"""

from __future__ import annotations

import enum
import inspect
import time
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial, wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from docstore.model.arguments import checked
from docstore.model.errors import InvalidArgument
from docstore.model.plain import TIMES, plain, shown, shown_times
from docstore.model.types import ReadSpec, checked_spec, micros
from docstore.reading.collapse import Similar
from docstore.serving.client_http import Call
from docstore.serving.wire import SENT_AS
from docstore.store import DocumentStore

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Role(enum.IntEnum):
    """What a request may do; each role may what the ones before it may."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


# --- a call: a method of the store, and the route that answers it

TWO_NAMES: Final[Mapping[str, tuple[str, str]]] = {"url_or_row_key": ("url", "row_key"), "page": ("url", "body")}
"""Arguments that are a URL or bytes, and the names under which a URL and bytes travel."""


class Endpoint:
    """A method of the store, and where a server answers it.

    Args:
        method: of `DocumentStore` or `CellStore`.
        verb, path: of the request.  Arguments are fields of the message of a POST, and else parameters of the query.
        field: the name of the result in the answer; "" if the result is the whole answer.
        role: that a client needs; a call that needs more than READ changes the store.
        may_be_absent: a result of None is answered 404.
        is_long: the message may hold bodies or values.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        verb: str,
        path: str,
        field: str = "",
        *,
        role: Role = Role.READ,
        may_be_absent: bool = False,
        is_long: bool = False,
    ) -> None:
        self.method = method
        self.verb = verb
        self.path = path
        self.field = field
        self.role = role
        self.may_be_absent = may_be_absent
        self.is_long = is_long
        self._signature = inspect.signature(method)

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of the arguments as they travel, and of the result as `return`."""
        return typing.get_type_hints(inspect.unwrap(self.method), localns={**SENT_AS, "Similar": Similar})

    @property
    def gives(self) -> Any:
        """The type of the result; None for none."""
        kind = self.types["return"]
        return None if kind is type(None) else typing.get_args(kind)[0] if self.may_be_absent else kind

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The arguments as a request has them: their names, types and defaults."""
        found: list[inspect.Parameter] = []
        for parameter in list(self._signature.parameters.values())[1:]:
            kinds: dict[str, Any] = {parameter.name: self.types[parameter.name]}
            if parameter.name in TWO_NAMES:
                parameter = parameter.replace(default=None)
                kinds = dict(zip(TWO_NAMES[parameter.name], (str | None, bytes | None), strict=True))
            named = parameter.replace(kind=parameter.KEYWORD_ONLY)
            found += [named.replace(name=name, annotation=kind) for name, kind in kinds.items()]
        return found

    def call(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Call:
        """What the client asks.

        Raises:
            InvalidArgument: an argument cannot be sent.
        """
        sent: dict[str, Any] = {}
        for name, value in list(self._signature.bind(None, *args, **named).arguments.items())[1:]:
            if name in TWO_NAMES:
                name = TWO_NAMES[name][not isinstance(value, str)]
                value = bytes(value) if isinstance(value, memoryview) else value
            elif name in TIMES and value is not None:
                value = micros(value)
            elif isinstance(value, ReadSpec):
                value = checked_spec(value)
            sent[name] = value
        call = Call(self.verb, self.path, self.gives, self.field, writes=self.role > Role.READ)
        call = call._replace(may_be_absent=self.may_be_absent)
        return call._replace(message=plain(sent)) if self.verb == "POST" else call._replace(query=sent)

    def bound(self, store: DocumentStore, given: Mapping[str, Any]) -> Callable[[], Any]:
        """The method with the arguments that the server has read.

        Raises:
            InvalidArgument: an argument with two names has come under both, or under neither.
        """
        named = dict(given)
        for name, both in TWO_NAMES.items():
            if name in self._signature.parameters:
                values = [value for one in both if (value := named.pop(one, None)) is not None]
                if len(values) != 1:
                    raise InvalidArgument(f"give {both[0]} or {both[1]}: one of them")
                named[name] = values[0]
        name = self.method.__name__
        return partial(getattr(store if hasattr(DocumentStore, name) else store.cells, name), **named)


def endpoint(
    method: Callable[Concatenate[Any, _P], _T], verb: str, path: str, field: str = "", **options: Any
) -> Callable[Concatenate[Any, _P], _T]:
    """The method of the client that asks the server for what a method of the store gives; see `Endpoint`."""
    declared = Endpoint(method, verb, path, field, **options)

    @wraps(method)
    def ask(remote: Any, /, *args: _P.args, **named: _P.kwargs) -> Any:
        return remote.session.ask(declared.call(args, named))

    vars(ask)["endpoint"] = declared
    return checked(ask)


def as_in(
    method: Callable[Concatenate[Any, _P], _T],
) -> Callable[[Callable[..., Any]], Callable[Concatenate[Any, _P], _T]]:
    """Give a method of the client the signature and the docstring of the store's, and check its arguments by them."""

    def declared(own: Callable[..., Any]) -> Callable[Concatenate[Any, _P], _T]:
        found: Callable[Concatenate[Any, _P], _T] = checked(wraps(method)(own))
        return found

    return declared


def endpoint_of(method: object) -> Endpoint | None:
    """What `endpoint` declares of a method of the client; None if it is none of these."""
    return getattr(method, "endpoint", None)


# --- what the server says of itself


class CallLimits(NamedTuple):
    """How much one request may hold."""

    request_bytes: int = 64 << 20
    batch_pages: int = 1024
    urls: int = 1000
    call_bytes: int = 1 << 20


class About(NamedTuple):
    """What a server is.

    Attributes:
        docstore: its version.
        boot: names this run of it.
        pid: its process.
        path: of the store.
        archive: URL of the archive API, or "".
        limits: of one request.
        role: what the client may do.
    """

    docstore: str
    boot: str = ""
    pid: int = 0
    path: str = ""
    archive: str = ""
    limits: CallLimits = CallLimits()
    role: str = ""


@dataclass
class Job:
    """A long piece of maintenance that the server runs, as it is told.

    Attributes:
        id: its name.
        kind: compact, sweep, backup, check, reindex, dedup-stats or report.
        state: running, done, failed or cancelled.
        stage, done, total: how far it is; total 0 if nobody knows.
        started, ended: microseconds since 1970; 0 for not yet.
        options: as it was asked for.
        result: of one that is done.
        error: of one that failed.
        revision: grows with each change.
    """

    id: str
    kind: str
    options: dict[str, Any]
    state: str = "running"
    stage: str = ""
    done: int = 0
    total: int = 0
    started: int = field(default_factory=lambda: time.time_ns() // 1000)
    ended: int = 0
    result: Any = None
    error: dict[str, Any] | None = None
    revision: int = 1

    def _shown(self) -> dict[str, Any]:
        names = fields(self)
        return {one.name: shown(one.name, shown_times(getattr(self, one.name))) for one in names}


class Listed(NamedTuple):
    """A URL with a live page, and the time of its newest capture."""

    url: str
    row_key: bytes
    timestamp: int
