"""What the kernel makes of real pages, as digests: fixtures, the sample crawl, and 500 pages of other sites.

    pytest tests/golden/test_golden_pages.py                  # names the pages and parts that changed
    pytest tests/golden/test_golden_pages.py --rewrite        # writes the digests anew; git shows which changed
    python -m tests.golden.test_golden_pages FOLDER           # writes the parts themselves, a file a page

The last is for a change of rules: run it before and after, then `git diff --no-index BEFORE AFTER`.  `tests/cases/text`
says what a rule is; this file says only that pages come out as before.  `tests/fixtures/README.md` has the sources of
the pages and their licences.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pytest

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.compiled import docstore_native
from docstore.dedup.kernel import EXTRACTORS, Kernel

TESTS = Path(__file__).parents[1]
GOLDEN = Path(__file__).with_name("pages.tsv")
SITES = TESTS / "fixtures" / "sites.tar.xz"
KERNELS = {name: Kernel(name) for name in EXTRACTORS}
PARTS = (*EXTRACTORS, "declared", "links", "blocks", "markdown", "numbers")
FINGERPRINTS = ("word_count", "text_checksum", "simhash", "sketch", "band_keys", "fingerprints", "runs", "shingles")
ARRAYS = ("band_keys", "fingerprints", "runs", "shingles")


def pages() -> Iterator[tuple[str, bytes, str]]:
    """Name, body and Content-Type of each page."""
    for path in sorted((TESTS / "fixtures" / "html").glob("*.html")):
        yield path.name, path.read_bytes(), "text/html"
    for number, entry in enumerate(read(TESTS.parent / "examples" / "sample-crawl.warc.gz")):
        if isinstance(entry, PageEntry):
            yield f"{number} {entry.page.url}", entry.page.body, entry.page.header("content-type") or ""
    with tarfile.open(SITES) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                yield member.name, file.read(), "text/html"


def parts(name: str, body: bytes, content_type: str) -> list[str]:
    """What the kernel makes of a page, in the order of `PARTS`."""
    found = [KERNELS[extractor].analyse(body, content_type, links=True) for extractor in EXTRACTORS]
    last = found[-1]
    charset, source = docstore_native.decode(body, content_type)
    declared = (charset, last.title, last.description, last.keywords, last.lang, last.canonical, last.headings.decode())
    blocks = [block for extractor in EXTRACTORS[1:] for block in docstore_native.explain(source, extractor)]
    numbers = [
        f"{field} {value.hex() if field in ARRAYS else value!r}"
        for field, value in ((field, getattr(last, field)) for field in FINGERPRINTS)
    ]
    return [
        *(each.main for each in found),
        "\n".join(declared),
        "\n".join(f"{href} | {text}" for href, text in last.links),
        "\n".join(f"{'+' if is_kept else '-'} {score} {why} {text}" for text, is_kept, score, why in blocks),
        docstore_native.markdown(body, content_type, f"https://site.example/{name}", last.main),
        "\n".join(numbers),
    ]


def digests() -> dict[str, list[str]]:
    return {
        name: [blake2b(part.encode(), digest_size=3).hexdigest() for part in parts(name, body, content_type)]
        for name, body, content_type in pages()
    }


def test_real_pages_come_out_as_before(rewrite: bool) -> None:
    found = digests()
    assert len(found) > 650
    if rewrite:
        GOLDEN.write_text("".join("\t".join((name, *each)) + "\n" for name, each in found.items()), "utf-8")
    lines = GOLDEN.read_text("utf-8").splitlines()
    expected = {name: each for name, *each in (line.split("\t") for line in lines)}
    changed = []
    for name in expected.keys() & found.keys():
        pairs = zip(PARTS, expected[name], found[name], strict=True)
        if parts_changed := [part for part, old, new in pairs if old != new]:
            changed.append(f"{name}: {', '.join(parts_changed)}")
    told = "\n".join(sorted(changed)[:40])
    if expected != found:
        pytest.fail(
            f"{len(changed)} of {len(found)} pages changed; this module says how to compare\n{told}", pytrace=False
        )


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, body, content_type in pages():
        told = [f"==== {part}\n{text}\n" for part, text in zip(PARTS, parts(name, body, content_type), strict=True)]
        (folder / f"{blake2b(name.encode(), digest_size=6).hexdigest()}.txt").write_text("\n".join((name, *told)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
