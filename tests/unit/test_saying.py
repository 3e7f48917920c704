"""`tools/saying.sh`: who waits for `make demo` hears that it goes on, and why it failed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SAYING = ["sh", str(Path(__file__).resolve().parents[2] / "tools" / "saying.sh")]


def test_a_silent_command_is_told_of_until_it_ends(tmp_path: Path) -> None:
    """11.C11: `make demo` was silent for a minute."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    environment = {**os.environ, "SAYING_SECONDS": "1"}
    command = [*SAYING, "waiting", "cat", str(gate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        assert process.stdout.readline() == "waiting: 1 s\n"
        gate.write_text("what it prints is kept back where it goes well")
        assert "kept back" not in process.stdout.read()
    assert process.returncode == 0


def test_a_command_that_fails_shows_its_output_and_its_code() -> None:
    command = [*SAYING, "trying", "sh", "-c", "echo out; echo err >&2; exit 3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout.startswith("trying\n")
    assert done.stdout.endswith("out\nerr\n")
