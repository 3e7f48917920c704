"""Markdown of pages against the Markdown that they were made of, side by side with other converters.

    python -m tools.bench.markdown PACKAGES [--sites DIR]

PACKAGES is a folder of sdists (``pip download --no-deps --no-binary :all: NAME ...``).  Their Markdown documents, and
those in which installed packages describe themselves, are made into full pages in four ways: by MkDocs with Material, by Sphinx with MyST (Furo), and by markdown-it in a plain
template and in one with the markup of Docusaurus; under --sites, if given, and not made again.  What each extractor
gives is read with markdown-it and compared with the source: F1 of the multisets of headings (level and words), blocks of
code (exact), cells of tables, list items (their own words), and links to other sites (words and address).  Pages on
which the generator itself shows another number of blocks of code or of tables than the source has are left out.

Packages with an even number in order of name were looked at while this was written; the odd ones only at the end.
Times are processor time in one process, ours after a round to warm up.  Peers: trafilatura's Markdown, html2text over
trafilatura's HTML, markdownify over readability's (readability-lxml).
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final, NamedTuple

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from tools.bench.harness import Section, run_commands

KINDS: Final = ("headings", "code", "cells", "items", "links")
KERNEL: Final = Kernel("scored")
SITE: Final = "https://docs.example/"
URL: Final = f"{SITE}page/"
TYPE: Final = "text/html; charset=utf-8"
LEAST_WORDS: Final = 80
MOST_DOCUMENTS: Final = 12
"""Of a package."""
NAV: Final = "".join(f'<li class="menu__list-item"><a class="menu__link" href="/{n}/">Page {n}</a></li>' for n in range(12))
PLAIN: Final = """<!doctype html><html><head><title>{title}</title></head><body><div id="header"><h1><a href="/">Docs</a>
</h1><ul>{nav}</ul></div><div id="content">{body}</div><div id="footer"><p>Copyright by the authors. <a
href="https://host.example/about">About</a> <a href="https://host.example/terms">Terms</a></p></div></body></html>"""
DOCUSAURUS: Final = """<!doctype html><html lang="en"><head><title>{title} | Docs</title></head><body><div
id="__docusaurus"><nav aria-label="Main" class="navbar navbar--fixed-top"><a class="navbar__item" href="/docs">Docs</a><a
class="navbar__item" href="https://host.example/repo">GitHub</a></nav><div class="main-wrapper"><aside
class="theme-doc-sidebar-container"><nav aria-label="Docs sidebar" class="menu"><ul class="theme-doc-sidebar-menu
menu__list">{nav}</ul></nav></aside><main class="docMainContainer_TBSr"><div class="row"><div class="col"><article><nav
class="theme-doc-breadcrumbs"><ul class="breadcrumbs"><li><span>Guide</span></li></ul></nav><div
class="theme-doc-markdown markdown">{body}</div><footer class="theme-doc-footer"><a
href="https://host.example/edit" class="theme-edit-this-page">Edit this page</a></footer></article><nav
class="pagination-nav"><a href="/3/">Next page</a></nav></div></div></main></div><footer class="footer"><div>Copyright
2024 Docs, Inc. Built with Docusaurus.</div></footer></div></body></html>"""
MKDOCS: Final = """site_name: Docs
theme: {name: material, features: [content.code.copy]}
plugins: []
validation: {links: {not_found: ignore, unrecognized_links: ignore}, nav: {omitted_files: ignore}}
markdown_extensions: [tables, attr_list, pymdownx.superfences, pymdownx.magiclink, {toc: {permalink: true}}]
"""
SPHINX: Final = 'extensions = ["myst_parser"]\nhtml_theme = "furo"\nsuppress_warnings = ["myst", "toc", "ref", "misc", "image"]\n'


class Rendered(NamedTuple):
    """A page of a site, with the document it was made of."""

    package: str
    generator: str
    source: str
    body: bytes


def documents(packages: Path) -> Iterator[tuple[str, str]]:
    """Package and text of each Markdown document that is long enough; without HTML, roles and syntax of one generator."""
    found = [(one.name, one.read_text("METADATA") or "") for one in distributions() if "markdown" in (one.metadata["Description-Content-Type"] or "")]
    texts = [(name, text.partition("\n\n")[2]) for name, text in found]
    for path in sorted(packages.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            members = [one for one in archive if re.search(r"/docs?/.*\.md$", one.name) and one.isfile()]
            for member in sorted(members, key=lambda one: one.name)[:MOST_DOCUMENTS]:
                stream = archive.extractfile(member)
                texts.append((path.name.rpartition("-")[0], stream.read().decode("utf-8", "replace") if stream else ""))
    for name, text in sorted(texts):
        text = re.sub(r"\A---\n.*?\n---\n|(?m:^\s*<.*$|^\[!\[.*$)|<!--.*?-->|\{[\w:]+\}(?=`)", "", text, flags=re.S).strip()
        text = text if text.startswith("# ") else f"# About {name}\n\n{text}"
        special = re.search(r"(?m)^\s*(:::|!!!|\?\?\?|===|```+\{|--8<--|%|\$\$|\|?:?-+:? *$)|\{[%{]|\[\^", text)
        if not special and len(text.split()) >= LEAST_WORDS and "\n# " not in re.sub(r"(?s)```.*?```", "", text):
            yield re.sub("[-_.]+", "-", name.lower()), text


def build(found: list[tuple[str, str]], site: Path) -> None:
    """Make the pages of all documents, in four folders."""
    converter = import_module("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name in ("mkdocs/docs", "sphinx", "plain", "docusaurus"):
        (site / name).mkdir(parents=True, exist_ok=True)
    for number, (_, text) in enumerate(found):
        (site / "mkdocs/docs" / f"p{number}.md").write_text(text)
        (site / "sphinx" / f"p{number}.md").write_text(text)
        body = converter.render(text)
        title = re.sub("<[^>]*>", "", next(iter(re.findall("<h1>(.*?)</h1>", body)), "Docs"))
        for generator, template in (("plain", PLAIN), ("docusaurus", DOCUSAURUS)):
            shown = prism(body) if generator == "docusaurus" else body
            page = template.format(title=title, nav=NAV, body=shown)
            (site / generator / f"p{number}.html").write_text(page)
    (site / "mkdocs/docs/index.md").write_text("# Docs\n")
    (site / "mkdocs/mkdocs.yml").write_text(MKDOCS)
    (site / "sphinx/index.md").write_text("# Docs\n\n```{toctree}\n:glob:\np*\n```\n")
    (site / "sphinx/conf.py").write_text(SPHINX)
    subprocess.run([sys.executable, "-m", "mkdocs", "-q", "build", "--no-directory-urls"], cwd=site / "mkdocs", check=True)
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", ".", "site"], cwd=site / "sphinx", check=True)


def prism(body: str) -> str:
    """Code and headings as Docusaurus writes them."""

    def code(match: re.Match[str]) -> str:
        lines = "".join(f'<span class="token-line"><span class="token plain">{line}</span><br></span>' for line in match[2].rstrip("\n").split("\n"))
        return f'<div class="{match[1]} codeBlockContainer_x"><div class="codeBlockContent_x"><pre class="prism-code {match[1]}"><code class="codeBlockLines_x">{lines}</code></pre><div class="buttonGroup_x"><button type="button" aria-label="Copy code to clipboard"></button></div></div></div>'

    body = re.sub(r'(?s)<pre><code(?: class="(.*?)")?>(.*?)</code></pre>', code, body)
    sign = '<a href="#x" class="hash-link" title="Direct link">\u200b</a>'
    return re.sub(r"<(h[1-6])>(.*?)</\1>", rf'<\1 class="anchor">\2{sign}</\1>', body)


def rendered(found: list[tuple[str, str]], site: Path) -> Iterator[Rendered]:
    places = {"mkdocs": "mkdocs/site/p{}.html", "sphinx": "sphinx/site/p{}.html", "plain": "plain/p{}.html", "docusaurus": "docusaurus/p{}.html"}
    for number, (package, text) in enumerate(found):
        wanted = parts(text)
        for generator, place in places.items():
            body = (site / place.format(number)).read_bytes()
            counts = [len(re.findall(pattern, body)) for pattern in (b"<pre", b'<table(?! class="highlight)')]
            if counts == [wanted["code"].total(), wanted["tables"].total()]:
                yield Rendered(package, generator, text, body)


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def parts(markdown: str) -> dict[str, Counter[Any]]:
    """What a document has of each kind."""
    tokens = import_module("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    found: dict[str, Counter[Any]] = defaultdict(Counter)
    around = ["", ""]
    for token in tokens:
        if token.type in ("fence", "code_block"):
            found["code"][token.content.strip("\n").rstrip()] += 1
        found["tables"][""] += token.type == "table_open"
        if token.nesting == 1:
            around = [around[1], token.tag]
        if token.type != "inline":
            continue
        label, text = "", ""
        for one in token.children:
            content = one.content if one.type in ("text", "code_inline") else " " * one.type.endswith("break")
            text, label = text + content, label + content
            if one.type == "link_open":
                label, address = "", str(one.attrs.get("href", ""))
            elif one.type == "link_close" and address.startswith("http") and not address.startswith(SITE):
                found["links"][words(label), address.rstrip("/")] += 1
        if text := words(text):
            if around[1] in ("td", "th"):
                found["cells"][text] += 1
            elif around[1][:1] == "h":
                found["headings"][around[1], text] += 1
            elif around == ["li", "p"]:
                found["items"][text] += 1
    return found


def converters() -> dict[str, Callable[[bytes], str]]:
    """Each extractor, as a function of a body."""
    trafilatura, html2text = import_module("trafilatura"), import_module("html2text")
    markdownify, readability = import_module("markdownify").markdownify, import_module("readability").Document
    options = {"include_formatting": True, "include_links": True, "include_tables": True, "include_images": True}

    def of_html(body: bytes) -> str:
        shown = trafilatura.extract(body, output_format="html", **options) or ""
        converter = html2text.HTML2Text(bodywidth=0)
        return str(converter.handle(shown))

    return {
        "docstore": lambda body: docstore_native.markdown(body, TYPE, URL, KERNEL.analyse(body, TYPE, links=False).main),
        "trafilatura": lambda body: trafilatura.extract(body, output_format="markdown", **options) or "",
        "trafilatura, html2text": of_html,
        "readability, markdownify": lambda body: markdownify(
            readability(body.decode()).summary(), heading_style="ATX", code_language_callback=None
        ),
    }


def f1(sums: list[int]) -> str:
    both, made, wanted = sums
    return f"{2 * both / (made + wanted):.3f}" if made + wanted else "-"


def main(packages: Path, *, sites: Path | None = None, half: str = "odd", worst: int = 0) -> Iterator[Section]:
    """Markdown of pages made of Markdown documents against those documents."""
    found = list(documents(packages))
    site = sites or Path(tempfile.mkdtemp(prefix="docstore-bench-"))
    if not (site / "sphinx/site").exists():
        build(found, site)
    names = sorted({package for package, _ in found})
    chosen = {name for number, name in enumerate(names) if half == "all" or number % 2 == (half == "odd")}
    pages = [page for page in rendered(found, site) if page.package in chosen]
    sums: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    for name, convert in converters().items():
        for page in pages:
            made, wanted = parts(convert(page.body)), parts(page.source)
            for kind in KINDS:
                for group in ("", page.generator):
                    counts = ((made[kind] & wanted[kind]).total(), made[kind].total(), wanted[kind].total())
                    sums[name, group][kind] = list(map(sum, zip(sums[name, group][kind], counts, strict=True)))
            if name == "docstore" and worst and (lost := [kind for kind in KINDS if made[kind] != wanted[kind]]):
                worst -= 1
                missing = {kind: (list(wanted[kind] - made[kind])[:3], list(made[kind] - wanted[kind])[:3]) for kind in lost}
                print(page.package, page.generator, page.source[:40], missing, file=sys.stderr)
    command = f"python -m tools.bench.markdown PACKAGES --half {half}"
    about = f"{len(pages)} pages of {len(chosen)} packages, {half} half"
    section = Section(f"Markdown of pages: {about}", command, ["F1 of", *KINDS])
    for (name, group), kinds in sorted(sums.items(), key=lambda item: item[0][1] != ""):
        if not group or name == "docstore":
            section.rows.append([f"{name} {group}".strip(), *(f1(kinds[kind]) for kind in KINDS)])
    analyses, texts = [], [(page.body, KERNEL.analyse(page.body, TYPE, links=False).main) for page in pages]
    for _ in range(5):
        began = time.process_time()
        for body, _ in texts:
            KERNEL.analyse(body, TYPE, links=False)
        between = time.process_time()
        for body, text in texts:
            docstore_native.markdown(body, TYPE, URL, text)
        analyses.append(((time.process_time() - between) / (between - began), (between - began) / len(texts)))
    ratio, seconds = sorted(analyses)[len(analyses) // 2]
    section.notes.append(f"An analysis takes {seconds * 1e6:.0f} us a page, Markdown {ratio:.2f} times that (median of 5).")
    yield section


if __name__ == "__main__":
    run_commands(main)
