"""The operator's page in a browser: its forms work, and what a page of a stranger holds does not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.model.types import Page
from docstore.reports.html import report_html
from docstore.reports.survey import survey
from tests.clients.browser_pipe import Browser, browsing, program
from tests.serving import Serving, serving

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium is installed")

HTML = (("Content-Type", "text/html"),)
STORY = " ".join(f"Line {index} of a long text about rain." for index in range(40))
MARKUP = "</title><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
URL = "https://a.example/%3Cscript%3E?q='\"<script>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("page") / "webtable") as found:
        hidden = MARKUP.replace("<", "&lt;")
        for number in range(2):
            body = f"<title>{hidden}</title><main><p>{STORY} Version {number}. {hidden}</p></main>".encode()
            found.store.put_page(URL, body, headers=(*HTML, ("X-Evil", MARKUP)), fetched_at=(15 + number) * 10**14)
        found.store.put_page("https://a.example/twin", body, headers=HTML, fetched_at=17 * 10**14)
        list(found.store.put_pages([Page("https://a.example/other", b"<p>other", 200, HTML)]))
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as found:
        yield found


def test_a_page_is_looked_up_and_compared_by_its_forms_and_links(served: Serving, browser: Browser) -> None:
    browser.go(served.server.url + "/")
    assert "rgb" in browser.value("getComputedStyle(document.querySelector('.figures div')).backgroundColor")
    assert browser.value("getComputedStyle(document.querySelector('.figures')).display") == "grid"
    assert browser.value("document.documentElement.scrollWidth <= innerWidth") is True
    browser.value(f"document.querySelector('#url').value = {json.dumps(URL)}")
    browser.value("document.querySelector('.search button').click()")
    browser.await_load()
    assert browser.value("document.title").startswith("https://a.example/")
    assert "Version 1" in browser.value("document.querySelector('.text').innerText")
    assert MARKUP in browser.value("document.body.textContent")
    browser.value("[...document.links].find(a => a.textContent == 'compare').click()")
    browser.await_load()
    assert browser.value("document.querySelector('ins').innerText + document.querySelector('del').innerText") == "1.0."
    assert "ran" not in browser.value("document.title")
    assert browser.said == []


def test_a_job_is_started_by_its_form(served: Serving, browser: Browser) -> None:
    """A form without a referrer has `Origin: null`, which is refused: the page's own policy must not make it so."""
    browser.go(served.server.url + "/jobs")
    browser.value("document.querySelector('.starts form button').click()")
    browser.await_load()
    assert "report-1" in browser.value("document.querySelector('main').innerText")


def test_a_page_fits_a_narrow_window(served: Serving, browser: Browser) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=False)
    for path in ("/", "/list", "/hosts", "/jobs", "/clusters", "/page?url=https://a.example/other"):
        browser.go(served.server.url + path)
        assert browser.value("document.documentElement.scrollWidth <= innerWidth") is True, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_fits_a_phone_and_takes_the_colours_of_its_reader(
    served: Serving, browser: Browser, tmp_path: Path, scheme: str
) -> None:
    """As a file, so that its own policy holds: its style sheet is the one that the policy names by its hash."""
    path = tmp_path / "report.html"
    path.write_text(report_html(survey(served.store)), encoding="utf-8")
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=True)
    for address in (path.as_uri(), served.server.url + "/list?verdict=new"):
        browser.go(address)
        assert browser.value("document.documentElement.scrollWidth <= innerWidth") is True, address
    browser.go(path.as_uri())
    assert browser.value("getComputedStyle(document.querySelector('.figures')).display") == "grid"
    ground = browser.value("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(251, 251, 249)" if scheme == "light" else "rgb(21, 24, 27)")
    assert MARKUP in browser.value("document.body.textContent")
    assert "ran" not in browser.value("document.title").split()
    assert browser.value("performance.getEntriesByType('resource').length") == 0
    assert browser.said == []


def test_the_report_of_a_server_is_shown_under_its_policy(served: Serving, browser: Browser) -> None:
    browser.go(served.server.url + "/report")
    assert browser.value("getComputedStyle(document.querySelector('.figures')).display") == "grid"
    assert "a.example" in browser.value("document.body.innerText")
    assert browser.said == []
