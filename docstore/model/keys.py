"""URL <-> row key: which URLs are the same, and how row keys sort.

Only this file imports ada_url.  It calls the C functions directly, because the Python wrapper takes twice as long a
URL.

**The same URL.**  Two URLs are the same if their canonical forms are equal.  The canonical form is the serialisation of
the WHATWG URL standard: white space at the ends, tabs and line ends dropped; scheme and host in lower case; IDN as
punycode; one spelling of each IPv4 or IPv6 address; default port dropped; backslashes and dot segments resolved; an
punycode; one spelling of each IPv4 or IPv6 address; default port dropped; backslashes and dot segments resolved; an

- the fragment is dropped: it never reaches the server;
- dots at the end of the host are dropped: they name the same host;
- in path and query of http, https, ws, wss and ftp, percent-encodings get upper-case digits, and those of unreserved
  characters (letters, digits, ``-._~``) are decoded, as in RFC 3986 section 6.2.2.  An encoding after an invalid ``%``
  is not decoded, because the result could become a part of another one.

Different, because servers distinguish them: http and https, ``www`` and none, other ports, userinfo, an empty query
(``/?``) and none, the order of query parameters, ``+`` and ``%20``, ``//`` and ``/``, upper and lower case in paths.
`variants` lists the usual equivalents.

**The row key** is ``com,example,www)/path?query https:8443@user``: the labels of the host in reverse order, path and
query, and after a space the scheme with port and userinfo if there are any.  So the pages of a host are adjacent,
whatever their scheme and port; those of its subdomains follow; http and https of one URL are neighbours; and the range
of a path is one prefix.  Addresses are not reversed: ``192.0.2.1)/``, ``[2001:db8::1])/``.  The key of a URL without
authority (``urn:isbn:1``) is ``(`` and the URL.

A key can be decoded: the first ``)`` ends the host, in which ``% ( ) * + ,`` are percent-encoded.  The last space ends
the path, because scheme, port and userinfo have no space.  The only dots in a host are those of an IPv4 address.
`docs/keys.md` has a table of hard cases, which a test checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple
from unicodedata import category, is_normalized, name, normalize
from urllib.parse import parse_qsl, quote, urlsplit

from ada_url import idna_to_unicode
from ada_url._ada_wrapper import ffi, lib

from docstore.compiled import docstore_native
from docstore.model.errors import InvalidArgument
from docstore.model.format import (
    ROW_KEY_HOST_END,
    ROW_KEY_LABEL_SEPARATOR,
    ROW_KEY_NO_HOST,
    ROW_KEY_SCHEME_MARK,
    URL_LIMIT_BYTES,
)

_plain_row_key = docstore_native.plain_row_key
"""Row keys of URLs that the parser would not change, as most are; None for all others."""
REFUSED_SCHEMES = frozenset({"about", "blob", "data", "javascript", "mailto"})
"""Schemes that cannot be fetched: their content is in the URL itself, or in one browser's memory."""

_ESCAPES_NORMALISED = frozenset({"ftp", "http", "https", "ws", "wss"})
_HOST_END = ROW_KEY_HOST_END.decode()
_SEPARATOR = ROW_KEY_LABEL_SEPARATOR.decode()
_NO_HOST = ROW_KEY_NO_HOST.decode()
_SCHEME_MARK = ROW_KEY_SCHEME_MARK.decode()

_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST_AND_PORT = re.compile(r"(?!(?:https?|wss?|ftp|file):)[^/?#:@\s]+:\d{1,5}(?:[/?#]|$)")
_AUTHORITY_END = re.compile(r"[/?]")
_USERINFO = re.compile(r"(\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]+)([^/?#\\]*)@")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX_DIGITS = frozenset("0123456789ABCDEFabcdef")
_MARKS_IN_HOST = re.compile(r"[%()*+,]")
_ESCAPED_MARKS = re.compile(r"%(25|28|29|2A|2B|2C)")
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+")
_SHOWN_CHARACTERS = 120

