"""Hand-made pages of kinds that the sets with known content hold few of: what is content is kept, what is not goes."""

import pytest

from tests.pages import words
from tests.reference.page import visible
from tests.reference.scored import scored
from tests.reference.tokens import split

PROSE = [" ".join(words(seed, 30)).capitalize() + "." for seed in range(8)]
PARAGRAPHS = "".join(f"<p>{each}</p>" for each in PROSE)
HEBREW = "הפנס דולק שתים עשרה שעות במילוי אחד ושוקל פחות מחצי קילו, ולכן הוא טוב להליכות ארוכות ביער ובהרים. "
CHINESE = "这款风暴灯一次加满可燃烧十二小时，重量不到半公斤，适合长途徒步。玻璃很厚，提手可以折叠。"

AMP = f"""
<html amp><body><amp-consent layout=nodisplay><div>We use cookies to improve your visit. Accept or reject them.</div>
</amp-consent><amp-sidebar id=s><nav><a href=/n>News</a> <a href=/s>Sport</a></nav></amp-sidebar><article>
<h1>Storm lanterns</h1>{PARAGRAPHS}<amp-ad type=x><div fallback>Buy shoes now and save</div></amp-ad>
<amp-accordion><section><h2>Price</h2><p>It costs forty euros in most shops that we asked.</p></section></amp-accordion>
</article><amp-embed type=taboola><a href=/x>You will not believe this</a></amp-embed></body></html>
"""
LAYOUT_TABLE = f"""
<body bgcolor=white><table width=780><tr><td colspan=2><font size=1><a href=/>Home</a> | <a href=/g>Guestbook</a></font>
</td></tr><tr><td width=120><font size=2><a href=a>Oil lamps</a><br><a href=b>Gas lamps</a></font></td><td><font size=5>
Storm lanterns</font><br><font face=Arial>{"<br><br>".join(PROSE)}</font></td></tr></table>
<center><font size=1>&copy; 2003 Joe. All rights reserved.</font></center>
"""
HEBREW_SHOP = f"""
<html dir=rtl lang=he><body><nav><a href=/>בית</a><a href=/c>עגלה</a></nav><main><h1>פנס סערה</h1><div class=price>₪ 149
</div><div class=description><p>{HEBREW * 3}</p><p>{HEBREW * 4}</p></div></main><div class=related><ul><li>
<a href=/1>נרות</a></ul></div><footer>כל הזכויות שמורות</footer>
"""
CHINESE_SHOP = f"""
<html lang=zh><body><div class=nav><a href=/>首页</a><a href=/c>购物车</a></div><div class=product><h1>风暴灯</h1>
<div class=detail><p>{CHINESE * 2}</p><p>{CHINESE * 3}</p></div></div>
<div class=footer>版权所有 © 2025 商城</div></body>
"""
SHELL = f"<body><div id=root></div><noscript><h1>Storm lanterns</h1>{PARAGRAPHS}</noscript>"
PRINTED = f"""
<body onload="print()"><a href="javascript:close()">Close window</a><h1>Storm lanterns</h1>{PARAGRAPHS}<hr>
"""
FEED = (
    '<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>http://feed.example/</link>'
    + "".join(f"<item><title>{n}</title><description>{each}</description></item>" for n, each in enumerate(PROSE))
    + "</channel></rss>"
)
PLAIN = "LANTERN(1)\n\n" + "\n\n".join(PROSE) + "\n\nif a < b && c > d, see the manual\n"


@pytest.mark.parametrize(
    ("page", "wanted", "unwanted"),
    [
        (AMP, [*PROSE, "forty euros"], ["cookies", "Sport", "shoes", "believe"]),
        (LAYOUT_TABLE, PROSE, ["Guestbook", "rights reserved"]),
        (HEBREW_SHOP, [HEBREW.strip()], ["עגלה", "הזכויות", "נרות"]),
        (CHINESE_SHOP, [CHINESE], ["购物车", "版权"]),
        (SHELL, PROSE, []),
        (PRINTED, PROSE, ["Close"]),
        (FEED, PROSE, []),
        (PLAIN, PROSE, []),
    ],
    ids=["amp", "layout table", "hebrew shop", "chinese shop", "shell", "printed", "feed", "plain text"],
)
def test_content_is_kept_and_the_rest_goes(page: str, wanted: list[str], unwanted: list[str]) -> None:
    markup = split(page)
    text = " ".join(scored(markup).split())
    assert [each for each in wanted if each not in text] == []
    assert [each for each in unwanted if each in text] == []
    assert all(each in visible(markup) for each in unwanted), "the page lacks it"


def test_a_page_of_one_huge_line_has_its_text() -> None:
    page = "<body>" + "".join(f"<span>{PROSE[number % 8]} {number}</span> " for number in range(5_000))
    assert len(scored(split(page)).split()) == len(visible(split(page)).split())
