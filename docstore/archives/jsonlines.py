"""Read JSON Lines: one object a line, with a URL and the text, the HTML or the bytes of a page.

The names are those that `docstore export --format jsonl` writes and those of public data sets (C4, FineWeb, CCNet).  A
line that is no page is reported or counted, and the next line is read.  Fields that mean nothing to docstore become the
note `fields` of the page.  Its language becomes the note `lang`, unless an export says that the page declares it.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from docstore.archives.dates import parse_date
from docstore.archives.entries import DamagedEntry, Entry, PageEntry, ReadOptions, SkippedEntry, TableColumns
from docstore.archives.http import NOT_MODIFIED, PLAIN_TEXT, Refused
from docstore.archives.source import Source
from docstore.model.capture import LANG_NOTE, encode_note
from docstore.model.keys import table_url
from docstore.model.types import Headers, Page

JSON_LINES_START: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{(?=[^\n]*"(?:url|docno|id)"[ \t]*:|[^\n]{32768})')
"""The first line is an object with a URL or an id.  If a line is longer than detection reads, they may come later."""
_OBJECT_START: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\{")
FIELDS_NOTE: Final = "fields"
"""Name of the note with the fields that docstore has no place for."""

_LINE_END = re.compile(rb"\n")
_LINE_START = re.compile(rb"(?<=\n)[ \t]*\{")
_URLS: Final = ("fetched_url", "url")
_TIMES: Final = ("timestamp", "fetched_at", "date", "date_download")
_TEXTS: Final = ("text", "raw_content")
_LANGUAGES: Final = ("lang", "language")
_NUMBERS: Final = ("docno", "id")
_CRAWLS: Final = ("crawl", "dump")
_COMPUTED: Final = ("verdict", "of_url", "similarity", "previous", "previous_similarity", "body_bytes", "markdown")
"""Fields of an export that the store computes again."""
_OTHERS: Final = ("html", "body_base64", "status", "headers", "ip", "payload_digest", "language_score")
_TAKEN: Final = {*_URLS, *_TIMES, *_TEXTS, *_LANGUAGES, *_NUMBERS, *_CRAWLS, *_COMPUTED, *_OTHERS}
_HTML: Final[Headers] = (("Content-Type", "text/html; charset=utf-8"),)


def start_of_lines(columns: TableColumns) -> re.Pattern[bytes]:
    """The pattern of the first line of a file: any object if the caller names columns, because they may be missing."""
    return JSON_LINES_START if columns[:3] == ("", "", "") else _OBJECT_START


def read_json_lines(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Entry]:
    """Every line of a JSON Lines file, in order; damage is an entry, never an exception.

    A page without a time gets the time of the file, `Source.modified`.  The offset of an entry is where its line
    begins, or in a compressed file where its member begins.  Reasons name the number of the line, counted from 1.
    """
    line_limit_bytes = 2 * options.body_limit_bytes  # base64 and escapes make a line longer than its body
    number = 0
    while True:
        source.discard()
        if source.at_end():
            if source.broken is None:
                return
            yield DamagedEntry(source.broken.member_offset, f"{source.broken.reason}, after line {number}")
            if not source.recover():
                return
            continue
        number += 1
        offset = source.offset()
        line = source.take_through(_LINE_END, line_limit_bytes)
        if line is None and source.available() >= line_limit_bytes:
            source.skip_to_start(_LINE_START)
            yield DamagedEntry(
                offset,
                f"line {number} is longer than {line_limit_bytes} bytes, twice the limit of a body (max_body_bytes)",
            )
            continue
        if line is None:
            line = source.take(line_limit_bytes)
            if source.broken is not None:
                continue  # the member was damaged within this line
        line = line.removeprefix(b"\xef\xbb\xbf").strip()
        if line:
            yield _entry(line, number, offset, source.modified, options)


def _entry(line: bytes, number: int, offset: int, modified: int | None, options: ReadOptions) -> Entry:
    url = ""
    try:
        fields = json.loads(line.decode("utf-8", "replace"))
        if not isinstance(fields, dict):
            raise Refused(f"expected an object, found {line[:40]!r}")
        columns = options.columns
        if columns[:3] != ("", "", ""):
            names, missing = columns.stored_names(fields)
            if missing:
                raise Refused(f"the object has no field {missing}; its fields are {', '.join(fields)[:500] or 'none'}")
            fields = {name: fields[stored_name] for name, stored_name in names.items()}
        url, row_id = _string(fields, _URLS), _string(fields, _NUMBERS)
        if not (url or row_id):
            raise Refused(f"the object has neither url nor id; its fields are {', '.join(fields)[:500] or 'none'}")
        url = url or table_url(columns.source, row_id)
        page = _page(fields, url, modified)
        notes = _notes(fields)
    except Refused as refused:
        return DamagedEntry(offset, f"line {number}: {refused}", url)
    except (ValueError, RecursionError) as error:
        return DamagedEntry(offset, f"line {number} is no JSON: {str(error)[:200]}", url)
    if page is None:
        return SkippedEntry("no_body", offset)
    if len(page.body) > options.body_limit_bytes:
        size = f"{len(page.body)} bytes, more than the limit of {options.body_limit_bytes} (max_body_bytes)"
        return DamagedEntry(offset, f"line {number} has a body of {size}", url)
    return PageEntry(page, "response", offset, notes=notes)


def _page(fields: Mapping[str, Any], url: str, modified: int | None) -> Page | None:
    """The page of an object; None if it has no content.

    Raises:
        Refused: a field has a value that means nothing.
    """
    status = fields.get("status")
    if status is None:
        status = 200
    elif type(status) is not int:
        raise Refused(f"status must be an integer, not {status!r:.60}")
    headers = _headers(fields.get("headers"))
    content = fields.get("body_base64")
    if isinstance(content, str):
        try:
            body = base64.b64decode(content, validate=True)
        except ValueError as error:
            raise Refused(f"body_base64 is not base64 ({error})") from error
    elif isinstance(fields.get("html"), str):
        body, headers = _utf8(fields["html"]), _typed(headers, _HTML)
    elif status == NOT_MODIFIED:
        body = b""
    else:
        text = next((fields[name] for name in _TEXTS if isinstance(fields.get(name), str)), None)
        if text is None:
            return None
        body, headers = _utf8(text), _typed(headers, PLAIN_TEXT)
    return Page(
        url,
        body,
        status,
        headers,
        _time(fields, modified),
        _string(fields, ("ip",)),
        _string(fields, ("payload_digest",)),
        _string(fields, _NUMBERS),
        _string(fields, _CRAWLS),
    )


def _notes(fields: Mapping[str, Any]) -> tuple[tuple[str, bytes], ...]:
    """The notes of a page: those that an export wrote, its language, and the fields that nothing else reads."""
    given = fields.get("notes")
    notes: dict[str, Any] = {}
    exported = False
    if isinstance(given, dict) and all(isinstance(note, dict) for note in given.values()):
        exported, notes = True, {_utf8(name).decode(): note for name, note in given.items() if name}
    has_body = isinstance(fields.get("body_base64"), str) or isinstance(fields.get("html"), str)
    if not (exported and (has_body or fields.get("status") == NOT_MODIFIED)):
        notes = language_note(_string(fields, _LANGUAGES), fields.get("language_score")) | notes
    rest = {
        name: value
        for name, value in fields.items()
        if name not in _TAKEN
        and value not in (None, "")
        and not (name == "title" and has_body)
        and not (name == "notes" and exported)
    }
    if rest:
        notes[FIELDS_NOTE] = rest | notes.get(FIELDS_NOTE, {})
    return tuple((name, encode_note("", note)) for name, note in notes.items())


def language_note(lang: str, score: object) -> dict[str, dict[str, Any]]:
    """The note `lang` of a page whose language another program has found; {} if it has found none."""
    is_number = isinstance(score, int) or (isinstance(score, float) and math.isfinite(score))  # JSON has no NaN
    scored = {"score": score} if is_number else {}
    return {LANG_NOTE: {"lang": lang, **scored}} if lang else {}


def _string(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these fields that is a string or an integer, as a string; "" if there is none."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return ""


def _time(fields: Mapping[str, Any], modified: int | None) -> int | None:
    """When the page was fetched: ISO 8601, or a number of seconds, milliseconds or microseconds since 1970.

    Raises:
        Refused: the first field of a time is none.
    """
    for name in _TIMES:
        value = fields.get(name)
        if value in (None, ""):
            continue
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e17:
            return int(value * (1_000_000 if value < 1e11 else 1_000 if value < 1e14 else 1)) // 1000 * 1000
        at = parse_date(value) if isinstance(value, str) else None
        if at is None:
            raise Refused(f"{name} is {value!r:.60}; expected a time since 1970, such as 2024-05-01T12:00:00Z")
        return at
    return modified


def _headers(value: object) -> Headers:
    """Headers of a list of pairs, or of an object with a value or a list of values for each name.

    Raises:
        Refused: the value is neither.
    """
    if value is None:
        return ()
    pairs: list[tuple[object, object]] = []
    if isinstance(value, dict):
        for name, given in value.items():
            pairs += [(name, one) for one in (given if isinstance(given, list) else [given])]
    elif isinstance(value, list) and all(isinstance(one, list) and len(one) == 2 for one in value):
        pairs = [(name, given) for name, given in value]
    else:
        raise Refused(f"headers must be a list of pairs or an object, not {value!r:.60}")
    return tuple((str(name), str(given)) for name, given in pairs if name and given is not None)


def _typed(headers: Headers, content_type: Headers) -> Headers:
    """The headers with the media type of a body that is not the one that the server sent."""
    about_body = ("content-type", "content-encoding", "content-length")
    return (*(header for header in headers if header[0].lower() not in about_body), *content_type)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
