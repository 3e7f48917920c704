"""Write the first inputs of the native kernel's fuzz targets: pages of the repository, whole and cut.

Run it as ``python -m tools.make_fuzz_corpus``; it fills ``native/fuzz/corpus/{tokens,kernel}``, which are not kept.
Then, with a nightly toolchain and cargo-fuzz: ``cd native && cargo +nightly fuzz run kernel``.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read

CHECKOUT = Path(__file__).resolve().parent.parent
TARGETS = ("tokens", "kernel")
WHOLE_BYTES = 16_384
"""Longer pages are given in pieces: fuzzing is quicker on short inputs."""


def main() -> int:
    bodies = [path.read_bytes() for path in sorted((CHECKOUT / "tests" / "fixtures" / "html").glob("*.html"))]
    for archive in sorted((CHECKOUT / "examples").glob("*.warc.gz")):
        bodies += [entry.page.body for entry in read(archive) if isinstance(entry, PageEntry)]
    pieces = {body[start : start + WHOLE_BYTES] for body in bodies for start in range(0, len(body), WHOLE_BYTES)}
    for target in TARGETS:
        folder = CHECKOUT / "native" / "fuzz" / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for piece in pieces:
            (folder / hashlib.sha256(piece).hexdigest()[:16]).write_bytes(piece)
    print(f"{len(pieces)} inputs for each of {', '.join(TARGETS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
