from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path

import pytest

from docstore.cli import arguments, output
from docstore.cli.stores import family
from docstore.model.choices import VerdictKind
from docstore.model.errors import InvalidArgument
from docstore.model.plain import textual
from docstore.model.types import ColumnFamily, GCPolicy, Policy

NOON = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2024-05-01T12:00:00Z", NOON),
        ("2024-05-01T12:00:00", NOON),
        ("2024-05-01 12:00", NOON),
        ("2024-05-01T14:00:00+02:00", NOON),
        ("2024-05-01T12:00:00.123Z", NOON + 123_000),
        ("2024-05-01", NOON - 12 * 3600 * 1_000_000),
        ("20240501", NOON - 12 * 3600 * 1_000_000),
        ("20240501120000", NOON),
        ("1714564800", NOON),
        ("0", 0),
        ("1714564800000000", NOON),
        (" 2024-05-01T12:00:00Z ", NOON),
    ],
)
def test_times_are_read_in_every_spelling_that_the_help_names(text: str, micros: int) -> None:
    assert arguments.time_micros(text) == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-13-01",
        "20241301",
        "171456480000",
        "1714564800000",
        "9" * 19,
        "9" * 30,
        "-5",
        "1969-12-31",
    ],
)
def test_an_invalid_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"2024-05-01|before 1970"):
        arguments.time_micros(text)


@pytest.mark.parametrize("timestamp", [0, NOON, NOON + 1000, NOON + 123_000, NOON + 1, 253_402_300_800_000_000])
def test_a_printed_time_is_read_back(timestamp: int) -> None:
    shown = output.iso(timestamp)
    if timestamp < 253_402_300_800_000_000:  # year 10000
        assert arguments.time_micros(shown) == timestamp
    assert shown.endswith("Z")


def test_times_are_printed_in_utc_with_milliseconds_only_if_not_zero() -> None:
    assert output.iso(NOON) == "2024-05-01T12:00:00Z"
    assert output.iso(NOON + 7000) == "2024-05-01T12:00:00.007Z"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("12h", 43200), ("30d", 2592000), ("1.5h", 5400)]
)
def test_spans_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert arguments.span_seconds(text) == seconds


@pytest.mark.parametrize("text", ["30", "d", "30 days", "-3d"])
def test_a_span_without_unit_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="30d"):
        arguments.span_seconds(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "+1", "²", str(2**63), "9" * 30])
def test_a_count_that_nothing_can_hold_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 1 to"):
        arguments.positive(text)
    assert arguments.positive(str(2**63 - 1)) == 2**63 - 1


@pytest.mark.parametrize("text", ["", "-1", "0", "20", "020", "2000", "9" * 30, "ok"])
def test_an_invalid_http_status_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="three digits"):
        arguments.status(text)
    assert arguments.status("304") == 304


def test_a_column_is_cut_at_its_first_colon() -> None:
    assert arguments.column("anchor:https://a.example/") == ("anchor", b"https://a.example/")
    assert arguments.column("anchor:") == ("anchor", b"")
    with pytest.raises(argparse.ArgumentTypeError, match="FAMILY:QUALIFIER"):
        arguments.column("anchor")


def test_a_policy_names_a_verdict_that_can_be_a_duplicate() -> None:
    assert arguments.policy_of_verdict("near=reference") == (VerdictKind.NEAR, Policy.REFERENCE)
    for wrong in ("new=reject", "near", "near=drop", "=reject"):
        with pytest.raises(argparse.ArgumentTypeError, match="VERDICT=POLICY"):
            arguments.policy_of_verdict(wrong)


def test_a_family_is_read_with_its_policy() -> None:
    assert family("link") == ColumnFamily("link")
    assert family("crawl:max_versions=3,max_age=30d") == ColumnFamily("crawl", GCPolicy(3, 2_592_000.0))
    assert family("crawl:max_versions=3,max_age=30d,intersection").gc.intersection
    for wrong in ("Link", "", "page:keep=3", "page:max_versions=0", "page:max_age=3"):
        with pytest.raises(argparse.ArgumentTypeError):
            family(wrong)


def test_a_header_keeps_colons_in_its_value() -> None:
    assert arguments.header("Location: https://a.example/") == ("Location", "https://a.example/")
    with pytest.raises(argparse.ArgumentTypeError, match="Name: value"):
        arguments.header("no colon")


def test_an_input_file_that_is_missing_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot read"):
        arguments.read_input(str(tmp_path / "none"))


HOSTILE = "a\x1b[2Jb\x9bc\rd\te\r\nf\ud800 \u202egpj.exe\u202c \u2066x\u2069 \u05d0\u200f!"
MADE_SAFE = "a\ufffd[2Jb\ufffdc\ufffdd\te\nf\ufffd \ufffdgpj.exe\ufffd \ufffdx\ufffd \u05d0!"


def test_control_characters_of_pages_never_reach_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """11.C9: controls of direction reached it."""
    output.line(HOSTILE)
    assert capsys.readouterr().out == f"{MADE_SAFE}\n"
    output.styled_line([HOSTILE, output.Styled(HOSTILE, "red", "<", ">")])
    assert capsys.readouterr().out == f"{MADE_SAFE}<{MADE_SAFE}>\n"
    output.table([("1", HOSTILE)])
    assert capsys.readouterr().out == f"1  {output.one_line(MADE_SAFE)}\n"
    output.note(HOSTILE)
    output.report_error(HOSTILE)
    assert capsys.readouterr().err == f"docstore: {MADE_SAFE}\ndocstore: error: {MADE_SAFE}\n"


def test_one_module_of_the_terminal_writes_to_its_streams() -> None:
    folder = Path(output.__file__).parent
    for path in folder.rglob("*.py"):
        if path != Path(output.__file__):
            found = re.search(r"\bprint\(|sys\.std(?:out|err)\.(?:buffer\.)?write(?:lines)?\(", path.read_text())
            assert found is None, f"{path.name} writes {found} itself: let output.py make it safe"


def test_a_table_is_aligned_and_has_no_trailing_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([("a", "1", "x"), ("bbb", "22", "")], ("name", "n", "url"), right=(1,))
    assert capsys.readouterr().out == "name   n  url\na      1  x\nbbb   22\n"
    output.table([("a",)] * output.ALIGNED_ROWS + [("b" * 9,)], ("n",), right=(0,))
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["n", *["a"] * output.ALIGNED_ROWS, "b" * 9]
    output.table([], ("name",))
    assert capsys.readouterr().out == ""


def test_colour_only_on_a_terminal_and_never_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def shown(stream: io.StringIO) -> str:
        monkeypatch.setattr(sys, "stdout", stream)
        output.styled_line(["a ", output.Styled("near", "yellow", "*", "*")])
        return stream.getvalue()

    assert shown(Terminal()) == "a \x1b[33mnear\x1b[0m\n"
    assert shown(io.StringIO()) == "a *near*\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(Terminal()) == "a *near*\n"


def test_bytes_that_are_not_text_become_base64_in_json() -> None:
    assert textual("é".encode()) == "é"
    assert textual(b"\xff\x00") == {"base64": "/wA="}


def test_stdin_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"<p>hello")))
    assert arguments.read_input("-") == b"<p>hello"
