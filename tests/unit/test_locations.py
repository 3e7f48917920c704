from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_case import Terminal, article, html, warc
from remote import Files, environment, http_server, hub_server, s3_server

from docstore.archives import locations
from docstore.archives.locations import RemoteFile, found, listed, open_input, open_output
from docstore.model.errors import InvalidArgument, StorageError

LONG = random.Random(7).randbytes(3 << 20)


@pytest.fixture
def files() -> Iterator[Files]:
    with http_server() as served:
        yield served


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    pytest.importorskip("moto", reason="moto is not installed: pip install '.[test]'")
    with s3_server() as client:
        yield client


def use_server(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Let this process and those that it starts find an S3 server."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: pip install '.[s3]'")
    for name, value in environment(url).items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def s3(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    use_server(monkeypatch, server.meta.endpoint_url)
    return server


def crawl(path: Path, first: int, count: int = 3) -> bytes:
    """A WARC file of pages that are all different."""
    pages = [
        (f"https://site{n}.example/", f"2024-05-01T00:00:{n:02}Z", html(f"Page {n}", article(n)))
        for n in range(first, first + count)
    ]
    return warc(path, pages).read_bytes()


def keys_of(client: Any) -> list[str]:
    return [one["Key"] for one in client.list_objects_v2(Bucket="crawls").get("Contents", [])]


def uploads(client: Any) -> list[Any]:
    found_uploads: list[Any] = client.list_multipart_uploads(Bucket="crawls").get("Uploads", [])
    return found_uploads


# --- HTTP


def test_a_cut_connection_goes_on_at_the_byte_where_it_broke(files: Files) -> None:
    files.content["/long"] = LONG
    files.cut_after = 1_000_000
    with open_input(f"{files.url}/long") as stream:
        assert stream.read() == LONG
    assert [place for _, place in files.asked] == [f"bytes={n}-" for n in range(0, 3_000_001, 1_000_000)]


def test_a_server_without_ranges_is_read_again_up_to_the_place(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.content["/long"] = LONG
    files.ranges = False
    files.cut_after = 2 << 20
    with open_input(f"{files.url}/long") as stream:
        assert not stream.seekable()
        assert stream.read(1 << 20) == LONG[: 1 << 20]
        files.cut_after = None
        assert stream.read() == LONG[1 << 20 :]


def test_a_file_that_changes_while_it_is_read_is_an_error(files: Files) -> None:
    files.content["/long"] = LONG
    files.cut_after = 1_000_000
    with open_input(f"{files.url}/long") as stream:
        stream.read(10)
        files.tag = '"two"'
        with pytest.raises(StorageError, match="changed while it was read"):
            stream.read()


def test_a_busy_server_is_asked_again_and_a_dead_one_is_an_error(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "RETRY_SECONDS", (0.0, 0.0))
    files.content["/file"] = b"abc"
    files.statuses = [503, 429]
    with open_input(f"{files.url}/file") as stream:
        assert stream.read() == b"abc"
    files.statuses = [503] * 3
    with pytest.raises(StorageError, match=r"cannot read .*503.*run the same command again"):
        open_input(f"{files.url}/file")


@pytest.mark.parametrize(("status", "says"), [(404, "no such file"), (403, "access is refused")])
def test_what_is_missing_or_refused_is_said_at_once(files: Files, status: int, says: str) -> None:
    files.statuses = [status]
    with pytest.raises(InvalidArgument, match=says):
        found(f"{files.url}/file")
    assert len(files.asked) == 1


def test_an_empty_file_is_read_as_empty(files: Files) -> None:
    files.content["/empty"] = b""
    with open_input(f"{files.url}/empty") as stream:
        assert stream.read() == b""


def test_seeks_ask_for_ranges_and_the_time_is_that_of_the_server(files: Files) -> None:
    files.content["/long"] = LONG
    with open_input(f"{files.url}/long") as stream:
        assert stream.seek(-5, io.SEEK_END) == len(LONG) - 5
        assert stream.read() == LONG[-5:]
        stream.seek(1 << 20)
        assert stream.read(4) == LONG[1 << 20 : (1 << 20) + 4]
        assert stream.raw.modified == 1_714_521_600_000_000  # type: ignore[attr-defined]


def test_a_password_in_a_url_is_refused() -> None:
    for scheme in ("https", "s3"):
        with pytest.raises(InvalidArgument, match="no user or password is taken from a URL") as refused:
            found(f"{scheme}://me:secret@example.invalid/a.warc.gz")
        assert "secret" not in str(refused.value) and f"{scheme}://example.invalid/a.warc.gz" in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://a..\N{LATIN SMALL LETTER U WITH DIAERESIS}/", "https://", "s3://", "s3:///x", "http://:x/"],
)
def test_a_url_without_a_host_is_a_wrong_call(run: Terminal, url: str) -> None:
    answer = run("ingest", url, "--create")
    assert answer.code == 2 and answer.err.count("\n") == 1 and url in answer.err


@pytest.mark.parametrize("kind", ["warc", "wacz", "jsonl", "parquet", "trecweb"])
def test_every_format_is_read_over_http_that_cuts_connections(
    files: Files, run: Terminal, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    crawl(tmp_path / "a.warc.gz", 0)
    assert run("ingest", str(tmp_path / "a.warc.gz"), "--create").code == 0
    options = ["--body"] if kind == "jsonl" else []
    assert run("export", "--format", kind, *options, "--output", str(tmp_path / "out")).code == 0
    files.content["/out"] = (tmp_path / "out").read_bytes()
    files.cut_after = 1000
    other = run.on(tmp_path / "other")
    answer = other("ingest", f"{files.url}/out", "--create", "--json")
    assert (answer.code, answer.object()["pages"], answer.object()["file_bytes"]) == (
        0,
        3,
        len(files.content["/out"]),
    )


def test_a_file_of_paths_goes_in_with_a_base_and_several_processes(files: Files, run: Terminal, tmp_path: Path) -> None:
    names = [f"crawl-data/segment/{n}.warc.gz" for n in range(3)]
    for number, name in enumerate(names):
        files.content[f"/{name}"] = crawl(tmp_path / "one.warc.gz", 3 * number)
    files.content["/warc.paths.gz"] = gzip.compress("".join(f"{name}\n" for name in names).encode())
    # The recipe of docs/formats.md, with this server and this list.
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")
    recipe = next(line for line in page.splitlines() if line.startswith("docstore ingest --files-from paths.txt"))
    recipe = recipe.replace("https://data.commoncrawl.org", files.url)
    words = recipe.replace("paths.txt", f"{files.url}/warc.paths.gz").split()[2:]
    report = run("ingest", *words, "--json").object()
    assert (report["pages"], report["files"], report["done_bytes"]) == (9, 3, report["file_bytes"])
    again = run("ingest", *words, "--json").object()
    assert (again["pages"], again["known"]) == (9, 9)
    wrong = run("ingest", "--files-from", f"{files.url}/warc.paths.gz", "--base", f"{files.url}/none")
    assert wrong.code == 2 and "/none/crawl-data/segment/0.warc.gz: HTTP Error 404" in wrong.err


def test_a_list_from_elsewhere_names_no_file_of_this_machine(files: Files, run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "mine.warc.gz").write_bytes(crawl(tmp_path / "one.warc.gz", 0))
    for path in (f"{tmp_path}/mine.warc.gz", "mine.warc.gz", "../mine.warc.gz"):  # the manifest's lie on its server
        files.content["/list"] = path.encode()
        files.content["/pages.manifest.jsonl"] = b'{"options": {}}\n' + json.dumps({"file": path}).encode()
        for name in ("list", "pages.manifest.jsonl"):
            answer = run("ingest", "--files-from", f"{files.url}/{name}", "--create")
            expected = "no such file" if path == "mine.warc.gz" else "no plain name of a file"
            assert (expected if name != "list" else "a file of this machine") in answer.err, (path, name, answer.err)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.manifest.jsonl").write_text('{"options": {}}\n{"file": "../mine.warc.gz"}\n')
    answer = run("ingest", "--files-from", str(tmp_path / "folder" / "x.manifest.jsonl"), "--create")
    assert answer.code == 2 and "no plain name of a file" in answer.err


def test_a_file_that_fails_is_reported_and_the_others_are_read(files: Files, run: Terminal, tmp_path: Path) -> None:
    files.content["/a"] = crawl(tmp_path / "a.warc.gz", 0)
    (tmp_path / "list").write_text(f"{files.url}/a\n{files.url}/missing\n{tmp_path}/a.warc.gz\n")
    answer = run("ingest", "--files-from", str(tmp_path / "list"), "--create", "--json")
    report = answer.object()
    assert (answer.code, report["pages"], report["known"]) == (8, 6, 3)
    assert report["skipped"]["unreadable_file"] == 1
    assert "there is no such file" in report["errors"][0]["reason"]


def test_a_container_on_a_server_without_ranges_is_to_be_saved_first(files: Files, run: Terminal) -> None:
    files.content["/pages.parquet"], files.ranges = b"PAR1 and so on PAR1", False
    answer = run("ingest", f"{files.url}/pages.parquet", "--create")
    assert answer.code == 8 and "or without ranges from a server: save and name it" in answer.err


def test_nothing_is_written_over_http(run: Terminal, tmp_path: Path) -> None:
    crawl(tmp_path / "a.warc.gz", 0)
    run("ingest", str(tmp_path / "a.warc.gz"), "--create")
    answer = run("export", "--output", "https://example.invalid/a.warc.gz")
    assert answer.code == 2 and "neither listed nor written" in answer.err


# --- names


def test_a_pattern_that_the_shell_left_is_resolved_and_one_without_a_file_is_an_error(
    run: Terminal, tmp_path: Path
) -> None:
    crawl(tmp_path / "a.warc.gz", 0)
    crawl(tmp_path / "b.warc.gz", 3)
    assert run("ingest", str(tmp_path / "*.warc.gz"), "--create", "--json").object()["files"] == 2
    answer = run("ingest", str(tmp_path / "*.wacz"))
    assert answer.code == 2 and "no file matches" in answer.err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"# a.warc",
        b"\xff\xfe",
        b'{"file"',
        b"\x1f\x8bno",
        b'{"file": 3}',
        b'{"file": "gone", "bytes": 3}',
    ],
)
def test_a_list_that_names_nothing_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(InvalidArgument, match="list"):
        listed(str(tmp_path / "list"))


