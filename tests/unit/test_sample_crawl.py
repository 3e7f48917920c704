"""The sample crawl has the pages that examples/README.md lists, and a bounded size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from docstore.archives.entries import PageEntry, RevisitEntry, SkippedEntry
from docstore.archives.reader import read

EXAMPLES = Path(__file__).parents[2] / "examples"
CRAWL = EXAMPLES / "sample-crawl.warc.gz"


def test_sample_crawl_is_small_and_undamaged() -> None:
    assert CRAWL.stat().st_size < 3_000_000
    found = list(read(CRAWL))
    assert Counter(type(entry) for entry in found) == {PageEntry: 190, RevisitEntry: 2, SkippedEntry: 1}


def test_sample_crawl_has_every_kind_of_page_of_its_readme() -> None:
    pages = [entry.page for entry in read(CRAWL) if isinstance(entry, PageEntry)]
    urls = Counter(page.url for page in pages)
    bodies = Counter(page.body for page in pages if page.body)
    assert sum(count == 2 for count in urls.values()) == 14
    assert sum(count == 2 for count in bodies.values()) == 14
    assert Counter(page.status for page in pages) == {200: 188, 301: 1, 404: 1}
    charsets = Counter((page.header("content-type") or "").partition("charset=")[2] for page in pages)
    assert charsets["euc-kr"] == 4
    assert charsets["euc-jp"] == 3
    for page in pages:
        declared = (page.header("content-type") or "").partition("charset=")[2]
        assert page.body.decode(declared or "utf-8", "ignore" if not declared else "strict") is not None
    encoded = [page for page in pages if page.header("content-encoding") or page.header("transfer-encoding")]
    assert len(encoded) > 20
    assert all(page.body.lstrip().startswith(b"<") for page in encoded if page.status == 200)
    assert any(page.body.startswith(b"\x89PNG") for page in pages)


def test_readme_of_the_examples_names_sources_and_licences() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for word in (
        "193 records",
        "190 pages",
        "Boost Software License - Version 1.0",
        "Apache 2.0",
        "make_sample_crawl.py",
    ):
        assert word in readme
