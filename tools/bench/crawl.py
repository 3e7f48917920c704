"""`python -m tools.bench.crawl`: requests and bytes of crawls with and without docstore; for docs/crawlers.md."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.bench.harness import Section, run_commands
from tools.crawl_demo.sites import REAL_PAGES, SITES, Served, serve

MOST_PAGES = 1500
"""After so many pages a crawl that does not end by itself is stopped."""
WAYS = {
    "Scrapy alone": {},
    "docstore, `always`": {"DOCSTORE_FOLLOW_DUPLICATES": "always"},
    "docstore, `learn`": {},
    "docstore, `never`": {"DOCSTORE_FOLLOW_DUPLICATES": "never"},
}


def crawl(site: Served, settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl in a process of its own, as Scrapy's event loop runs once a process."""
    given = {"CLOSESPIDER_PAGECOUNT": MOST_PAGES, "DOCSTORE_DURABILITY": "flush", **settings}
    command = [sys.executable, "-m", "tools.crawl_demo.spider", site.url]
    command += [f"{name}={value}" for name, value in given.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(name: str, way: str, site: Served, requests: int, body_bytes: int, found: dict[str, Any]) -> list[str]:
    ended = found["stats"]["finish_reason"] == "finished"
    requests, body_bytes = site.counts.requests - requests, site.counts.body_bytes - body_bytes
    return [
        name,
        way,
        f"{requests:,}{'' if ended else ' and more'}",
        f"{body_bytes / 1e6:.2f} MB{'' if ended else ' and more'}",
        f"{found['real']} of {REAL_PAGES[name]}",
        "yes" if ended else f"stopped at {MOST_PAGES:,}",
    ]


def main() -> Section:
    """Every site in every way."""
    section = Section(
        "Crawls",
        "python -m tools.bench.crawl",
        ["site", "crawl", "requests", "bodies sent", "pages worth having", "ends"],
    )
    for name, make in SITES.items():
        for way, settings in WAYS.items():
            with serve(make()) as site, tempfile.TemporaryDirectory() as folder:
                store = {} if way == "Scrapy alone" else {"DOCSTORE_STORE": Path(folder, "store")}
                section.rows.append(row(name, way, site, 0, 0, crawl(site, {**store, **settings})))
        with serve(make()) as site, tempfile.TemporaryDirectory() as folder:
            again = {"DOCSTORE_STORE": Path(folder, "store"), "DOCSTORE_CONDITIONAL": True}
            crawl(site, again)
            before = site.counts.requests, site.counts.body_bytes
            section.rows.append(row(name, "again, `DOCSTORE_CONDITIONAL`", site, *before, crawl(site, again)))
    return section


if __name__ == "__main__":
    run_commands(main)
