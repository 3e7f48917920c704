"""A browser at the archive API itself: what is stored is shown, and nothing of it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.conftest import Archive, fetch


@pytest.mark.parametrize("modifier", ["", "id_"])
@pytest.mark.parametrize(("digits", "url"), [("20240201000000", ""), ("20240201000001", "pic.svg")])
def test_a_stored_page_is_shown_and_its_scripts_do_not_run(
    archive: Archive, chromium: Callable[..., str], modifier: str, digits: str, url: str
) -> None:
    shown = chromium(f"{archive.base}/{digits}{modifier}/http://evil.test/{url}")
    assert "standing" in shown
    assert "RAN" not in shown and "<title>ran" not in shown


@pytest.mark.parametrize("modifier", ["", "id_"])
def test_text_that_looks_like_html_stays_text(archive: Archive, chromium: Callable[..., str], modifier: str) -> None:
    shown = chromium(f"{archive.base}/20240201000002{modifier}/http://evil.test/note.txt")
    assert "&lt;script&gt;" in shown and "<script>" not in shown


def test_a_name_that_points_here_is_refused(archive: Archive) -> None:
    target = "/web/20240201000000id_/http://evil.test/"
    assert fetch(archive.port, target, {"Host": f"evil.test:{archive.port}"}).status == 421
    assert fetch(archive.port, target, {"Host": f"localhost:{archive.port}"}).status == 200
