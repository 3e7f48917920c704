"""What of a page is main text: dates, repetitions, code, teasers, frames; the kernel and the definition agree."""

from __future__ import annotations

import pytest

from docstore.dedup.kernel import Kernel
from tests.pages import words
from tests.reference.scored import scored
from tests.reference.tokens import split

KERNEL = Kernel("scored", 5)
SENTENCES = [" ".join(words(seed, 17)).capitalize() + "." for seed in range(60)]
STORY = "".join(f"<p>{sentence}</p>" for sentence in SENTENCES[:10])


def main_text(body: str, title: str = "Walks by the river") -> str:
    source = f"<!doctype html><meta charset=utf-8><title>{title}</title><nav><a href=/>Home</a></nav>{body}"
    text = KERNEL.analyse(source.encode()).main_bytes.decode()
    assert text == scored(split(source))
    return text


@pytest.mark.parametrize(
    "lines",
    [
        "<table><tr><th>Monday</th><td>9:00–17:30</td></tr><tr><th>Friday</th><td>9:00–12:15</td></tr></table>",
        "<ul><li>Mon–Thu 9:00–17:30</li><li>Fri 9:00–12:15</li></ul>",
        "<dl><dt>Monday</dt><dd>9:00–17:30</dd><dt>Friday</dt><dd>9:00–12:15</dd></dl>",
        "<p>Monday 9:00–17:30</p><p>Friday 9:00–12:15</p>",
        "<table><tr><td>17:30 May 3, 2026</td></tr><tr><td>12:15 June 9, 2026</td></tr></table>",
        "<p>10 December 1815, 17:30 – 27 November 1852, 12:15</p>",
        "<dl><dt>Papers</dt><dd>3 May 2026, 17:30</dd><dt>Posters</dt><dd>9 June 2026, 12:15</dd></dl>",
        "<ul><li>3 May 2026, 17:30</li><li>9 June 2026, 12:15</li></ul>",
    ],
)
def test_lines_of_dates_and_times_are_text(lines: str) -> None:
    text = main_text(f"<main><h1>Walks by the river</h1>{STORY}<h2>When</h2>{lines}<p>{SENTENCES[11]}</p></main>")
    assert "17:30" in text and "12:15" in text


@pytest.mark.parametrize("hours", ["9h30–12h15", "14h–18h", "9–18 Uhr", "9am - 5pm"])
def test_hours_in_other_forms_are_text(hours: str) -> None:
    rows = f"<dl><dt>Lundi</dt><dd>8:00</dd><dt>Mardi</dt><dd>{hours}</dd></dl>"
    assert hours in main_text(f"<main><h1>Walks by the river</h1>{STORY}{rows}<p>{SENTENCES[11]}</p></main>")


@pytest.mark.parametrize(
    "stamp",
    [
        "<p><time datetime=2026-05-03>May 3, 2026</time></p>",
        "<p>May 3, 2026</p>",
        "<p>By Jane Miller</p><p>May 3, 2026</p>",
        "<p>Published May 3, 2026</p>",
        "<div class=entry-meta>May 3, 2026</div>",
        "<p>3 days ago</p>",
        "<p>12 comments</p>",
    ],
)
def test_stamps_of_publication_are_left_out(stamp: str) -> None:
    text = main_text(f"<main><h1>Walks by the river</h1>{stamp}{STORY}</main>")
    assert not [sign for sign in ("2026", "ago", "12 comments") if sign in text]
    assert SENTENCES[0] in text


@pytest.mark.parametrize(
    "again",
    [
        f"<p>{SENTENCES[2]}</p>",
        f"<p>{SENTENCES[40]} {SENTENCES[2]} {SENTENCES[41]}</p>",
        f"<blockquote><p>{SENTENCES[2]}</p></blockquote>",
        f"<div>{SENTENCES[2]}</div>",
        f"<ul><li>{SENTENCES[2]}</li></ul>",
    ],
)
def test_a_long_sentence_counts_once(again: str) -> None:
    text = main_text(f"<main><h1>Walks by the river</h1>{STORY}{again}<p>{SENTENCES[50]}</p></main>")
    assert text.count(SENTENCES[2]) == 1
    assert SENTENCES[50] in text


LONG = {
    "hi": ("आज सुबह हम बाज़ार गए और ताज़े सेब ख़रीदे, फिर शाम को बारिश हुई और बच्चे घर पर खेलते रहे।", " "),
    "ar": ("ذهبنا اليوم إلى السوق واشترينا تفاحا طازجا ثم هطل المطر ولعب الأطفال في البيت مع أصدقائهم؟", " "),
    "ur": ("آج صبح ہم بازار گئے اور تازہ سیب خریدے، پھر شام کو بارش ہوئی اور بچے گھر پر کھیلتے رہے۔", " "),
    "ja": ("「今日は天気がとてもよかったので、公園を散歩して、子供たちは鳩にえさをあげていました。」", ""),
    "zh": ("今天的天气很好，我们去公园散步，看到了很多花，孩子们在湖边喂鸽子，老人们在树下下棋。", " "),
}


