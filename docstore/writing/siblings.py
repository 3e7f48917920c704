"""The same path in another version or language of a site: a relative found by its key alone.

Pure of the store; knows what a row key looks like, and remembers the newest page of each key without versions.
Must not know bodies or rows: a page named here may be gone, and whoever leans on it looks first.

A site's manual of release 1.74 and of 1.81 differ in one segment of the path, or in a label of the host, and so do its
languages: `/doc/libs/1_74_0/doc/html/any.html`, `/7.4/en-US/text/any.html`.  Numbers in the last segment tell pages
apart (`page-12.html`), those before it mostly versions.  The index finds such a page where its text is long and like
the other's; this finds it where there is hardly any text, or another one, and the markup is still the same.
"""

from __future__ import annotations

import re
from functools import lru_cache

from docstore.model.format import ROW_KEY_HOST_END, ROW_KEY_SCHEME_MARK
from docstore.model.pointers import PagePointer
from docstore.storage.cache import LruCache

FOLDERS_HELD = 1024
"""Folders that were looked at last: pages of one come together."""
KEYS_HELD = 65_536
"""Some 20 MB; the oldest goes first.  After a restart the map fills anew: compaction finds what was missed."""
_VERSIONS = re.compile(rb"[0-9]+(?:[._-][0-9]+)*|(?<=/)[a-z]{2}(?:-[A-Za-z]{2,4})?(?=/)")
"""Numbers, and segments that look like the tag of a language."""


def version_less(row_key: bytes) -> bytes:
    """A row key without numbers and languages before its last path segment; b"" where it has none, or no host.

    >>> version_less(b"org,boost,www)/doc/libs/1_74_0/any.html https")
    b'org,boost,www)/doc/libs/#/any.html https'
    """
    host_end = row_key.find(ROW_KEY_HOST_END)
    path_end = row_key.find(b"?", host_end)
    if path_end < 0:
        path_end = row_key.find(ROW_KEY_SCHEME_MARK, host_end)
    if host_end < 0 or path_end < 0:
        return b""
    last_segment = row_key.rfind(b"/", host_end, path_end) + 1
    stem = _without_versions(row_key[:last_segment])
    return stem + row_key[last_segment:] if stem else b""


@lru_cache(maxsize=FOLDERS_HELD)
def _without_versions(folder: bytes) -> bytes:
    """A row key's beginning with a mark in place of each version; b"" where it has none."""
    stem, found = _VERSIONS.subn(b"#", folder)
    return stem if found else b""


class Siblings:
    """The newest page of each key without its versions.  Not thread-safe: the sequencer owns it."""

    def __init__(self) -> None:
        self._newest: LruCache[bytes, PagePointer] = LruCache(KEYS_HELD)

    def meet(self, key: bytes, pointer: PagePointer) -> PagePointer | None:
        """The page that came last under a key of `version_less`, if its row is another; this one is next."""
        if not key:
            return None
        before = self._newest.get(key)
        self._newest.put(key, pointer)
        return before if before is not None and before.row_key != pointer.row_key else None
