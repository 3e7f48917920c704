"""`docstore get` by the direct way answers as the whole command does, byte for byte, or leaves it to that."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import docstore
from docstore import compiled
from docstore.cli import direct
from docstore.cli.main import main
from docstore.model.format import CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY, LOCK_FILE, SEGMENT_DIRECTORY
from docstore.tablets.losses import record_lost_commits
from tests.cli_case import article, html
from tests.serving import serving

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason="native code reads")

AT = 1_700_000_000_000_000
SHOWN = ([], ["--body"], ["--headers"], ["--json"], ["--json", "--body"])
HEADERS = (("Content-Type", "text/html; charset=utf-8"), ("X-Name", "caf\u00e9 \u202e"), ("X-Name", "again"))
SITE = "https://site.example"
LONG = " ".join(article(1, 4000))
FEED = b"""<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><item><title>One</title>
<link>https://site.example/one</link></item></channel></rss>"""
PAGES: list[tuple[str, bytes, dict[str, object]]] = [
    *((f"{SITE}/page/{n}", html(f"Page {n} | Site", article(n, 1500)), {"headers": HEADERS}) for n in range(40)),
    (f"{SITE}/delta", html("Page 1 | Site", [*article(1, 1500), "one", "more"]), {}),
    (f"{SITE}/referenced", html("Page 2 | Site", article(2, 1500)), {"policies": {"exact": "reference"}}),
    (f"{SITE}/rejected", html("Page 3 | Site", article(3, 1500)), {"policies": {"exact": "reject"}}),
    (f"{SITE}/title", b"<title>Caf\xc3\xa9 - Site</title><p>Caf\xc3\xa9<p>\xe2\x80\xaetext \xc2\xa0 \x07 of it", {}),
    (f"{SITE}/sign", "<title>C#</title><h1>Use #</h1><p>\u00a7 5 of <h2>The law\u00b6</h2>text".encode(), {}),
    (f"{SITE}/empty", b"", {}),
    (f"{SITE}/picture", random.Random(1).randbytes(70_000), {"headers": (("Content-Type", "image/png"),)}),
    (f"{SITE}/feed", FEED, {"headers": (("Content-Type", "application/rss+xml"),)}),
    (f"{SITE}/long", f"<p>{LONG}".encode(), {"status": 404}),
    (f"{SITE}/kept-elsewhere", html("Kept", article(90)), {"keep_body": False}),
    (f"{SITE}/header", b"<p>one two", {"headers": (("X-Bytes", "\udcff"),)}),
    (f"{SITE}/a%20b", b"<p>escaped", {}),
    (f"{SITE}:8080/port?q=1", b"<p>of a port", {}),
    (f"{SITE}/query?a=b/../c", b"<p>of a query", {}),
    (f"{SITE}/twice", html("First", article(91)), {}),
    (f"{SITE}/visited", html("Visited", article(92)), {}),
    (f"{SITE}/deleted", html("Deleted", article(93)), {}),
]
DIRECT = {f"{SITE}/{name}" for name in ("page/7", "delta", "referenced", "title", "sign", "long", "twice")}
DIRECT |= {f"{SITE}/query?a=b/../c"}
"""Of these the direct way has to know all that can be asked."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with pages of all kinds, closed in order."""
    path = tmp_path_factory.mktemp("direct") / "store"
    with docstore.open(path, create=True) as store:
        write(store)
        records = [store.opened.values.fetch_record(cell_value)[0] for cell_value in body_cells(store)]
        assert {CODEC_ZSTD_DICTIONARY, CODEC_ZSTD_DELTA} <= {record.codec for record in records}
    return path


def write(store: docstore.DocumentStore) -> None:
    for number, (url, body, options) in enumerate(PAGES):
        store.put_page(url, body, fetched_at=AT + number * 1000, **options)  # type: ignore[arg-type]
    later = AT + 1_000_000
    store.put_page(f"{SITE}/twice", html("Second", article(94)), fetched_at=later)
    store.put_page(f"{SITE}/visited", status=304, fetched_at=later)
    store.put_page(f"{SITE}/empty", b"", fetched_at=later)
    store.delete(f"{SITE}/deleted")


def body_cells(store: docstore.DocumentStore) -> list[bytes]:
    rows = store.table.scan_captures()
    captures = [one for row in rows for one in store.table.row_captures(row.cells)]
    return [value for one in captures for column, value in one.refs if column == ("page", b"body")]


@contextmanager
def whole_command() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "get", lambda words: None)
        yield


def compared(
    capsys: pytest.CaptureFixture[bytes], store: Path, url: str, words: list[str]
) -> tuple[bool, tuple[int, bytes, bytes]]:
    """Whether the direct way answers, and what is answered either way."""
    command = ["get", url, *words, "--store", str(store)]
    with whole_command():
        whole = (main(command), *capsys.readouterr())
    code = direct.get(command[1:])
    sys.stdout.flush()
    printed = capsys.readouterr()
    if code is None:
        assert printed == (b"", b"")
    else:
        assert (code, *printed) == whole
    assert (main(command), *capsys.readouterr()) == whole
    return code is not None, whole