# Patterns as strings are compiled when they are first needed: most commands need none of them.
_HIGH_ESCAPES = r"(?:%[89A-Fa-f][0-9A-Fa-f])+"
"""Only bytes above 7F are ever decoded, so that no `/`, `%`, blank or control character results from an escape."""
_LETTER = r"[\x00-\x7f]+(?![^\x00-\x7f])|[\s\S](?:(?!\w)[^\x00-\u02ff])*"
"""ASCII, or a character with the marks after it."""
MOST_FORMS = 64
_LONE_BYTE = "[\udc80-\udcff]"
_INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
"""Letters and marks without a glyph (Default_Ignorable_Code_Point).  Characters other than letters, marks and numbers
are never decoded: controls, directions, joiners, blanks, private and unassigned characters, foreign slashes."""
_MOST_MARKS = 3
"""Marks on one letter that are decoded: more of them would hide the lines above and below."""
_LIKE_LATIN = frozenset("асԁеһіјӏорԛѕԝхуъьҽпгѵѡԍмтвнкαικνρυωηοτγβμεաոսօցհձյզ")
"""Cyrillic, Greek and Armenian letters that look like Latin letters: a label of only these is not decoded."""
_LATIN_OTHERS = frozenset("ßæœøłđþð")
_EAST_ASIAN = frozenset({"CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})


class KeyRange(NamedTuple):
    """Row keys with ``start <= row key < end``."""

    start: bytes
    end: bytes


class _Parts(NamedTuple):
    """Parts of a canonical URL: ``scheme://userinfo@host:port`` and the rest; without authority `host` is None."""

    scheme: str
    userinfo: str
    host: str | None
    port: str
    rest: str

    def url(self) -> str:
        if self.host is None:
            return f"{self.scheme}:{self.rest}"
        userinfo = f"{self.userinfo}@" if self.userinfo else ""
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{userinfo}{self.host}{port}{self.rest}"


TABLE_URL = "urn:docstore:"
"""URLs of rows of tables that have none of their own begin with this."""


def check_source(source: str) -> None:
    """Refuse a name of a data set that table rows cannot have.

    Raises:
        InvalidArgument: it is empty, or it is `links`, the name of the rows in which the Scrapy add-on counts links.
    """
    if source in ("", "links"):
        raise InvalidArgument(f"source must be the name of a data set, and not 'links', not {source!r}")


def table_url(source: str, row_id: str) -> str:
    """The URL of a row of a table that has no URL of its own: ``urn:docstore:SOURCE:ID``, percent-encoded.

    Args:
        source: name of the data set.
        row_id: of the row, in that data set.
    """
    return f"{TABLE_URL}{quote(source, safe='')}:{quote(row_id, safe='')}"


def canonical_url(url: str) -> str:
    """The canonical form of a URL; see the head of this file.

    Raises:
        InvalidArgument: not an absolute URL, of a scheme that cannot be fetched, or longer than `URL_LIMIT_BYTES`.
    """
    return _parts(url).url()


def holds_password(url: str) -> bool:
    """Whether a URL, canonical or not, has a user and a password."""
    match = _USERINFO.match(url)
    return match is not None and ":" in match[2]


def without_password(url: str) -> str:
    """A URL without its user and password, if it has both; else unchanged."""
    return _USERINFO.sub(r"\1", url, count=1) if holds_password(url) else url


def row_key(url: str) -> bytes:
    """The row key of a URL; equal for two URLs if and only if their canonical forms are.

    Raises:
        InvalidArgument: as `canonical_url`.
    """
    return _plain_row_key(url) or _row_key(_parts(url))


def row_key_and_url(url: str) -> tuple[bytes, str]:
    """The row key of a URL, and its canonical form, which is `url_of` of that key.

    Raises:
        InvalidArgument: as `canonical_url`.
    """
    key = _plain_row_key(url)
    if key is not None:
        return key, url
    parts = _parts(url)
    return _row_key(parts), parts.url()


def _row_key(parts: _Parts) -> bytes:
    scheme, userinfo, host, port, rest = parts
    if host is None:
        return f"{_NO_HOST}{scheme}:{rest}".encode()
    if port:
        scheme += f":{port}"
    if userinfo:
        scheme += f"@{userinfo}"
    return f"{_host_key(host, scheme)}{_HOST_END}{rest}{_SCHEME_MARK}{scheme}".encode()


def url_of(row_key: bytes) -> str:
    """The canonical URL of a row key made by `row_key`.

    Raises:
        InvalidArgument: these bytes are not the row key of a URL.
    """
    try:
        text = row_key.decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"not the row key of a URL (not ASCII): {row_key[:_SHOWN_CHARACTERS]!r}") from error
    if text.startswith(_NO_HOST):
        return text[1:]
    host_key, host_end, rest_and_scheme = text.partition(_HOST_END)
    rest, scheme_mark, suffix = rest_and_scheme.rpartition(_SCHEME_MARK)
    if not host_end or not scheme_mark:
        raise InvalidArgument(
            f"not the row key of a URL (expected host{_HOST_END}path, a space, scheme): {_shown(text)}; "
            "`docstore key URL` shows the row key of a URL"
        )
    origin, _, userinfo = suffix.partition("@")
    scheme, _, port = origin.partition(":")
    return _Parts(scheme, userinfo, _host_of(host_key), port, rest).url()


def complete_url(text: str) -> str:
    """The canonical URL of what a user typed: ``example.com/page`` and ``localhost:8080`` get ``https://``.

    Raises:
        InvalidArgument: as `canonical_url`.
    """
    text = text.strip()
    if text.startswith("//"):
        return canonical_url("https:" + text)
    if _HOST_AND_PORT.match(text) or not _HAS_SCHEME.match(text):
        return canonical_url("https://" + text)
    return canonical_url(text)


def resolve(base: str, reference: str) -> str | None:
    """The canonical URL of a reference on a page (a Location, a link); None if it cannot be stored."""
    base_source, source = base.encode("utf-8", "replace"), reference.encode("utf-8", "replace")
    href = _serialised(lib.ada_parse_with_base(source, len(source), base_source, len(base_source)))
    if href is None:
        return None
    try:
        return canonical_url(href)
    except InvalidArgument:
        return None


def shown_url(url: str) -> str:
    """A URL for people: letters of all scripts decoded, in path and host; its canonical form stays the same.

    Only visible and unambiguous characters are decoded: letters, marks and numbers of UTF-8, and labels of a host that
    are of one script and do not look like Latin ones.  All others keep their escapes.
    """
    if "%" not in url and "xn--" not in url:
        return url
    try:
        parts = _parts(url)
        host = parts.host and ".".join(map(_shown_label, parts.host.split(".")))
        shown = parts._replace(host=host, rest=re.sub(_HIGH_ESCAPES, _shown_escapes, parts.rest)).url()
        return shown if canonical_url(shown) == parts.url() else url
    except InvalidArgument:
        return url


def normal_forms(url: str) -> list[str]:
    """Other canonical URLs with the same text as a canonical URL: its letters composed, decomposed, or mixed.

    Besides NFC and NFD there are letters that neither form has, such as U+09DC of Bengali or U+212B: pages are stored
    under them too.  If letters have more than `MOST_FORMS` combinations, only those are given in which all letters have
    one form.
    """
    if not re.search(_HIGH_ESCAPES, url):
        return []
    composed = normalize("NFC", re.sub(_HIGH_ESCAPES, _decoded, url))
    letters = [_spellings(letter) for letter in re.findall(_LETTER, composed)]
    longest = max(map(len, letters))
    texts = ["".join(each[form if form < len(each) else form % 2] for each in letters) for form in range(longest)]
    if prod(len(set(spellings)) for spellings in letters) <= MOST_FORMS:
        texts += map("".join, product(*map(dict.fromkeys, letters)))
    forms = (canonical_url(re.sub(_LONE_BYTE, _escape_of, text)) for text in dict.fromkeys(texts))
    return [form for form in dict.fromkeys(forms) if form != url]


def equivalents(url: str, *, variants_too: bool = False) -> list[str]:
    """Other canonical URLs under which the page of a URL may be stored: normal forms, and `variants` of all of them."""
    url = canonical_url(url)
    forms = [url, *normal_forms(url)]
    others = [other for form in forms for other in variants(form)] if variants_too else []
    return [*forms[1:], *others]


def stored_url(is_stored: Callable[[str], bool], text: str) -> str:
    """The canonical URL that a person has typed, or if it is not stored, the stored one among its `normal_forms`."""
    url = canonical_url(complete_url(text))
    return next((form for form in normal_forms(url) if not is_stored(url) and is_stored(form)), url)


@lru_cache(maxsize=4096)
def _spellings(letter: str) -> tuple[str, ...]:
    """The canonically equivalent spellings of a letter with its marks in NFC: NFC and NFD, then pairs of others."""
    spellings = [letter, normalize("NFD", letter)]
    if not letter.isascii():
        for composed in _excluded().keys() & {letter, letter[:2], letter[:1]}:
            for other in _excluded()[composed]:
                spellings += [form.replace(composed, other) for form in spellings[:2]]
    return tuple(spellings)


@lru_cache(maxsize=1)
def _excluded() -> dict[str, list[str]]:
    """By their NFC, the characters that no normal form has, but for those that become ASCII."""
    excluded: dict[str, list[str]] = {}
    for character in map(chr, (*range(0x300, 0xD800), *range(0xF900, 0x10000), *range(0x1D100, 0x1D200))):
        if not is_normalized("NFC", character) and not (composed := normalize("NFC", character)).isascii():
            excluded.setdefault(composed, []).append(character)
    return excluded


def template_of(url: str) -> str:
    """Host, first part of the path and parameter names of the query: what pages of one template have in common.

    A first part with a digit becomes "#", because it may be a number or a session id.
    """
    parts = urlsplit(url)
    first, _, rest = parts.path.lstrip("/").partition("/")
    first = "#" if any(map(str.isdecimal, first)) else first
    names = "&".join(sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}))
    return f"{parts.netloc}/{first}{'/' if rest else ''}{'?' if names else ''}{names}"


