"""Which reader extracts the text of a body: a table by media type and root element; and Markdown and JSON.

A reader takes a body and its Content-Type and gives a `Text`.  For bad input it raises only `Unreadable`, whose message
is for the user.  Time is linear in the body; the caller limits the body.

The first rule that matches the body's head (first 1024 bytes, after a byte order mark and after messages of PHP before
a feed or site map) selects the reader:

1. a body that starts as a PDF: `pdf`, if the extra is installed; as a PNG, GIF, JPEG, ZIP or RAR file: no reader; gzip:
   the reader of the XML in it, if that is a feed or site map;
2. the root element is one of `LIST_ROOTS`, and the type is HTML, XML or absent: `vocabulary`;
3. type text/html or application/xhtml+xml; an XML type with root ``html``; no type, no zero byte in the head (except
   after a UTF-16 mark), and it begins with ``<`` and a letter or ``!`` (not an SVG image), or with ``<?xml`` and has
   ``<html`` in it: HTML, which is not read here (`is_html`);
4. an XML type, or ``<?xml`` without a type: `vocabulary`, which knows some roots and those of the user's file;
5. the type is in `READERS`; type text/plain, or no type: plain text, which is not read here
   (`native/core/src/kind.rs`).

Plain text, Markdown and JSON have no reader if one in 64 characters of the head is a control character, as in binary
files with a wrong type; without a type, if any is.  UTF-16 is known by its mark or by its zero bytes.

*Plain text*: its lines, white space folded.  *Markdown*: rules for the common part of CommonMark (headings, lists,
quotes, code, links, tables, emphasis, front matter) convert it to HTML, which the kernel reads.  This is simpler than a
full parser and gives the same words, because markup has hardly any.  Indented code is text; nested link brackets stay.

*JSON*: the strings under usual names of content (CONTENT_NAMES), in order, HTML in them as HTML; the title is the first
string under a name of TITLE_NAMES that is nearest to the root.  JSON without such names has no text.

*Shell*: an HTML page with under `SHELL_WORDS` words of main text gets the ``articleBody`` of its JSON-LD, if exactly
one object has one, of at least that many words.  Longer pages keep their text: their JSON-LD at best repeats it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_tz
from html import escape
from itertools import takewhile
from typing import Any, Final, NamedTuple

from docstore.compiled import docstore_native
from docstore.model.capture import Entry

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
XML_TYPES: Final = frozenset({"text/xml", "application/xml"})
LIST_ROOTS: Final = frozenset({b"rss", b"feed", b"rdf", b"urlset", b"sitemapindex"})
"""Roots of feeds and site maps, in lower case; sites serve these with any type."""
TEXT_LIMIT_BYTES: Final = docstore_native.TEXT_LIMIT_BYTES
MARKDOWN_LIMIT_BYTES: Final = 1 << 20
"""A longer body is read as plain text: Markdown takes some microseconds a character."""
SHELL_WORDS: Final = 50
JSON_LD_LIMIT_BYTES: Final = 1 << 20

_GZIP: Final = b"\x1f\x8b\x08"
MEMBERS_LIMIT: Final = 10_000
"""Members of a gzip file that are unpacked; the rest is left out."""
_FIRST_STEP_BYTES: Final = 512
_LAST_STEP_BYTES: Final = 64 << 10
_PDF: Final = b"%PDF-"
_BINARY_STARTS: Final = (_PDF, b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"Rar!\x1a")


class Unreadable(Exception):
    """A body has a reader, but the reader extracts no text; the message says why and where."""


class Text(NamedTuple):
    """The text of a body and its metadata; strings as in `model.analysis.Analysis`.

    Attributes:
        main: the text to fingerprint; one block a line.
        charset: the encoding of the body.
        published: in UTC as 2024-05-01T12:00:00Z, or "".
        links: (href, text) in document order.
        entries: of a feed or site map.
    """

    main: str
    charset: str = ""
    title: str = ""
    description: str = ""
    headings: str = ""
    lang: str = ""
    published: str = ""
    links: tuple[tuple[str, str], ...] = ()
    entries: tuple[Entry, ...] = ()


Reader = Callable[[bytes, str | None], "Text | None"]


def media_type_of(content_type: str | None) -> str:
    """The media type of a Content-Type, to its first blank and in lower case; "" if there is none."""
    return [*(content_type or "").partition(";")[0].split(), ""][0].lower()


def is_html(body: bytes, content_type: str | None) -> bool:
    """Whether a body is read as HTML, by the rules at the head of this file."""
    return docstore_native.is_html(body, content_type or "")


def decode(body: bytes, content_type: str | None) -> tuple[str, str]:
    """The encoding of a body, and its text, by the rules of docs/extraction.md."""
    return docstore_native.decode(body, content_type or "")


def read(body: bytes, content_type: str | None, vocabulary: str = "") -> Text | None:
    """The text of a body that is neither HTML nor plain text; None if it has no reader.

    Args:
        body: as fetched.
        content_type: the header.
        vocabulary: the user's vocabulary in TOML; see `vocabulary.parse`.
    Raises:
        Unreadable: its reader extracts no text.
    """
    media_type = media_type_of(content_type)
    if body.startswith(_GZIP):
        body = _unpacked(body)
        if docstore_native.head_and_root(body)[1] not in LIST_ROOTS:
            return None
        media_type, content_type = "", None
    if body.startswith(_PDF):
        return pdf_text(body)
    if body.startswith(_BINARY_STARTS):
        return None
    body = body[docstore_native.warnings_bytes(body) : TEXT_LIMIT_BYTES]
    head, root = docstore_native.head_and_root(body)
    is_xml = media_type in XML_TYPES or media_type.endswith("+xml")
    is_list = (not media_type or media_type in HTML_TYPES) and root in LIST_ROOTS
    if is_xml or is_list or (not media_type and _starts_xml(head)):
        from docstore.text.vocabulary import read as read_xml  # lxml is imported only for XML

        return read_xml(body, content_type, vocabulary)
    reader = READERS.get("application/json" if media_type.endswith("+json") else media_type)
    return reader(body, content_type) if reader and docstore_native.is_text(head) else None


def _starts_xml(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:5].lower() == b"<?xml" or head[:6] in (
        b"<\0?\0x\0",
        b"\0<\0?\0x",
    )


def _unpacked(body: bytes) -> bytes:
    """The first `TEXT_LIMIT_BYTES` of a gzip file, of at most `MEMBERS_LIMIT` members and up to the first damage."""
    unpacked = bytearray()
    at = members = 0
    while members < MEMBERS_LIMIT and body.startswith(_GZIP, at) and len(unpacked) < TEXT_LIMIT_BYTES:
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        members, step_bytes = members + 1, _FIRST_STEP_BYTES
        try:
            while at < len(body) and not inflater.eof and len(unpacked) < TEXT_LIMIT_BYTES:
                source = inflater.unconsumed_tail + body[at : at + step_bytes - len(inflater.unconsumed_tail)]
                at += len(source) - len(inflater.unconsumed_tail)
                unpacked += inflater.decompress(source, TEXT_LIMIT_BYTES - len(unpacked))
                step_bytes = min(2 * step_bytes, _LAST_STEP_BYTES)  # what it has of the next members is read again
        except zlib.error:
            break
        at -= len(inflater.unused_data)
    return bytes(unpacked)


_SECTION: Final = re.compile(r"<!\[CDATA\[(?s:(.*?))(?:\]\]>|\Z)")


def shown(text: str) -> str:
    """The lines of a text that may be HTML, perhaps in a section of characters."""
    if "<![CDATA[" in text:
        text = _SECTION.sub(lambda match: match[1], text)
    return docstore_native.visible_text(text) if "<" in text or "&" in text else docstore_native.fold_lines(text)


# --- dates

LONGEST_DATE: Final = 100
"""Characters; a longer text is not a date."""

_ISO: Final = re.compile(
    r"(\d{4})(?:[-/.]?(\d\d)(?:[-/.]?(\d\d)(?:(?:T|\s+)(\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?\s*"
    r"(Z|UTC|GMT|UT|[+-]\d\d(?::?\d\d)?)?)?)?)?",
    re.IGNORECASE | re.ASCII,
)


def published_time(text: str) -> str:
    """A date in UTC as 2024-05-01T12:00:00Z; "" if the text is not a date of the years 1 to 9999.

    Two families are read.  RFC 822 and its relatives: two-digit years, names of zones, without weekday,
    seconds or zone, full names of months, C's asctime.  ISO 8601 in the W3C profile: from a year alone to fractions of
    a second, also with a blank for the T and offsets without a colon.  Defaults: zone UTC, time midnight, first day.
    Names of months in other languages are not read; nor is 05/01/2024, because two conventions read it differently.

    >>> published_time("Wed, 01 May 2024 08:00:00 EDT")
    '2024-05-01T12:00:00Z'
    """
    text = text.strip()
    if not text or len(text) > LONGEST_DATE:
        return ""
    iso = _ISO.fullmatch(text)
    try:
        time = _of_iso(iso) if iso else _of_mail(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20) if time else ""


def _of_iso(match: re.Match[str]) -> datetime:
    year, month, day = (int(part or 1) for part in match.groups()[:3])
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    zone = match[7] or ""
    offset = 0
    if zone[:1] in ("+", "-"):
        offset = (int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)) * (-1 if zone[0] == "-" else 1)
    return _time(year, month, day, hour, minute, second, offset * 60)


_ZONE_MINUTES: Final = """
WET:0 BST:60 WEST:60 CET:60 MET:60 MEZ:60 CEST:120 MEST:120 MESZ:120 EET:120 SAST:120 EEST:180 MSK:180 PKT:300 NPT:345
HKT:480 SGT:480 AWST:480 JST:540 KST:540 ACST:570 AEST:600 ACDT:630 AEDT:660 NZST:720 NZDT:780 NST:-210 NDT:-150
BRT:-180 ART:-180 AKST:-540 AKDT:-480 HST:-600
"""
_ZONES: Final = {name: int(minutes) for name, minutes in re.findall(r"(\w+):(-?\d+)", _ZONE_MINUTES)}
"""Names of zones besides those of RFC 822, with minutes east of UTC.  IST names three zones and is read as UTC."""
_ZONE: Final = re.compile(rf"(?<![A-Za-z])({'|'.join(_ZONES)})(?![A-Za-z])")

_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d")


def _of_mail(text: str) -> datetime | None:
    if (zone := _ZONE.search(text)) and not _OFFSET.search(text):
        time = _of_mail(f"{text[: zone.start()]} {text[zone.end() :]}".strip())
        return None if time is None else time - timedelta(minutes=_ZONES[zone[1]])
    parsed = parsedate_tz(text) or parsedate_tz(f"{text} 00:00:00 +0000")
    return None if parsed is None else _time(*parsed[:6], parsed[9] or 0)


def _time(year: int, month: int, day: int, hour: int, minute: int, second: int, offset_seconds: int) -> datetime:
    """The time in UTC; 24:00 and a leap second are the next second."""
    if not (hour <= 24 and minute < 60 and second <= 60 and abs(offset_seconds) < 86_400):
        raise ValueError("not a time of the day")
    midnight = datetime(year, month, day, tzinfo=UTC)
    return midnight + timedelta(hours=hour, minutes=minute, seconds=second - offset_seconds)


# --- Markdown


_FRONT_MATTER: Final = re.compile(r"\s*(?P<fence>---|\+\+\+)[ \t]*\n(?P<fields>(?s:.*?))\n(?P=fence)[ \t]*(?:\n|\Z)")
_FIELD: Final = re.compile(r"""["']?(\w+)["']?[ \t]*+[:=](.*)""")
_QUOTED: Final = re.compile(r"""("(?:[^"\\]++|\\.|(?!))*+"|'(?:[^']++|''|(?!))*+')[ \t]*+(?:#.*)?""")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))")
_BLOCK: Final = re.compile(r"[>|][-+\d]{0,2}[ \t]*+(?:#.*)?")
"""The sign of a value that stands on the next lines."""
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]++(.*)|$)")
_UNDERLINE: Final = re.compile(r" {0,3}(?:(=+)|-{2,})[ \t]*$")
_NO_TEXT: Final = re.compile(r"[ \t]*+(?:(?:[-*_][ \t]*+){3,}|(?=[^|]*\|)[|:\- \t]++)$")
"""A rule between sections, or the line below the head of a table."""
_MARKERS: Final = re.compile(r"(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))+[ \t]*(?:\[[ xX]\][ \t])?")
_DEFINITION: Final = re.compile(
    r" {0,3}\[(?!\^|\s*\])([^\[\]]+)\]:[ \t]*+(?=<?[^\s<>]*(?:[/#:][^\s<>]|\.\w|#))(<[^<>]+>|[^\s<>]+)"
    r"""(?:[ \t]++(?:"(?:[^"\\]++|\\.|(?!))*+"|'(?:[^'\\]++|\\.|(?!))*+'|\([^()]*\)))?[ \t]*"""
)
"""A link definition is a whole line.  Narrower than in CommonMark: its address has a sign of an address, so that notes,
transcripts and names before a colon are text."""
_CODE: Final = re.compile(r"(?<!`)(`++)([^`]++)\1(?!`)")
_LINK: Final = re.compile(
    r"(!?)\[([^\[\]]*)\]"
    r"(?:\([ \t]*+<?([^()\s<>]*(?:\([^()\s<>]*\)[^()\s<>]*)?)>?"
    r"""(?:[ \t]++(?:"[^"]*"|'[^']*')[ \t]*+)?\)|\[([^\[\]]*)\])?"""
)
_AUTOLINK: Final = re.compile(r"<((?:https?|ftp)://[^\s<>]+)>")
_EMPHASIS: Final = re.compile(r"(?<![\w*_~])[*_~]++(?=\S)|(?<=[^\s*_~])[*_~]++(?!\w)")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_KEPT: Final = re.compile("\ue000(\\d+)\ue001")
"""Placeholder for a piece of HTML while a line is read."""


