"""Pages that show the same shell in place of what their titles name: none is a duplicate of another by that.

Small pages made like real ones; each kind is written as five pages of one site that differ in title, headline
and link.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import docstore
from docstore.model.choices import VerdictKind
from docstore.sweep.job import SweepOptions, sweep

NAMES = (
    "Storm floods harbour of Esbjerg",
    "Parliament votes on nurses' wages",
    "Copper price falls below forecast",
    "Chess master retires undefeated",
    "New telescope sees distant quasar",
)
FALSE = (VerdictKind.SAME_TEXT, VerdictKind.NEAR, VerdictKind.CONTAINED, VerdictKind.SIMILAR)

LOGIN = """<div id="content"><form action="/login" method="post"><h2>Sign in to continue</h2><p>You need an
account to see
this page. Members can read all articles, follow topics, take part in discussions and get a letter every morning.</p>
<label>User</label><input name="u"><label>Password</label><input type="password" name="p"><button>Sign
in</button></form>
<p>Forgot your password? We will send you a link that lets you choose another one, and it stays valid for a day.
If you
have no account yet, create one: it takes a minute, and you can leave whenever you want, for any reason.</p></div>"""
CONSENT_DE = """<div class="cmpwrapper"><h2>Ihre Auswahl</h2><p>Wir und unsere 214 Partner speichern
Informationen auf Ihrem
Gerät oder greifen darauf zu, zum Beispiel eindeutige Kennungen in Cookies, um personenbezogene Daten zu verarbeiten.
Sie können Ihre Auswahl annehmen oder verwalten, auch Ihr Recht auf Widerspruch bei berechtigtem Interesse, indem Sie
unten klicken, oder jederzeit auf der Seite mit der Datenschutzerklärung. Diese Auswahl wird unseren Partnern
mitgeteilt
und hat keinen Einfluss auf die Daten beim Surfen. Genaue Standortdaten verwenden, Eigenschaften von Geräten aktiv zur
Identifikation abfragen, personalisierte Werbung und Inhalte, Messung von Werbung, Erkenntnisse über
Zielgruppen.</p></div>"""
CONSENT_FI = """<main><h2>Arvostamme yksityisyyttäsi</h2><p>Me ja kumppanimme tallennamme laitteelle tietoja ja
käytämme
niitä sekä käsittelemme henkilötietoja, kuten yksilöllisiä tunnisteita ja laitteen lähettämiä vakiotietoja,
jotta voimme
näyttää kohdennettuja mainoksia ja sisältöä, mitata niitä, tutkia yleisöä ja kehittää palveluita. Luvallasi
voimme käyttää
tarkkoja sijaintitietoja ja tunnistaa laitteen skannaamalla. Voit antaa suostumuksesi tai kieltäytyä siitä
napsauttamalla.
Huomaa, että osa käsittelystä ei edellytä suostumustasi, mutta sinulla on oikeus vastustaa sitä milloin
tahansa.</p></main>"""
CONSENT_JA = """<main><h2>プライバシーの設定</h2><p>
当社と提携先は、お使いの端末に情報を保存し、また情報に接続して、個人情報を
処理します。これには広告や内容の配信、効果の測定、利用者の調査、サービスの改善が含まれます。同意を与えるか、拒否するか、
詳しい設定を変更するかを選ぶことができます。同意はいつでも取り消すことができます。</p></main>"""
PAYWALL = """<article><p>This article is for subscribers. Choose the offer that suits you best: four weeks for
one euro, then
twelve euros a month, and you can cancel at any time. As a subscriber you read everything on all your devices, get the
paper of tomorrow on the evening before, solve the puzzles, listen to our podcasts without breaks, and can give five
articles a month to friends. Already a subscriber? Then sign in with your customer number. Students pay
half.</p></article>"""
APPLICATION = """<div id="root"></div><noscript><p>You need to enable JavaScript to run this app. Our
application uses scripts
to show what you asked for. Most browsers let you turn them on in their settings, under privacy or site
permissions. When
you have done so, load this page again. If you use an extension that blocks scripts, allow them for this site
only. Older
browsers are not supported: use a recent version of Firefox, Chrome, Safari or Edge, on a desktop or on a
phone.</p></noscript>"""
NO_RESULTS = """<main><p>Your search did not match any documents. Make sure that all words are spelled
correctly, try other
words, try words that are more general, or fewer words. You can also browse our topics from A to Z, ask our librarians
on weekdays from nine to five, or search the catalogues of all libraries of the region. New: search inside of the full
text of journals, with filters for year, language and kind of document, and save what you found in lists of your
own.</p>
</main>"""
SOFT_404 = """<main><p>We cannot find the page that you asked for. It may have been moved, renamed or taken
away, or the link
that brought you here may be old. Try the search above, go back to the start page, or look at what others read
most. If
you think that this is a mistake of ours, tell us: our editors read every message, and most are answered in two days.
Reports of the last seven years are in the archive, and older ones can be ordered from the reading room by
mail.</p></main>"""
SHELLS = {
    "login": LOGIN,
    "german consent": CONSENT_DE,
    "finnish consent": CONSENT_FI,
    "japanese consent": CONSENT_JA,
    "paywall": PAYWALL,
    "application": APPLICATION,
    "no results": NO_RESULTS,
    "soft 404": SOFT_404,
}


def shell(name: str, number: int, shown: str) -> docstore.Page:
    link = name.lower().replace(" ", "-")
    head = (
        f'<head><title>{name} - Daily Herald</title><link rel="canonical" href="https://herald.example/{link}"></head>'
    )
    menu = '<nav><a href="/">Home</a> <a href="/news">News</a> <a href="/sport">Sport</a></nav>'
    footer = "<footer><p>Daily Herald, all rights reserved. Contact, imprint, privacy.</p></footer>"
    body = f"<!doctype html><html>{head}<body>{menu}{shown}{footer}</body></html>"
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    return docstore.Page(f"https://herald.example/{number}", body.encode(), headers=headers)


def calendar(number: int) -> docstore.Page:
    """A month without events: another one is as good as the same, but for its name."""
    months = ("January", "February", "March", "April", "May")
    days = "".join(f"<tr>{''.join(f'<td>{week * 7 + day + 1}</td>' for day in range(7))}</tr>" for week in range(4))
    text = " ".join(
        f"Room {room} is free all day, book it at the desk." for room in ("one", "two", "three", "four", "five")
    )
    return shell(f"{months[number]} 2026", number, f"<main><table>{days}</table><p>{text} {text}</p></main>")


def verdicts(tmp_path: Path, pages: list[docstore.Page]) -> tuple[list[VerdictKind], int]:
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        found = [result.verdict.kind for result in store.put_pages(pages)]
        return found, sweep(store, SweepOptions(threads=1, dry_run=True)).pairs


@pytest.mark.parametrize("kind", SHELLS)
def test_pages_that_show_one_shell_are_no_duplicates(kind: str, tmp_path: Path) -> None:
    pages = [shell(name, number, SHELLS[kind]) for number, name in enumerate(NAMES)]
    found, pairs = verdicts(tmp_path, pages)
    assert not any(verdict in FALSE for verdict in found)
    assert pairs == 0


def test_empty_months_of_a_calendar_are_no_duplicates(tmp_path: Path) -> None:
    found, pairs = verdicts(tmp_path, [calendar(number) for number in range(5)])
    assert not any(verdict in FALSE for verdict in found)
    assert pairs == 0


@pytest.mark.parametrize("kind", SHELLS)
def test_a_copy_of_a_shell_is_found(kind: str, tmp_path: Path) -> None:
    """The rule asks for no more than titles that do not contradict: the same shell under one title is the same page."""
    pages = [shell(NAMES[0], number, SHELLS[kind] + f"<!-- {number} -->") for number in range(2)]
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        second = list(store.put_pages(pages))[1].verdict
    assert second.kind is VerdictKind.SAME_TEXT or second.reason == "short_text"
