"""A capture as `docstore get` prints it; shared by the whole command and `direct`.

It imports almost nothing, for a fast cold `docstore get`.
"""

from __future__ import annotations

from docstore.cli import output
from docstore.model.plain import textual
from docstore.reading.shown import capture_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from docstore.reading.documents import Capture, Document


def print_capture(args: argparse.Namespace, document: Document, capture: Capture) -> bool:
    """Print the parts of a capture that the options of `get` select; False if that is the text and it is empty."""
    if args.json:
        fields = {"url": document.url, **capture_fields(capture)}
        if document.via:
            fields["via"] = list(document.via)
        if args.outline:
            fields["outline"] = [section._asdict() for section in capture.outline]
        if args.body:
            fields["body"] = textual(capture.body or b"")
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
