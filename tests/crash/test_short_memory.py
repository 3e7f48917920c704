"""A page for which there is no memory is refused as docstore's error; the process and its store go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import docstore
from docstore.reports.check import check

PROGRAM = """
import random, resource, sys
import docstore
from docstore import Page

folder, kind, way = sys.argv[1:]
size, room = 16 << 20, 60 << 20
body = random.Random(1).randbytes(size) if kind == "binary" else b"word " * (size // 5)
page = Page("https://long.example/", body, 200, (("Content-Type", f"text/{kind}"),))
store = docstore.open(folder, create=True)
store.put_page("https://before.example/", b"<p>" + b" ".join(b"w%d" % number for number in range(500)))
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + room, resource.RLIM_INFINITY))
try:
    if way == "put_page":
        store.put_page(page.url, page.body, headers=page.headers)
    elif way == "submit_page":
        store.submit_page(page).result()
    else:
        list(store.put_pages([page]))
except docstore.StorageError as error:
    assert "memory" in str(error), error
else:
    raise AssertionError("it was written")
assert store.get(page.url) is None
assert store.put_page("https://after.example/", b"<p>after").stored == "body"
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert store.put_page(page.url, page.body, headers=page.headers).stored == "body"
store.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it asks /proc how much memory is taken")
@pytest.mark.parametrize("way", ["put_page", "put_pages", "submit_page"])
@pytest.mark.parametrize("kind", ["html", "binary"])
def test_a_page_that_memory_does_not_hold_is_refused_and_the_store_goes_on(tmp_path: Path, kind: str, way: str) -> None:
    command = [sys.executable, "-c", PROGRAM, tmp_path / "s", kind, way]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with docstore.open(tmp_path / "s") as store:
        assert len(store) == 3 and not list(check(store.backend))
