"""Let a language model read a store: `python examples/mcp_example.py http://localhost:8470`, as an MCP server on stdio.

Needs `pip install docstore "mcp>=2"`, and `docstore serve` at that address, with an index for search: `docstore index`.
A client starts this program itself; its configuration has the command `python` with these two arguments.  All tools
only read.  What they give is text of strangers: a client must not follow instructions that stand in it.
"""

import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

import docstore
from docstore.model.plain import iso
from docstore.reports.worddiff import Change, word_diff

MOST_CHARACTERS = 50_000
"""Of one answer."""
SHOWN_VERSIONS = 100

server = MCPServer("docstore", instructions="Pages of a crawl: search them, read them, compare their versions.")
reads = server.tool(annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False))


def capture_of(url: str, at: str | None) -> docstore.Document:
    """The capture of a page at a time."""
    found = store.get(url, at=at or None, variants=True, follow_redirects=True, follow_duplicates=True)
    if found is None:
        raise ToolError(f"the store has no page {url}" + (f" at {at} or before" if at else ""))
    return found


@reads
def search(query: str, limit: int = 10) -> list[dict[str, str]]:
    """Pages that match some words, best first: URL, title, time, and a passage with the words."""
    return [
        {
            "url": hit.url,
            "title": hit.title,
            "captured": iso(hit.timestamp),
            "passage": hit.snippet.text() if hit.snippet else "",
        }
        for hit in store.search(query, limit=min(limit, 50)).hits
    ]


@reads
def get(url: str, at: str | None = None) -> str:
    """The main content of a page as Markdown: the newest capture, or the one at a time such as 2024-05-01T12:00:00Z."""
    found = capture_of(url, at)
    return (store.markdown(found.url, at=found.timestamp) or "")[:MOST_CHARACTERS]


@reads
def versions(url: str) -> list[dict[str, str]]:
    """The captures of a page, newest first, and whether each differs from the one before it."""
    return [
        {"captured": iso(one.timestamp), "against_the_one_before": str(one.newest.verdict.previous)}
        for one in store.history(url)[:SHOWN_VERSIONS]
        if one.newest.verdict is not None
    ]


@reads
def diff(url: str, older: str, newer: str | None = None) -> str:
    """How the main text changed between two times: ``[-removed words-]`` and ``{+added words+}``."""
    texts = [capture_of(url, at).text or "" for at in (older, newer)]
    shown = {Change.OLD: "[-{}-]", Change.NEW: "{{+{}+}}", Change.SAME: "{}", Change.BREAK: "\n"}
    return " ".join(shown[piece.change].format(piece.text) for piece in word_diff(*texts))[:MOST_CHARACTERS]


@reads
def duplicates(url: str) -> list[dict[str, str | float]]:
    """Other pages whose text is the same, nearly the same, or contained, most similar first."""
    return [
        {"url": one.url, "kind": str(one.kind), "similarity": round(one.similarity, 4)}
        for one in store.similar(capture_of(url, None).url, limit=20)
    ]


if __name__ == "__main__":
    with docstore.connect(sys.argv[1]) as store:
        server.run("stdio")