host_of = docstore_native.host_of
"""The part of a row key that names its host; b"" if it has none."""
site = docstore_native.site
"""Name of the host of a row, without a leading ``www.`` or ``m.``; for a row without a host its whole key.

At least two labels remain: ``www.com`` and ``m.com`` are two sites.  All rows of one table source are one site."""


def same_site(row_key: bytes, other: bytes) -> bool:
    """Whether two rows are of one site, whatever their schemes and ports; see `site`."""
    return site(row_key) == site(other)


def variants(url: str) -> list[str]:
    """Canonical URLs under which a site often serves the same page: the other scheme, with or without ``www``, both.

    The other scheme only on default ports; ``www`` only before names.  The URL itself is not included.
    """
    parts = _parts(url)
    schemes = [parts.scheme]
    if parts.scheme in {"http", "https"} and not parts.port:
        schemes.append("http" if parts.scheme == "https" else "https")
    hosts = [parts.host]
    if parts.host and parts.scheme in {"http", "https"} and not _is_address(parts.host):
        hosts.append(parts.host.removeprefix("www.") if parts.host.startswith("www.") else f"www.{parts.host}")
    others = [parts._replace(scheme=scheme, host=host).url() for host in hosts for scheme in schemes][1:]
    # `www.1` would be a name but `1` an address: a URL that is not canonical is not a variant.
    return [other for other in others if _is_canonical(other)]


