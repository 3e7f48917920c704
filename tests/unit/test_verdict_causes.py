"""Why two stores say different things of a page."""

from __future__ import annotations

from pathlib import Path

import docstore
from tools.bench.verdicts import compare_causes as compare

OWN = " ".join(f"word{number}" for number in range(120))
FRAME = " ".join(f"menu{number}" for number in range(60))


def written(folder: Path, frame: str, own: str) -> Path:
    """A store of twelve pages of one host with the frame, of which the last two are alike."""
    texts = [f"<p>{own} {number}</p>" for number in range(11)] + [f"<p>{own} 10</p>"]
    with docstore.open(folder, create=True, schema=docstore.Schema(extractor="visible")) as store:
        for number, text in enumerate(texts):
            body = f"<html><p>{frame}</p>{text}</html>".encode()
            store.put_page(f"https://a.example/{number}", body, fetched_at=1_700_000_000_000_000 + number)
    return folder


def test_what_all_pages_of_a_host_have_is_the_frame(tmp_path: Path) -> None:
    section = compare(written(tmp_path / "old", FRAME, OWN), written(tmp_path / "new", "", OWN), 1)
    causes = " ".join(cause for _, _, cause in section.rows)
    assert "lines of the frame left" in causes
    assert "its own" not in causes and "came in" not in causes
    assert sum(int(count) for _, count, _ in section.rows) > 0
    assert any("menu0" in note for note in section.notes)


def test_each_changed_capture_has_one_cause(tmp_path: Path) -> None:
    section = compare(written(tmp_path / "old", "", OWN), written(tmp_path / "new", "", "few words"), 0)
    for _, count, causes in section.rows:
        assert sum(int(each.split()[0]) for each in causes.split("; ")) == int(count)
    assert any("under 50 words now" in causes for _, _, causes in section.rows)
    assert section.notes == []


def test_equal_stores_have_no_change(tmp_path: Path) -> None:
    assert compare(written(tmp_path / "old", FRAME, OWN), written(tmp_path / "new", FRAME, OWN), 3).rows == []
