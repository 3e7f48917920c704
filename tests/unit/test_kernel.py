"""One body to its analysis."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from blake3 import blake3

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from docstore.model.analysis import Analysis
from docstore.model.errors import InvalidArgument
from docstore.text.readers import TEXT_LIMIT_BYTES, Text
from tests.queries import numbers

PAGE = (
    "<html lang=en><title>Tea</title><h1>On tea</h1><p>"
    + " ".join(f"word{number}" for number in range(80))
    + " <a href=b>more</a>"
)


def test_analysis_of_a_page() -> None:
    kernel = Kernel()
    analysis = kernel.analyse(PAGE.encode(), "text/html", links=True)
    assert analysis.has_text
    assert (analysis.title, analysis.headings, analysis.lang, analysis.charset) == ("Tea", b"On tea", "en", "utf-8")
    assert analysis.main.startswith("On tea\nword0 word1")
    assert analysis.word_count == 83
    assert analysis.shingle_count == len(kernel.shingles(analysis.main)) == 79
    assert analysis.links == [("b", "more")]
    assert len(analysis.sketch) == 129
    assert len(numbers(analysis.band_keys)) == 96 and len(analysis.runs) == 3 * len(analysis.fingerprints)
    assert set(numbers(analysis.fingerprints).tolist()) <= set(kernel.shingles(analysis.main).tolist())


def test_text_is_taken_from_the_first_bytes_of_a_long_body() -> None:
    body = b"<p>first" + b" " * (TEXT_LIMIT_BYTES - 17) + b"<p>second<p>third"
    assert Kernel("visible").analyse(body, "text/html").main.split() == ["first", "second"]


def test_fingerprints_are_functions_of_the_main_text_alone() -> None:
    kernel = Kernel()
    first = kernel.analyse(PAGE.encode(), "text/html")
    markup = (
        PAGE.replace("<p>", "<div class=x><b></b>")
        .replace("<title>Tea", "<title>Other")
        .replace("word7 ", "wo<i>rd7</i> ")
    )
    second = kernel.analyse(markup.encode("utf-16"), "text/html")
    assert second.charset == "utf-16le"
    assert first.main == second.main
    assert first.text_checksum == second.text_checksum
    assert first.simhash == second.simhash
    assert first.sketch == second.sketch
    assert first.band_keys == second.band_keys
    assert first.body_checksum != second.body_checksum


@pytest.mark.parametrize("body", [b"%PDF-1.4 <html>", b"<html>\0\0", b"just text", b""])
def test_what_is_neither_html_nor_readable_has_no_text_and_says_why(body: bytes) -> None:
    analysis = Kernel().analyse(body, None)
    if not analysis.has_text:
        assert analysis.no_text
        fields = (name for name in vars(Analysis) if not name.startswith("_"))
        filled = [name for name in fields if not callable(its := getattr(analysis, name)) and its]
        assert sorted(filled) == ["body_checksum", "columns", "no_text"] and analysis.columns == ({}, {})


def test_a_page_without_words_has_no_fingerprint() -> None:
    analysis = Kernel().analyse(b"<p>...</p>", "text/html")
    assert analysis.main == "..."
    assert (analysis.word_count, analysis.text_checksum, analysis.sketch) == (0, b"", b"")
    assert len(analysis.band_keys) == len(analysis.fingerprints) == 0


def test_bad_choices_are_refused() -> None:
    for choice in ({"extractor": "plateau"}, {"shingle_words": 0}):
        with pytest.raises(InvalidArgument):
            Kernel(**choice)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"choose one of visible, combined, scored"):
        Kernel("bogus")


NATIVE = Kernel().native


class Panicking:
    """Native code that panics over one body, and over a text."""

    def analyse_many(self, bodies: list[tuple[bytes, str]], links: bool) -> list[Analysis]:
        return [Analysis().without_text("the native kernel panicked: at 7" * (body == b"bad")) for body, _ in bodies]

    def with_text(self, page: Analysis, text: Text, *_: object) -> Analysis:
        if text.main == "worse":
            raise RuntimeError("the native kernel panicked: at 8")
        return NATIVE.with_text(page, text, b"", False)


def test_a_body_over_which_native_code_panics_is_stored_without_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No input is known that makes it panic, so a stand-in does."""
    monkeypatch.setattr(docstore_native, "Kernel", lambda *_: Panicking())
    bodies = [(b"good", "text/markdown"), (b"bad", "text/html"), (b"worse", "text/markdown")]
    good, bad, worse = Kernel().analyse_many(bodies)
    assert good.has_text and not bad.has_text and not worse.has_text
    assert bad.no_text == "unreadable: the native kernel panicked: at 7; please report it"
    assert worse.no_text == "unreadable: the native kernel panicked: at 8; please report it"
    assert bad.body_checksum == good.body_checksum
    assert caplog.text.count("please report it") == 2


