"""Rendering captures: main text for people, Markdown, and fields for JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docstore.model.plain import iso, shown

if TYPE_CHECKING:
    from docstore.model.types import Headers

SIGN_CHARACTERS = "\u00b6\u00a7\U0001f517\uf0c1\u200b"
SIGNS = f"(?m)[{SIGN_CHARACTERS}]+$|^[{SIGN_CHARACTERS}]+[ \u00a0]*(?=[^\\W\\d])"
"""Signs that documentation generators put around headings as links to them; `\u00a7 5` begins a paragraph of a law."""
HASH_SIGN = r"(?<!\b[A-Z])[ \u00a0]?#$|^#[ \u00a0]*(?=\w)"
"""The sign that some generators use; `C#` is a name."""
_TITLE_SEPARATORS = frozenset("-|:\u00b7\u2013\u2014\u00ab\u00bb")
"""Between parts of a title, as words of their own."""


def shown_text(text: str, title: str, headings: str = "") -> str:
    """Main text for people: without the signs of links to headings, and without a first line that repeats the title.

    Args:
        text: main text as stored.
        title: of the page, or "".
        headings: of the page, one a line: only these, and signatures, can end in a `#` that is a sign.
    """
    if not text.isascii() and any(sign in text for sign in SIGN_CHARACTERS):  # a search is faster than the pattern
        text = re.sub(SIGNS, "", text)
    parts = {part.casefold() for part in (" ".join(title.split()), *title_parts(title))}
    if "#" in headings:
        all_headings = headings.split("\n")
        signed = {one for one in all_headings if re.search(HASH_SIGN, one)}
        named = any(re.sub(HASH_SIGN, "", one).casefold() in parts and one.casefold() not in parts for one in signed)
        if named or 2 <= len(all_headings) <= 2 * len(signed):
            lines = text.split("\n")
            text = "\n".join(re.sub(HASH_SIGN, "", one) if one in signed or one[-2:] == ")#" else one for one in lines)
    first, _, rest = text.partition("\n")
    return rest.lstrip("\n") if rest and " ".join(first.split()).casefold() in parts else text


MARKDOWN_TYPES = ("text/markdown", "text/x-markdown")


def markdown_of(url: str, row_key: bytes, body: bytes, headers: Headers, text: str) -> str:
    """Main text as Markdown: of HTML those blocks that make up the text; of other documents the lines of the text.

    A document that is Markdown is given as it is.

    Args:
        url: as fetched; links are resolved against it.
        row_key: of the page.
        body: b"" if there is none.
        headers: of the response.
        text: main text as stored.
    """
    from docstore.compiled import docstore_native  # here: `--help` prints without them
    from docstore.model.capture import content_type_of

    content_type = content_type_of(headers, row_key)
    if text and body and content_type.partition(";")[0].lower() in MARKDOWN_TYPES:
        return docstore_native.decode(body, content_type)[1]
    return docstore_native.markdown(body, content_type, url, text)


def title_parts(title: str) -> list[str]:
    """The parts of a title such as `Page | Site`, between separators that stand alone; of two in a row the second is
    no separator."""
    parts: list[list[str]] = [[]]
    words = title.split()
    is_cut, ends = not title[:1].isspace(), title[-1:].isspace()
    for number, word in enumerate(words, 1):
        is_cut = not is_cut and word in _TITLE_SEPARATORS and (number < len(words) or ends)
        if is_cut:
            parts.append([])
        else:
            parts[-1].append(word)
    return [" ".join(part) for part in parts]


# --- fields for JSON

_VERDICT = ("kind", "of_url", "of_timestamp", "similarity", "reason", "contains_url", "candidates", "verified")
HTTP_FIELDS = ("media_type", "charset", "ip", "payload_digest", "docno", "fetched_url")
TEXT_FIELDS = ("title", "text", "description", "keywords", "headings", "lang", "canonical", "published")


def capture_fields(capture: Any) -> dict[str, Any]:
    """A capture for JSON: the fields of the families that were read, without body and fingerprints.

    Args:
        capture: a `Capture`, or an object with these attributes.
    """
    fields: dict[str, Any] = {"timestamp": iso(capture.timestamp), "crawl": capture.crawl}
    if capture.status is not None:
        fields["status"] = capture.status
        fields["headers"] = [list(pair) for pair in capture.headers or ()]
        fields |= {name: getattr(capture, name) for name in HTTP_FIELDS}
    if capture.text is not None:
        fields |= {name: getattr(capture, name) for name in TEXT_FIELDS}
        fields["entries"] = [entry._asdict() for entry in capture.entries or ()]
    stored, verdict = capture.verdict, capture.shown_verdict
    if stored is not None and verdict is not None:
        fields["verdict"] = {name: shown(name, getattr(verdict, name)) for name in _VERDICT}
        fields["verdict"]["kind"] = str(verdict.kind)
        fields["previous"] = str(stored.previous)
        fields["previous_similarity"] = stored.previous_similarity
        fields["stored"] = stored.stored
        fields["served_from"] = capture.served_from
    return fields
