"""Pages of one thing, many times: each element, attribute, entity and charset, open, closed, nested and empty.

A rule that looks again at what it has seen, for each part of a page, takes quadratic time for such a page alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final, NamedTuple

_ELEMENT_NAMES = """
a abbr address area article aside audio b base bdi bdo blink blockquote body br button canvas caption center cite code
col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset figcaption figure font footer form
frame frameset g-emoji h1 h2 h3 h6 head header hgroup hr html i iframe img input ins kbd label legend li link listing
main map mark marquee math menu meta meter mi mo mtable mtd mtr nav nobr noembed noframes noindex noscript object ol
optgroup option output p param picture plaintext pre progress q rb rp rt rtc ruby s samp script search section select
slot small source span st1:place strike strong style sub summary sup svg table tbody td template textarea tfoot th thead
time title tr track tt u ul use var video wbr xmp x-custom
"""
ELEMENTS: Final = _ELEMENT_NAMES.split()
_ATTRIBUTE_TEXTS = """
href=/a{n} src=/i{n}.png class=c{n} id=i{n} style=color:red{n} style=display:none hidden aria-hidden=true role=dialog
title=t{n} alt=t{n} datetime=2024-01-{n} itemprop=articleBody itemtype=http://schema.org/Article property=og:title
name=description content=c{n} rel=canonical lang=en dir=rtl data-x{n}=y srcset=/a{n}.png,/b{n}.png type=text/plain
http-equiv=refresh charset=utf-8 onclick=f({n}) class=nav-menu-ad-comment-share style=display:block;float:left
"""
ATTRIBUTES: Final = _ATTRIBUTE_TEXTS.split()
ENTITIES: Final = (
    "&amp;",
    "&nbsp;",
    "&shy;",
    "&zwj;",
    "&#{n};",
    "&#x{n};",
    "&notit;",
    "&unknown{n};",
    "&",
    "&#",
    "&lt",
)
PIECES: Final = (
    "<!-- {n} -->",
    "<!--",
    "<![CDATA[ {n} ]]>",
    "<!{n}>",
    "<?{n}?>",
    "</{n}>",
    "<",
    "</",
    "<{n}",
    "<a href='",
    '<a b="{n}',
    "<a/>",
    "<p>{n} words of it. ",
    "{n}\n",
    "\u00ad",
    "\u200d{n}",
    "\u0301",
    "e\u0301{n} ",
    "\u0995\u09bf{n} ",
    "\u4e2d{n}",
    "\u0e01",
    "\U0001f600",
    "<a href=/x>text {n}</a> ",
    "<a href=/{n}>text</a> ",
    "<ul><li>{n}</ul>",
    "<li><a href=/{n}>{n}</a> {n} comments<ul>",
    "<table><tr><td>{n}",
    "<dl><dt>{n}<dd>{n}",
    "<h2>{n}</h2><p>{n} is here.</p>",
    "<h2>same</h2><p>The same sentence again.</p>",
    "<time datetime=2024-02-03>{n}</time> 3 February 2024 ",
    "<script type=application/ld+json>{{}}</script>",
    "<svg><title>{n}</title></svg>",
    "<math><mi>{n}</mi></math>",
    "<ruby>{n}<rt>{n}</ruby>",
    "<select><option>{n}",
    "<noscript><p>{n}</noscript>",
    "<style>.c{n}{{display:none}}</style><p class=c{n}>{n}",
    "```{n}\n",
    "[{n}](/x) ",
    "* {n}\n",
    "{n}. {n}\n",
    "a{n}.b@example.com ",
)
CHARSETS: Final = (
    *("utf-8", "utf-16-le", "utf-16-be", "utf-32", "windows-1252", "windows-1251", "iso-8859-2", "koi8-r", "shift_jis"),
    *("euc-jp", "iso2022_jp", "gbk", "gb18030", "big5", "euc-kr", "cp874", "mac-roman", "ibm866", "utf-7"),
)
OTHERS: Final = (
    ("application/rss+xml", "<rss><channel>", "<item><title>{n}</title><link>/{n}</link></item>"),
    ("application/rss+xml", "<rss><channel>", "<item>"),
    ("application/atom+xml", "<feed>", "<entry><title>{n}</title></entry>"),
    ("application/xml", "<urlset>", "<url><loc>http://a.example/{n}</loc></url>"),
    ("application/xml", "<a>", "<b{n}>"),
    ("application/xhtml+xml", "<?xml version='1.0'?><html><body>", "<p/>{n}"),
    ("text/plain", "", "{n} words of it\n"),
    ("text/plain", "", "-"),
    ("text/markdown", "# T\n", "[{n}]: /x\n"),
    ("text/markdown", "---\n", "title: >-\n {n}\n"),
    ("application/json", "", '{{"a":'),
    ("application/json", "[", '{{"url":"{n}"}},'),
    ("application/pdf", "%PDF-1.4\n", "{n} 0 obj <<>> endobj\n"),
)


class Crowded(NamedTuple):
    """A page of one thing, many times."""

    what: str
    body: bytes
    content_type: str


def crowded_pages(size_bytes: int) -> Iterator[Crowded]:
    """One page of each kind, of about this size."""
    for what, before, pattern, charset, content_type in _kinds():
        pieces = (pattern.format(n=number) for number in range(size_bytes))
        body = bytearray(before.encode())
        encoded = (piece.encode(charset, "replace") for piece in pieces)
        while len(body) < size_bytes:
            body += b"".join(islice(encoded, 256))
        yield Crowded(what, bytes(body[:size_bytes]), content_type)


def mixed_page(chooser: random.Random, size_bytes: int) -> Crowded:
    """A page of two or three kinds in turn, in a random order of the seed."""
    kinds = chooser.sample(list(_kinds()), chooser.randint(2, 3))
    body = bytearray(kinds[0][1].encode())
    for number, kind in enumerate(cycle(kinds)):
        if len(body) >= size_bytes:
            break
        for _ in range(chooser.choice((1, 1, 30))):
            body += kind[2].format(n=number).encode(kinds[0][3], "replace")
    return Crowded(" and ".join(kind[0] for kind in kinds), bytes(body), kinds[0][4])


def _kinds() -> Iterator[tuple[str, str, str, str, str]]:
    """What it is, the beginning of the page, the repeated part, charset and Content-Type."""
    html = "<!doctype html><title>Crowded</title><body><p>Some words before it. "
    for name in ELEMENTS:
        for pattern in (
            f"<{name}>",
            f"<{name}>{{n}} ",
            f"<{name}>{{n}}</{name}> ",
            f"<{name}/>",
            f"<{name}><p>{{n}}</p></{name}>",
        ):
            yield pattern, html, pattern, "utf-8", "text/html"
    for attribute in ATTRIBUTES:
        yield f"elements with {attribute}", html, f"<p {attribute}>{{n}} ", "utf-8", "text/html"
        yield f"attributes {attribute}", html + "<p ", f"{attribute} ", "utf-8", "text/html"
    for piece in (*ENTITIES, *PIECES):
        yield f"pieces {piece!r}", html, piece, "utf-8", "text/html"
        yield f"pieces {piece!r} in a value", html + "<a title='", piece.replace("'", ""), "utf-8", "text/html"
    for charset in CHARSETS:
        for text in ("word{n} ", "\u00e9\u043f\u4e2d\u3042{n} "):
            yield f"{text!r} in {charset}", "", text, charset, f"text/html; charset={charset}"
            yield f"{text!r} in undeclared {charset}", "", text, charset, "text/html"
    for content_type, before, pattern in OTHERS:
        yield f"{content_type} {pattern!r}", before, pattern, "utf-8", content_type
