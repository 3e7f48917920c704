"""What is no text for any extractor: hidden elements, ruby readings, choices, edit links, link signs; both kernels."""

import pytest

from docstore.dedup.kernel import Kernel
from tests.reference import page

FILLER = "A line that all of them show, so that little of the page is hidden."
KERNEL = Kernel("visible", 5)


def shown(source: str) -> tuple[str, str]:
    """Visible text without the filler, lines with " | " between, and headings; the same from kernel and definition."""
    body = f"<meta charset=utf-8><p>{FILLER}</p>{source}"
    both = KERNEL.analyse(body.encode()), page.read(body)
    (found,) = {(one.main_bytes.decode(), one.headings.decode()) for one in both}
    return found[0].removeprefix(FILLER).strip().replace("\n", " | "), found[1].replace("\n", " | ")


@pytest.mark.parametrize(
    "source, expected",
    [
        ("<p>One <span hidden>word</span>two</p>", "One two"),
        ("<p>a<b style='color:red; Display : None !important'>x</b>b</p>", "ab"),
        ("<p>a<i style=visibility:hidden>x</i>b</p>", "ab"),
        ("<p>a<i style='color:red;\n\tdisplay:\n none ;'>x</i>b</p>", "ab"),
        ("<p>a<i style='display:/* not */none'>x</i>b</p>", "ab"),
        ("<p>a<i style='display:none!important;display:inline'>x</i>b</p>", "ab"),
        ("<p>a <i style='display:none;display:inline'>x</i> b</p>", "a x b"),
        ("<p>a <i style='backface-visibility:hidden'>x</i> b</p>", "a x b"),
        ("<p>a <i style='display:nonesuch; /* display:none'>x</i> b</p>", "a x b"),
        ("<p>a <i style='background:url(display:none)'>x</i> b</p>", "a x b"),
        ("<p>a <span hidden>x<p>b</p>c", "a | b | c"),
        ("<ul><li>a <b><span hidden>x<li>b</ul>c", "a | b | c"),
        ("<p>a<i style='visibility&#58hidden'>x</i>b</p>", "ab"),
        ("<p>a<i style='visibility&#x3ahidden'>x</i>b</p>", "ab"),
        ("<p>a<i class=x-hidden ARIA-hidden=true>x</i>b</p>", "ab"),
        ("<p>a <i class='is-hidden xhidden'>x</i> b</p>", "a x b"),
        ("<p>a<font aria-hidden=TRUE>x</font>b</p>", "ab"),
        ("<p>a<a href=/ HIDDEN>x</a>b</p>", "ab"),
        ("<p hidden>x<p>shown", "shown"),
        ("<ul><li hidden>x<li>shown</ul>", "shown"),
        ("<div><span hidden>x</div>shown", "shown"),
        ("<div hidden><p>x</p><div>y</div>z</div>shown", "shown"),
        ("<div hidden>x</b></section>y</div>shown", "shown"),
        ("<b><div hidden>x</b>y</div>shown</b>", "shown"),
        ("a<div hidden>x</div>b", "a | b"),
        ("<textarea hidden>x</textarea>shown", "shown"),
        ("<input hidden>shown", "shown"),
        ("<p>a <span aria-hidden=false>b</span> <span class=hidden>c</span></p>", "a b c"),
        ("<p>a <span style='overflow:hidden'>b</span> <span title=hidden>c</span></p>", "a b c"),
        ("<p>a <span hidden=until-found>b</span></p>", "a b"),
        ("<div hidden>" + "more than all the rest " * 5 + "</div>", ("more than all the rest " * 5).strip()),
        (
            "<p>a</p><div hidden>" + "word " * 50 + "</div>" + "<p>" + "b " * 300,
            "a | " + "word " * 50 + "| " + "b " * 300,
        ),
        ("<p>Choose <select><option>x<optgroup label=l><option>y</select> now</p>", "Choose | now"),
        ("<select><option>x<select><option>y</select><p>shown", "shown"),
        ("<datalist id=d><option value=x>x</option></datalist>shown", "shown"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rp>(</rp><rt>ji</rt><rp>)</rp></ruby>を", "漢字を"),
        ("<ruby><rb>東</rb><rb>京</rb><rtc><rt>to</rt><rt>kyo</rt></rtc></ruby>へ", "東京へ"),
        ("<ruby>漢<rt>kan<rb>字<rt>ji</ruby>を", "漢字を"),
        # FooSoft/yomichan#1504: the markup of Kindle's books.
        ("は<ruby>\n<rb>短</rb>\n <rt>tan</rt>\n <rb>槍</rb>\n <rt>so</rt>\n</ruby>\nへ", "は短槍 へ"),
        ("<ruby>\n a\n <rt>x</rt>\n b\n <rt>y</rt>\n</ruby>c", "a b c"),
        ("は<ruby>短 <rb> 槍<rt>so</rt></ruby>へ", "は短 槍へ"),
        ("<dl><dt>run(x)<a class=headerlink href='#r'>&para;</a></dt></dl>", "run(x)"),
        ("<p>A pilcrow ¶ within a text.</p>", "A pilcrow ¶ within a text."),
        ("<p><a href=/c>#</a> and [<a href=/credits>1</a>]</p>", "# and [1]"),
        ("<p>a <button>Buy</button></p>", "a | Buy"),
        ("<dl><dt><button>Term</button> here</dt></dl>", "Term here"),
        ("<div role=heading aria-level=3><button>Term</button> here</div>", "Term here"),
    ],
)
def test_what_is_no_text_is_not_shown_and_all_else_is(source: str, expected: str) -> None:
    assert shown(source)[0] == expected.strip()


@pytest.mark.parametrize(
    "source, expected",
    [
        ("<h2>Use<a class=headerlink href='#u'>¶</a></h2>", "Use"),
        ("<h2>Use <a href='#u'> # </a></h2>", "Use"),
        ("<h2>Use <span>&#182;</span></h2>", "Use"),
        ("<h2>Use <span class='mw-editsection'>[<a href=/e>Bearbeiten</a>]</span></h2>", "Use"),
        ("<h2>Use [<a href='?action=edit'>edit</a> | <a href=/Edit/1>source</a>]</h2>", "Use"),
        ("<h2>Use <i aria-hidden=true>*</i></h2>", "Use"),
        ("<h2 hidden>Use</h2>", ""),
        ("<h2><button aria-expanded=true><span>Use</span></button></h2>", "Use"),
        ("<h3><a role=button href='#c'>Use</a></h3>", "Use"),
        ("<button><h3>Use</h3></button>", "Use"),
        ("<h2>C# and [<a href=/n>note</a>]</h2>", "C# and [note]"),
    ],
)
def test_headings_are_without_signs_and_hidden_words(source: str, expected: str) -> None:
    assert shown(source)[1] == expected


def test_links_of_hidden_menus_are_found() -> None:
    found = KERNEL.analyse(b"<p>text</p><nav hidden><a href=/a>A</a></nav>", links=True)
    assert [link.href for link in found.links] == ["/a"]
