"""Java's own HTTP client, which offers HTTP/2 with each request."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving import serving

JAVA = shutil.which("java")
RUN_SECONDS = 120


@pytest.mark.skipif(JAVA is None, reason="no Java is installed")
def test_java_stores_pages_whole_with_a_length_and_in_chunks(tmp_path: Path) -> None:
    body = b"<title>Java</title><p>" + b"word " * 20_000
    (tmp_path / "body.html").write_bytes(body)
    with serving(tmp_path / "store") as served:
        client = [JAVA or "", str(Path(__file__).with_name("Put.java")), served.server.url, str(tmp_path / "body.html")]
        done = subprocess.run(client, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        assert done.stdout.split("\n")[:2] == [f"200 {len(body)}"] * 2, done.stderr[-2000:]
        assert served.store.get("https://java.example/chunks").body == body  # type: ignore[union-attr]
