"""Random stores: rows that native code reads give the versions that the general way gives."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

import docstore
from docstore.model.choices import VerdictKind
from docstore.model.types import Page, Policy
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.pages import Blobs, Versions, read_versions
from tests.pages import page, words

SECOND = 1_000_000
HOSTS = ("a.example", "b.example")
TITLES = ("A page", "Zeitung für alle", "१२३ ٤٥٦", "2024 12 31", "犬と猫の話", "the the THE of", "", "x " * 200)
FEED = b'<?xml version="1.0"?><rss><channel><title>News</title>%b</channel></rss>'
ITEM = b"<item><title>%b</title><link>https://a.example/1</link></item>"
RULE = f"https://{HOSTS[0]}/"


@st.composite
def captures(draw: st.DrawFn) -> Page:
    """A page of any shape that a sweep tells apart, at one of few URLs."""
    url = f"https://{draw(st.sampled_from(HOSTS))}/{draw(st.integers(0, 12))}"
    count = draw(st.sampled_from([0, 5, 19, 20, 49, 50, 51, 120, 400]))
    text = words(draw(st.integers(0, 3)), count)
    body = page(text, draw(st.sampled_from(TITLES)))
    if draw(st.integers(0, 4)) == 0:
        link = f'<link rel="canonical" href="{draw(st.sampled_from([RULE + "1", "/2", "x:y"]))}">'
        body = body.replace(b"</title>", b"</title>" + link.encode())
    if draw(st.integers(0, 9)) == 0:
        body = draw(st.sampled_from([b"", b" \n\t\x0b ", b"\xef\xbb\xbf \r\n", b"a", FEED % (ITEM % b"One" * 30)]))
    status = draw(st.sampled_from([200, 200, 200, 200, 204, 301, 304, 304, 404, 500, 0]))
    body = b"" if status == 304 else body
    headers = (("Content-Type", "text/html; charset=utf-8"), ("Location", "/3"))
    return Page(url, body, status, headers, SECOND * draw(st.integers(1_000_000_000, 1_000_000_005)))


def plain(versions: Versions) -> dict[str, object]:
    """The columns of versions, ready to be compared."""
    columns: dict[str, object] = {}
    for name in Versions.__slots__:
        value = getattr(versions, name)
        if isinstance(value, Blobs):
            value = [value[number] for number in range(len(value))]
        columns[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return columns


@settings(max_examples=few(40, 2), deadline=None)
@given(
    st.lists(captures(), min_size=1, max_size=40),
    st.booleans(),
    st.sampled_from([Policy.FLAG, Policy.REFERENCE, Policy.REJECT]),
)
def test_native_code_gives_the_versions_that_a_look_at_each_row_gives(
    crawl: list[Page], is_swept: bool, policy: Policy
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        with docstore.open(path, create=True, durability="none") as store:
            for _ in store.put_pages(crawl, policies={VerdictKind.EXACT: policy}):
                pass
            if is_swept:
                sweep(store, SweepOptions(threads=1))
            found = plain(read_versions(store))
            store.table.collects_captures = True  # as if a policy might hide a capture: then each row is read whole
            assert found == plain(read_versions(store))