def test_a_time_and_a_wrong_key_are_understood_in_the_words_of_each_library(
    run: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gcsfs says `mtime`; the library below adlfs raises a subclass of its error of authentication."""
    fsspec = pytest.importorskip("fsspec")
    memory = pytest.importorskip("fsspec.implementations.memory")

    class ClientAuthenticationError(Exception):
        pass

    class SigningError(ClientAuthenticationError):
        pass

    class Store(memory.MemoryFileSystem):  # type: ignore[misc]
        def info(self, path: str, **_options: Any) -> dict[str, Any]:
            raise SigningError("the key is no base64")

        def _open(self, path: str, *_rest: Any, **_options: Any) -> Any:
            stream = memory.MemoryFile(self, path, b"bytes")
            stream.details = {"mtime": datetime(2024, 5, 1, tzinfo=UTC)}
            return stream

    monkeypatch.setattr(fsspec, "filesystem", {"gs": Store()}.get)
    with RemoteFile("gs://bucket/file") as remote:
        assert remote.modified == 1_714_521_600_000_000
    answer = run("ingest", "gs://bucket/file", "--create")
    assert answer.code == 2 and "the key is no base64: access is refused; check the name" in answer.err


def test_tables_of_a_hub_are_read_by_name_pattern_and_folder(
    run: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: pip install '.[hf]'")
    rows = [json.dumps({"id": number, "text": " ".join(article(number))}).encode() for number in range(4)]
    content = {"en/0.jsonl": b"\n".join(rows[:2]), "en/1.jsonl": b"\n".join(rows[2:]), "README.md": b"# Books"}
    with hub_server("own/books", content) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        hub.HfFileSystem.clear_instance_cache()
        books = "hf://datasets/own/books"
        for name, pages in (("en/0.jsonl", 2), ("en/*.jsonl", 4), ("", 4)):
            answer = run("ingest", f"{books}/{name}", "--source", "books", "--create", "--json")
            assert (answer.code, answer.object()["pages"]) == (0, pages), answer.err
        assert answer.object()["known"] == 4  # a row has the time of the file's last commit
        assert run("get", "urn:docstore:books:3").out.strip() == " ".join(article(3))
        missing = run("ingest", "hf://datasets/own/none/x.jsonl")
        assert missing.code == 2 and "repository not found" in missing.err
        written = run("export", "--output", f"{books}/out.jsonl")
        assert written.code == 2 and "can be read, but not written" in written.err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(InvalidArgument, match=r"az:// needs the extra az of docstore"):
        found("az://container/*.warc.gz")


# --- object stores


@pytest.mark.parametrize("kind", ["warc", "wacz", "jsonl", "parquet", "trecweb"])
def test_every_format_goes_to_an_object_store_and_comes_back(s3: Any, run: Terminal, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyarrow")
    crawl(tmp_path / "a.warc.gz", 0)
    run("ingest", str(tmp_path / "a.warc.gz"), "--create")
    options = ["--body"] if kind == "jsonl" else []
    target = f"s3://crawls/formats/{kind}/out"
    written = run("export", "--format", kind, *options, "--output", target, "--json")
    assert (written.code, written.err, written.object()["output"]) == (0, "", target)
    report = run.on(tmp_path / "other")("ingest", target, "--create", "--json").object()
    assert (report["pages"], report["errors"]) == (3, [])


def test_patterns_and_prefixes_of_an_object_store_are_resolved(s3: Any, run: Terminal, tmp_path: Path) -> None:
    for number in range(3):
        body = crawl(tmp_path / "one.warc.gz", 3 * number)
        s3.put_object(Bucket="crawls", Key=f"many/{number}.warc.gz", Body=body)
    s3.put_object(Bucket="crawls", Key="many/notes.txt", Body=b"not an archive")
    assert run("ingest", "s3://crawls/many/[01].warc.gz", "--create", "--json").object()["files"] == 2
    whole = run("ingest", "s3://crawls/many/", "--jobs", "2", "--json").object()
    assert (whole["pages"], whole["known"], whole["passed_over_count"]) == (9, 6, 1)
    assert run("ingest", "s3://crawls/many", "--json").object()["files"] == 3
    for name, says in (
        ("s3://crawls/many/*.wacz", "no file matches s3://crawls/many/*.wacz"),
        (
            "s3://crawls/none.warc.gz",
            "cannot read s3://crawls/none.warc.gz: crawls/none.warc.gz: there is no such file",
        ),
        ("s3://nowhere/*.warc.gz", "there is no such file or bucket"),
    ):
        answer = run("ingest", name)
        assert answer.code == 2 and says in answer.err


def test_an_object_with_the_name_of_a_pattern_is_that_object(s3: Any, run: Terminal, tmp_path: Path) -> None:
    s3.put_object(Bucket="crawls", Key="named/a[1].warc.gz", Body=crawl(tmp_path / "one.warc.gz", 0))
    s3.put_object(Bucket="crawls", Key="named/a1.warc.gz", Body=crawl(tmp_path / "two.warc.gz", 0, 1))
    assert run("ingest", "s3://crawls/named/a[1].warc.gz", "--create", "--json").object()["pages"] == 3
    assert run("ingest", "s3://crawls/named/a?.warc.gz", "--create", "--json").object()["pages"] == 1


def test_a_missing_bucket_is_named_before_anything_is_exported(s3: Any, run: Terminal, tmp_path: Path) -> None:
    crawl(tmp_path / "a.warc.gz", 0)
    run("ingest", str(tmp_path / "a.warc.gz"), "--create")
    answer = run("export", "--output", "s3://nowhere/a.warc.gz")
    assert answer.code == 2
    assert "cannot write s3://nowhere/a.warc.gz: " in answer.err and "no such file or bucket" in answer.err


def test_without_credentials_access_is_refused(
    s3: Any, run: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    answer = run("ingest", "s3://crawls/a.warc.gz", "--create")
    assert answer.code == 2 and "access is refused" in answer.err


def test_an_upload_that_fails_leaves_nothing_and_an_old_object_stays(s3: Any) -> None:
    s3.put_object(Bucket="crawls", Key="kept", Body=b"old")
    for name in ("kept", "none"):
        with pytest.raises(KeyboardInterrupt), open_output(f"s3://crawls/{name}") as stream:
            for _ in range(3):
                stream.write(bytes(20 << 20))  # parts have been sent
            assert len(uploads(s3)) == 1
            raise KeyboardInterrupt
    with open_output("s3://crawls/kept", lambda: False) as stream:
        stream.write(b"not wanted")
    assert s3.get_object(Bucket="crawls", Key="kept")["Body"].read() == b"old"
    assert "none" not in keys_of(s3) and uploads(s3) == []


def test_a_long_object_is_uploaded_in_parts_and_read_back(s3: Any) -> None:
    with open_output("s3://crawls/long") as stream:
        for _ in range(20):
            stream.write(LONG)
        assert "long" not in keys_of(s3)
    with open_input("s3://crawls/long") as stream:
        assert stream.seek(0, io.SEEK_END) == 20 * len(LONG)
        stream.seek(7 * len(LONG) + 1)
        assert stream.read(1000) == LONG[1:1001]


@pytest.fixture
def cutting(files: Files, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The HTTP server as an object store with an object `crawls/a.warc.gz`."""
    use_server(monkeypatch, files.url)
    return files


def test_a_cut_answer_of_an_object_store_is_asked_for_again(cutting: Files) -> None:
    cutting.content["/crawls/cut"] = LONG
    with open_input("s3://crawls/cut") as stream:
        cutting.cut_after, cutting.cuts = 1_000_000, 2
        assert stream.read() == LONG
    assert cutting.cuts == 0


def test_a_wrong_key_is_an_error_that_says_what_to_check(cutting: Files, run: Terminal) -> None:
    cutting.statuses = [403] * 20
    answer = run("ingest", "s3://crawls/a.warc.gz", "--create")
    assert answer.code == 2
    assert "cannot read s3://crawls/a.warc.gz: " in answer.err and "access is refused" in answer.err
    assert "the credentials in the environment" in answer.err


def test_an_export_in_shards_to_an_object_store_goes_on_and_is_read_by_its_manifest(
    s3: Any, run: Terminal, tmp_path: Path
) -> None:
    crawl(tmp_path / "a.warc.gz", 0, 6)
    run("ingest", str(tmp_path / "a.warc.gz"), "--create")
    words = ("export", "--output", "s3://crawls/shards/pages.warc.gz", "--shards", "3", "--json")
    whole = run(*words).object()
    assert whole["output"] == "s3://crawls/shards/pages.manifest.jsonl"
    [head, first, *_] = s3.get_object(Bucket="crawls", Key="shards/pages.manifest.jsonl")["Body"].read().split(b"\n")
    s3.put_object(Bucket="crawls", Key="shards/pages.manifest.jsonl", Body=head + b"\n" + first + b"\n")
    s3.delete_object(Bucket="crawls", Key="shards/pages-00002.warc.gz")
    again = run(*words).object()
    assert again == whole and len(again["shards"]) == 3
    other = run.on(tmp_path / "other")
    report = other("ingest", "--files-from", "s3://crawls/shards/pages.manifest.jsonl", "--create", "--json").object()
    assert (report["pages"], report["files"]) == (6, 3)


def test_a_set_in_an_object_store_is_subtracted(s3: Any, run: Terminal, tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 2)):
        s3.put_object(Bucket="crawls", Key=f"sets/{name}", Body=crawl(tmp_path / name, first))
    answer = run.bare(
        "subtract", "s3://crawls/sets/a", "s3://crawls/sets/b", "--output", "s3://crawls/sets/c", "--json"
    )
    assert answer.object() == {"a": 3, "b": 3, "kept": 2, "output": "s3://crawls/sets/c"}
    assert "sets/c" in keys_of(s3)
