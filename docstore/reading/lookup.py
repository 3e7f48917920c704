"""Which row answers a URL: its own, that of a variant of the URL, the target of stored redirects, or the page for
which it was rejected.

Knows how URLs vary and what a redirect is; must not know how a row becomes a document, nor write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from docstore.model import keys
from docstore.reading.documents import Document, DocumentReader

MAX_REDIRECTS = 10
REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class Lookup(NamedTuple):
    """What to read of the row that is found.

    Attributes:
        reader: of documents.
        at: as the page was at this time, in microseconds since 1970; None for now.
        versions: most captures to give, newest first.
        families: read only these; None for all of a document.
    """

    reader: DocumentReader
    at: int | None
    versions: int
    families: Sequence[str] | None

    def find(self, url: str, *, follow: bool, variants: bool, follow_duplicates: bool = False) -> Document | None:
        """The page of a URL; `Document.via` lists the URLs that led to another one.

        Args:
            url: asked for.
            follow: follow stored redirects, as far as they lead to stored pages.
            variants: if there is no such page, try the other scheme, with or without `www`, and the other Unicode
                normal form.
            follow_duplicates: if the newest fetch was rejected, give the page that it duplicates.
        """
        document, via = self._duplicated(url) if follow_duplicates else None, [keys.canonical_url(url)]
        if document is None:
            document, via = self._read(url), []
        if document is None and variants:
            others = [*keys.variants(url), *keys.normal_forms(keys.canonical_url(url))]
            document = next(filter(None, map(self._read, others)), None)
            via = [keys.canonical_url(url)]
        while document is not None and follow and len(via) < MAX_REDIRECTS:
            target = self._redirect_target(document)
            found = None if target is None or target in via else self._read(target)
            if found is None:
                break
            via.append(document.url)
            document = found
        if document is None or not via:
            return document
        return Document(document.row_key, document.captures, tuple(via))

    def _read(self, url: str) -> Document | None:
        return self.reader.get(keys.row_key(url), at=self.at, versions=self.versions, families=self.families)

    def _duplicated(self, url: str) -> Document | None:
        pointer = self.reader.rejected_for(keys.row_key(url), at=self.at)
        if pointer is None:
            return None
        return self.reader.get(pointer.row_key, at=pointer.timestamp, versions=self.versions, families=self.families)

    def _redirect_target(self, document: Document) -> str | None:
        http = self.reader.get(document.row_key, at=self.at, families=("http",))
        if http is None or http.status not in REDIRECT_STATUSES:
            return None
        location = http.newest.header("location")
        return keys.resolve(document.url, location) if location else None