def test_ten_megabytes_of_nested_tables_stay_bounded() -> None:
    body = b"<table><tr><td>cell " * (10_000_000 // 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    analysis = Kernel().analyse(body, "text/html")
    assert analysis.word_count == 500_000
    assert time.process_time() - begun < 20
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 100 * len(body) / 1024


def test_schemes_are_pinned() -> None:
    """Any change here is a change of a persisted fingerprint: it needs new scheme numbers, not new expectations."""
    text = "<p>" + " ".join(f"{word}{number}" for number in range(60) for word in ("tea", "চা", "Straße")) + " 中文文本"
    analysis = Kernel().analyse(text.encode(), "text/html")
    assert (analysis.word_count, analysis.shingle_count) == (184, 180)
    assert analysis.text_checksum.hex() == "02d8f31b7f350928738942cfa03ebbd296"
    assert analysis.simhash == 0xF61EF0F760EF795
    assert blake3(analysis.sketch).hexdigest()[:32] == "eff6e773cafb1c80e449b69405a18e9f"
    assert numbers(analysis.band_keys)[:2].tolist() == [0x23BEEB026AE48AA0, 0x755B2ED2165D6DCF]
    assert numbers(analysis.fingerprints)[:2].tolist() == [0x53C7C23FD49D388, 0x171C637B49787394]
    assert len(numbers(analysis.fingerprints)) == 15
    assert numbers(analysis.band_keys)[[31, 95]].tolist() == [0x342675713482F04E, 0x91184AB0DE61C6D5]
    assert numbers(analysis.runs)[[0, 20, 44]].tolist() == [0xDEF1D150F91C817B, 0xEF5344B71EB52D83, 0x51A2BE940571CC30]


def test_a_stored_text_has_the_keys_of_its_page() -> None:
    order = bytes(reversed(range(256)))
    for text in ("", "tea", " ".join(f"word{n % 90} and {n * n % 70}" for n in range(400))):
        found = []
        for kernel in (Kernel(), Kernel(order=order)):
            analysis = kernel.analyse(f"<p>{text}".encode(), "text/html")
            stored = kernel.analyse_text(analysis.main)
            its = analysis.shingle_count, analysis.band_keys, analysis.fingerprints, analysis.runs
            found.append(its)
            assert its == (stored.shingle_count, stored.band_keys, stored.fingerprints, stored.runs)
        assert (found[0] == found[1]) == (not text or text == "tea")


def test_native_code_gives_the_memory_of_a_very_long_page_back() -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc/self/statm here")
    script = (
        "import os\n"
        "from pathlib import Path\n"
        "from docstore.dedup.kernel import Kernel\n"
        "def held(): return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')\n"
        "kernel = Kernel('combined')\n"
        "kernel.analyse(b'<p>a few words')\n"
        "before = held()\n"
        "kernel.analyse(b'<p>' + b' '.join(b'%x' % (n * n) for n in range(1_500_000)))\n"
        "print(held() - before)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 20 << 20
