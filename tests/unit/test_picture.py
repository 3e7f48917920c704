import struct
import sys

import pytest

from docstore.lab.pictures import curve, plateau_png, span_tokens
from docstore.model.errors import InvalidArgument
from tests.reference.plateau import Span

PAGE = b"<ul><li>one<li>two<li>three</ul><p>" + b"many words of the text " * 20 + b"<p><p><p>end"


def test_curve_rises_with_tags_and_is_flat_over_words() -> None:
    assert curve([0, 1, 1], [2, 0, 3]) == ([0, 0, 2, 3, 3, 4, 7], [0, 0, 0, 1, 1, 2, 2])


def test_span_is_given_in_tokens() -> None:
    assert span_tokens([0, 1, 1], [2, 0, 3], Span(1, 3)) == (3, 7)
    assert span_tokens([0, 1, 1], [2, 0, 3], Span(0, 0)) == (0, 0)


def test_picture_is_a_png_and_the_same_each_time() -> None:
    pytest.importorskip("matplotlib")
    first = plateau_png(PAGE, title="https://example.org/$a")
    assert first[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", first[16:24]) == (800, 500)
    assert first == plateau_png(PAGE, title="https://example.org/$a")
    assert first != plateau_png(PAGE + b"<p>more", title="https://example.org/$a")


@pytest.mark.parametrize("body", [b"", b"<p>", b"only words here"])
def test_pages_without_tags_or_words_have_a_picture(body: bytes) -> None:
    pytest.importorskip("matplotlib")
    assert plateau_png(body).startswith(b"\x89PNG")


def test_the_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(InvalidArgument, match=r"pip install .\.\[plot\]"):
        plateau_png(PAGE)