def answers(capsys: pytest.CaptureFixture[bytes], store: Path) -> set[str]:
    """URLs of which the direct way has printed all that can be asked."""
    urls = [*(url for url, *_ in PAGES), f"{SITE}/none", "site.example/page/1", f"{SITE.upper()}/page/1", "no url"]
    known = [(url, compared(capsys, store, url, words)[0]) for url in urls for words in SHOWN]
    return {url for url in urls if (url, False) not in known}


def test_all_kinds_of_pages_are_answered_as_by_the_whole_command(
    capsysbinary: pytest.CaptureFixture[bytes], folder: Path
) -> None:
    assert answers(capsysbinary, folder) >= DIRECT


def test_pages_are_answered_while_a_server_holds_the_store(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    with serving(tmp_path / "store") as served:
        write(served.store)
        assert answers(capsysbinary, tmp_path / "store") >= DIRECT


def test_options_that_it_does_not_know_are_left_to_the_whole_command(
    capsysbinary: pytest.CaptureFixture[bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{SITE}/twice"
    for words in (
        ["--at", "2023"],
        ["--versions", "2"],
        ["--outline"],
        ["--body", "--headers"],
        ["--bod"],
        ["--follow-redirects"],
    ):
        assert not compared(capsysbinary, folder, url, words)[0]
    assert not compared(capsysbinary, folder / "none", url, [])[0]
    assert direct.get([url, "--store"]) is None
    assert direct.get([url]) is None
    monkeypatch.setenv("DOCSTORE_STORE", str(folder))
    assert direct.get([url]) == 0
    assert direct.get([url, url, "--store", str(folder)]) is None
    assert direct.get(["", url, "--store", str(folder)]) is None


def test_policies_by_age_decide_what_is_shown(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    aged = docstore.GCPolicy(max_age_seconds=3600)
    many = docstore.GCPolicy(max_versions=1)
    for number, (captures, bodies) in enumerate([(aged, many), (many, aged)]):
        path = tmp_path / str(number)
        with docstore.open(path, create=True, schema=docstore.Schema(captures=captures, bodies=bodies)) as store:
            store.put_page(f"{SITE}/old", html("Old", article(1)), fetched_at=AT)
            store.put_page(f"{SITE}/young", html("Young", article(2)))
        for words in SHOWN:
            assert compared(capsysbinary, path, f"{SITE}/young", list(words))[0]
            assert not compared(capsysbinary, path, f"{SITE}/old", list(words))[0]


def test_damage_is_said_by_the_whole_command(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    url = f"{SITE}/page/7"
    with docstore.open(tmp_path / "store", create=True) as store:
        write(store)
    [segment] = (tmp_path / "store" / SEGMENT_DIRECTORY).iterdir()
    sound = segment.read_bytes()
    for place in range(len(sound) // 3, len(sound), len(sound) // 40):
        segment.write_bytes(sound[:place] + bytes((sound[place] ^ 1,)) + sound[place + 1 :])
        for page, *_ in PAGES[:40:5]:
            compared(capsysbinary, tmp_path / "store", page, ["--body"])
    segment.write_bytes(sound)
    assert compared(capsysbinary, tmp_path / "store", url, [])[0]
    for dictionary in (tmp_path / "store" / "dictionaries").iterdir():
        dictionary.write_bytes(dictionary.read_bytes()[:-1])
    known = [compared(capsysbinary, tmp_path / "store", page, ["--body"]) for page, *_ in PAGES[:40]]
    assert {whole[0] for _, whole in known} == {0, 5}
    segment.unlink()
    assert not compared(capsysbinary, tmp_path / "store", url, [])[0]


def test_a_store_that_was_not_closed_in_order_is_opened_by_the_whole_command(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    script = (
        f"import docstore, os; store = docstore.open({str(path)!r}, create=True); "
        f"store.put_page({SITE!r} + '/', b'x'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert direct.get([f"{SITE}/", "--body", "--store", str(path)]) is None
    assert main(["get", f"{SITE}/", "--body", "--store", str(path)]) == 0
    assert capsysbinary.readouterr().out == b"x"
    assert compared(capsysbinary, path, f"{SITE}/", ["--body"])[0]
    (path / LOCK_FILE).write_bytes(b"left over")
    assert direct.get([f"{SITE}/", "--body", "--store", str(path)]) is None


def test_a_loss_that_nobody_has_acknowledged_is_said_each_time(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    with docstore.open(path, create=True) as store:
        store.put_page(f"{SITE}/", b"x")
        record_lost_commits(store.opened.engine, store.opened.manifest, store.opened.manifest.group + 1)  # type: ignore[attr-defined]
    known, (_, _, said) = compared(capsysbinary, path, f"{SITE}/", ["--body"])
    assert not known and b"commits are lost" in said


def test_the_direct_way_imports_little(folder: Path) -> None:
    script = (
        "import sys; from docstore.cli.main import main; "
        f"code = main(['get', {SITE!r} + '/page/7', '--store', {str(folder)!r}]); "
        "heavy = {'argparse', 'typing', 're', 'enum', 'json', 'zstandard', 'msgpack', 'docstore.store'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy or code else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(docstore.__file__).parents[1] if docstore.__file__ else "")}
    paths = [one for one in sys.path if one.endswith("site-packages")]
    start = f"import sys; sys.path += {paths!r}; "  # without `site`, of which an editable install imports much
    done = subprocess.run(
        [sys.executable, "-S", "-c", start + script], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Page 7 | Site\n")
