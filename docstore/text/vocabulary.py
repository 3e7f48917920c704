"""Text of XML: feeds, site maps and documents in the user's own vocabulary, by a table of paths for each root element.

A `Vocabulary` gives the paths of entries in a document of its roots, and for the page and for each entry the paths of
title, text and so on, best first.  A *path* is names joined by ``/``, from the root or the entry; ``@name`` at its end
is an attribute.  An element with an attribute `rel` is named ``link[alternate]``; one with ``isPermaLink="false"`` is
``guid[false]``.  ``line[AUTHOR=]`` at the end of a path is an element ``line`` with the text ``AUTHOR=value``; its
value is what follows the sign.  ``field[name=author]`` at the end is an element ``field`` whose attribute `name` is
``author``; it goes before ``field``.

Names without prefix are of the root's own namespace.  Other names have the prefix of `NAMESPACES` or of the vocabulary,
whatever the document's prefix is; in a namespace that is not there they have the document's prefix.  A prefix that a
document does not declare is read as in these tables.  One that neither table has is refused in a path.

A value is HTML if it has markup, in elements or escaped, unless its `type` says that it is text (in Atom: only if its
type says that it is HTML).  The main text of a page with entries is the title and text of each.

lxml gets only the root element, as UTF-8, never the prolog, so there is no DTD, no entity and no network.  A document
whose prolog declares entities is refused.  Before, character names of HTML (``&nbsp;``) are replaced, and each ``&`` or
``<`` that begins no markup is escaped, because libxml2's recovery would damage what stands around it.  XML that is
ill-formed beyond that is read again with an end tag for each element, as far as libxml2 recovers.  No tree is built:
memory is that of the source and the values, and reading ends after `MOST_ENTRIES` entries or `MOST_ELEMENTS` elements.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from html.entities import html5
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urljoin

from lxml import etree

from docstore.compiled import docstore_native
from docstore.model.capture import Entry
from docstore.model.errors import InvalidArgument
from docstore.text.readers import Text, Unreadable, decode, published_time, shown

MOST_ENTRIES: Final = 50_000
"""The limit of the site map protocol."""
MOST_ELEMENTS: Final = 500_000
MOST_DEPTH: Final = 64
"""Deeper elements have no path."""
DEEPEST: Final = 256
"""Where elements are nested deeper, tags are missing; and lxml takes time by depth for each error."""
CHUNK_BYTES: Final = 1 << 16

FIELDS: Final = ("title", "text", "description", "published", "link", "lang")
XML: Final = "{http://www.w3.org/XML/1998/namespace}"
NAMESPACES: Final = {
    "http://www.w3.org/2005/Atom": "atom",
    "http://purl.org/atom/ns#": "atom",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/elements/1.0/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://purl.org/rss/1.0/modules/content/": "content",
    "http://search.yahoo.com/mrss/": "media",
    "http://search.yahoo.com/mrss": "media",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/1999/xhtml": "xhtml",
    "http://www.w3.org/XML/1998/namespace": "xml",
    "http://www.google.com/schemas/sitemap-news/0.9": "news",
    "http://www.google.com/schemas/sitemap-image/1.1": "image",
    "http://www.google.com/schemas/sitemap-video/1.1": "video",
    "http://purl.org/rss/1.0/": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://channel.netscape.com/rdf/simple/0.9/": "",
}
"""Namespace -> prefix in paths."""

Paths = Mapping[str, tuple[str, ...]]
"""Field -> paths, best first."""


class Vocabulary(NamedTuple):
    """Paths in documents with some root elements.

    Attributes:
        roots: local names of root elements.
        entries: paths of the elements that are entries; if empty, the document is one page.
        page: paths from the root.
        entry: paths from an entry.
        is_plain: a value is text unless its `type` says that it is HTML.
        namespaces: prefix of each namespace in paths.
    """

    roots: tuple[str, ...]
    entries: tuple[str, ...]
    page: Paths
    entry: Paths
    is_plain: bool = False
    namespaces: Mapping[str, str] = NAMESPACES


_RSS_DATES: Final = ("pubDate", "dc:date", "dcterms:issued", "atom:published", "atom:updated")
_ATOM: Final[dict[str, tuple[str, ...]]] = {
    "title": ("title", "media:group/media:title"),
    "text": ("content", "summary", "media:group/media:description"),
    "published": ("published", "issued", "updated", "modified", "dc:date"),
    "link": ("link[alternate]@href", "link@href"),
}

VOCABULARIES: Final = (
    Vocabulary(
        ("rss", "RDF"),
        ("channel/item", "item"),
        {
            "title": ("channel/title",),
            "description": ("channel/description", "channel/itunes:summary"),
            "published": ("channel/lastBuildDate", *(f"channel/{path}" for path in _RSS_DATES)),
            "link": ("channel/link",),
            "lang": ("channel/language", "channel/dc:language"),
        },
        {
            "title": ("title", "dc:title", "media:title"),
            "text": (
                "content:encoded",
                "xhtml:body",
                "atom:content",
                "description",
                "itunes:summary",
                "atom:summary",
                "media:description",
                "media:group/media:description",
            ),
            "published": _RSS_DATES,
            "link": ("link", "guid", "@about", "atom:link[alternate]@href", "atom:link@href"),
        },
    ),
    Vocabulary(
        ("feed",),
        ("entry",),
        {
            "title": ("title",),
            "description": ("subtitle", "tagline"),
            "published": ("updated", "modified"),
            "link": _ATOM["link"],
            "lang": ("@xml:lang",),
        },
        _ATOM,
        is_plain=True,
    ),
    Vocabulary(("entry",), (), {**_ATOM, "lang": ("@xml:lang",)}, {}, is_plain=True),
    Vocabulary(
        ("urlset", "sitemapindex"),
        ("url", "sitemap"),
        {},
        {
            "title": ("news:news/news:title", "video:video/video:title"),
            "text": ("video:video/video:description", "image:image/image:caption", "image:image/image:title"),
            "published": ("news:news/news:publication_date", "video:video/video:publication_date", "lastmod"),
            "link": ("loc",),
        },
    ),
)
"""The built-in vocabularies; the user's are tried first."""


