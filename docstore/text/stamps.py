"""Whether a short text is a stamp: a date, a time or a count that stands beside content and changes without it.

Knows nothing of pages.  Must not know blocks, nor what is made of the answer.  The lists are closed, so that another
implementation holds them bit for bit; a change changes main texts, and with them fingerprints.

A text is cut into runs of ASCII digits and runs of letters: ASCII letters and every character from U+00C0 on but the
general punctuation (U+2000 to U+206F).  It is a *stamp* where it has a digit and a sign, and at least half of these
characters stand in digits, in words that are signs, or in words that stand beside these.  A sign is

- one of `SIGN_WORDS`: a month, a word such as "ago", a word of what is counted, such as "replies" (small and capital
  ASCII letters are the same);
- a time of day: one or two digits, a colon and two digits;
- a date of numbers: three runs of digits with "/" between, or with "-" or "." where the first or last has four.

So "Brian, October 1, 2025, 12:57pm", "3 days ago" and "12 replies" are stamps; "10 hours", "1.2.3", "$ 12.90", "(12)"
and "Battery lasts for 12 hours from May 3" are none: they may be what tells two pages apart.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_SIGN_WORDS = """
jan january feb february mar march apr april may jun june jul july aug august sep sept september oct october nov
november dec december januar februar märz mai juni juli oktober dezember janv janvier févr février mars avr avril
juin juil juillet août septembre octobre novembre déc décembre enero febrero marzo abril mayo junio julio agosto
septiembre octubre noviembre diciembre gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre
janeiro fevereiro março maio junho julho setembro outubro novembro dezembro januari februari maart mei augustus
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia января февраля
марта апреля мая июня июля августа сентября октября ноября декабря ago vor hace fa atrás geleden temu назад
前 天前 日前 小时前 時間前 分钟前 分前 个月前 年前 年 月 日
view views review reviews rating ratings reply replies comment comments like likes vote votes post posts answer
answers share shares follower followers kommentar kommentare antwort antworten aufrufe bewertung bewertungen
commentaire commentaires réponse réponses avis vues comentario comentarios respuesta respuestas vistas commenti
risposte recensioni comentários respostas reacties
"""
SIGN_WORDS: Final = frozenset(_SIGN_WORDS.split())
_BESIDE_WORDS = """
s sec secs second seconds m min mins minute minutes h hr hrs hour hours d day days w wk week weeks mo month months y yr
yrs year years am pm st nd rd th mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday
saturday sunday utc gmt est edt pst pdt cet cest at on by posted updated published edited last joined read
uhr um am sekunden minuten stunde stunden tag tagen woche wochen monat monaten jahr jahren heure heures jour
jours semaine semaines mois ans de hora horas día días dia dias semana semanas mes meses año años ora ore giorno giorni
"""
BESIDE_WORDS: Final = frozenset(_BESIDE_WORDS.split())
YEAR_DIGITS: Final = 4

_RUN: Final = re.compile("([0-9]+)|[A-Za-z\u00c0-\u1fff\u2070-\U0010ffff]+")


def is_stamp(text: str) -> bool:
    """Whether a text, white space folded, is a stamp by the rule at the head of this file."""
    runs = list(_RUN.finditer(text))
    known = total = 0
    has_digit = has_sign = False
    for run in runs:
        size = run.end() - run.start()
        total += size
        if run[1]:
            has_digit = True
            known += size
            continue
        word = run[0].translate(_LOWER)
        has_sign = has_sign or word in SIGN_WORDS
        known += size * (word in SIGN_WORDS or word in BESIDE_WORDS)
    if not has_digit or known * 2 < total:
        return False
    return has_sign or _has_time(text, runs)


_LOWER: Final = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def _has_time(text: str, runs: list[re.Match[str]]) -> bool:
    """Whether it has a time of day, or a date of numbers."""
    before: tuple[str, int] = ("", 0)
    for one, other in pairwise(runs):
        if not (one[1] and other[1]):
            before = ("", 0)
            continue
        between = text[one.end() : other.start()]
        first, last = one.end() - one.start(), other.end() - other.start()
        if between == ":" and first <= 2 and last == 2:
            return True
        if between == before[0] and (between == "/" or (between in "-." and YEAR_DIGITS in (before[1], last))):
            return True
        before = (between, first)
    return False
