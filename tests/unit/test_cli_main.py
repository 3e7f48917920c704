from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_case import Terminal

import docstore
from docstore.cli.main import COMMANDS, TOOLS, main
from docstore.model.format import FORMAT_VERSION
from docstore.tablets.format_file import FormatHead, decode_format, encode_format
from docstore.version import __version__

DOCSTORE = [sys.executable, "-m", "docstore.cli"]


def test_help_lists_every_command(run: Terminal) -> None:
    answer = run.bare("--help")
    assert answer.code == 0
    tools = run.bare("tool", "--help")
    assert tools == run.bare("help", "tool")
    for command in COMMANDS:
        text = tools.out if command in TOOLS else answer.out
        assert f"  {command.name} " in text and command.summary in text
        assert (command.name in answer.out) == (command not in TOOLS)


def test_a_tool_is_found_under_tool_alone(run: Terminal) -> None:
    assert run.bare("tool").code == 2
    assert "did you mean `docstore tool salvage`" in run.bare("salvage").err
    assert "did you mean `docstore tool lsh`" in run.bare("tool", "ls").err
    assert run.bare("help", "tool", "lsh").out == run.bare("tool", "lsh", "--help").out


def test_no_command_prints_the_help_and_is_a_wrong_call(run: Terminal) -> None:
    answer = run.bare()
    assert answer.code == 2
    assert "usage: docstore [--store PATH] COMMAND" in answer.out


def test_help_of_a_command_in_both_spellings(run: Terminal) -> None:
    assert run.bare("help", "get").out == run.bare("get", "--help").out
    assert "examples:" in run.bare("get", "--help").out


def test_the_version_is_printed(run: Terminal) -> None:
    answer = run.bare("--version")
    assert (answer.code, answer.out) == (0, f"docstore {__version__}\n")


def test_an_unknown_command_gets_the_nearest_name(run: Terminal) -> None:
    answer = run.bare("histroy")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "docstore: error: no command 'histroy'; did you mean `docstore history`?\n"


def test_an_option_before_the_command_gets_its_right_position(run: Terminal) -> None:
    answer = run.bare("--json", "get", "x")
    assert answer.code == 2
    assert "docstore COMMAND --json" in answer.err


def test_the_store_may_be_named_before_the_command(run: Terminal, tmp_path: Path) -> None:
    """11.C4: it was refused."""
    store = str(tmp_path / "named")
    assert run.bare("--store", store, "init").code == 0
    assert run.bare(f"--store={store}", "stats", "--json").object()["path"] == store
    assert run.bare("--store", "x", "--help").code == 0
    assert run.bare("--store", "x", "--store", store, "stats").code == 2
    assert (run.bare("--store", "x").code, run.bare("--store").code) == (2, 2)
    assert run.bare("--store", "x", "tool", "lsh").code == 2
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "words", [["get"], ["get", "https://a.example/", "--nonsense"], ["get", "https://a.example/", "--versions", "0"]]
)
def test_a_wrong_call_is_one_line_and_exit_2(run: Terminal, words: list[str]) -> None:
    answer = run.bare(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("docstore: error: ")
    assert answer.err.count("\n") == 1
    assert "`docstore get --help`" in answer.err


def test_a_missing_store_is_exit_3_with_what_to_do(run: Terminal) -> None:
    answer = run("get", "https://a.example/")
    assert answer.code == 3
    assert "docstore init" in answer.err
    assert not run.store.exists()


def test_errors_name_options_of_the_terminal(run: Terminal) -> None:
    run("init")
    page = run.store.parent / "page.html"
    page.write_text("<p>x")
    early = run("put", "https://a.example/", str(page), "--fetched-at", "1980-01-01")
    assert early.code == 2 and "--any-time accepts it" in early.err and "=True" not in early.err
    assert "or --create" in run.on(run.store / "no")("put", "https://a.example/", str(page)).err
    wrong = run.on(run.store.parent / "two")("init", "--similar-threshold", "0.9", "--near-threshold", "0.8")
    assert "--similar-threshold 0.9 is above --near-threshold 0.8" in wrong.err


def test_a_newer_store_is_exit_4_and_names_the_docstore_that_reads_it(run: Terminal) -> None:
    run("init")
    write_head(run.store, FormatHead(FORMAT_VERSION + 1, "7.3"))
    answer = run("get", "https://a.example/")
    assert answer.code == 4
    assert f"format {FORMAT_VERSION + 1}" in answer.err and "docstore 7.3 or later" in answer.err


def test_a_half_upgraded_store_is_exit_4_and_names_the_docstore_that_ends_its_upgrade(run: Terminal) -> None:
    run("init")
    write_head(run.store, FormatHead(FORMAT_VERSION, "7.3", FORMAT_VERSION + 1))
    for words in (["get", "https://a.example/"], ["tool", "rebuild"]):
        answer = run(*words)
        assert answer.code == 4
        assert "unfinished upgrade" in answer.err and "docstore 7.3 or later" in answer.err
    assert (run.store / "FORMAT").exists()


def test_a_store_of_a_development_version_is_exit_4_and_says_what_to_do(run: Terminal) -> None:
    run("init")
    (run.store / "FORMAT").write_bytes(b"docstore format 6\n93c4\n5d2f7a10\n")
    answer = run("get", "https://a.example/")
    assert answer.code == 4
    assert "docstore export --versions all" in answer.err and "docstore ingest --create" in answer.err


def test_a_damaged_number_of_the_format_is_damage_and_no_newer_format(run: Terminal) -> None:
    run("init")
    path = run.store / "FORMAT"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"format %d," % FORMAT_VERSION, b"format 7,", 1))
    assert path.read_bytes() != raw
    assert run("get", "https://a.example/").code == 5


