r"""Body bytes and Content-Type -> encoding name and text.  Never raises, linear time.

Which encoding, first that holds (names and labels are the WHATWG's):

1. A byte order mark: EF BB BF utf-8, FE FF utf-16be, FF FE utf-16le.  It is not part of the text.
   UTF-16 without a mark is known by the zero bytes of its first 1024 bytes (`charset::wide` of the native kernel).
2. The *declared* encoding: ``charset=`` of the Content-Type, else the first known one of a ``<meta>`` in the first 1024
   bytes (``charset``, or ``http-equiv=content-type`` with ``content``, also misspelt; utf-16 there means utf-8 and
   x-user-defined means windows-1252), else that of an XML declaration, else that of a *late* ``<meta>``: one in the
   first MiB before the body, which begins with the first start tag of an element that no head has; unless rule 3 says
   that it lies.
3. *Lies.*  Let lead = the number of bytes from 0xC2 to 0xF4 in a body that is valid UTF-8, else 0.

   - declared single-byte, lead >= 1: utf-8;
   - declared legacy multi-byte, lead >= 8: utf-8;
   - declared utf-16 by Content-Type without a mark, and no zero byte in the first 1024: as if not declared;
   - declared utf-8, but decoding gives more U+FFFD than half of the body's bytes from 0xC2 to 0xF4, and another
     declaration (Content-Type, meta or XML) names another encoding: that one.
4. None declared: utf-8 if the body is valid UTF-8, or has at least 8 bytes from 0xC2 to 0xF4 per U+FFFD of its decoding
   (a body cut off, one broken byte); else it is guessed (`charset::guess`, by chardetng, with the top-level domain that
   the Content-Type has as its parameter `tld`).  ASCII with an escape sequence may be iso-2022-jp.

Decoding is the standard's: a malformed UTF-8 sequence gives one U+FFFD per maximal subpart, a byte without a character
gives U+FFFD, and ``replacement`` one U+FFFD for the whole body.  `multibyte` decodes utf-16 and the legacy multi-byte
encodings.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, NamedTuple

from docstore.compiled import docstore_native
from tests.reference import multibyte, tables
from tests.reference.tokens import ATTRIBUTES, ascii_lower, attributes

TEXT_LIMIT_BYTES: Final = 16 << 20
"""Text is taken from the first so many bytes of a body, also of what gzip gives."""

_TABLE: Final = tables.read("charset.txt")
LABELS: Final = tables.group(_TABLE, "labels")
"""Name of an encoding in lower case -> its labels, blank between."""
SINGLE_BYTE: Final = {
    name: "".join(chr(int(point, 16)) for point in points.split())
    for name, points in tables.group(_TABLE, "single-byte").items()
}
"""Name -> the characters of bytes 0x80 to 0xFF; U+FFFD where the index has none."""
_NAMES: Final = {label: name for name, labels in LABELS.items() for label in labels.split()}
_BLANKS: Final = "\t\n\f\r "

_UTF_16: Final = frozenset({"utf-16le", "utf-16be"})
_MULTI_BYTE: Final = multibyte.DECODERS.keys() - _UTF_16

_LOWER_HALF: Final = "".join(map(chr, range(0x80)))
_SINGLE_BYTE: Final = {
    **{name: _LOWER_HALF + upper for name, upper in SINGLE_BYTE.items()},
    "x-user-defined": _LOWER_HALF + "".join(map(chr, range(0xF780, 0xF800))),
}

_PRESCAN_BYTES: Final = 1024
_SURE_LEADS: Final = 8
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16be"), (codecs.BOM_UTF16_LE, "utf-16le"))
_NO_LEAD_BYTES: Final = bytes(byte for byte in range(256) if not 0xC2 <= byte <= 0xF4)

_HTTP_CHARSET: Final = re.compile(
    r""";[\t ]*charset[\t ]*=[\t ]*(?:"([^"]*)"?|'([^']*)'?|([^\s;"']+))""", re.IGNORECASE | re.ASCII
)
_HTTP_EQUIV: Final = re.compile("http(?=.*equ).{5}", re.DOTALL)
_LATE_BYTES: Final = 1 << 20
_LATE: Final = re.compile(
    rf"[^<]*+<(?:!--.*?-->|(?P<name>[A-Za-z][^\t\n\f\r />]*+)(?P<attributes>{ATTRIBUTES})>"
    r"|(?!!--)[!/?][^>]*>|(?=[^A-Za-z!/?]))",
    re.DOTALL,
)
_HEAD: Final = frozenset(
    [
        "html",
        "head",
        "title",
        "base",
        "basefont",
        "bgsound",
        "link",
        "meta",
        "script",
        "style",
        "noscript",
        "template",
        "noframes",
    ]
)
_SKIPPED: Final = frozenset(["title", "script", "style", "noscript", "template", "noframes"])
_META_CONTENT: Final = re.compile(
    r"""charset[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"([^"]*)"|'([^']*)'|([^"'\t\n\f\r ;][^\t\n\f\r ;]*))""",
    re.IGNORECASE | re.ASCII,
)
_PRESCAN: Final = re.compile(
    rf"<(?:!--(?:-?>|.*?-->)|(?i:meta)(?=[\t\n\f\r /])({ATTRIBUTES})>"
    rf"|/?[A-Za-z][^\t\n\f\r >]*+(?:{ATTRIBUTES})>|[!/?][^>]*>)",
    re.DOTALL,
)
_XML_ENCODING: Final = re.compile(r"""<\?xml[^>]*?[\t\n\f\r ]encoding[\t\n\f\r ]*=[\t\n\f\r ]*["']([^"'>]*)["']""")


