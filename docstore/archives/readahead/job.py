"""What the reading process is asked to do, and how it is known to be ours; loads nothing that takes time.

Types only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from docstore.version import __version__

HELLO: Final = f"docstore {__version__} reads\n".encode()
"""What comes before the first frame, bare: the process has loaded, and it is this very docstore."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to read, and how to analyse it.

    Attributes:
        files: paths, as the working directory has them.
        extractor, shingle_words, checksum: as in the store's schema.
        threads: that analyse pages.
        anchors: give what each page says of the pages that it links to.
        body_limit_bytes: longest body.
        salvage: take what there is of pages that are cut or break.
        band_secret: of the store, or b"".
        any_time: take pages of times that are refused otherwise.
        strip_passwords: leave user and password out of URLs that name both.
    """

    files: tuple[str, ...]
    extractor: str
    shingle_words: int
    checksum: str
    threads: int
    anchors: bool
    body_limit_bytes: int
    salvage: bool
    any_time: bool = False
    band_secret: bytes = b""
    strip_passwords: bool = False
