"""A capture as `docstore get` prints it, and as JSON fields; shared by the whole command and `direct`.

It imports `output` alone, for a fast cold `docstore get`.
"""

from __future__ import annotations

from docstore.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from docstore.model.types import Verdict
    from docstore.reading.documents import Capture, Document


def print_capture(args: argparse.Namespace, document: Document, capture: Capture) -> bool:
    """Print the parts of a capture that the options of `get` select; False if that is the text and it is empty."""
    if args.json:
        fields = capture_fields(document, capture)
        if args.outline:
            fields["outline"] = [section._asdict() for section in capture.outline]
        if args.body:
            fields.update(output.bytes_fields("body", capture.body or b""))
        output.json_line(fields)
    elif args.body:
        output.write_bytes(capture.body or b"")
    elif args.headers:
        output.line(f"HTTP {capture.status}")
        for name, value in capture.headers or ():
            output.line(f"{name}: {value}")
    elif args.outline and capture.text:
        for heading, text in capture.outline:
            if heading:
                output.styled_line([output.Styled(heading, "bold", "## ")])
            if text:
                output.line(text)
    elif capture.title or capture.text:
        output.line("\n\n".join(part for part in (capture.title, capture.shown_text) if part))
    else:
        return False
    return True


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """A verdict for JSON."""
    return {
        "kind": str(verdict.kind),
        "of_url": verdict.of_url,
        "of_timestamp": verdict.of_timestamp,
        "similarity": verdict.similarity,
        "reason": verdict.reason,
        "contains_url": verdict.contains_url,
        "candidates": verdict.candidates,
        "verified": verdict.verified,
    }


def time_fields(timestamp: int) -> dict[str, Any]:
    """A timestamp for JSON: as a number and as ISO 8601."""
    return {"timestamp": timestamp, "time": output.iso(timestamp)}


def capture_fields(document: Document, capture: Capture) -> dict[str, Any]:
    """One capture for JSON: the fields of the families that were read, without body and fingerprints."""
    fields: dict[str, Any] = {"url": document.url, **time_fields(capture.timestamp), "crawl": capture.crawl}
    if document.via:
        fields["via"] = list(document.via)
    if capture.status is not None:
        fields["status"] = capture.status
        fields["headers"] = [list(pair) for pair in capture.headers or ()]
        for name in ("media_type", "charset", "ip", "payload_digest", "docno", "fetched_url"):
            fields[name] = getattr(capture, name)
    if capture.text is not None:
        for name in ("title", "text", "description", "keywords", "headings", "lang", "canonical", "published"):
            fields[name] = getattr(capture, name)
        fields["entries"] = [entry._asdict() for entry in capture.entries or ()]
    stored = capture.verdict
    shown = capture.shown_verdict
    if stored is not None and shown is not None:
        fields["verdict"] = verdict_fields(shown)
        fields["previous"] = str(stored.previous)
        fields["previous_similarity"] = stored.previous_similarity
        fields["stored"] = stored.stored
        fields["served_from"] = capture.served_from
    return fields