def markdown(body: bytes, content_type: str | None) -> Text:
    """Text, headings and links of Markdown; title, date and language of its front matter, if there is one."""
    encoding, source = decode(body, content_type)
    if len(body) > MARKDOWN_LIMIT_BYTES:
        return Text(docstore_native.fold_lines(source), encoding)
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    declared: dict[str, str] = {}
    matter = _FRONT_MATTER.match(source)
    if matter:
        declared = _front_matter(matter["fields"].split("\n"))
        source = source[matter.end() :]
    lines = source.split("\n")
    definitions = [match for line in lines if (match := _DEFINITION.fullmatch(line))]
    targets = {match[1].casefold(): match[2].strip("<>") for match in reversed(definitions)}
    main, description, headings, links = docstore_native.read_html("\n".join(_html_lines(lines, targets)))
    return Text(
        main,
        encoding,
        title=declared.get("title") or headings.partition("\n")[0],
        description=declared.get("description") or description,
        headings=headings,
        lang=declared.get("lang") or declared.get("language", ""),
        published=published_time(declared.get("date", "")),
        links=tuple(links),
    )


def _front_matter(lines: list[str]) -> dict[str, str]:
    """The fields of front matter, of YAML or TOML; those of nested tables are not read."""
    fields: dict[str, str] = {}
    for number, line in enumerate(lines):
        if line.startswith("["):
            break
        if (field := _FIELD.match(line)) is None:
            continue
        text = field[2].strip()
        follows = takewhile(lambda line: line[:1] in (" ", "\t", ""), lines[number + 1 :])
        if _BLOCK.fullmatch(text):
            fields[field[1].lower()] = " ".join(" ".join(follows).split())
            continue
        if not _QUOTED.fullmatch(text) and text[:1] != "#":
            text = " ".join([text.partition(" #")[0] if text[:1] not in ("'", '"') else text, *follows]).strip()
        if quoted := _QUOTED.fullmatch(text):
            quote, inner = quoted[1][0], quoted[1][1:-1]
            text = inner.replace("''", "'") if quote == "'" else _ESCAPE.sub(_unescaped, inner)
        elif text in ("~", "null") or text[:1] == "#":
            text = ""
        fields[field[1].lower()] = " ".join(text.split())
    return fields


