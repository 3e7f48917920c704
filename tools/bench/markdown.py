"""Markdown of pages against the Markdown that they were made of, side by side with other converters.

    python -m tools.bench.markdown PACKAGES --sites DIR [--half even]

PACKAGES is a folder of sdists (``pip download --no-deps --no-binary :all: NAME ...``).  Their Markdown documents, and
those in which installed packages describe themselves, are made into pages in DIR, unless they are there: by MkDocs with
Material, by Sphinx with MyST and Furo, and by markdown-it in a plain template and in one with the markup of Docusaurus.
What each extractor gives is read with markdown-it and compared with the source: F1 of headings (level and words), code
(exact), cells of tables, list items (their own words), and links to other sites (words and address).  Pages on which
the generator shows another number of blocks of code, tables or headings of a level than the source has are left out.

Packages with an even number in order of name were looked at while this was written, the odd ones only at the end.
Peers: trafilatura's Markdown, html2text over trafilatura's HTML, markdownify over that of readability-lxml.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from tools.bench.harness import Section, run_commands

KINDS: Final = ("headings", "code", "cells", "items", "links")
TYPE: Final = "text/html; charset=utf-8"
KERNEL: Final = Kernel("scored")
SITE: Final = "https://docs.example/"
NAV: Final = "".join(f'<li class="menu__list-item"><a href="/{number}/">Page {number}</a></li>' for number in range(12))
FRAMES: Final = {
    "plain": '<div id="header"><a href="/">Docs</a><ul>{nav}</ul></div><div id="content">{body}</div>'
    '<div id="footer"><p>Copyright by the authors. <a href="https://host.example/terms">Terms</a></div>',
    "docusaurus": '<nav class="navbar"><a href="https://host.example/repo">GitHub</a></nav><aside><nav class="menu">'
    '<ul>{nav}</ul></nav></aside><main><article><div class="theme-doc-markdown markdown">{body}</div><footer><a '
    'href="https://host.example/edit">Edit this page</a></footer></article></main><footer>Copyright</footer>',
}
CODE: Final = (
    r'<div class="\1 codeBlockContainer_x"><pre class="prism-code \1"><code>{}</code></pre><button></button></div>'
)
MKDOCS: Final = """site_name: Docs
theme: material
plugins: []
markdown_extensions: [tables, attr_list, pymdownx.superfences, {toc: {permalink: true}}]
"""
SPHINX: Final = 'extensions = ["myst_parser"]\nhtml_theme = "furo"\nsuppress_warnings = ["myst", "toc", "ref"]\n'
PLACES: Final = {"mkdocs": "mkdocs/site", "sphinx": "sphinx/site", "plain": "plain", "docusaurus": "docusaurus"}
HTML_AND_ROLES: Final = r"\A---\n.*?\n---\n|(?m:^\s*<.*$|^\[!\[.*$)|<!--.*?-->|\{[\w:]+\}(?=`)"
SPECIAL: Final = r"(?m)^\s*(:::|!!!|\?\?\?|===|```+\{|--8<--|%|\$\$)|\{[%{]|\[\^|\n# (?=.*)"


def documents(packages: Path) -> list[tuple[str, str]]:
    """Package and text of each document of some length; without HTML, and without what one generator alone reads."""
    given = [(one.name, one.read_text("METADATA") or "") for one in distributions()]
    texts = [
        (name, text.partition("\n\n")[2]) for name, text in given if "Description-Content-Type: text/markdown" in text
    ]
    for path in packages.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            names = sorted(name for name in archive.getnames() if re.search(r"/docs?/.*\.md$", name))
            found = [archive.extractfile(name) for name in names[:12]]
            texts += [(path.name.rpartition("-")[0], one.read().decode("utf-8", "replace")) for one in found if one]
    made = [
        (re.sub("[-_.]+", "-", name.lower()), re.sub(HTML_AND_ROLES, "", text, flags=re.S).strip())
        for name, text in texts
    ]
    titled = [(name, text if text.startswith("# ") else f"# About {name}\n\n{text}") for name, text in made]
    return sorted({(name, text) for name, text in titled if is_general(text) and len(text.split()) > 80})


def is_general(text: str) -> bool:
    return not re.search(SPECIAL, re.sub(r"(?ms)^```\w*$.*?^```$", "", text))


def build(found: list[tuple[str, str]], site: Path) -> None:
    converter = import_module("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for folder in ("mkdocs/docs", "sphinx", *FRAMES):
        (site / folder).mkdir(parents=True)
    for number, (_, text) in enumerate(found):
        for folder in ("mkdocs/docs", "sphinx"):
            (site / folder / f"p{number}.md").write_text(text)
        body = converter.render(text)
        title = re.findall("<h1>(.*?)</h1>", body)[0]
        for name, frame in FRAMES.items():
            page = f"<title>{title} | Docs</title><body>{frame.format(nav=NAV, body=body)}"
            (site / name / f"p{number}.html").write_text(as_docusaurus(page) if name == "docusaurus" else page)
    (site / "mkdocs/docs/index.md").write_text("# Docs\n")
    (site / "mkdocs/mkdocs.yml").write_text(MKDOCS)
    (site / "sphinx/index.md").write_text("# Docs\n\n```{toctree}\n:glob:\np*\n```\n")
    (site / "sphinx/conf.py").write_text(SPHINX)
    for folder, command in (("mkdocs", "mkdocs -q build --no-directory-urls"), ("sphinx", "sphinx -q . site")):
        subprocess.run([sys.executable, "-m", *command.split()], cwd=site / folder, check=True)


def as_docusaurus(page: str) -> str:
    """Code in lines and headings with signs."""

    def code(match: re.Match[str]) -> str:
        lines = match[2].removesuffix("\n").split("\n")
        return match.expand(CODE).format("".join(f'<span class="token-line">{line}<br></span>' for line in lines))

    page = re.sub(r'(?s)<pre><code(?: class="(.*?)")?>(.*?)</code></pre>', code, page)
    return re.sub(r"(?=</h[1-6]>)", '<a href="#x" class="hash-link" title="Direct link">\u200b</a>', page)


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def parts(markdown: str) -> dict[str, Counter[Any]]:
    """What a document has of each kind."""
    found: dict[str, Counter[Any]] = defaultdict(Counter)
    around = ["", ""]
    for token in (
        import_module("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    ):
        if token.type in ("fence", "code_block"):
            found["code"][token.content.strip("\n").rstrip()] += 1
        found["tables"][""] += token.type == "table_open"
        found[token.tag][""] += token.type == "heading_open"
        around = [around[1], token.tag] if token.nesting == 1 else around
        label, text, address = "", "", ""
        for one in token.children or ():
            content = one.content if one.type in ("text", "code_inline") else " " * one.type.endswith("break")
            text, label = text + content, label + content
            if one.type == "link_open":
                label, address = "", str(one.attrs["href"])
            elif one.type == "link_close" and address.startswith("http") and not address.startswith(SITE):
                found["links"][words(label), address.rstrip("/")] += 1
        kind = "cells" if around[1] in ("td", "th") else "headings" if around[1][:1] == "h" else "items"
        if words(text) and (kind != "items" or around == ["li", "p"]):
            found[kind][(around[1] * (kind == "headings"), words(text))] += 1
    return found


def converters() -> dict[str, Callable[[bytes], str]]:
    extract, html2text = import_module("trafilatura").extract, import_module("html2text").HTML2Text
    markdownify, readability = import_module("markdownify").markdownify, import_module("readability").Document
    options = {"include_formatting": True, "include_links": True, "include_tables": True, "include_images": True}
    return {
        "docstore": lambda body: docstore_native.markdown(body, TYPE, SITE, KERNEL.analyse(body, TYPE).main),
        "trafilatura": lambda body: extract(body, output_format="markdown", **options) or "",
        "html2text": lambda body: html2text(bodywidth=0).handle(extract(body, output_format="html", **options) or ""),
        "markdownify": lambda body: markdownify(readability(body.decode()).summary(), heading_style="ATX"),
    }


def main(packages: Path, *, sites: Path, half: str = "odd") -> Section:
    """Compare Markdown of pages with the documents that the pages were made of."""
    found = documents(packages)
    if not sites.exists():
        build(found, sites)
    names = sorted({name for name, _ in found})
    chosen = {name for number, name in enumerate(names) if number % 2 == (half == "odd")}
    pages = []
    for (number, (name, source)), (generator, folder) in (
        (one, place) for one in enumerate(found) for place in PLACES.items()
    ):
        body, wanted = (sites / folder / f"p{number}.html").read_bytes(), parts(source)
        shown = [len(re.findall(pattern, body)) for pattern in (b"<pre", b"<table", b"<h2", b"<h3")]
        if name in chosen and shown == [wanted[kind].total() for kind in ("code", "tables", "h2", "h3")]:
            pages.append((generator, wanted, body))
    about = f"Markdown: {len(pages)} pages of {len(chosen)} packages, {half} half"
    section = Section(about, f"python -m tools.bench.markdown PACKAGES --sites DIR --half {half}", ["F1 of", *KINDS])
    for name, convert in converters().items():
        sums: dict[str, Counter[Any]] = defaultdict(Counter)
        for generator, wanted, body in pages:
            made = parts(convert(body))
            for kind in KINDS:
                counts = {
                    (kind, 2): 2 * (made[kind] & wanted[kind]).total(),
                    kind: made[kind].total() + wanted[kind].total(),
                }
                for group in ("", generator)[: 1 + (name == "docstore")]:
                    sums[group].update(counts)
        section.rows += [
            [f"{name} {group}", *(f"{sum_[kind, 2] / max(sum_[kind], 1):.3f}" for kind in KINDS)]
            for group, sum_ in sums.items()
        ]
    texts = [(body, KERNEL.analyse(body, TYPE).main) for _, _, body in pages]
    ratios = []
    for _ in range(9):
        began = time.process_time()
        for body, _ in texts:
            KERNEL.analyse(body, TYPE)
        between = time.process_time()
        for body, text in texts:
            docstore_native.markdown(body, TYPE, SITE, text)
        ratios.append((time.process_time() - between) / (between - began))
    section.notes.append(f"Markdown takes {sorted(ratios)[4]:.2f} of the processor time of an analysis.")
    return section


if __name__ == "__main__":
    run_commands(main)
