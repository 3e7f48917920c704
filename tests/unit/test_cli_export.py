from __future__ import annotations

import gzip
import json
import os
from argparse import Namespace
from pathlib import Path

import pytest
from cli_case import Terminal, article, html
from warcio.checker import Checker

import docstore

ROOT = Path(__file__).parents[2]

MAY, JUNE, JULY = (1_714_521_600_000_000, 1_717_200_000_000_000, 1_719_792_000_000_000)
YEAR_10000 = 253_402_300_800_000_000
Pages = list[tuple[str, int, int | None, object, bytes | None, str | None]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    terminal = Terminal(tmp_path / "store", capsys)
    with docstore.open(terminal.store, create=True) as store:
        headers = {"Content-Type": "text/html; charset=utf-8", "ETag": '"one"'}
        body = html("One", article(1)).replace(b"<html>", b'<html lang="en-GB">')
        store.put_page("https://a.example/", body, headers=headers, fetched_at=MAY)
        store.put_page("https://a.example/", status=304, headers={"ETag": '"two"'}, fetched_at=JUNE)
        store.put_page("https://a.example/", html("Two", article(2)), headers=headers, fetched_at=JULY)
        store.put_page("https://b.example/copy", body, headers=headers, fetched_at=JUNE)
        store.put_page("https://b.example/gone", b"<p>Not here", status=404, fetched_at=JUNE)
        store.put_page("https://b.example/file", bytes(range(256)) * 4, fetched_at=JUNE)
        pages = [
            docstore.Page(
                "https://b.example/number", b"<p>x", 200, (), JUNE + 7000, docno="GX001-02-03", ip="192.0.2.1"
            )
        ]
        assert [result.stored for result in store.put_pages(pages)] == ["body"]
    return terminal


def everything(path: Path) -> Pages:
    """Every capture of a store: URL, time, status, headers, body, document number."""
    found: Pages = []
    with docstore.open(path) as store:
        for row in store.cells.scan(spec=docstore.ReadSpec(keys_only=True, cell_limit=1)):
            document = store.get(row.url, versions=100)
            assert document is not None
            for one in document.captures:
                found.append((row.url, one.timestamp, one.status, one.headers, one.body, one.docno))
    return found


@pytest.mark.parametrize(("ending", "magic"), [("gz", b"\x1f\x8b"), ("zst", b"\x28\xb5\x2f\xfd")])
@pytest.mark.parametrize("shards", [[], ["--shards", "2"]], ids=["file", "shards"])
def test_lines_are_packed_as_the_name_of_their_file_says(
    run: Terminal, tmp_path: Path, ending: str, magic: bytes, shards: list[str]
) -> None:
    words = ("export", "--format", "jsonl", *shards, "--output", str(tmp_path / f"all.jsonl.{ending}"))
    assert run(*words).code == 0
    files = sorted(tmp_path.glob(f"*.{ending}"))
    assert len(files) == (2 if shards else 1) and all(file.read_bytes().startswith(magic) for file in files)
    first = files[0].read_bytes()
    run(*words)
    assert files[0].read_bytes() == first
    report = run.on(tmp_path / "other")("ingest", *map(str, files), "--create", "--json").object()
    assert (report["pages"], report["error_count"]) == (5, 0)


@pytest.mark.parametrize("kind", ["warc", "trecweb"])
def test_an_export_ingests_again_to_the_same_pages(
    run: Terminal, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    file = tmp_path / f"all.{kind}"
    written = run("export", "--format", kind, "--versions", "all", "--output", str(file), "--json")
    assert (written.code, written.err) == (0, "")
    assert written.object()["captures"] == 7
    other = Terminal(tmp_path / "other", capsys)
    ingested = other("ingest", str(file), "--create", "--json")
    assert ingested.code == 0
    before, after = everything(run.store), everything(other.store)
    if kind == "trecweb":  # a page without a document number is given one
        assert all(row[5] for row in after)
        before = [row if row[5] else (*row[:5], number[5]) for row, number in zip(before, after, strict=True)]
    assert after == before


def samples() -> list[str]:
    folder = Path(os.environ.get("DOCSTORE_SHARED", ROOT.parent / "shared")) / "corpus" / "warc-samples"
    if not folder.is_dir():
        pytest.skip("the shared archive samples are not on this machine (DOCSTORE_SHARED)")
    return sorted(str(path) for path in folder.iterdir() if path.suffix != ".tsv")


@pytest.mark.parametrize(
    "shared", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["sample-crawl", "shared-samples"]
)
def test_an_export_passes_warcio_check_and_is_the_same_after_a_round_trip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared: bool
) -> None:
    archives = [*(samples() if shared else ()), str(ROOT / "examples" / "sample-crawl.warc.gz")]
    exports = []
    for number in range(2):
        terminal = Terminal(tmp_path / f"store{number}", capsys)
        assert terminal("ingest", *archives, "--create", "--json").object()["pages"] >= 192
        exports.append(tmp_path / f"{number}.warc.gz")
        assert terminal("export", "--versions", "all", "--output", str(exports[-1])).code == 0
        archives = [str(exports[-1])]
    assert exports[0].read_bytes() == exports[1].read_bytes()
    verdict = Checker(Namespace(inputs=archives, verbose=False)).process_all()
    assert (verdict, capsys.readouterr().out) == (0, "")


def test_a_page_is_found_by_its_recorded_digest_after_a_round_trip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (Terminal(tmp_path / name, capsys) for name in ("first", "second"))
    page = docstore.Page("https://a.example/", b"<p>x", headers=(("Content-Encoding", "br"),), payload_digest="sha1:BR")
    with docstore.open(first.store, create=True) as store:
        list(store.put_pages([page]))
    file = str(tmp_path / "all.warc.gz")
    assert first("export", "--output", file).code == second("ingest", file, "--create").code == 0
    with docstore.open(second.store) as store:
        (found,) = store.find(payload_digest="sha1:BR")
        assert (found.url, found.newest.payload_digest) == ("https://a.example/", "sha1:BR")


@pytest.mark.parametrize("kind", ["warc", "trecweb"])
def test_the_url_as_it_was_recorded_survives(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    first, second = (Terminal(tmp_path / name, capsys) for name in ("first", "second"))
    urls = ["HTTP://Example.COM:80/%7ea/../b c?#part", "http://example.com/b%20c?", "http://example.com/odd\nline"]
    with docstore.open(first.store, create=True) as store:
        pages = [docstore.Page(url, b"<p>%d" % n, fetched_at=MAY + n * 1000) for n, url in enumerate(urls)]
        rows = [result.url for result in store.put_pages(pages)]
        found = store.get(rows[0], versions=2)
        assert found is not None and [one.fetched_url for one in found.captures] == ["", urls[0]]
    file = str(tmp_path / "all")
    assert first("export", "--format", kind, "--versions", "all", "--output", file).code == 0
    assert second("ingest", file, "--create").code == 0
    with docstore.open(second.store) as store:
        found = store.get(rows[0], versions=2)
        assert found is not None and [one.fetched_url for one in found.captures] == ["", urls[0]]
        assert store.get(rows[2]) is not None
    (line,) = second("export", "--format", "jsonl", "--until", "2024-05-01T00:00:00.001").objects()
    assert (line["url"], line["fetched_url"]) == (rows[0], urls[0])


def test_a_304_is_exported_as_the_page_it_confirmed(run: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "june.warc.gz"
    answer = run(
        "export", "--host", "a.example", "--since", "2024-06-01", "--until", "2024-06-02", "--output", str(file)
    )
    assert answer.code == 0
    content = gzip.decompress(file.read_bytes())
    assert b"HTTP/1.1 200 OK" in content
    assert html("One", article(1))[-100:] in content


def test_json_lines_have_text_and_verdict(run: Terminal) -> None:
    answer = run("export", "--format", "jsonl", "--host", "b.example")
    copy, file, gone, _ = answer.objects()
    assert copy["url"] == "https://b.example/copy"
    assert (copy["title"], copy["verdict"], copy["of_url"]) == ("One", "exact", "https://a.example/")
    assert copy["text"].split()[0] == article(1)[0]
    assert file["text"] == ""
    assert gone["status"] == 404
    assert "body_base64" not in copy
    bodies = run("export", "--format", "jsonl", "--host", "b.example", "--body").objects()
    assert all("body_base64" in one for one in bodies)


@pytest.mark.parametrize(
    ("words", "urls"),
    [
        (["--prefix", "b.example/co"], ["https://b.example/copy"]),
        (["--status", "404"], ["https://b.example/gone"]),
        (["--lang", "en"], ["https://b.example/copy"]),
        (["--lang", "en", "--versions", "all"], ["https://a.example/", "https://a.example/", "https://b.example/copy"]),
        (["--lang", "e"], []),
        (["--since", "2024-07-01"], ["https://a.example/"]),
        (["--until", "2024-06-01", "--versions", "all"], ["https://a.example/"]),
    ],
)
def test_a_selection_has_the_captures_that_it_names(run: Terminal, words: list[str], urls: list[str]) -> None:
    answer = run("export", "--format", "jsonl", *words)
    assert [one["url"] for one in answer.objects()] == urls
    assert answer.code == (0 if urls else 1)


def test_the_output_file_is_renamed_after_all_is_written(run: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("what was there before")
    assert run("export", "--format", "jsonl", "--host", "a.example/wrong", "--output", str(file)).code == 2
    assert file.read_text() == "what was there before"
    assert run("export", "--format", "jsonl", "--output", str(file)).code == 0
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 5
    assert [path.name for path in tmp_path.glob("out*")] == ["out.jsonl"]


def test_a_file_that_cannot_be_written_is_an_invalid_argument(run: Terminal, tmp_path: Path) -> None:
    answer = run("export", "--output", str(tmp_path / "nowhere" / "pages.warc.gz"))
    assert answer.code == 2 and "name a file in a folder that exists" in answer.err


def test_json_and_pages_do_not_share_stdout(run: Terminal) -> None:
    answer = run("export", "--json")
    assert answer.code == 2
    assert "--output" in answer.err


@pytest.mark.parametrize("kind", ["warc", "wacz", "trecweb", "jsonl"])
def test_a_page_of_the_year_10000_is_named_and_others_are_exported(run: Terminal, tmp_path: Path, kind: str) -> None:
    with docstore.open(run.store) as store:
        for url in ("https://a.example/late", "https://z.example/late"):
            late = store.put_page(url, html("Late", article(9)), fetched_at=YEAR_10000, any_time=True)
            assert late.stored in ("body", "reference")
    file = tmp_path / f"all.{kind}"
    done = run("export", "--format", kind, "--output", str(file), "--json")
    assert (done.code, done.object()["captures"]) == (8, 5)
    for url in ("https://a.example/late", "https://z.example/late"):
        assert f"cannot read {url} page:body @253402300800000000: its time is after the year 9999" in done.err
    if kind == "warc":
        pytest.importorskip("pyarrow")
        whole = run("export", "--format", "parquet", "--output", str(tmp_path / "all.parquet"), "--json")
        assert (whole.code, whole.object()["captures"]) == (0, 7)


def test_the_last_millisecond_of_9999_is_exported(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(run.store) as store:
        store.put_page("https://a.example/last", b"<p>x", fetched_at=253_402_300_799_999_000, any_time=True)
    file = tmp_path / "all.jsonl"
    assert run("export", "--format", "jsonl", "--host", "a.example", "--output", str(file)).code == 0
    assert "9999-12-31T23:59:59.999Z" in {json.loads(line)["timestamp"] for line in file.read_text().splitlines()}


def test_salvage_leaves_a_page_of_the_year_10000_out_and_names_it(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(run.store) as store:
        store.put_page("https://a.example/late", html("Late", article(9)), fetched_at=YEAR_10000, any_time=True)
    done = run("tool", "salvage", "--output", str(tmp_path / "all.warc.gz"))
    assert done.code == 8
    assert "left out https://a.example/late: its time is after the year 9999" in done.err


def test_an_export_without_a_match_leaves_the_earlier_one(run: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "all.warc.gz"
    assert run("export", "--output", str(file)).code == 0
    before = file.read_bytes()
    assert run("export", "--host", "none.example", "--output", str(file)).code == 1
    assert file.read_bytes() == before and run("export", "--host", "x.example", "--output", f"{file}-2").code == 1
    assert not Path(f"{file}-2").exists()


@pytest.mark.parametrize("option", ["--cdxj", "--dropped"])
def test_two_outputs_of_one_name_are_refused(run: Terminal, tmp_path: Path, option: str) -> None:
    file = tmp_path / "all.warc.gz"
    file.write_bytes(b"mine")
    answer = run("export", "--collapse", "--output", str(file), option, str(tmp_path / "x" / ".." / "all.warc.gz"))
    assert answer.code == 2 and "same file" in answer.err and file.read_bytes() == b"mine"


def test_no_output_goes_into_the_folder_of_a_store(run: Terminal, tmp_path: Path) -> None:
    for target in (run.store / "FORMAT", run.store / "engine" / "own", run.store / "own.warc"):
        before = target.read_bytes() if target.exists() else None
        for command in (("export", "--output"), ("report",)):
            answer = run(*command, str(target))
            assert answer.code == 2 and "in the folder of a store" in answer.err
        assert (target.read_bytes() if target.exists() else None) == before


def test_a_file_of_the_user_next_to_the_output_stays(run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "all.warc.partial").write_bytes(b"precious")
    assert run("export", "--output", str(tmp_path / "all.warc")).code == 0
    assert (tmp_path / "all.warc.partial").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("name", "value"),
    [("prefix", 5), ("host", b"a"), ("lang", None), ("status", "200"), ("status", True), ("versions", 0),
     ("verdicts", "near"), ("verdicts", ["same"])],
)  # fmt: skip
def test_a_selection_names_the_argument_that_is_wrong(name: str, value: object) -> None:
    with pytest.raises(docstore.InvalidArgument, match=f"^{name} must be"):
        docstore.Selection(**{name: value})  # type: ignore[arg-type]
    assert docstore.Selection(verdicts=["near"]).verdicts == ("near",)  # type: ignore[arg-type]


# --- the name of the file says the format


NAMED = {
    "a.warc": b"WARC/1.1",
    "a.warc.gz": b"\x1f\x8b",
    "a.WARC.GZ": b"\x1f\x8b",
    "a.warc.zst": b"\x28\xb5\x2f\xfd",
    "a.wacz": b"PK",
    "a.parquet": b"PAR1",
    "a.jsonl": b"{",
    "a.ndjson": b"{",
    "a.jsonl.gz": b"\x1f\x8b",
    "a.jsonl.zst": b"\x28\xb5\x2f\xfd",
    "a.trec": b"<DOC>",
    "a.trec.gz": b"\x1f\x8b",
    "pages": b"\x1f\x8b",
    "v1.2-pages": b"\x1f\x8b",
}


@pytest.mark.parametrize("name", NAMED)
def test_an_export_has_the_format_that_its_name_says_and_reads_back(run: Terminal, tmp_path: Path, name: str) -> None:
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    with docstore.open(tmp_path / "three", create=True) as store:
        for number in range(3):
            store.put_page(f"https://a.example/{number}", html(f"Page {number}", article(number)), fetched_at=10**15)
    assert run.on(tmp_path / "three")("export", "--output", str(tmp_path / name)).code == 0
    assert (tmp_path / name).read_bytes().startswith(NAMED[name])
    other = run.on(tmp_path / "other")
    assert other("ingest", str(tmp_path / name), "--create", "--json").object()["pages"] == 3
    with docstore.open(tmp_path / "three") as first, docstore.open(tmp_path / "other") as second:
        assert [first.get(url).text for url in first.urls()] == [second.get(url).text for url in second.urls()]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output", "a.parquet", "--format", "jsonl"], "the name of a parquet file, but --format is jsonl"),
        (["--output", "a.warc.gz", "--format", "wacz"], "the name of a warc file, but --format is wacz"),
        (["--output", "a.jsonl.zst", "--format", "warc"], "the name of a jsonl file"),
        (["--output", "a.csv"], "unknown ending .csv"),
        (["--output", "a.json"], "unknown ending .json; name the file with"),
        (["--output", "a.foo.gz"], "unknown ending .foo"),
        (["--output", "a.parquet.gz"], "name it a.parquet"),
        (["--output", "a.wacz.zst"], "name it a.wacz"),
    ],
    ids=" ".join,
)
def test_a_name_of_another_format_is_refused_before_a_file_is_made(
    run: Terminal, tmp_path: Path, words: list[str], said: str
) -> None:
    with docstore.open(tmp_path / "three", create=True) as store:
        store.put_page("https://a.example/", b"<p>one")
    answer = run.on(tmp_path / "three")("export", words[0], str(tmp_path / words[1]), *words[2:])
    assert answer.code == 2 and said in answer.err
    assert not list(tmp_path.glob("a.*"))


def test_an_unknown_ending_is_written_if_the_format_is_given(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(tmp_path / "three", create=True) as store:
        store.put_page("https://a.example/", b"<p>one")
    assert run.on(tmp_path / "three")("export", "--output", str(tmp_path / "a.json"), "--format", "jsonl").code == 0
    assert (tmp_path / "a.json").read_bytes().startswith(b"{")


def test_an_export_of_nothing_says_which_note_or_label_no_capture_has(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(tmp_path / "few", create=True) as store:
        store.put_page("https://a.example/", b"<p>one", crawl="first")
    few, output = run.on(tmp_path / "few"), ("--output", str(tmp_path / "a.jsonl"))
    assert (
        "no capture has a note `quality`; `docstore annotate quality`" in few("export", "--quality", "c4", *output).err
    )
    assert few("annotate", "quality").code == 0
    answer = few("export", "--where", "qualty.words > 3", *output)
    assert answer.code == 1 and answer.err.endswith("no capture has a note `qualty` (there are: quality)\n")
    assert few("export", "--where", "quality.words > 3", *output).err.endswith("no capture matches\n")
    assert "no capture has the label 'second'" in few("export", "--crawl", "second", *output).err
    assert "no capture has the label 'second'" in few("delete", "--crawl", "second", "--yes").err