def _unescaped(match: re.Match[str]) -> str:
    """The character that an escape of a string in double quotes stands for; white space as a blank."""
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else " " if match[3] in "ntr" else match[3]


def _html_lines(lines: list[str], targets: dict[str, str]) -> Iterator[str]:
    fence = ""
    for number, line in enumerate(lines):
        opening = _FENCE.match(line)
        if fence or opening:
            if opening and (not fence or opening[1].startswith(fence)):
                fence = "" if fence else opening[1]
            else:
                yield f"<p>{escape(line, quote=False)}"
            continue
        if _NO_TEXT.match(line) or _DEFINITION.fullmatch(line):
            yield "<p>"
            continue
        following = lines[number + 1] if number + 1 < len(lines) else ""
        marker = _MARKERS.match(line)
        underlined = _UNDERLINE.match(following) if line.strip() and not marker else None
        heading = _HEADING.match(line)
        if heading or underlined:
            level = len(heading[1]) if heading else 1 if underlined and underlined[1] else 2
            text = (heading[2] or "").rstrip("# \t") if heading else line
            yield f"<h{level}>{_inline(text, targets)}</h{level}>"
            continue
        if not line.strip() or _UNDERLINE.match(line):
            yield "<p>"
            continue
        text = line[marker.end() :] if marker else line
        if following.strip() and text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1] + "<br>"
        yield f"{'<p>' if marker else ''}{_inline(text, targets)}"