@pytest.mark.parametrize("long, between", LONG.values(), ids=LONG)
def test_a_long_sentence_of_any_script_counts_once(long: str, between: str) -> None:
    end = long[-2:] if long[-1] == "」" else long[-1]
    one, other = (f"{SENTENCES[number][:-1]}{end}" for number in (40, 41))
    again = f"<p>{long}{between}{one}</p><p>{other}{between}{long}</p>"
    assert main_text(f"<main><h1>Walks by the river</h1>{STORY}{again}<p>{SENTENCES[50]}</p></main>").count(long) == 1


def test_short_lines_code_and_pages_of_repetitions_stay() -> None:
    refrain = "<p>Sing with me.</p>"
    code = f"<pre>print('{SENTENCES[2]}')\nprint('{SENTENCES[2]}')</pre>"
    text = main_text(f"<main><h1>Walks by the river</h1>{refrain}{STORY}{code}{refrain}<p>{SENTENCES[50]}</p></main>")
    assert text.count("Sing with me.") == 2
    assert text.count(f"print('{SENTENCES[2]}')") == 2
    assert main_text(f"<main><h1>Lorem</h1>{STORY * 3}</main>").count(SENTENCES[2]) == 3


@pytest.mark.parametrize(
    "code",
    [
        "<pre>int main(void)\n{\n  return 0;\n}</pre>",
        "<div class=highlight><pre><span></span><span class=kt>int</span> main(void)\n{\n  return 0;\n}\n</pre></div>",
        "<figure><pre><code class=c>int main(void)\n{\n  return 0;\n}</code></pre></figure>",
        "<table><tr><td class=gutter><pre>1\n2\n3\n4</pre><td><pre>int main(void)\n{\n  return 0;\n}</pre></table>",
    ],
)
@pytest.mark.parametrize("end", ["", f"<p>{SENTENCES[50]}</p>"])
def test_preformatted_text_is_text_with_its_lines(code: str, end: str) -> None:
    text = main_text(f"<article><h1>Walks by the river</h1>{STORY}{code}{end}</article><footer>Imprint</footer>")
    assert "int main(void)\n{\nreturn 0;\n}" in text


def test_edit_links_of_a_short_heading_do_not_make_it_a_link() -> None:
    # As German, French and Russian wikis write it.
    links = "[<a href='/w?veaction=edit'>Bearbeiten</a> | <a href='/w?action=edit'>Quelltext bearbeiten</a>]"
    heading = f"<h2>Leben<span class=mw-editsection>{links}</span></h2>"
    assert "\nLeben\n" in main_text(f"<main><h1>Walks by the river</h1>{STORY}{heading}<p>{SENTENCES[50]}</p></main>")


def teaser(number: int, card: str) -> str:
    return card.format(title=" ".join(words(900 + number, 8)), text=SENTENCES[20 + number], number=number)


@pytest.mark.parametrize("story", ["div", "article", "section"])
@pytest.mark.parametrize("count", [4, 9])
@pytest.mark.parametrize(
    "card",
    [
        "<article class=card><h3><a href=/r{number}>{title}</a></h3><p>{text}</p></article>",
        "<div class=item><a href=/r{number}><h4>{title}</h4></a><p>{text}</p></div>",
        "<li><span>News</span><h3><a href='/r{number}'>{title}</a></h3><p>{text}</p></li>",
    ],
)
def test_cards_behind_a_story_are_no_main_text(story: str, count: int, card: str) -> None:
    cards = "".join(teaser(number, card) for number in range(count))
    text = main_text(
        f"<main><{story} class=story><h1>Walks by the river</h1>{STORY}</{story}>"
        f"<section><h2>Read next</h2><div>{cards}</div></section></main>"
    )
    assert SENTENCES[9] in text
    assert SENTENCES[21] not in text and "Read next" not in text


def test_sections_with_links_to_themselves_and_lists_of_cards_are_text() -> None:
    section = "<section><h2><a href='#r{number}'>{title}</a></h2><p>{text}</p></section>"
    sections = "".join(teaser(number, section) for number in range(6))
    assert SENTENCES[21] in main_text(f"<main><article><h1>Walks by the river</h1>{STORY}{sections}</article></main>")
    card = "<article><h2><a href=/r{number}>{title}</a></h2><p>{text}</p></article>"
    cards = "".join(teaser(number, card) for number in range(12))
    assert SENTENCES[31] in main_text(f"<main><h1>Walks by the river</h1>{cards}</main>")


@pytest.mark.parametrize(
    "source, expected",
    [
        ("<frameset cols=*><frame src=/a><noframes><body><p>Walk here.</p></body></noframes></frameset>", "Walk here."),
        ("<FRAMESET><NOFRAMES>Walk <b>here</b>.</NOFRAMES></FRAMESET>", "Walk here."),
        ("<p>Walk here.</p><noframes><p>Or there.</p></noframes>", "Walk here."),
    ],
)
def test_noframes_is_text_of_a_frameset(source: str, expected: str) -> None:
    assert main_text(source).removeprefix("Home\n") == expected