def write_head(store: Path, head: FormatHead) -> None:
    """Replace the first line of FORMAT."""
    rows = decode_format((store / "FORMAT").read_bytes())
    assert rows is not None
    (store / "FORMAT").write_bytes(encode_format(rows, head))


def test_a_damaged_store_is_exit_5(run: Terminal) -> None:
    run("init")
    (run.store / "FORMAT").write_bytes(b"something else")
    assert run("get", "https://a.example/").code == 5


def test_the_environment_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCSTORE_STORE", str(tmp_path / "named"))
    assert main(["init"]) == 0
    assert (tmp_path / "named" / "FORMAT").exists()
    monkeypatch.delenv("DOCSTORE_STORE")
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert (tmp_path / "webtable" / "FORMAT").exists()
    capsys.readouterr()


def test_what_an_encoding_lacks_is_written_as_an_escape(run: Terminal) -> None:
    """11.C4: a traceback and exit 1."""
    run("init")
    page = run.store.parent / "page.html"
    page.write_text("<title>Caf\u00e9</title><p>\u4e2d", encoding="utf-8")
    run("put", "https://a.example/caf\u00e9", str(page), "--header", "Content-Type: text/html; charset=utf-8")
    command = [*DOCSTORE, "get", "https://a.example/caf\u00e9", "--store", str(run.store)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Caf\\xe9\n\n\\u4e2d\n", b"")


@pytest.mark.parametrize("redirection", [">&-", "<&- >&-", ">&- 2>&-", ">/dev/full"])
def test_a_stdout_that_cannot_be_written_is_exit_6(run: Terminal, redirection: str) -> None:
    """11.C4: a traceback and exit 1."""
    run("init")
    command = shlex.join([*DOCSTORE, "stats", "--store", str(run.store)])
    done = subprocess.run(["sh", "-c", f"{command} {redirection}"], capture_output=True, text=True, check=False)
    assert done.returncode == 6
    expected = "" if "2>&-" in redirection else "docstore: error: cannot read or write: "
    assert done.stderr.startswith(expected)
    assert done.stderr.count("\n") == expected.count("docstore")
    assert run("check").code == 0


def test_closed_streams_are_not_pages_and_never_get_a_files_descriptor(run: Terminal) -> None:
    command = shlex.join([*DOCSTORE, "put", "https://a.example/", "-", "--create", "--store", str(run.store)])
    done = subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], check=False)
    assert done.returncode == 6
    assert run("get", "https://a.example/").code in (1, 3)
    done = subprocess.run(["sh", "-c", f"echo '<p>x' | {command} >&- 2>&-"], check=False)
    assert done.returncode == 6  # stored, though no answer could be printed
    assert run("get", "https://a.example/").out == "x\n"
    assert run("check").code == 0


