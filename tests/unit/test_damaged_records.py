"""A capture record that does not decode costs its own page, and no other page of a group that is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import docstore
from docstore import Page
from docstore.model import keys
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError
from docstore.model.types import RowMutations, SetCell

HTML = (("Content-Type", "text/html"),)
T0, DAY = 1_700_000_000_000_000, 86_400_000_000
WORDS = " ".join(f"word{number}" for number in range(120))
A, B = "https://a.example/x", "https://b.example/"


def body(comment: str = "", changed: str = "") -> bytes:
    return f"<title>a b c</title><p><!-- {comment} -->{WORDS.replace('word7 ', changed or 'word7 ')}</p>".encode()


def damaged(folder: Path, value: bytes, at: int = T0, url: str = A) -> docstore.DocumentStore:
    """A store with three captures of a page, of which one is damaged."""
    with docstore.open(folder, create=True) as store:
        for number in range(3):
            store.put_page(A, body(changed=f"early{number} "), headers=HTML, fetched_at=T0 - number * DAY)
        row = RowMutations("pages", keys.row_key(url), [SetCell("capture", b"", at, value)])
        store.backend.engine.mutate_rows([row], Durability.FLUSH)  # type: ignore[attr-defined]
    return docstore.open(folder)


@pytest.mark.parametrize("value", [b"\xff\xff", b"", b"\x00\x01", b"\x00" * 40])
@pytest.mark.parametrize("at", [T0, T0 - DAY, T0 + DAY])
@pytest.mark.parametrize(
    "copy", [body(changed="early0 "), body("comment", "early0 "), body(changed="late "), body(changed="early1 ")]
)
def test_pages_beside_a_damaged_candidate_get_their_verdicts(
    tmp_path: Path, value: bytes, at: int, copy: bytes
) -> None:
    with damaged(tmp_path / "store", value, at) as store:
        pages = [
            Page(f"{B}{number}", copy if number == 1 else b"<p>other %d" % number, 200, HTML, T0) for number in range(4)
        ]
        results = list(store.put_pages(pages, policies={"exact": "reject"}))
        assert [one.stored for one in results] == ["body"] * 4
        again = store.put_page(f"{B}again", copy, headers=HTML, fetched_at=T0, policies={"exact": "reject"})
        assert (again.stored, again.verdict.of_url) == ("rejected", f"{B}1")


@pytest.mark.parametrize("status", [200, 304])
def test_the_page_itself_is_written_again_later_or_at_that_time(tmp_path: Path, status: int) -> None:
    with damaged(tmp_path / "store", b"\xff\xff") as store:
        with pytest.raises(CorruptionError):
            store.get(A)
        page = b"" if status == 304 else body()
        store.put_page(A, page, headers=HTML, status=status, fetched_at=T0 + DAY)
        assert [finding.url for finding in store.unreadable.listed()] == [A]
        assert store.put_page(A, body(changed="mended "), headers=HTML, fetched_at=T0).timestamp == T0
        assert store.get(A, at=T0).body == body(changed="mended ")  # type: ignore[union-attr]
        assert len(store.history(A)) == 4
