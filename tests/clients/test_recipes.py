"""The recipes of examples/: each runs as its first lines say, with the library as its makers publish it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

import docstore
from docstore.archives.arrow import write_parquet
from docstore.archives.ingest import IngestOptions, ingest
from docstore.archives.selection import Selection
from docstore.notes.annotate import annotate, find_annotator
from docstore.sweep.job import SweepOptions, sweep
from tests.clients.browser_pipe import program
from tests.clients.conftest import ROOT, SAME, Environment, living_site
from tests.serving import serving

EXAMPLES = ROOT / "examples"
SAMPLE = str(EXAMPLES / "sample-crawl.warc.gz")
RUN_SECONDS = 180


def run(example: str, environment: Environment, *arguments: str, **variables: str) -> str:
    """Run a recipe in this interpreter, which has docstore, with the packages of an environment behind its own."""
    [packages] = environment.folder.glob("lib/python*/site-packages")
    path = os.pathsep.join((str(ROOT), *filter(None, sys.path), str(packages)))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env={**os.environ, **variables, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(program() is None, reason="no Chromium is installed")
def test_playwright_writes_pages_through_the_client(environment: Callable[[str], Environment], tmp_path: Path) -> None:
    installed = environment("playwright")
    with living_site() as origin, serving(tmp_path / "store") as served:
        browser = program() or ""
        printed = run(
            "playwright_example.py", installed, served.server.url, origin, f"{origin}?again", CHROMIUM=browser
        )
        first, second = (line.split() for line in printed.splitlines())
        assert first[0] == "new" and second[0] == "exact" and second[2] == first[1]
        document = served.store.get(origin)
        assert document is not None and document.body is not None
        assert document.body.startswith(b"<html>") and SAME.split(b"\n")[0] in document.body


SPIDER = """
import sys
import scrapy

class Drawn(scrapy.Spider):
    name = "drawn"
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    custom_settings = {
        "ADDONS": {"docstore.scrapy.Docstore": 500},
        "DOCSTORE_STORE": "webtable",
        "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": "%s", "args": ["--no-sandbox"]},
    }

    async def start(self):
        yield scrapy.Request("%s", meta={"playwright": True})

    def parse(self, response):
        pass
"""


@pytest.mark.skipif(program() is None, reason="no Chromium is installed")
def test_scrapy_playwright_stores_what_the_browser_shows(
    environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    pytest.importorskip("scrapy", reason="scrapy is not installed: pip install '.[scrapy]'")
    [packages] = environment("scrapy-playwright").folder.glob("lib/python*/site-packages")
    with living_site() as origin:
        (tmp_path / "spider.py").write_text(SPIDER % (program(), origin), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", "runspider", "spider.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *filter(None, sys.path), str(packages)))},
            check=True,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )
    with docstore.open(tmp_path / "webtable") as store:
        page = store.get(origin)
        assert page is not None, done.stderr[-3000:]
        assert page.body is not None and page.body.startswith(b"<html>")


@pytest.mark.parametrize("example", ["crawlee_example.py", "crawlee_storage_example.py"])
def test_crawlee_keeps_its_pages_in_a_store(
    environment: Callable[[str], Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    installed = environment("crawlee")
    monkeypatch.chdir(tmp_path)
    with living_site() as origin:
        for _ in range(2):
            run(example, installed, origin)
        with docstore.open(tmp_path / "webtable") as store:
            verdicts = [page.newest.verdict for page in store.history(origin)]
            assert [verdict and verdict.previous for verdict in verdicts] == ["same_bytes", "none"]


def test_browsertrix_is_given_the_digests_of_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was tried with the indexer and the crawler of Browsertrix Crawler 1.14.1, which Node.js 22 runs."""
    monkeypatch.chdir(tmp_path)
    with docstore.open("webtable", create=True) as store:
        ingest(store, [SAMPLE])
    command = [sys.executable, str(EXAMPLES / "browsertrix_dedupe.py"), "webtable", "known.wacz"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=RUN_SECONDS)
    with ZipFile("known.wacz") as wacz:
        lines = wacz.read("indexes/index.cdxj").decode().splitlines()
    assert len(lines) > 170
    with docstore.open("webtable") as store:
        for line in lines:
            url, date, fields = line.split(" ", 2)
            page = store.get(url)
            assert page is not None and page.body is not None and len(date) == 14
            assert json.loads(fields)["digest"] == "sha256:" + hashlib.sha256(page.body).hexdigest()


ASK = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters

async def ask(command, calls):
    async with Client(StdioServerParameters(**command)) as client:
        tools = {tool.name: tool.annotations.read_only_hint for tool in (await client.list_tools()).tools}
        answers = [await client.call_tool(*call) for call in calls]
        texts = [[part.text for part in answer.content] for answer in answers]
        print(json.dumps([tools, [[answer.is_error, text] for answer, text in zip(answers, texts)]]))