class Decoded(NamedTuple):
    """A body as text, and the WHATWG name, in lower case, of the encoding it was read with."""

    encoding: str
    text: str


def encoding_of_label(label: str) -> str | None:
    """The name of the encoding that a label stands for; None for an unknown one."""
    return _NAMES.get(ascii_lower(label.strip(_BLANKS)))


def _of_content_type(content_type: str | None) -> str | None:
    found = _HTTP_CHARSET.search(content_type or "")
    return encoding_of_label(found[1] or found[2] or found[3] or "") if found else None


def _of_meta(head: str) -> str | None:
    """The encoding that the first meta element with a known one declares."""
    found = (_of_attributes(found[1]) for found in _PRESCAN.finditer(head) if found[1] is not None)
    return next((encoding for encoding in found if encoding), None)


def _of_attributes(source: str) -> str | None:
    """The encoding that a meta element declares."""
    declared = attributes(source)
    label = declared.get("charset")
    equivalent = next((value for name, value in declared.items() if _HTTP_EQUIV.match(name)), "")
    if label is None and re.sub("[^A-Za-z]", "", equivalent).lower() == "contenttype":
        content = _META_CONTENT.search(declared.get("content", ""))
        label = (content[1] or content[2] or content[3]) if content else None
    encoding = encoding_of_label(label or "")
    if encoding in _UTF_16:
        return "utf-8"
    return "windows-1252" if encoding == "x-user-defined" else encoding


def _of_late_meta(body: bytes) -> str | None:
    """The encoding that the first meta element with a known one declares, if it stands before the body."""
    head, place = body[:_LATE_BYTES].decode("latin-1"), 0
    while found := _LATE.match(head, place):
        place = found.end()
        name = ascii_lower(found["name"] or "")
        if name and name not in _HEAD:
            return None
        if name == "meta" and (encoding := _of_attributes(found["attributes"])):
            return encoding
        if name in _SKIPPED:
            end = re.compile(f"</(?ai:{name})").search(head, place)
            if end is None:
                return None
            place = end.start()
    return None


def _of_xml(head: str) -> str | None:
    found = _XML_ENCODING.match(head)
    encoding = encoding_of_label(found[1]) if found else None
    return "utf-8" if encoding in _UTF_16 else encoding


def decode_as(body: bytes, encoding: str) -> str:
    """Decode by the named encoding; malformed input becomes U+FFFD."""
    if encoding == "utf-8":
        return body.decode("utf-8", "replace")
    if encoding in _SINGLE_BYTE:
        return codecs.charmap_decode(body, "replace", _SINGLE_BYTE[encoding])[0]
    if encoding == "replacement":
        return "\ufffd" if body else ""
    return multibyte.decode(body, encoding)


def decode(body: bytes, content_type: str | None = None) -> Decoded:
    """Find the encoding of a body and decode it."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return Decoded(encoding, decode_as(body[len(mark) :], encoding))
    head = body[:_PRESCAN_BYTES]
    of_type = _of_content_type(content_type)
    wide = docstore_native.wide_charset(head) if b"\0" in head else None
    if wide is not None:
        return Decoded(wide, decode_as(body, wide))
    head_text = head.decode("latin-1")
    found = (
        None if of_type in _UTF_16 and b"\0" not in head else of_type,
        _of_meta(head_text),
        _of_xml(head_text),
    )
    declarations = [name for name in found if name is not None]
    if all(name == "utf-8" for name in declarations):
        declarations += [name for name in [_of_late_meta(body)] if name is not None]
    try:
        utf_8 = body.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_not_utf_8(body, declarations, content_type)
    # The text is found; the open question is whether a declaration takes precedence over it.
    if declarations:
        declared = declarations[0]
    else:
        declared = _guess(body, content_type) if body.isascii() and b"\x1b" in body else "utf-8"
    if declared == "utf-8":
        return Decoded("utf-8", utf_8)
    if declared in _SINGLE_BYTE:
        return Decoded(declared if body.isascii() else "utf-8", utf_8)
    if declared in _MULTI_BYTE and _lead_bytes(body) >= _SURE_LEADS:
        return Decoded("utf-8", utf_8)
    return Decoded(declared, decode_as(body, declared))


def _guess(body: bytes, content_type: str | None) -> str:
    return docstore_native.guess_charset(body, content_type or "")


def _decode_not_utf_8(body: bytes, declarations: list[str], content_type: str | None) -> Decoded:
    """Rules 2 to 4 for a body that is not valid UTF-8."""
    declared = declarations[0] if declarations else None
    if declared is not None and declared != "utf-8":
        return Decoded(declared, decode_as(body, declared))
    utf_8 = decode_as(body, "utf-8")
    leads, broken = _lead_bytes(body), utf_8.count("\ufffd")
    if declared is None:
        if leads >= _SURE_LEADS * broken:
            return Decoded("utf-8", utf_8)
        guessed = _guess(body, content_type)
        return Decoded(guessed, decode_as(body, guessed))
    other = next((name for name in declarations if name != "utf-8"), None)
    if other is not None and 2 * broken > leads:
        return Decoded(other, decode_as(body, other))
    return Decoded("utf-8", utf_8)


def _lead_bytes(body: bytes) -> int:
    """How many bytes can begin a UTF-8 sequence."""
    return len(body.translate(None, _NO_LEAD_BYTES))
