"""Complete crawls with Scrapy, each in its own process, of sites on the loopback interface."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scrapy", reason="Scrapy is not installed: pip install '.[scrapy]'")

import docstore
from tools.crawl_demo import sites

ROOT = Path(__file__).parent.parent.parent
AT_ITS_END = re.compile(r"[^\n]*while handling timed call\nTraceback.*?\ntwisted\S*AlreadyCalledError:?\s*", re.DOTALL)
"""What Scrapy says on a busy machine, if its connections close just when its patience with them ends."""


def crawl(url: str, **settings: object) -> dict[str, Any]:
    arguments = [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "tools.crawl_demo.spider", url, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert not AT_ITS_END.sub("", done.stderr), done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_crawl_of_a_trap_ends_with_all_pages_and_the_next_fetches_changed_ones(tmp_path: Path) -> None:
    settings = {"DOCSTORE_STORE": tmp_path / "s", "DOCSTORE_DURABILITY": "none", "CLOSESPIDER_PAGECOUNT": 1500}
    articles = 12
    with sites.serve(sites.trap(articles)) as site:
        first = crawl(site.url, **settings)
        assert first["real"] == articles + 1
        assert first["stats"]["finish_reason"] == "finished"
        assert first["stats"]["docstore/shapes_closed"] >= 1
        assert first["stats"]["docstore/pages"] == site.counts.requests
        again = crawl(site.url, **settings, DOCSTORE_CONDITIONAL=True)
        assert again["real"] == articles + 1
        assert site.counts.not_modified >= articles + 1
        assert again["stats"]["finish_reason"] == "finished"
        assert again["stats"]["docstore/pages"] <= first["stats"]["docstore/pages"]
    with docstore.open(tmp_path / "s") as store:
        stored = {row.url for row in store.cells.scan()}
        assert {f"{site.url}article/{index}" for index in range(articles)} <= stored


def test_a_second_crawl_with_session_ids_makes_no_more_requests_than_the_first(tmp_path: Path) -> None:
    settings = {"DOCSTORE_STORE": tmp_path / "s", "DOCSTORE_DURABILITY": "none", "CLOSESPIDER_PAGECOUNT": 2500}
    articles = 6
    with sites.serve(sites.sessions(articles, sticky=True)) as site:
        runs = [crawl(site.url, **settings, DOCSTORE_CONDITIONAL=True) for _ in range(2)]
        assert site.counts.not_modified > 50
    assert [run["stats"]["finish_reason"] for run in runs] == ["finished"] * 2
    assert [run["real"] for run in runs] == [articles + 1] * 2
    first, again = (run["stats"]["docstore/pages"] for run in runs)
    assert again <= first


def test_redirects_to_pages_that_are_fetched_already_are_captures(tmp_path: Path) -> None:
    pages = 20

    def site(path: str, _query: Mapping[str, str]) -> sites.Answer:
        kind, _, number = path.strip("/").partition("/")
        if kind == "old":
            return sites.Answer("", 301 if number != "3" else 302, f"/page/{number}")
        if kind == "loop":
            return sites.Answer("", 302, "/loop/b" if number == "a" else "/loop/a")
        links = {f"/{kind}/{n}": f"{kind} {n}" for n in range(pages) for kind in ("page", "old")}
        return sites.page(f"{sites.REAL}{path}", sites.sentences(path, 30), links | {"/loop/a": "x"})

    with sites.serve(site) as served:
        settings = {"DOCSTORE_STORE": tmp_path / "s", "DOCSTORE_DURABILITY": "none", "REDIRECT_MAX_TIMES": 3}
        ran = crawl(served.url, **settings)
        with docstore.open(tmp_path / "s") as store:
            for number in range(pages):
                old = store.get(f"{served.url}old/{number}")
                assert old is not None and old.status == (302 if number == 3 else 301)
                assert old.newest.header("location") == f"{served.url}page/{number}"
            assert store.get(f"{served.url}loop/a").status == 302  # type: ignore[union-attr]
    assert ran["stats"]["docstore/redirects"] >= pages + 1


FAILING = """
import scrapy

class Failing(scrapy.Spider):
    name = "failing"
    start_urls = ["{url}plain"]
    custom_settings = {{"ADDONS": {{"docstore.scrapy.Docstore": 500}}, "DOCSTORE_STORE": "store"}}

    def start_requests(self):
        yield scrapy.Request("{url}plain", self.plain)
        yield scrapy.Request("{url}generator", self.generator)

    async def start(self):
        for request in self.start_requests():
            yield request

    def plain(self, response):
        raise ValueError(response.url)

    def generator(self, response):
        yield {{"url": response.url}}
        raise ValueError(response.url)
"""


def test_a_page_is_stored_once_if_its_callback_fails(tmp_path: Path) -> None:
    def site(path: str, _query: Mapping[str, str]) -> sites.Answer:
        return sites.page(f"{sites.REAL}{path}", sites.sentences(path, 30), {})

    with sites.serve(site) as served:
        (tmp_path / "spider.py").write_text(FAILING.format(url=served.url), encoding="utf-8")
        command = [sys.executable, "-m", "scrapy", "runspider", "spider.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
        assert done.stderr.count("ValueError: http") == 2
        with docstore.open(tmp_path / "store") as store:
            for name in ("plain", "generator"):
                assert len(store.history(f"{served.url}{name}")) == 1, name