asyncio.run(ask(*json.loads(sys.argv[1])))
"""


def test_an_mcp_client_searches_and_reads_a_store(environment: Callable[[str], Environment], tmp_path: Path) -> None:
    pytest.importorskip("tantivy", reason="tantivy is not installed: pip install '.[search]'")
    installed = environment("mcp")
    page = "https://clang.llvm.org/docs/ShadowCallStack.html"
    with serving(tmp_path / "store") as served:
        ingest(served.store, [SAMPLE])
        for year, word in ((2022, "old"), (2023, "newer")):
            served.store.put_page(
                "https://a.example/", f"The {word} text.".encode(), fetched_at=f"{year}-05-01T00:00:00Z"
            )
        served.store.search_index().update()
        [packages] = installed.folder.glob("lib/python*/site-packages")
        path = os.pathsep.join((str(ROOT), *filter(None, sys.path), str(packages)))
        command = {
            "command": sys.executable,
            "args": [str(EXAMPLES / "mcp_example.py"), served.server.url],
            "env": {**os.environ, "PYTHONPATH": path},
        }
        calls = [
            ("search", {"query": "safe stack", "limit": 1}),
            ("get", {"url": page}),
            ("versions", {"url": page}),
            ("diff", {"url": "https://a.example/", "older": "2022-12-01T00:00:00Z"}),
            ("duplicates", {"url": "https://www.boost.org/doc/libs/1_74_0/doc/html/date_time.html"}),
            ("get", {"url": "https://none.example/"}),
        ]
        tools, answers = json.loads(installed.run("python", "-c", ASK, json.dumps([command, calls])))
    assert tools == dict.fromkeys(("search", "get", "versions", "diff", "duplicates"), True)
    assert [is_error for is_error, _ in answers] == [False] * 5 + [True]
    found, text, versions, changes, _, missing = (parts for _, parts in answers)
    assert json.loads(found[0])["url"] == "https://clang.llvm.org/docs/SafeStack.html"
    assert "ShadowCallStack is an instrumentation pass" in text[0]
    assert [json.loads(each)["captured"][:4] for each in versions] == ["2023", "2022"]
    assert changes[0].split() == ["The", "[-old-]", "{+newer+}", "text."]
    assert "the store has no page https://none.example/" in missing[0]


def test_personal_data_of_exported_texts_are_replaced(
    environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    installed = environment("presidio")
    texts = [
        "Write to jane.doe@example.org or call +1 212 555 0123.",
        "Card 4111 1111 1111 1111, 192.0.2.7",
        "No data here.",
    ]
    pages = [
        {"url": f"https://a.example/{n}", "title": "By jo@example.org", "text": text, "ip": "192.0.2.1"}
        for n, text in enumerate(texts)
    ]
    source, target = tmp_path / "pages.jsonl", tmp_path / "clean.jsonl"
    source.write_text("".join(json.dumps(page) + "\n" for page in pages))
    printed = run("pii_example.py", installed, str(source), str(target))
    clean = [json.loads(line) for line in target.read_text().splitlines()]
    assert [page["text"] for page in clean] == [
        "Write to <EMAIL_ADDRESS> or call <PHONE_NUMBER>.",
        "Card <CREDIT_CARD>, <IP_ADDRESS>",
        "No data here.",
    ]
    assert {page["title"] for page in clean} == {"By <EMAIL_ADDRESS>"}
    assert not any("ip" in page for page in clean)
    assert "'EMAIL_ADDRESS': 4" in printed


def test_a_step_of_datatrove_asks_a_store(environment: Callable[[str], Environment], tmp_path: Path) -> None:
    installed = environment("datatrove")
    text = " ".join(f"word{number}" for number in range(300))
    texts = {"a": text, "b": text, "c": text.replace("word7 ", "other "), "d": text[::-1]}
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "pages.jsonl").open("w") as file:
        for name, content in texts.items():
            url = f"https://{name}.example/"
            file.write(json.dumps({"text": content, "id": name, "metadata": {"url": url}}) + "\n")
    names = [str(tmp_path / name) for name in ("store", "in", "out")]
    run("datatrove_example.py", installed, *names)
    kept = [json.loads(line)["id"] for file in (tmp_path / "out").glob("*.jsonl") for line in file.open()]
    assert kept == ["a", "d"]
    names[2] = str(tmp_path / "again")
    run("datatrove_example.py", installed, *names)
    assert not [line for file in (tmp_path / "again").glob("*.jsonl") for line in file.open()]


def test_duckdb_asks_several_parquet_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install '.[test]'")
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        ingest(store, [SAMPLE], IngestOptions(anchors=True))
        sweep(store, SweepOptions())
        annotate(store, find_annotator("links", store, {}))
        (tmp_path / "parquet").mkdir()
        for host in ("www.boost.org", "clang.llvm.org", "httpd.apache.org"):
            with (tmp_path / "parquet" / f"{host}.parquet").open("wb") as stream:
                write_parquet(store, stream, Selection(host=host))
    monkeypatch.chdir(tmp_path)
    connection = duckdb.connect()
    hosts, texts = (
        connection.execute(statement).fetchall()
        for statement in (EXAMPLES / "duckdb_example.sql").read_text().split(";")
        if statement.strip()
    )
    assert hosts[0][0] == "www.boost.org" and hosts[0][1] > hosts[0][2] > 14
    assert len(texts) == 5 and texts[0][2] >= texts[1][2] and all(float(rank) > 0 for _, rank, _ in texts)
