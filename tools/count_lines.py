"""Lines of the package by part: code, imports, docstrings, comments and blank lines.

    python -m tools.count_lines

A line with a comment behind code is code; a docstring is any string that stands as a statement of its own.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
KINDS = ("code", "imports", "docstrings", "comments", "blank")
_NO_CODE = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def counts_of(source: str) -> Counter[str]:
    """Lines of one file by kind."""
    docstrings: set[int] = set()
    imports: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        lines = range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(lines)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(lines)
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    comments -= code
    blank = source.count("\n") - len(code | docstrings | comments)
    found = (len(code - imports), len(imports), len(docstrings), len(comments), blank)
    return Counter(dict(zip(KINDS, found, strict=True)))


def main() -> None:
    """Print a row a part, the longest first."""
    listed = subprocess.run(["git", "ls-files", "docstore/*.py"], cwd=ROOT, check=True, capture_output=True, text=True)
    parts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name in listed.stdout.split():
        folders = name.split("/")
        parts[folders[1] if len(folders) > 2 else "(root)"] += counts_of((ROOT / name).read_text(encoding="utf-8"))
    parts["all"] = sum(parts.values(), Counter[str]())
    print("| part | lines | " + " | ".join(KINDS) + " |\n|" + "---|" * (len(KINDS) + 2))
    for part, found in sorted(parts.items(), key=lambda one: -one[1].total()):
        print(f"| {part} | {found.total()} | " + " | ".join(str(found[kind]) for kind in KINDS) + " |")


if __name__ == "__main__":
    main()
