"""Checks of the arguments of public methods, by their annotations: a wrong type is refused by the name of its argument.

An annotation that is not in the table is not checked here; values are checked where they are used.  A check looks at
the type of a value alone, so a type that an argument had once is not checked again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from docstore.model.errors import InvalidArgument

_P = ParamSpec("_P")
_T = TypeVar("_T")
MOST_ACCEPTED = 64
"""Types that are cached for an argument."""
_Check = tuple[Callable[[Any], bool], str]


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") or hasattr(value, "__index__")


def _is_time(value: object) -> bool:
    return hasattr(value, "__index__") or hasattr(value, "utcoffset") or isinstance(value, str)


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


_CHECKS: dict[str, _Check] = {
    "str": (lambda value: isinstance(value, str), "a str"),
    "bytes": (lambda value: isinstance(value, bytes | bytearray | memoryview), "bytes, a bytearray or a memoryview"),
    "bytes | str": (
        lambda value: isinstance(value, bytes | bytearray | memoryview | str),
        "a body (bytes, a bytearray or a memoryview) or a URL (a str)",
    ),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "int": (lambda value: hasattr(value, "__index__") and not isinstance(value, bool), "an int"),
    "float": (_is_number, "a number"),
    "Time": (
        _is_time,
        "microseconds since 1970, a datetime with a time zone, or ISO 8601 with a time zone",
    ),
    "str | Path": (lambda value: isinstance(value, str | os.PathLike), "a path"),
    "Iterable[str]": (_is_iterable, "an iterable of str"),
    "Sequence[int]": (_is_iterable, "a list of int"),
    "Sequence[str]": (_is_iterable, "a list of str"),
    "Iterable[Page | tuple[str, bytes]]": (_is_iterable, "an iterable of Page, or of pairs of URL and body"),
    "Headers | Mapping[str, str]": (_is_iterable, "a mapping of str, or pairs of str"),
}


def checked(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """A method that refuses arguments of wrong types.

    Raises:
        InvalidArgument: it names the argument, what it takes, and what it got.
        TypeError: the method takes options that a TypedDict declares, and has no option of that name.
    """
    function: Any = method
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    kinds = {name: kind for name, kind in method.__annotations__.items() if name != "return"}
    options: dict[str, str] = {}
    for argument, kind in list(kinds.items()):
        if kind.startswith("Unpack["):  # keyword arguments that a TypedDict declares, if it is imported at run time
            del kinds[argument]
            declared = function.__globals__.get(kind.removeprefix("Unpack[").removesuffix("]"))
            options |= {name: one.__forward_arg__ for name, one in getattr(declared, "__annotations__", {}).items()}
    kinds |= options
    code = function.__code__  # `inspect` takes milliseconds to load
    names = code.co_varnames[: code.co_argcount]
    accepted: defaultdict[str, set[type]] = defaultdict(set)

    def check(name: str, value: object) -> None:
        if options and name not in kinds and name != "self":
            raise TypeError(f"{method.__name__} has no option {name!r}; its options are {', '.join(sorted(options))}")
        kind = kinds.get(name, "")
        fits, what = _CHECKS.get(kind.removesuffix(" | None"), (None, ""))
        may_be_none = kind.endswith(" | None")
        if fits is not None and not fits(value) and not (value is None and may_be_none):
            or_none = " or None" if may_be_none else ""
            raise InvalidArgument(f"{name} must be {what}{or_none}, not {type(value).__name__} {value!r:.100}")
        if len(accepted[name]) < MOST_ACCEPTED:
            accepted[name].add(type(value))

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for name, value in zip(names, args):  # noqa: B905 `strict` takes as long as a check
            if type(value) not in accepted[name]:
                check(name, value)
        for name, value in kwargs.items():
            if type(value) not in accepted[name]:
                check(name, value)
        return method(*args, **kwargs)

    return call


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
