"""Servers of files for tests, on this machine: HTTP that cuts connections, a hub of data sets, and an S3 server."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote


@dataclass
class Files:
    """What the server has, and how it behaves.

    Attributes:
        url: of the server.
        content: by path.
        cut_after: bytes of a body after which each connection is cut; None sends it whole.
        cuts: so many answers are cut, None: all.
        ranges: answers ranges.
        statuses: sent instead of the next answers.
        asked: the Range headers that it got, by path.
        tag: of every file.
    """

    url: str = ""
    content: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None
    cuts: int | None = None
    ranges: bool = True
    statuses: list[int] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    tag: str = '"one"'


@contextmanager
def http_server() -> Iterator[Files]:
    """An HTTP server of files in memory."""
    files = Files()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            files.asked.append((self.path, self.headers["Range"] or ""))
            status = files.statuses.pop(0) if files.statuses else 0 if self.path in files.content else 404
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = files.content[self.path]
            first, _, last = (self.headers["Range"] or "")[6:].partition("-") if files.ranges else ("", "", "")
            start, end = int(first or 0), min(int(last or len(body)) + 1, len(body))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if first else 200)
            if first:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
            self.send_header("Content-Length", str(end - start))
            self.send_header("ETag", files.tag)
            self.send_header("Last-Modified", "Wed, 01 May 2024 00:00:00 GMT")
            self.end_headers()
            if self.command == "HEAD":
                return
            if files.cut_after is not None and files.cuts != 0 and start + files.cut_after < end:
                end = start + files.cut_after
                files.cuts = None if files.cuts is None else files.cuts - 1
                self.close_connection = True
            self.wfile.write(body[start:end])

        def log_message(self, *_: Any) -> None:
            pass

    with _serving(Handler) as files.url:
        yield files


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port; gives the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hub_server(name: str, content: Mapping[str, bytes]) -> Iterator[str]:
    """A server of one data set with the protocol of the Hugging Face Hub; gives its URL.

    Args:
        name: of the data set, such as own/books.
        content: by path.
    """

    def entry(path: str) -> dict[str, Any]:
        commit = {"id": "1" * 40, "title": "", "date": "2024-05-01T12:00:00.000Z"}
        return {"type": "file", "oid": "0" * 40, "size": len(content[path]), "path": path, "lastCommit": commit}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path, _, query = unquote(self.path).partition("?")
            api, tree, files = (
                f"/api/datasets/{name}",
                f"/api/datasets/{name}/tree/main",
                f"/datasets/{name}/resolve/main/",
            )
            if path == api:
                self.answer({"id": name, "sha": "1" * 40, "private": False, "tags": [], "siblings": []})
            elif path.startswith(tree):
                folder = path[len(tree) :].strip("/")
                below = [each for each in content if each.startswith(f"{folder}/" if folder else "")]
                deep = "recursive=true" in query
                rest = {each: each[len(folder) :].strip("/").partition("/") for each in below}
                folders = {first for first, slash, _ in rest.values() if slash and not deep}
                found = [entry(each) for each in below if deep or not rest[each][1]]
                self.answer([*({"type": "directory", "oid": "0" * 40, "path": each} for each in folders), *found])
            elif path.removeprefix(files) in content:
                body = content[path.removeprefix(files)]
                first, _, last = (self.headers["Range"] or "bytes=0-")[6:].partition("-")
                start, end = int(first), min(int(last or len(body)) + 1, len(body))
                self.send(
                    206 if self.headers["Range"] else 200, body[start:end], f"bytes {start}-{end - 1}/{len(body)}"
                )
            else:
                self.answer({"error": "Repository not found"}, 404)

        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.answer([entry(path) for path in asked["paths"] if path in content])

        def answer(self, value: object, status: int = 200) -> None:
            self.send(status, json.dumps(value).encode())

        def send(self, status: int, body: bytes, place: str = "") -> None:
            self.send_response(status)
            headers = {"Content-Length": str(len(body)), "ETag": '"one"', "X-Repo-Commit": "1" * 40}
            for each in (headers | ({"Content-Range": place} if status == 206 else {})).items():
                self.send_header(*each)
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with _serving(Handler) as url:
        yield url


@contextmanager
def s3_server() -> Iterator[Any]:
    """A real S3 server, moto's, with one bucket `crawls`; gives a client of boto3."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it prints each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", **KEYS)
        client.create_bucket(Bucket="crawls")
        yield client
    finally:
        server.stop()


KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


def environment(url: str) -> dict[str, str]:
    """The variables with which a process finds an S3 server."""
    return {
        **{name.upper(): value for name, value in KEYS.items()},
        "AWS_ENDPOINT_URL": url,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