def test_a_closed_stderr_ends_quietly_too(run: Terminal) -> None:
    run("init")
    command = shlex.join([*DOCSTORE, "get", "https://a.example/", "--store", str(run.store)])
    script = f"({command}; echo $? >{run.store}.code) 2>&1 >/dev/null | true"
    subprocess.run(["sh", "-c", script], check=True)
    assert (run.store.parent / f"{run.store.name}.code").read_text() in ("1\n", "141\n")


def test_a_closed_pipe_ends_quietly(run: Terminal) -> None:
    run("init")
    # Half a megabyte of text: far more than a pipe holds, so that the writer meets its closed end.
    page = run.store.parent / "page.html"
    page.write_bytes(b"<p>" + b"word " * 100_000)
    run("put", "https://a.example/", str(page))
    command = [*DOCSTORE, "get", "https://a.example/", "--body", "--store", str(run.store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10) == b"<p>word wo"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=300) == 141


def test_a_full_output_is_an_error_of_one_line(run: Terminal) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*DOCSTORE, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 6
    assert done.stderr.startswith("docstore: error: cannot read or write")


def interrupted(process: subprocess.Popen[bytes]) -> int:
    """Press Ctrl-C until the process ends: a signal between two reads is only noticed after the second."""
    for _ in range(200):
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    raise AssertionError("two hundred interrupts did not end it")


def test_an_interrupt_is_exit_130(run: Terminal) -> None:
    run("init")
    command = [*DOCSTORE, "put", "https://a.example/", "-", "--store", str(run.store)]

    # A parent that runs in the background may ignore SIGINT, and children inherit that.
    def listen() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=listen,  # noqa: PLW1509 - no threads here
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"x" * (1 << 20))  # returns only when the command reads its stdin
        assert interrupted(process) == 130
        assert process.stderr.read() == b"docstore: error: interrupted\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(run: Terminal, shell: str) -> None:
    answer = run.bare("completion", shell)
    assert answer.code == 0
    for command in COMMANDS:
        assert command.name.removeprefix("tool ") in answer.out


def test_a_completion_script_is_sound_bash(run: Terminal) -> None:
    script = run.bare("completion", "bash").out
    for place in ("backup_pos_0", "restore_pos_0", "restore_pos_1", "check___store"):
        assert f"_docstore_{place}_COMPGEN=_shtab_compgen_dirs" in script, place
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize("module", ["docstore.cli.main", "argparse"])
def test_an_interrupt_while_modules_are_loaded_prints_one_line(module: str) -> None:
    script = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv[1:] = ['stats']\n"
        "from docstore.cli import start\n"
        "start()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "docstore: error: interrupted\n")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["get", "--snipet", "x", "https://a.example/"], "did you mean --snippet?"),
        (["export", "--output", "x", "--format", "parqet"], "did you mean parquet?"),
        (["stats", "--by", "hosts"], "did you mean host?"),
        (["ingest", "--creat", "a.warc"], "did you mean --create?"),
        (["sweep", "--treshold=0.5"], "did you mean --threshold?"),
    ],
    ids=" ".join,
)
def test_a_misspelt_option_or_choice_is_answered_with_the_one_that_is_near(
    run: Terminal, words: list[str], near: str
) -> None:
    answer = run(*words)
    assert answer.code == 2 and near in answer.err


def test_an_option_like_no_other_gets_no_advice(run: Terminal) -> None:
    assert "did you mean" not in run("get", "--qqqq", "https://a.example/").err


def test_a_store_that_is_not_there_is_named_with_its_whole_path_and_the_way_to_name_another(
    run: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run.on("some/where")("stats")  # type: ignore[arg-type]
    assert answer.code == 3
    assert all(part in answer.err for part in (f"{tmp_path}/some/where", "docstore init", "--store", "DOCSTORE_STORE"))


def test_a_store_is_not_made_where_a_file_is(run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    answer = run.on(tmp_path / "file")("init")
    assert answer.code == 2 and f"{tmp_path}/file is a file" in answer.err


def test_a_snippet_of_a_page_that_is_not_there_says_so(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True):
        pass
    answer = run("get", "https://a.example/", "--snippet", "word")
    assert answer.code == 1 and "no page https://a.example/" in answer.err
