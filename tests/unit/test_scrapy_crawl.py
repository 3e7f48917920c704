"""Complete crawls with Scrapy, each in its own process, of sites on the loopback interface."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scrapy", reason="Scrapy is not installed: pip install '.[scrapy]'")

import docstore
from tools.crawl_demo import sites

ROOT = Path(__file__).parent.parent.parent


def crawl(url: str, **settings: object) -> dict[str, Any]:
    arguments = [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "tools.crawl_demo.spider", url, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
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
    with sites.serve(sites.sessions(sticky=True)) as site:
        runs = [crawl(site.url, **settings, DOCSTORE_CONDITIONAL=True) for _ in range(2)]
        assert site.counts.not_modified > 50
    assert [run["stats"]["finish_reason"] for run in runs] == ["finished"] * 2
    assert [run["real"] for run in runs] == [sites.SHORT_SITE + 1] * 2
    first, again = (run["stats"]["docstore/pages"] for run in runs)
    assert again <= first