def read(body: bytes, content_type: str | None, vocabulary: str = "") -> Text | None:
    """The text of an XML document; None if no vocabulary has its root.

    Raises:
        Unreadable: it declares entities, or nothing in it can be read.
    """
    encoding, source = _decoded(body, content_type)
    prolog = _PROLOG.match(source)
    assert prolog is not None  # it matches the empty string
    if "<!ENTITY" in prolog[0]:
        line = 1 + source.count("\n", 0, source.index("<!ENTITY"))
        raise Unreadable(f"the XML declares entities in line {line}, which are not expanded")
    root = _NAME.match(source, prolog.end())
    if root is None:
        raise Unreadable(f"no root element of XML begins in line {1 + prolog[0].count(chr(10))}")
    known = next((each for each in (*parse(vocabulary), *VOCABULARIES) if root[1] in each.roots), None)
    if known is None:
        return None
    first_line = prolog[0].count("\n")
    mended = _MENDED.sub(_mended, source[prolog.end() :])
    reading = _Reading(known)
    problem = _feed(reading, known, mended, first_line)
    if problem:
        reading = _Reading(known)
        _feed(reading, known, _balanced(mended, known), first_line)
    text = reading.done(encoding)
    if problem and not (text.main or text.title or text.entries):
        raise Unreadable(f"the XML is not well-formed: {problem}")
    return text


