"""The demonstration: crawlers, pywb, a sweep and a compaction on a server that is killed; every page is there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.conftest import Environment

pytest.importorskip("scrapy", reason="Scrapy is not installed: pip install '.[scrapy]'")

ROOT = Path(__file__).parent.parent.parent


def test_no_acknowledged_page_is_lost_when_a_crawled_server_is_killed(
    environment: Callable[[str], Environment],
) -> None:
    environment("pywb")  # skips where it cannot be installed
    command = [sys.executable, "-m", "tools.crawl_demo", "--kills", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout
    assert done.stdout.count("SIGKILL of the server") == 2
