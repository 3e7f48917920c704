"""Text of PDF files, with the extra `docstore[pdf]`: pypdf in a separate process for each file.

An untrusted file may take any time and memory, or crash the reader.  So its process has limits: PAGES pages, SECONDS of
processor time, MEMORY_BYTES of address space.  A file that exceeds them, is encrypted or damaged is `Unreadable`, with
the cause; a file with more pages gives the text of the first ones.  Processor time and memory do not depend on the load
of the machine, so the same file gives the same text.

This file is also the program of that process: it imports nothing of docstore, and its answer is one JSON object.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

PAGES: Final = 500
SECONDS: Final = 30
WALL_SECONDS: Final = 300
"""A process that does not use its processor time is killed after this time."""
MEMORY_BYTES: Final = 1 << 30
LARGEST_BYTES: Final = 64 << 20
MOST_CHARACTERS: Final = 8 << 20

_DIVIDED: Final = re.compile(r"(?<=([^\W\d_]))([-\u00ad\u2010])[^\S\n]*\n(\s*)(?=([^\W\d_]))")
"""A word with a hyphen, perhaps a soft one, at the end of a line or page."""


@cache
def is_installed() -> bool:
    """Whether the library that reads PDF is installed."""
    return find_spec("pypdf") is not None


def read(body: bytes) -> dict[str, str]:
    """`text` (one line a line), `title` and `lang` of a PDF file; or `error`, why it has none."""
    if len(body) > LARGEST_BYTES:
        return {"error": f"a PDF of {len(body)} bytes, above {LARGEST_BYTES}"}
    command = [sys.executable, "-P", __file__]
    try:
        done = subprocess.run(command, input=body, capture_output=True, timeout=WALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"a PDF that takes more than {WALL_SECONDS} s"}
    except OSError as error:
        return {"error": f"no process for a PDF could be started: {error}"}
    try:
        answer: dict[str, str] = json.loads(done.stdout)
    except ValueError:  # the kernel has killed it
        return {"error": f"a PDF that takes more than {SECONDS} s of processor time or {MEMORY_BYTES >> 20} MB"}
    return answer


# --- the process


def _main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    body = sys.stdin.buffer.read()
    try:
        answer = _read(body)
    except MemoryError:
        answer = {"error": f"a PDF that takes more than {MEMORY_BYTES >> 20} MB"}
    except Exception as error:  # whatever pypdf raises for a damaged file
        answer = {"error": f"a PDF that cannot be read: {type(error).__name__}: {str(error)[:200]}"}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


def _read(body: bytes) -> dict[str, str]:
    import io
    import logging

    import pypdf

    logging.disable(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"error": "a PDF that needs a password"}
    texts: list[str] = []
    length = 0
    for page in reader.pages[:PAGES]:
        texts.append(page.extract_text())
        length += len(texts[-1])
        if length > MOST_CHARACTERS:
            break
    root: Any = reader.trailer["/Root"]
    title = reader.metadata.title if reader.metadata is not None else ""
    text = _DIVIDED.sub(_joined, "\n\n".join(texts))[:MOST_CHARACTERS]
    return {"text": text, "title": str(title or ""), "lang": str(root.get("/Lang", ""))}


def _joined(match: re.Match[str]) -> str:
    """What stands for a hyphen and the end of its line or page: nothing within a word."""
    before, hyphen, blanks, behind = match.groups()
    if hyphen == "\u00ad" or behind.islower() or (before.isupper() and behind.isupper()):
        return ""
    if "\n" in blanks:  # another page may begin another sentence
        return match[0]
    return hyphen if behind.isupper() else ""


if __name__ == "__main__":
    _main()
