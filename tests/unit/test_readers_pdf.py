"""Text of PDF and JSON: what is found, what is refused and why, and that it gets verdicts and is searched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docstore.model.choices import VerdictKind
from docstore.store import open_store
from docstore.text import pdf, readers
from docstore.text.readers import Unreadable, read

PDF = {"Content-Type": "application/pdf"}
needs_pypdf = pytest.mark.skipif(not pdf.is_installed(), reason="the extra docstore[pdf] is not installed")


def pdf_of(*pages: str, title: str = "") -> bytes:
    """A PDF file with a line of text for each line of each page."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Lang (en-GB) >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    kids = []
    for page in pages:
        lines = " T* ".join(f"({line}) Tj" for line in page.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 40 800 Td {lines} ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        resources = "<< /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /Contents {len(objects)} 0 R /Resources {resources} >>".encode())
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} /MediaBox [0 0 600 850] >>".encode()
    objects.append(f"<< /Title ({title}) >>".encode())
    made, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    end = b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF"
    return made + end % (count, table, count, count - 1, len(made))


@needs_pypdf
def test_a_pdf_has_its_text_title_and_language() -> None:
    found = read(
        pdf_of("A bridge of stone\nthat would not clo-\nse at noon.", "Page two.", title="Bridges"), "application/pdf"
    )
    assert found is not None
    assert found.main == "A bridge of stone\nthat would not close at noon.\nPage two."
    assert (found.title, found.lang) == ("Bridges", "en-GB")


@needs_pypdf
@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (["It would clo- \n  se at noon."], "It would close at noon."),
        (["It would clo-", "se at noon."], "It would close at noon."),
        (["It would clo- ", " se at noon."], "It would close at noon."),
        (["It would clo\xad\nse at noon."], "It would close at noon."),
        (["It would clo\xad", "se at noon."], "It would close at noon."),
        (["Zahn-", "\xe4rzte"], "Zahn\xe4rzte"),
        (["THE BRID-", "GES"], "THE BRIDGES"),
        (["Anglo-\nSaxon bridges"], "Anglo-Saxon bridges"),
        (["A note on the bridge-", "Chapter two"], "A note on the bridge-\nChapter two"),
        (["Pages 10-\n20 and a list -\nof bridges"], "Pages 10-\n20 and a list -\nof bridges"),
    ],
)
def test_a_word_with_a_hyphen_at_the_end_of_a_line_or_page_is_one_word(pages: list[str], text: str) -> None:
    found = read(pdf_of(*pages), "application/pdf")
    assert found is not None
    assert found.main == text


@needs_pypdf
def test_an_unreadable_body_gives_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreadable, match="a PDF that cannot be read"):
        read(b"%PDF-1.7 no text", "application/pdf")
    monkeypatch.setattr(pdf, "LARGEST_BYTES", 10)
    with pytest.raises(Unreadable, match="above 10"):
        read(pdf_of("text"), "application/pdf")


@needs_pypdf
@pytest.mark.parametrize(("name", "value"), [("MEMORY_BYTES", 1 << 20), ("SECONDS", 0)])
def test_the_process_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    """Bounds that are too small for anything, in a copy of the program."""
    source = Path(pdf.__file__).read_text(encoding="utf-8")
    lines = [f"{name}: Final = {value}" if line.startswith(f"{name}: Final") else line for line in source.split("\n")]
    (tmp_path / "pdf.py").write_text("\n".join(lines))
    monkeypatch.setattr(pdf, "__file__", str(tmp_path / "pdf.py"))
    with pytest.raises(Unreadable, match=r"takes more than|cannot be read"):
        read(pdf_of("text"), "application/pdf")


def test_without_the_library_a_pdf_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "is_installed", lambda: False)
    assert read(pdf_of("text"), "application/pdf") is None


@needs_pypdf
def test_a_pdf_gets_verdicts_and_is_read_as_a_page(tmp_path: Path) -> None:
    text = "\n".join(f"Pony number {number} likes oats and rain." for number in range(20))
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        store.put_page("https://a.example/pony.pdf", pdf_of(text, title="Ponies"), headers=PDF)
        html = "<title>Ponies</title><p>" + text.replace("\n", "<p>")
        result = store.put_page("https://b.example/pony", html.encode(), headers={"Content-Type": "text/html"})
        assert (result.verdict.kind, result.verdict.of_url) == (VerdictKind.SAME_TEXT, "https://a.example/pony.pdf")
        damaged = store.put_page("https://a.example/bad.pdf", b"%PDF-1.7 no text", headers=PDF)
        assert damaged.verdict.reason.startswith("unreadable: a PDF that cannot be read")


WORDPRESS = {
    "id": 7,
    "slug": "bridge",
    "title": {"rendered": "The bridge &amp; the boat"},
    "content": {"rendered": "<p>A gate jammed at <b>no</b>on.</p><p>Nobody was hurt.</p>", "protected": False},
    "_links": {"self": [{"href": "https://a.example/wp-json/7", "name": "Self"}]},
}


def test_json_has_the_strings_of_content_names() -> None:
    found = read(json.dumps(WORDPRESS).encode(), "application/json; charset=utf-8")
    assert found is not None
    assert found.title == "The bridge & the boat"
    assert found.main == "The bridge & the boat\nA gate jammed at noon.\nNobody was hurt."
    feed = {"version": "1.1", "title": "News", "items": [{"content_text": "One.\nTwo."}, {"summary": "Three."}]}
    listed = read(json.dumps(feed).encode(), "application/feed+json")
    assert listed is not None
    assert (listed.title, listed.main) == ("News", "News\nOne.\nTwo.\nThree.")


def test_json_without_content_has_no_text_and_damaged_json_says_so() -> None:
    assert read(b'{"id": 7, "url": "https://a.example/"}', "application/json") is None
    assert read(b"[]", "application/json") is None
    with pytest.raises(Unreadable, match="no JSON"):
        read(b'{"title": ', "application/json")
    with pytest.raises(Unreadable, match="nested"):
        readers.read(b"[" * 200_000, "application/json")