def host_range(host: str, *, subdomains: bool = False) -> KeyRange:
    """Row keys of all pages of a host, whatever their scheme and port; with `subdomains` also of its subdomains.

    Raises:
        InvalidArgument: not a host name or address.
    """
    if not host or any(mark in host for mark in "/?#@\\") or _parts(f"http://{host}/").port:
        raise InvalidArgument(f"not a host: {_shown(host)}; give only a name or address, such as example.com")
    canonical = _parts(f"http://{host}/").host or ""
    prefix = _host_key(canonical, "http")
    if subdomains and not _is_address(canonical):
        # Only `* + ,` are between `)` and `-`, and the host escapes the first two.
        return KeyRange((prefix + _HOST_END).encode(), (prefix + "-").encode())
    return prefix_range_of_key((prefix + _HOST_END).encode())


def prefix_range(url_prefix: str) -> KeyRange:
    """Row keys of the URLs with this prefix, whatever their scheme, port and userinfo; a missing scheme is added.

    Raises:
        InvalidArgument: as `canonical_url`, or the prefix has a port or userinfo, by which row keys are not ordered.
    """
    parts = _parts(complete_url(url_prefix))
    if parts.host is None:
        return prefix_range_of_key(f"{_NO_HOST}{parts.url()}".encode())
    if parts.port or parts.userinfo:
        raise InvalidArgument(
            f"a URL prefix has only host and path, because row keys are ordered by these: {_shown(url_prefix)}; "
            "remove port and userinfo"
        )
    return prefix_range_of_key(f"{_host_key(parts.host, parts.scheme)}{_HOST_END}{parts.rest}".encode())


