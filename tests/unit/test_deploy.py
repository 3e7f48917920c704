"""Dockerfile, compose file, systemd unit and release workflow: their own checkers, and what they run of docstore."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from docstore.cli.arguments import parser_of
from docstore.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
UNIT = ROOT / "examples" / "docstore.service"
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
REPORT_WORKFLOW = ROOT / "examples" / "github-actions.yml"
SCRIPTS = sysconfig.get_path("scripts")


def check(*command: str) -> None:
    """Run a checker; it must pass.  Skips if it is not installed."""
    program = shutil.which(command[0], path=SCRIPTS + os.pathsep + os.environ["PATH"])
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def instructions(name: str) -> list[str]:
    """The instructions of the Dockerfile of a name, each as one line without the name."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text(encoding="utf-8"))
    return re.findall(rf"^{name} +(.*)$", text, re.MULTILINE)


def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    check("hadolint", str(DOCKERFILE))


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("compose-spec", ROOT / "compose.yaml"),
        ("github-workflows", WORKFLOW),
        ("github-workflows", REPORT_WORKFLOW),
    ],
    ids=["compose", "ci", "report"],
)
def test_yaml_files_follow_their_schemas(schema: str, file: Path) -> None:
    check("check-jsonschema", "--builtin-schema", f"vendor.{schema}", str(file))


def test_the_workflows_have_no_fault_that_actionlint_knows() -> None:
    check(
        "actionlint", str(WORKFLOW), str(REPORT_WORKFLOW)
    )  # go install github.com/rhysd/actionlint/cmd/actionlint@latest


@pytest.fixture
def unit(tmp_path: Path) -> str:
    """The unit, with a program that is there."""
    there = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    there.write_text(text.replace("ExecStart=/opt/docstore/bin/docstore ", f"ExecStart={sys.executable} "))
    assert str(sys.executable) in there.read_text()
    return str(there)


def test_systemd_takes_every_line_of_the_unit(unit: str) -> None:
    check("systemd-analyze", "verify", unit)


def test_systemd_says_that_the_unit_exposes_little(unit: str) -> None:
    check("systemd-analyze", "security", "--offline=true", "--threshold=15", unit)  # 1.5 of 10


def test_what_the_image_and_the_unit_run_is_a_command_of_docstore() -> None:
    (started,) = re.findall(r"^ExecStart=/opt/docstore/bin/docstore (.*)$", UNIT.read_text(), re.MULTILINE)
    for words in (shlex.split(started), json.loads(instructions("CMD")[0])):
        (command,) = [command for command in COMMANDS if command.name == words[0]]
        assert parser_of(command).parse_args(words[1:]).create


def test_what_the_workflow_of_a_report_runs_are_commands_of_docstore() -> None:
    lines = re.findall(r"docstore (\w+) ([^&>|\n]*)", "\n".join(re.findall(r"run: (.*)", REPORT_WORKFLOW.read_text())))
    assert [name for name, _ in lines] == ["ingest", "sweep", "check", "report"]
    for name, options in lines:
        (command,) = [command for command in COMMANDS if command.name == name]
        assert parser_of(command).parse_args(shlex.split(options)).store == "webtable"


def test_the_image_is_built_from_files_that_are_there_and_go_into_its_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [words[:-1] for line in instructions("COPY") if not (words := line.split())[0].startswith("--from")]
    names = [name for words in copied for name in words]
    assert {"docstore", "native"} <= set(names)
    for name in names:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_the_health_check_passes_for_a_served_store_and_fails_without(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    from serving import serving

    (line,) = instructions("HEALTHCHECK")
    words = json.loads(line.partition("CMD ")[2])
    assert words[:2] == ["python", "-c"]

    def exit_code(port: int) -> int:
        script = words[2].replace("8470", str(port))
        return subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode

    with serving(tmp_path / "store") as server:
        port = server.port
        assert exit_code(port) == 0
    assert exit_code(port) == 1


def test_wheels_are_made_and_tried_for_every_python_that_is_supported() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["distutils"]["bdist_wheel"]["py_limited_api"] == "cp311"
    assert settings["project"]["requires-python"] == ">=3.11,<3.15"
    assert settings["tool"]["cibuildwheel"]["build"] == [f"cp3{minor}-*" for minor in (11, 12, 13, 14)]
    assert 'features = ["abi3-py311"' in (ROOT / "native" / "python" / "Cargo.toml").read_text(encoding="utf-8")
