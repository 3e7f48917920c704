"""A CDX question: the parameters of `/web/cdx`, with the names of both families of clients.

Knows what parameters mean; must not know the store.  Filters are matched by RE2, which takes linear time whatever the
expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import re2

from docstore.model import keys
from docstore.model.errors import InvalidArgument
from docstore.server.archive.addresses import Address, asked, rows_of_path
from docstore.server.archive.captures import ALWAYS, Span
from docstore.server.archive.times import earliest, latest

PAGE_ROWS = 3000
"""Captures of a page: `cdxt size` counts so many."""
FIELDS = ("urlkey", "timestamp", "url", "mime", "status", "digest", "length")
"""Fields of a line, in order."""
ABSENT_FIELDS = ("redirect", "robotflags", "offset", "filename", "access")
"""Fields that other servers have; here always `-`."""
_NAMES = {name: name for name in (*FIELDS, *ABSENT_FIELDS)} | {
    "mimetype": "mime",
    "statuscode": "status",
    "original": "url",
    "size": "length",
}
_OUTPUTS = ("", "text", "cdx", "cdxj", "json")
_MATCH_TYPES = ("exact", "prefix", "host", "domain", "range")
_SORTS = ("", "default", "reverse", "closest")
_MOST_PARAMETERS = 64
_MOST_FILTERS = 16
_LONGEST_EXPRESSION = 1000
_EXPRESSION_MEMORY_BYTES = 1 << 18
_MATCHED_CHARACTERS = 4096
"""So much of a value an expression sees: linear time is long where both are."""
_SHORT_EXPRESSION = 100
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_DOMAIN_END = b"-"


class Filter(NamedTuple):
    """A condition on one field.

    Attributes:
        field: its pywb name.
        inverted: it must not hold.
        holds: of a value.
        is_short: takes microseconds.
    """

    field: str
    inverted: bool
    holds: Callable[[str], bool]
    is_short: bool


class Collapse(NamedTuple):
    """Of adjacent rows with the same beginning of a field, the first is shown; `length` None takes all of it."""

    field: str
    length: int | None


class CdxQuery(NamedTuple):
    """A question.

    Attributes:
        url: as asked for, for messages.
        path_key: host and path of an exact question; b"" for one over many URLs.
        rows: what it ranges over.
        port: only captures at this port; None for any.
        span: only captures of this time.
        filters: all must hold.
        collapses: applied in order.
        reverse: newest and last first.
        closest: nearest to this time first; None for plain order.
        fields: as asked for, with their pywb names.
        limit: rows; negative for the last ones; None for what the server allows.
        output: text, cdxj or json.
        page: number of the page asked for; None for no paging.
        page_rows: captures of a page.
        show_pages: asks for the number of pages only.
        resume_key: where to go on; "" for the beginning.
        show_resume_key: the answer ends with the key of what follows.
    """

    url: str
    path_key: bytes
    rows: keys.KeyRange
    port: bytes | None
    span: Span
    filters: tuple[Filter, ...]
    collapses: tuple[Collapse, ...]
    reverse: bool
    closest: int | None
    fields: tuple[tuple[str, str], ...]
    limit: int | None
    output: str
    page: int | None
    page_rows: int
    show_pages: bool
    resume_key: str
    show_resume_key: bool

    @property
    def is_short(self) -> bool:
        """Whether little has to be done for each capture."""
        return not self.needs_digest and all(rule.is_short for rule in self.filters)

    @property
    def needs_digest(self) -> bool:
        """Whether a digest decides what is shown."""
        conditions: tuple[Filter | Collapse, ...] = (*self.filters, *self.collapses)
        return any(one.field == "digest" for one in conditions)


def wants_json(query_string: bytes) -> bool:
    """Whether a client asks for JSON, whatever else is wrong with its question."""
    return b"output=json" in query_string.split(b"&")


def parse_query(query_string: bytes) -> CdxQuery:
    """Read the parameters.

    Raises:
        InvalidArgument: one of them means nothing; the message says which, and what it may be.
    """
    try:
        pairs = parse_qsl(
            query_string.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_PARAMETERS
        )
    except ValueError as error:
        raise InvalidArgument(f"at most {_MOST_PARAMETERS} parameters are read") from error
    ask = dict(reversed(pairs))  # the first of each name counts
    given = ask.get("url", "").strip()
    if not given:
        raise InvalidArgument("the parameter url is missing; write url=https://HOST/PATH, url=HOST/* or url=*.HOST")
    url, match_type = _wildcards(given, _one_of("matchType", ask.get("matchType", "") or "exact", _MATCH_TYPES))
    address = asked(url).address
    sort = _one_of("sort", ask.get("sort", ""), _SORTS)
    closest = ask.get("closest", "")
    rows, port = _rows(match_type, url, address, ask.get("end", ""))
    page_rows = _number(ask, "pageSize", PAGE_ROWS)
    return CdxQuery(
        url=given,
        path_key=address.path_key if match_type == "exact" else b"",
        rows=rows,
        port=port,
        span=_span(ask.get("from", ""), ask.get("to", "")),
        filters=_filters([value for name, value in pairs if name == "filter"]),
        collapses=tuple(_collapse(value) for name, value in pairs if name == "collapse" and value),
        reverse=sort == "reverse" or ask.get("reverse", "") in {"true", "1"},
        closest=earliest(closest) if closest else None,
        fields=_fields(ask.get("fl", "") or ask.get("fields", "")),
        limit=_number(ask, "limit", None, negative=True),
        output=_one_of("output", ask.get("output", ""), _OUTPUTS),
        page=_number(ask, "page", None),
        page_rows=max(1, min(page_rows or PAGE_ROWS, PAGE_ROWS)),
        show_pages=ask.get("showNumPages", "") in {"true", "1"},
        resume_key=ask.get("resumeKey", ""),
        show_resume_key=ask.get("showResumeKey", "") in {"true", "1"},
    )


def _wildcards(url: str, match_type: str) -> tuple[str, str]:
    if url.startswith("*."):
        return url[2:].removesuffix("*"), "domain"
    if url.endswith("*"):
        return url[:-1], "prefix"
    return url, match_type


def _rows(match_type: str, url: str, address: Address, end: str) -> tuple[keys.KeyRange, bytes | None]:
    """What a question ranges over, and at which port."""
    path_key = address.path_key
    host = path_key[: path_key.index(b")")]
    if match_type == "exact":
        return rows_of_path(path_key), address.port
    if match_type == "prefix":
        return keys.prefix_range_of_key(path_key), address.port
    if match_type == "host":
        return keys.prefix_range_of_key(host + b")"), address.port or None
    if match_type == "domain":
        is_address = b"." in host or host.startswith(b"[")
        end_key = host + (b"*" if is_address else _DOMAIN_END)
        return keys.KeyRange(host + b")", end_key), address.port or None
    stop = rows_of_path(asked(end).address.path_key).start if end else host + b"*"
    start = rows_of_path(path_key).start
    if stop < start:
        raise InvalidArgument(f"matchType=range: end={end} lies before url={url}")
    return keys.KeyRange(start, stop), None


def _span(first: str, last: str) -> Span:
    return Span(earliest(first) if first else ALWAYS.start, latest(last) + 1 if last else ALWAYS.end)


def _filters(rules: Sequence[str]) -> tuple[Filter, ...]:
    if len(rules) > _MOST_FILTERS:
        raise InvalidArgument(f"{len(rules)} filters; at most {_MOST_FILTERS} are applied")
    return tuple(_filter(rule) for rule in rules if rule)


def _filter(rule: str) -> Filter:
    """``[!]field:expression`` for the whole value, ``[!]=field:value``, or ``[!]~field:expression`` for its beginning.

    Without a sign Wayback matches the whole value; with ``~`` pywb matches the beginning.
    """
    condition = rule.removeprefix("!")
    sign = condition[0] if condition[:1] in ("=", "~") else ""
    field, colon, wanted = condition.removeprefix(sign).partition(":")
    if not colon:
        raise InvalidArgument(f"filter {rule[:100]!r} has no colon; write filter=[!][=~]FIELD:VALUE")
    name = _field(field)
    if sign == "=":
        return Filter(name, rule.startswith("!"), wanted.__eq__, True)
    expression = _compiled(wanted)
    matches = expression.match if sign == "~" else expression.fullmatch
    is_short = name not in ("url", "urlkey") and len(wanted) <= _SHORT_EXPRESSION
    return Filter(name, rule.startswith("!"), lambda value: matches(value[:_MATCHED_CHARACTERS]) is not None, is_short)


@lru_cache(maxsize=64)
def _compiled(expression: str) -> Any:
    if len(expression) > _LONGEST_EXPRESSION:
        raise InvalidArgument(
            f"regular expression of {len(expression)} characters; at most {_LONGEST_EXPRESSION} are read"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _EXPRESSION_MEMORY_BYTES
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeError) as error:
        raise InvalidArgument(
            f"regular expression {expression[:100]!r} is not understood: {_words(error)}; the syntax is that of RE2, "
            "which has no back references and no look-around"
        ) from error


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _field(name: str) -> str:
    if name not in _NAMES:
        raise InvalidArgument(f"no field {name[:40]!r}; there are {', '.join(sorted(_NAMES))}")
    return _NAMES[name]


def _fields(names: str) -> tuple[tuple[str, str], ...]:
    chosen = [name for name in names.split(",") if name]
    return tuple((name, _field(name)) for name in dict.fromkeys(chosen or FIELDS))


def _collapse(rule: str) -> Collapse:
    field, colon, length = rule.partition(":")
    if colon and not (length.isascii() and length.isdigit() and 1 <= len(length) <= 6):
        raise InvalidArgument(f"collapse {rule[:100]!r}: write collapse=FIELD or collapse=FIELD:CHARACTERS")
    return Collapse(_field(field), int(length) if colon else None)


def _number(ask: dict[str, str], name: str, default: int | None, *, negative: bool = False) -> int | None:
    text = ask.get(name, "").strip()
    if not text:
        return default
    if not _NUMBER.fullmatch(text) or (text.startswith("-") and not negative):
        raise InvalidArgument(f"{name} must be a whole number{'' if negative else ' from 0 on'}, not {text[:40]!r}")
    return int(text)


def _one_of(name: str, value: str, words: Sequence[str]) -> str:
    if value not in words:
        raise InvalidArgument(f"{name} must be one of {', '.join(filter(None, words))}, not {value[:40]!r}")
    return value