_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PROLOG: Final = re.compile(
    r"""\ufeff?(?:\s++|<\?(?s:.*?)\?>|<!--(?s:.*?)-->"""
    r"""|<!DOCTYPE(?:[^\["'>]++|"[^"]*+"|'[^']*+'|\[(?:[^\]"']++|"[^"]*+"|'[^']*+'|(?!))*+\]|(?!))*+>|(?!))*+""",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"<(?![!?])(?:[^\s<>/:]+:)?([^\s<>/:]+)")
_MENDED: Final = re.compile(
    r"(?s:<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z))"
    r"|&#(?:x([0-9A-Fa-f]{1,8})|([0-9]{1,10}));|&(?:[A-Za-z][A-Za-z0-9]{1,31};)?|<(?![^\W\d]|[:/!?])"
)
"""What has no references, and references and characters that may have to be mended."""
_PREDEFINED: Final = frozenset({"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"})


def _decoded(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Encoding and text, decoded as HTML is; also UTF-16 without a mark, which XML allows."""
    for start, mark in ((b"<\0?\0", b"\xff\xfe"), (b"\0<\0?", b"\xfe\xff")):
        if body.startswith(start):
            body = mark + body
    encoding, text = decode(body, content_type)
    return encoding, _NOT_XML.sub("\ufffd", text)


def _mended(match: re.Match[str]) -> str:
    """References that XML knows as they are, names of HTML as their characters, other ``&`` and ``<`` escaped."""
    source = match[0]
    if source in _PREDEFINED or source[:2] in ("<!", "<?"):
        return source
    if match[1] or match[2]:
        number = int(match[1], 16) if match[1] else int(match[2])
        return "\ufffd" if number > sys.maxunicode or _NOT_XML.match(chr(number)) else source
    return escape(html5.get(source[1:], source))


_TAG: Final = re.compile(
    r"(?s:<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z))"
    r"""|<(/?)([^\s<>/!?][^\s<>/]*+)((?:[^<>"']|"[^"<]*+"|'[^'<]*+'|(?!))*+)>"""
)


def _balanced(source: str, vocabulary: Vocabulary) -> str:
    """The source with an end tag for each start tag, so that a missing or wrong one harms no other entry.

    An end tag also ends the elements that were opened since its start tag; one without a start tag is dropped.  An
    entry ends the entry before it.
    """
    entries = {path.rpartition("/")[2] for path in vocabulary.entries}
    opened: list[str] = []
    counts = Counter[str]()
    pieces: list[str] = []
    done = 0
    for match in _TAG.finditer(source):
        slash, name, rest = match.groups()
        if name is None or (not slash and rest.endswith("/")):
            continue
        pieces.append(source[done : match.start()])
        done = match.end()
        if counts[name] and (slash or name in entries):
            ended = ""
            while ended != name:
                ended = opened.pop()
                counts[ended] -= 1
                pieces.append(f"</{ended}>")
        if not slash:
            opened.append(name)
            counts[name] += 1
            pieces.append(match[0])
    return "".join([*pieces, source[done:], *(f"</{name}>" for name in reversed(opened))])


def _feed(reading: _Reading, vocabulary: Vocabulary, source: str, first_line: int) -> str:
    """Parse a root element; -> the first fatal error and its line, or ""."""
    parser = etree.XMLParser(
        target=cast(Any, reading),
        encoding="utf-8",
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
    )
    names = {prefix: name for name, prefix in reversed(list(vocabulary.namespaces.items())) if prefix}
    declared = " ".join(f'xmlns:{prefix}="{escape(name)}"' for prefix, name in names.items())
    encoded = f"<wrapper {declared}>{source}</wrapper>".encode()
    try:
        for start in range(0, len(encoded), CHUNK_BYTES):
            parser.feed(encoded[start : start + CHUNK_BYTES])
        parser.close()
    except OverflowError as limit:  # the rest is not read
        return str(limit)
    except etree.XMLSyntaxError as error:
        return str(error)
    fatal = next((entry for entry in parser.feed_error_log if entry.level >= etree.ErrorLevels.FATAL), None)
    return f"{fatal.message} in line {fatal.line + first_line}" if fatal else ""


class _Item:
    """The page, or an entry: for each field the values of the best path so far.

    Attributes:
        depth: depth of its element below the root.
        values: by field, the path's rank and its values; several for `text`, else one.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.values: dict[str, tuple[int, list[str]]] = {}

    def take(self, field: str, rank: int, value: str) -> None:
        known = self.values.get(field)
        if value and (known is None or rank < known[0]):
            self.values[field] = rank, [value]
        elif value and known is not None and rank == known[0] and field == "text":
            known[1].append(value)

    def get(self, field: str) -> str:
        return "\n".join(self.values.get(field, (0, []))[1])


_Wanted = Mapping[str, tuple[str, int]]
"""Of an element or attribute: field and rank of its path, by the key that its text begins with, or by ""."""
_KEYED: Final = re.compile(r"(.+)\[([^\[\]=]+)=\]")


def _wanted_by_path(paths: Paths) -> dict[str, _Wanted]:
    """What is read at each path of a table."""
    wanted: dict[str, dict[str, tuple[str, int]]] = {}
    for field, several in paths.items():
        for rank, path in enumerate(several):
            keyed = _KEYED.fullmatch(path)
            place, key = keyed.groups() if keyed else (path, "")
            wanted.setdefault(place, {})[key] = field, rank
    return {**wanted}


class _Reading:
    """Target of the parser: tracks the path, and collects the values of the vocabulary's paths."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tables = _wanted_by_path(vocabulary.page), _wanted_by_path(vocabulary.entry)
        self._page = _Item(0)
        self._entry: _Item | None = None
        self._entries: list[_Item] = []
        self._names: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        self._own_namespace = ""
        self._elements = 0
        self._depth = 0
        """Depth of the open element: 1 is the wrapper, 2 the root."""
        self._path: list[str] = []
        """Names from below the root to the open element, or to the element whose value is read."""
        self._bases = [""]
        self._is_over = False
        self._wanted: _Wanted | None = None
        """What the element is read for whose value is read."""
        self._field_depth = 0
        self._is_html = self._is_tagged = False
        self._pieces: list[str] = []

    # --- called by the parser

    def start(self, tag: str, attributes: Mapping[str, str], namespaces: Mapping[str, str]) -> None:
        """An element begins."""
        self._elements += 1
        if self._elements > MOST_ELEMENTS:
            raise OverflowError
        self._depth += 1
        if self._depth > DEEPEST:
            raise OverflowError(f"elements are nested more than {DEEPEST} deep")
        if self._depth == 1 or self._is_over:
            return
        if self._wanted is not None:
            if not self._is_tagged:
                self._pieces = [escape(piece, quote=False) for piece in self._pieces]
                self._is_tagged = True
            self._pieces.append(f"<{tag.rpartition('}')[2]}>")
            return
        for prefix, namespace in namespaces.items():
            self._prefixes.setdefault(namespace, prefix or "")
        if self._depth == 2:
            self._own_namespace = tag.rpartition("}")[0]
        else:
            self._path.append(self._element_name(tag, attributes))
        base = attributes.get(f"{XML}base")
        self._bases.append(_joined(self._bases[-1], base) if base else self._bases[-1])
        if len(self._path) <= MOST_DEPTH:
            self._begin(attributes)

    def end(self, tag: str) -> None:
        """An element ends."""
        self._depth -= 1
        if not self._depth or self._is_over:
            return
        if self._wanted is not None:
            if self._depth >= self._field_depth:
                self._pieces.append(f"</{tag.rpartition('}')[2]}>")
                return
            self._take(self._wanted, "".join(self._pieces), self._is_html or self._is_tagged)
            self._wanted, self._pieces = None, []
        if self._entry is not None and self._entry.depth == len(self._path):
            self._entry = None
        if self._path:
            self._path.pop()
        self._bases.pop()
        self._is_over = self._depth == 1

    def data(self, text: str) -> None:
        """Text of the open element."""
        if self._wanted is not None:
            self._pieces.append(escape(text, quote=False) if self._is_tagged else text)

    def close(self) -> None:
        """The document ends."""

    # --- values

    def _begin(self, attributes: Mapping[str, str]) -> None:
        """Look up the element that has just begun."""
        if self._entry is None and self._path and "/".join(self._path) in self._vocabulary.entries:
            if len(self._entries) == MOST_ENTRIES:
                raise OverflowError
            self._entry = _Item(len(self._path))
            self._entries.append(self._entry)
        item, table = (self._entry, self._tables[1]) if self._entry else (self._page, self._tables[0])
        path = "/".join(self._path[item.depth :])
        self._wanted = table.get(path) if path else None
        for key, value in attributes.items():
            name = self._name(key)
            wanted = table.get(f"{path}@{name}")
            if wanted is not None:
                self._take(wanted, value, is_html=False)
            self._wanted = table.get(f"{path}[{name}={value.strip()}]", self._wanted)
        if self._wanted is not None:
            self._field_depth, self._pieces, self._is_tagged = self._depth, [], False
            kind = attributes.get("type", "").strip().lower()
            self._is_html = kind not in ("text", "text/plain") and bool(kind or not self._vocabulary.is_plain)

    def _element_name(self, tag: str, attributes: Mapping[str, str]) -> str:
        name = self._name(tag)
        if "rel" in attributes:
            return f"{name}[{attributes['rel'].strip().lower()}]"
        return f"{name}[false]" if attributes.get("isPermaLink", "").strip().lower() == "false" else name

    def _name(self, tag: str) -> str:
        """The name of an element or attribute in paths."""
        known = self._names.get(tag)
        if known is None:
            namespace, _, local = tag.rpartition("}")
            prefix = "" if namespace == self._own_namespace else self._vocabulary.namespaces.get(namespace[1:])
            if prefix is None:
                prefix = self._prefixes.get(namespace[1:], "")
            known = self._names[tag] = f"{prefix}:{local}" if prefix else local
        return known

    def _take(self, wanted: _Wanted, text: str, is_html: bool) -> None:
        """Give the page or the entry the value of an element or attribute, or what follows its key."""
        key, sign, rest = text.partition("=")
        for name, value in (("", text), *([(key.strip(), rest)] if sign else [])):
            if name in wanted:
                field, rank = wanted[name]
                (self._entry or self._page).take(field, rank, self._value(field, value, is_html))

    def _value(self, field: str, text: str, is_html: bool) -> str:
        if field == "link":
            return _joined(self._bases[-1], text)
        is_section = text.lstrip().startswith("<![CDATA[")  # escaped: what it holds was to be HTML
        text = shown(text) if is_html or is_section else docstore_native.fold_lines(text)
        if field == "published":
            return published_time(" ".join(text.split()))
        if field == "text":
            return text
        return " ".join(text.split())

    def done(self, encoding: str) -> Text:
        """The text of the document."""
        listed = (Entry(*(item.get(field) for field in ("link", "title", "published"))) for item in self._entries)
        entries = tuple(entry for entry in listed if any(entry))
        texts = [self._page.get("text")]
        for item in self._entries:
            texts += [item.get("title"), item.get("text")]
        home = self._page.get("link")
        links = [(home, self._page.get("title"))] if home else []
        links += [(entry.url, entry.title) for entry in entries if entry.url]
        newest = max((entry.published for entry in entries), default="")
        return Text(
            "\n".join(filter(None, texts)),
            encoding,
            title=self._page.get("title"),
            description=self._page.get("description"),
            lang=self._page.get("lang"),
            published=self._page.get("published") or newest,
            links=tuple(links),
            entries=entries,
        )


def _joined(base: str, reference: str) -> str:
    """A reference resolved against a base, which may be relative; as written if it cannot be resolved."""
    reference = reference.strip()
    try:
        return urljoin(base, reference) if base else reference
    except ValueError:
        return reference


# --- the user's vocabularies

_PREFIX: Final = re.compile(r"(?!xml)[^\W\d][\w.-]*")


@lru_cache(maxsize=4)
def parse(source: str) -> tuple[Vocabulary, ...]:
    """The vocabularies of a TOML file: a table for each, with `roots`, `entries` and paths by field, and one `entry`.

    Raises:
        InvalidArgument: the file is not such a table; the message names the table and key.
    """
    try:
        tables = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"the vocabulary is not TOML: {error}") from error
    return tuple(_vocabulary(name, table) for name, table in tables.items())


def _vocabulary(name: str, table: Any) -> Vocabulary:
    if not isinstance(table, dict) or not isinstance(table.get("entry", {}), dict):
        raise InvalidArgument(f"the vocabulary {name!r} must be a table such as [{name}], its entry [{name}.entry]")
    page = {key: paths for key, paths in table.items() if key not in ("roots", "entries", "entry", "namespaces")}
    namespaces = _namespaces(name, table.get("namespaces", {}))
    tables = (("", page), ("entry.", table.get("entry", {})))
    for where, paths in (("", {key: table[key] for key in ("roots", "entries") if key in table}), *tables):
        for key, value in paths.items():
            if key not in (*FIELDS, "roots", "entries"):
                raise InvalidArgument(f"{name}.{where}{key}: no such field; a vocabulary has {', '.join(FIELDS)}")
            if not isinstance(value, list) or not all(isinstance(path, str) and path for path in value):
                raise InvalidArgument(f"{name}.{where}{key} must be a list of paths such as ['head/title']")
            for path in value:
                _check_prefixes(f"{name}.{where}{key}", path, set() if key == "roots" else {*namespaces.values()})
    if not table.get("roots"):
        raise InvalidArgument(f"the vocabulary {name!r} names no root element: write roots = ['article']")
    of_page, of_entry = ({key: tuple(value) for key, value in paths.items()} for _, paths in tables)
    if bool(of_entry) != bool(table.get("entries")):
        raise InvalidArgument(f"the vocabulary {name!r} needs both entries and [{name}.entry], or neither")
    entries = tuple(table.get("entries", ()))
    return Vocabulary(tuple(table["roots"]), entries, of_page, of_entry, namespaces=namespaces)


def _namespaces(name: str, declared: Any) -> Mapping[str, str]:
    """Prefixes by namespace: the built-in ones and those that a vocabulary declares."""
    is_table = isinstance(declared, dict) and all(isinstance(uri, str) and uri for uri in declared.values())
    if not is_table or not all(_PREFIX.fullmatch(prefix) for prefix in declared):
        raise InvalidArgument(f"[{name}.namespaces] must map prefixes to namespaces, such as geo = 'urn:example:geo'")
    built_in = {uri: prefix for uri, prefix in NAMESPACES.items() if prefix not in declared}
    return built_in | {uri: prefix for prefix, uri in declared.items()}


def _check_prefixes(where: str, path: str, declared: set[str]) -> None:
    """Refuse a path that names a prefix without a namespace: it would match nothing."""
    for step in re.split("[/@]", re.sub(r"\[[^\]]*\]", "", path)):
        prefix, sign, _ = step.partition(":")
        if sign and not declared:
            raise InvalidArgument(f"{where}: write the root {path!r} without its prefix, whatever its namespace is")
        if sign and prefix not in declared:
            table = where.partition(".")[0]
            raise InvalidArgument(
                f"{where}: the prefix {prefix!r} of the path {path!r} is not declared; declared are "
                f"{', '.join(sorted(filter(None, declared)))}; add [{table}.namespaces] with {prefix} = 'NAMESPACE'"
            )
