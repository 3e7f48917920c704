"""Makes pages of the site that docs/ does not have: start page, contributing, examples, decisions, command reference.

mkdocs calls these functions (`hooks` in mkdocs.yml).  README.md is the start page, so that both say the same.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe

from tools.make_cli_reference import reference

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files that lie outside of docs/."""
    from mkdocs.structure.files import File

    outside = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
    examples = [path for path in (ROOT / "examples").iterdir() if path.suffix != ".gz"]
    outside |= {f"examples/{path.name}": f"examples/{path.name}" for path in examples}
    for name, source in outside.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/decisions)", "](decisions/index.md)")
        # Links of the site begin in docs/, which is its root.
        files.append(File.generated(config, name, content=text.replace("](docs/", "](")))
    titles = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/decisions").glob("*.md"))}
    lines = [f"- [{text.partition('# ')[2].partition(chr(10))[0]}]({name})" for name, text in titles.items()]
    decisions = "# Decisions\n\nWhy things are as they are, and what was compared.\n\n" + "\n".join(lines)
    files.append(File.generated(config, "decisions/index.md", content=decisions))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ to the added files, and put the reference of each command below the page of commands."""
    del config, files
    if "/" not in page.file.src_uri:
        markdown = re.sub(r"\]\(\.\./(examples/|CONTRIBUTING\.md)", r"](\1", markdown)
        markdown = re.sub(r"\[([^]]+)\]\(\.\./[^)]+\)", r"\1", markdown)  # the site has no other file from there
    return markdown + reference() if page.file.src_uri == "cli.md" else markdown


class Sections(griffe.Extension):
    """Reads docstrings whose sections follow each other without an empty line, and `Returns:` of one line."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one name."""
        if obj.docstring is not None:
            text = re.sub(r"^(Returns|Yields): (?=\S)", r"\1:\n    ", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(
                r"\n+^(Args|Attributes|Returns|Yields|Raises|Source):$", r"\n\n\1:", text, flags=re.MULTILINE
            )