def _inline(line: str, targets: dict[str, str]) -> str:
    """One line of Markdown as HTML."""
    kept: list[str] = []

    def restored(text: str) -> str:
        return _KEPT.sub(lambda match: kept[int(match[1])], text)

    def keep(html: str) -> str:
        kept.append(restored(html))
        return f"\ue000{len(kept) - 1}\ue001"

    def link(match: re.Match[str]) -> str:
        text = match[2]
        href = match[3] if match[3] is not None else targets.get((match[4] or text).casefold())
        if href is None:
            return match[0]
        start = f'<a href="{escape(href)}">'
        return text if match[1] else f"{keep(start)}{text}{keep('</a>')}"

    line = line.replace("\ue000", "\ufffd").replace("\ue001", "\ufffd")
    line = _CODE.sub(lambda match: keep(escape(match[2], quote=False)), line)
    line = _ESCAPED.sub(lambda match: keep(escape(match[1], quote=False)), line)
    line = _AUTOLINK.sub(lambda match: keep(f'<a href="{escape(match[1])}">{escape(match[1])}</a>'), line)
    # Images first: one may be the text of a link.
    line = _LINK.sub(lambda match: link(match) if match[1] else match[0], line)
    line = _EMPHASIS.sub("", _LINK.sub(link, line))
    return restored(line.replace("|", " ") if line.lstrip().startswith("|") else line)