def prefix_range_of_key(prefix: bytes) -> KeyRange:
    """Row keys that begin with these bytes.

    Raises:
        InvalidArgument: the prefix is empty or all FF, so that its range has no end.
    """
    stem = prefix.rstrip(b"\xff")
    if not stem:
        raise InvalidArgument(f"a prefix of row keys must have a byte below FF, got {prefix!r}; omit it to scan all")
    return KeyRange(prefix, stem[:-1] + bytes((stem[-1] + 1,)))


def _parts(url: str) -> _Parts:
    """Parse a URL and make it canonical."""
    href = _href(url)
    scheme, _, rest = href.partition(":")
    if not rest.startswith("//"):
        if scheme in REFUSED_SCHEMES:
            raise InvalidArgument(f"nothing can be fetched from a {scheme}: URL: {_shown(url)}; give the URL of a page")
        if _HOST_AND_PORT.match(href):
            raise InvalidArgument(f"URL without scheme: {_shown(url)}; write https://{_shown(url)[1:-1]}")
        return _Parts(scheme, "", None, "", rest)
    end = _AUTHORITY_END.search(rest, 2)
    cut = end.start() if end else len(rest)
    authority, rest = rest[2:cut], rest[cut:]
    userinfo = port = ""
    if "@" in authority:
        userinfo, _, authority = authority.rpartition("@")
    host = authority
    if ":" in authority and not authority.endswith("]"):
        host, _, port = authority.rpartition(":")
    if "%" in rest and scheme in _ESCAPES_NORMALISED:
        rest = _normalise_escapes(rest)
    if host.endswith("."):
        host = host.rstrip(".")
        if not host:
            raise InvalidArgument(f"URL without a host: {_shown(url)}; write https://HOST/PATH")
        return _parts(_Parts(scheme, userinfo, host, port, rest).url())
    return _Parts(scheme, userinfo, host, port, rest)


def _href(url: str) -> str:
    """The URL as the WHATWG parser serialises it, without the fragment."""
    try:
        if _plain_row_key(url):
            return url
        source = url.encode()
    except UnicodeEncodeError:
        # The standard reads a lone surrogate as U+FFFD.
        source = url.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    except (AttributeError, TypeError) as error:
        raise InvalidArgument(f"a URL must be a str, not {url!r:.100}") from error
    href = _serialised(lib.ada_parse(source, len(source)))
    if href is None:
        raise InvalidArgument(_refusal(url))
    if "#" in href:
        href = href[: href.index("#")]
    if len(href) > URL_LIMIT_BYTES:
        raise InvalidArgument(
            f"URL of {len(href)} bytes, more than the {URL_LIMIT_BYTES} that a row key may have: {_shown(url)}"
        )
    return href


def _serialised(handle: Any) -> str | None:
    """The parsed URL, or None if the parser refused it; frees the parser's object."""
    try:
        if not lib.ada_is_valid(handle):
            return None
        view = lib.ada_get_href(handle)
        href: str = ffi.unpack(view.data, view.length).decode("ascii")
        return href
    finally:
        lib.ada_free(handle)


def _refusal(url: str) -> str:
    """The message for a URL that the parser refused."""
    stripped = url.strip()
    if not stripped:
        return "empty URL; write https://HOST/PATH"
    if not _HAS_SCHEME.match(stripped):
        return f"URL without scheme: {_shown(url)}; write https://{_shown(stripped.lstrip('/'))[1:-1]}"
    return f"not a valid URL: {_shown(url)}; host, port or address cannot be read, write https://HOST/PATH"


