"""The archive API of a served store: on a port of its own, with what was written through the API."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.serving import http_client, serving

HELLO = "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"


@pytest.mark.parametrize("digests", [True, False])
def test_what_is_written_is_listed_and_replayed_at_once(tmp_path: Path, digests: bool) -> None:
    with serving(tmp_path / "store", archive_port=0, payload_digests=digests) as served:
        for url in ("http://a.test/1", "http://a.test/2"):
            page = {"url": url, "body": "hello", "fetched_at": 1_700_000_000_000_000}
            answer = served.http.post("/v1/page", json={"page": page})
            assert answer.status_code == 200, answer.text
        body = {"pages": [{"url": "http://a.test/3", "body": "hello", "payload_digest": "sha1:" + "A" * 32}]}
        assert served.http.post("/v1/pages", json=body).status_code == 200
        document = served.store.get("http://a.test/1")
        assert document is not None
        assert document.newest.payload_digest == (f"sha1:{HELLO}" if digests else "")
        with http_client(served.server.archive_url) as archive:
            lines = archive.get("/web/cdx", params={"url": "a.test/*"}).text.splitlines()
            assert [line.split(" ")[5] for line in lines] == [HELLO, HELLO, "A" * 32]
            replayed = archive.get("/web/20231114221320id_/http://a.test/1")
            assert (replayed.status_code, replayed.text) == (200, "hello")


def test_the_archive_has_no_api_and_the_api_no_archive(tmp_path: Path) -> None:
    with serving(tmp_path / "store", archive_port=0) as served:
        served.store.put_page("http://a.test/", b"<script>1</script>", fetched_at=1_700_000_000_000_000)
        assert served.http.get("/v1").json()["archive"] == served.server.archive_url != served.server.url
        with http_client(served.server.archive_url) as archive:
            assert archive.get("/v1/page", params={"url": "http://a.test/"}).status_code == 404
            assert archive.post("/v1/pages", json={}).status_code == 405
            for target in ("/web/20231114221320id_/http://a.test/", "/web/20231114221320/http://a.test/"):
                headers = archive.get(target).headers
                assert headers.get_list("content-security-policy") == ["sandbox; default-src 'none'"]
                assert headers.get_list("x-content-type-options") == ["nosniff"]
                assert not headers.get_list("set-cookie")
        assert served.http.get("/web/20231114221320id_/http://a.test/").status_code == 404


ANSWERS = (
    ("/web/cdx?url=a.test/", 200),
    ("/web/cdx?url=*.test&output=json", 200),
    ("/web/http://a.test/", 302),
    ("/web/timemap/link/http://a.test/", 200),
    ("/web/20231114221320id_/http://a.test/", 200),
    ("/web/20231114221320/http://a.test/", 200),
    ("/web", 200),
    ("/robots.txt", 200),
    ("/nothing", 404),
)
"""Paths of the archive, and their status for a client that may read."""


def test_with_a_token_file_the_archive_asks_for_a_token(tmp_path: Path) -> None:
    token = "r" * 20
    file = tmp_path / "tokens"
    file.write_text(f"read {token}\n")
    file.chmod(0o600)
    with serving(tmp_path / "store", archive_port=0, token_file=file) as served:
        served.store.put_page("http://a.test/", b"secret words", fetched_at=1_700_000_000_000_000)
        with http_client(served.server.archive_url) as archive:
            for path, status in ANSWERS:
                for headers in (
                    {},
                    {"authorization": "Bearer wrong-token-of-twenty"},
                    {"authorization": f"Digest {token}"},
                ):
                    answer = archive.get(path, headers=headers)
                    assert answer.status_code == 401, path
                    assert answer.headers["www-authenticate"].startswith("Basic"), path
                    assert "secret" not in answer.text, path
                    assert archive.head(path, headers=headers).status_code == 401, path
                assert archive.get(path, headers={"authorization": f"Bearer {token}"}).status_code == status, path
                assert archive.get(path, auth=("anybody", token)).status_code == status, path
            file.write_text(f"read {token[::-1]}x\n")
            served.server.on_signal(signal.SIGHUP, None)
            for path, _ in ANSWERS:
                assert archive.get(path, auth=("anybody", token)).status_code == 401, f"{path}: the file was read again"