# --- PDF and JSON


def pdf_text(body: bytes) -> Text | None:
    """The text of a PDF file; None if no library for it is installed.

    Raises:
        Unreadable: it is damaged, needs a password, or exceeds a limit.
    """
    from docstore.text import pdf

    if not pdf.is_installed():
        return None
    answer = pdf.read(body)
    if "error" in answer:
        raise Unreadable(answer["error"])
    main, title, lang = (docstore_native.fold_lines(answer[name]) for name in ("text", "title", "lang"))
    return Text(main, title=" ".join(title.split()), lang=lang)


TITLE_NAMES: Final = ("title", "headline", "name")
CONTENT_NAMES: Final = frozenset(
    {*TITLE_NAMES, "subtitle", "description", "summary", "abstract", "excerpt", "caption", "articlebody"}
    | {"body", "content", "content_html", "content_text", "html", "text", "full_text", "message", "comment"}
)
"""In lower case; WordPress has its strings one level deeper, under `rendered`."""
_WRAPPED: Final = ("rendered", "value", "#text")


def json_text(body: bytes, content_type: str | None) -> Text | None:
    """The strings of JSON under names of content.

    Raises:
        Unreadable: it is not JSON.
    """
    encoding, source = decode(body, content_type)
    try:
        root = json.loads(source.replace("\0", ""), strict=False, parse_int=str)
    except ValueError as error:
        raise Unreadable(f"no JSON: {error}") from error
    except RecursionError as error:
        raise Unreadable("JSON that is nested too deep") from error
    title, title_depth, blocks = "", 0, []
    pending: list[tuple[str, Any, int]] = [("", root, 0)]
    while pending:
        name, value, depth = pending.pop()
        if isinstance(value, dict):
            inner = [
                (name if key in _WRAPPED else key.lower(), inner_value, depth + 1)
                for key, inner_value in value.items()
                if not key.startswith("_")  # WordPress: `_links`
            ]
            pending += reversed(inner)
        elif isinstance(value, list):
            pending += ((name, inner_value, depth + 1) for inner_value in reversed(value))
        elif isinstance(value, str) and name in CONTENT_NAMES:
            text = shown(value)
            if name in TITLE_NAMES and text and (not title or depth < title_depth):
                title, title_depth = " ".join(text.split()), depth
            blocks += [text] if text else []
    return Text("\n".join(blocks), encoding, title=title) if blocks else None


READERS: Final[dict[str, Reader]] = {
    "application/json": json_text,
    "text/markdown": markdown,
    "text/x-markdown": markdown,
    "text/x-web-markdown": markdown,
}
"""By media type; add readers of further formats here."""


# --- HTML without text


def article_of_shell(body: bytes, content_type: str | None) -> Text | None:
    """The article in the JSON-LD of an HTML page; None if there is none or more than one."""
    contents = docstore_native.json_ld(body, content_type or "")
    articles = [article for each in contents if len(each) <= JSON_LD_LIMIT_BYTES for article in _articles(each)]
    if len({article["articleBody"] for article in articles}) != 1:
        return None
    article = articles[0]

    def declared(key: str) -> str:
        value = article.get(key)
        return " ".join(docstore_native.fold_lines(value).split()) if isinstance(value, str) else ""

    return Text(
        shown(article["articleBody"]),
        title=declared("headline") or declared("name"),
        lang=declared("inLanguage"),
        published=published_time(declared("datePublished")),
    )


def _articles(source: str) -> Iterator[dict[str, Any]]:
    """Objects of JSON with an `articleBody`."""
    try:
        pending: list[Any] = [json.loads(source, strict=False, parse_int=str)]
    except (ValueError, RecursionError):
        return
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("articleBody"), str):
                yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value
