"""`docstore get --explain`: how a capture's main text was found, block by block.

Prints what `docstore.text.explain` says; loaded for that option alone, since it imports the analysis.
"""

from __future__ import annotations

from typing import Any

from docstore.cli import answers, output
from docstore.reading.documents import Capture, Document
from docstore.reference import charset
from docstore.reference.charset import TEXT_LIMIT_BYTES
from docstore.text.explain import ExplainedBlock, doubts, explain, left_out
from docstore.text.readers import is_html

SHOWN_CHARACTERS = 100


def print_explanation(document: Document, capture: Capture, extractor: str, *, as_json: bool) -> bool:
    """Print why each block of a capture is main text or not; False where it has no HTML to explain."""
    content_type = capture.header("content-type")
    if not capture.body or not is_html(capture.body, content_type):
        output.note(f"{document.url} has no HTML at {output.iso(capture.timestamp)}; nothing to explain")
        return False
    source = charset.decode(capture.body[:TEXT_LIMIT_BYTES], content_type).text
    blocks = explain(source, extractor)
    visible = "\n".join(block.text for block in blocks)
    main = "\n".join(block.text for block in blocks if block.is_kept)
    doubted = doubts(capture.title or "", capture.headings or "", main, visible)
    if as_json:
        output.json_line(_fields(document, capture, extractor, blocks, doubted))
        return True
    kept = sum(block.is_kept for block in blocks)
    rows = [
        ("rule", extractor),
        ("main text", f"{kept} of {len(blocks)} blocks, {len(main)} of {len(visible)} characters"),
    ]
    if capture.shown_verdict is not None:
        rows.append(("verdict", answers.verdict_words(capture.shown_verdict)))
    rows += [("left out", words) for words in left_out(blocks)]
    rows += [("in doubt", doubt) for doubt in doubted]
    output.table(rows)
    output.line()
    output.table(map(_row, blocks), ("main", "score", "text", "because"), right=(1,))
    return True


def _row(block: ExplainedBlock) -> tuple[str, str, str, str]:
    score = output.NOTHING if block.score is None else f"{block.score / 100:+.2f}"
    shown = output.cut(output.one_line(block.text), SHOWN_CHARACTERS)
    return "yes" if block.is_kept else "no", score, shown, ", ".join(block.because) or output.NOTHING


def _fields(
    document: Document, capture: Capture, extractor: str, blocks: list[ExplainedBlock], doubted: list[str]
) -> dict[str, Any]:
    verdict = capture.shown_verdict
    return {
        "url": document.url,
        **answers.time_fields(capture.timestamp),
        "extractor": extractor,
        "verdict": None if verdict is None else answers.verdict_fields(verdict),
        "in_doubt": doubted,
        "blocks": [
            {"main": block.is_kept, "score": block.score, "text": block.text, "because": list(block.because)}
            for block in blocks
        ],
    }