def _normalise_escapes(text: str) -> str:
    """Upper-case percent-encodings; decode those of unreserved characters."""

    def normal(match: re.Match[str]) -> str:
        escape = match[0]
        code = int(escape[1:], 16)
        if code not in _UNRESERVED:
            return escape.upper()
        before = text[max(0, match.start() - 2) : match.start()]
        follows_stray = before.endswith("%") or (before[:1] == "%" and before[1:] in _HEX_DIGITS)
        return escape.upper() if follows_stray else chr(code)

    return _ESCAPE.sub(normal, text)


def _decoded(escapes: re.Match[str]) -> str:
    """The text of a run of escapes; bytes that are not UTF-8 as lone surrogates."""
    return bytes.fromhex(escapes[0].replace("%", "")).decode("utf-8", "surrogateescape")


def _escape_of(character: str | re.Match[str]) -> str:
    text = character if isinstance(character, str) else character[0]
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


def _shown_escapes(escapes: re.Match[str]) -> str:
    before = escapes.string[max(0, escapes.start() - 3) : escapes.start()]
    marks = 0 if before[-1:].isalnum() and not _ESCAPE.fullmatch(before[-3:]) else _MOST_MARKS

    def shown() -> Iterator[str]:
        nonlocal marks
        for character in _decoded(escapes):
            kind = category(character)[0]
            marks = marks + 1 if kind == "M" else 0
            if (kind in "LN" or (kind == "M" and marks <= _MOST_MARKS)) and not re.match(_INVISIBLE, character):
                yield character
            else:
                marks = _MOST_MARKS  # a mark after this would apply to the escape
                yield _escape_of(character)

    return "".join(shown())


def _shown_label(label: str) -> str:
    """A label of a host decoded (IDNA), if it is of one script and does not look like a Latin one; else unchanged."""
    if not label.startswith("xn--"):
        return label
    decoded = idna_to_unicode(label)
    others = [letter for letter in decoded if not letter.isascii()]
    if not others or any(category(letter)[0] not in "LMN" or re.match(_INVISIBLE, letter) for letter in others):
        return label
    letters = [letter for letter in decoded if letter.isalpha()]
    scripts = {name(letter, "?").partition(" ")[0] for letter in letters}
    if scripts == {"LATIN"}:
        is_plain = all(normalize("NFD", letter)[0].isascii() or letter in _LATIN_OTHERS for letter in letters)
    elif scripts <= _EAST_ASIAN:
        is_plain = True
    else:
        is_plain = len(scripts) == 1 and not _LIKE_LATIN.issuperset(letters)
    return decoded if is_plain and letters else label


def _is_address(host: str) -> bool:
    return host.startswith("[") or _IPV4.fullmatch(host) is not None


def _is_canonical(url: str) -> bool:
    try:
        return canonical_url(url) == url
    except InvalidArgument:
        return False


def _host_key(host: str, scheme: str) -> str:
    """Reversed labels; addresses unchanged."""
    if host.startswith("["):
        return host
    # Only the schemes that the standard calls special have IPv4 addresses; in others 1.2.3.4 is a name.
    if host[-1:].isdigit() and scheme.partition(":")[0] in _ESCAPES_NORMALISED and _IPV4.fullmatch(host):
        return host
    if _MARKS_IN_HOST.search(host):
        host = _MARKS_IN_HOST.sub(lambda match: f"%{ord(match[0]):02X}", host)
    return _SEPARATOR.join(host.split(".")[::-1])


def _host_of(host_key: str) -> str:
    """The inverse of `_host_key`."""
    if host_key.startswith("[") or "." in host_key:
        return host_key
    host = ".".join(host_key.split(_SEPARATOR)[::-1])
    return _ESCAPED_MARKS.sub(lambda match: chr(int(match[1], 16)), host) if "%" in host else host


def _shown(text: str) -> str:
    """Quoted for a message; a long text is cut."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")
