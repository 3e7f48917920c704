"""Markup -> a source that says the same, for parsers that build trees of their own.

Knows `tokens`.  Names come back in small letters, comments and doctype are left out; a tag that met the end
of the source is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.text.tokens import Markup


def rebuild(markup: Markup) -> str:
    """The page's source again."""
    return "".join(_pieces(markup))


def _pieces(markup: Markup) -> Iterator[str]:
    yield markup.texts[0]
    rows = zip(markup.names, markup.attributes, markup.contents, markup.texts[1:], strict=True)
    for name, attributes, content, text in rows:
        if name:
            # A blank keeps an unquoted value that ends in a slash from closing the tag.
            yield f"<{name}{attributes or ''}{' ' if attributes else ''}>"
        if content:
            yield content
        yield text
