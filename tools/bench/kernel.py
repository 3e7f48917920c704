"""From body bytes to text and fingerprints: the native kernel beside the reference, zstd and the peers, on one core.

Every contender sees the same pages in turn, in batches; the best of a few rounds counts, and slow ones see a sample.
resiliparse does less: it gives text alone.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import zstandard
from blake3 import blake3

from docstore.dedup.kernel import Kernel
from docstore.model.types import Page
from docstore.text.readers import is_html
from tests.reference.analysis import analyse_html
from tests.reference.page import extractor as rule_of
from tools.bench.harness import Section, one_core, seconds_of

ROOT = Path(__file__).parent.parent.parent
ROUNDS = 3
SAMPLE_PAGES = 300
BATCH_PAGES = 32

Bodies = Sequence[tuple[bytes, str | None]]


class Contender(NamedTuple):
    """Something to measure: `work` takes a batch of bodies."""

    name: str
    work: Callable[..., object]
    is_slow: bool = False


def run(pages: Sequence[Page], command: str) -> Section:
    """Megabytes of body a second, microseconds a page, and the ratio to bare zstd -3."""
    section = Section(
        "Kernel: body to text and fingerprints, one core", command, ("what", "MB/s", "us a page", "times zstd -3")
    )
    bodies = [(page.body, page.header("content-type")) for page in pages]
    bodies = [body for body in bodies if is_html(*body)]
    step = max(1, len(bodies) // SAMPLE_PAGES)
    sampled = bodies[::step]
    with one_core():
        speeds: dict[str, tuple[float, float]] = {}
        for contender in contenders():
            chosen = sampled if contender.is_slow else bodies
            total = sum(len(body) for body, _ in chosen)
            groups = list(_grouped(chosen))
            rounds = 1 if contender.is_slow else ROUNDS
            seconds = min(
                seconds_of(lambda work=contender.work, groups=groups: [work(group) for group in groups])  # type: ignore[misc]
                for _ in range(rounds)
            )
            speeds[contender.name] = (total / seconds / 1e6, seconds / len(chosen) * 1e6)
    zstd_speed = speeds[ZSTD][0]
    for name, (speed, micros) in speeds.items():
        section.rows.append((name, f"{speed:.0f}", f"{micros:.1f}", f"{speed / zstd_speed:.2f}"))
    mean = sum(len(body) for body, _ in bodies) / len(bodies)
    section.notes.append(
        f"{len(bodies)} HTML pages of {mean:.0f} bytes on average; slow contenders see every "
        f"{step}th. The native rows hold the body's BLAKE3 and the making of Python objects."
    )
    section.notes.extend(_stages(bodies))
    return section


ZSTD = "zstd -3 of the body"


def contenders() -> list[Contender]:
    """All that can be measured here."""
    compress = zstandard.ZstdCompressor(level=3).compress
    found = [
        Contender(ZSTD, lambda group: [compress(body) for body, _ in group]),
        Contender("BLAKE3 of the body", lambda group: [blake3(body).digest() for body, _ in group]),
    ]
    for extractor in ("visible", "combined", "scored"):
        found.append(Contender(f"native, {extractor} text", Kernel(extractor).analyse_many))
        found.append(Contender(f"reference, {extractor} text", partial(_by_reference, extractor), is_slow=True))
    if find_spec("resiliparse"):
        found += [
            Contender("resiliparse, all text", _resiliparse(main=False)),
            Contender("resiliparse, main text", _resiliparse(main=True)),
        ]
    return found


def _by_reference(extractor: str, group: Bodies) -> None:
    for body, content_type in group:
        analyse_html(body, blake3(body).digest(), content_type, rule_of(extractor), 5)


def _grouped(bodies: Bodies) -> list[Bodies]:
    return [bodies[start : start + BATCH_PAGES] for start in range(0, len(bodies), BATCH_PAGES)]


def _resiliparse(*, main: bool) -> Callable[[Bodies], list[str]]:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import detect_encoding
    from resiliparse.parse.html import HTMLTree

    def work(group: Bodies) -> list[str]:
        return [
            extract_plain_text(HTMLTree.parse_from_bytes(body, detect_encoding(body) or "utf-8"), main_content=main)
            for body, _ in group
        ]

    return work


def _stages(bodies: Bodies) -> list[str]:
    """The native kernel's time without Python, by its own example; nothing where there is no cargo."""
    cargo = shutil.which("cargo")
    manifest = ROOT / "native" / "Cargo.toml"
    if cargo is None or not manifest.exists():
        return []
    with tempfile.NamedTemporaryFile() as file:
        for body, content_type in bodies:
            kind = (content_type or "").encode("utf-8", "replace")
            file.write(struct.pack("<II", len(body), len(kind)) + body + kind)
        file.flush()
        command = [
            cargo,
            "run",
            "--release",
            "--quiet",
            "--manifest-path",
            str(manifest),
            "--example",
            "throughput",
            "--",
        ]
        notes = []
        for extractor in ("visible", "combined", "scored"):
            with one_core():
                done = subprocess.run([*command, file.name, extractor], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                notes.append(f"{extractor} text, without Python:\n\n```\n{done.stdout.rstrip()}\n```")
    return notes
