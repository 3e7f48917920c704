"""What each sign is worth that `scored` reads from a page: hundredths of a natural logarithm of odds.

Constants only.  Fitted to pages with known content (`docs/extraction.md`), not written by hand; a change
changes main texts, and with them fingerprints, so it needs another name of the extractor.
"""

from __future__ import annotations

from typing import Final


def _table(text: str) -> dict[str, int]:
    """Signs with their scores: a name, a colon, a number; two blanks or a line end between."""
    entries = (entry.rsplit(":", 1) for line in text.strip().split("\n") for entry in line.split("  "))
    return {name: int(number) for name, number in entries}


_TAGS: Final = _table("""
<aside>:-85  <button>:-68  <dd>:-74  <details>:-19  <dialog>:-55  <fieldset>:-63  <figcaption>:-45  <figure>:-43
<footer>:-247  <form>:-75  <header>:-57  <li>:3  <main>:27  <nav>:-127  <ol>:2  <option>:-39  <pre>:-53  <section>:7
<select>:-39  <table>:26  <td>:4  <tr>:38  <ul>:35
""")
"""Marks of tags."""

_STATES: Final = _table("""
hidden:-29  itemprop=articlebody:18  itemprop=author:-114  itemprop=itemlistelement:-6
itemprop=text:6  role=banner:-43  role=complementary:-71  role=contentinfo:-66
role=listitem:-15  role=main:13  role=menuitem:-59  role=navigation:-60  role=presentation:-99
role=region:-20  role=search:-10  role=tabpanel:32
""")
"""Marks of other attributes."""

_WORDS: Final = _table("""
about:-20  accordion:42  actions:-57  address:52  alert:-9  answer:9  article:23  author:-55  banner:-29  bar:-35
bio:-37  body:12  bottom:-24  breadcrumbs:-24  buy:-130  byline:-5  cards:46  carousel:-86  cart:-11  categories:-58
checkbox:-37  code:-33  collapse:5  collapsed:15  comment:-77  comments:-35  consent:-10  cookie:-8
copy:-29  copyright:-9  country:-17  cta:-13  date:-22  desc:9  description:47  desktop:-31
details:63  dialog:-15  disclaimer:-154  discussion:38  doc:-14  download:-54  drawer:-12  dropdown:-12  email:-61
embed:-14  entry:58  error:-31  events:-18  excerpt:-14  faqs:-90  feature:-4  features:41  feed:11  feedback:-55
filter:-7  filters:-65  fixed:-37  floating:-83  footer:-25  footnote:-51  gallery:12  gdpr:-25  guide:64
header:-18  headline:-3  help:-24  hentry:62  hero:-18  highlight:50  history:-91  image:12  images:53  index:36
info:-19  input:-33  intro:13  item:-18  items:18  job:-9  language:-10  legal:-69  link:7
markdown:158  marketing:-38  markup:2  media:-7  mega:-8  megamenu:-22  menu:-4  metadata:-38  mobile:-22  name:58
newsletter:-15  note:1  notice:-47  page:27  placeholder:-43  popover:-107  popup:-111  post:23
poster:97  posts:-33  price:52  primary:-11  product:-11  products:-12  profile:-27  prose:50  published:-5
question:-87  questions:-114  quote:68  rating:-10  recommended:-18  reference:49  related:-96  replies:-81
reply:-10  report:9  results:17  review:-136  reviews:-69  richtext:47  right:12  rte:9  secondary:46  section:-9
shipping:-91  side:-17  signature:-134  signup:-25  slide:-46  slider:21  social:-58  sort:-17
spec:-14  sr:-76  stars:-37  step:67  steps:34  stock:1  store:-4  submenu:-39  subnav:-122  subscribe:-47
subtitle:-27  summary:22  tab:-30  tabpanel:66  tagline:36  terms:-8  text:14  textwidget:-65
thumbnails:-21  tile:-31  tiles:73  time:89  tip:-110  topic:-3  trending:-38  user:-23  utility:12  video:109
visually:-58  votes:19  watch:-92
""")
"""Marks of the words of classes and ids."""

_SHAPES: Final = _table("""
block 00:-45  block 01:-7  block 02:-30  block 03:-10  block 04:-69  block 10:-44  block 11:-13  block 12:-20
block 13:-30  block 14:-69  block 20:-18  block 21:-18  block 22:-19  block 23:2  block 24:-28  block 30:2
block 31:-13  block 32:-6  block 33:-25  block 34:-15  block 40:26  block 41:-7  block 42:19  block 43:7
block 44:21  block 50:64  block 51:53  block 52:8  block 53:3  block 54:-13  block 60:74  block 61:88  block 62:21
block 64:34  heading 00:-29  heading 10:-52  heading 11:-12  heading 13:-1  heading 14:-9  heading 20:-14
heading 21:-4  heading 22:9  heading 23:5  heading 24:-1  heading 30:4  heading 31:6  heading 32:5  heading 33:11
heading 34:3  heading 40:24  heading 44:27  heading 50:45  left block 00:-3  left block 01:-7  left block 02:-20
left block 03:-9  left block 04:-53  left block 10:-13  left block 11:-10  left block 12:-21  left block 13:-16
left block 14:-40  left block 20:-17  left block 21:-3  left block 23:-7  left block 24:-5  left block 30:-12
left block 31:-15  left block 32:-3  left block 33:2  left block 34:-9  left block 40:7  left block 41:-19
left block 42:10  left block 43:5  left block 44:-8  left block 50:23  left block 51:24  left block 52:2
left block 53:22  left block 54:23  left block 60:27  left block 61:26  left block 64:22  left heading 00:-16
left heading 04:4  left heading 10:-38  left heading 13:-2  left heading 14:6  left heading 20:4  left heading 23:5
left heading 24:-3  left heading 30:38  left heading 33:-20  left heading 34:-17  left heading 40:7
left heading 44:5  taken block 00:-42  taken block 04:-16  taken block 10:-31  taken block 11:-2  taken block 12:1
taken block 14:-29  taken block 20:-1  taken block 21:-15  taken block 22:-19  taken block 24:-23  taken block 30:14
taken block 31:2  taken block 32:-3  taken block 33:-27  taken block 34:-6  taken block 40:20  taken block 41:11
taken block 42:9  taken block 44:29  taken block 50:42  taken block 51:29  taken block 52:6  taken block 60:47
taken block 61:63  taken heading 00:-13  taken heading 04:-4  taken heading 10:-13  taken heading 11:-8
taken heading 14:-14  taken heading 20:-18  taken heading 21:-6  taken heading 22:8  taken heading 24:1
taken heading 30:-35  taken heading 31:2  taken heading 34:20  taken heading 40:17  taken heading 50:27
""")
"""Size and share of links of a block or a heading; alone, and by what `combined` did with it."""

_ALIKE: Final = _table("""
like 0:-47  like 0 left:-32  like 0 links 0:38  like 0 links 1:-14  like 0 links 2:6  like 0 links 3:-10
like 0 links 4:-67  like 0 of amount 1 left:-4  like 0 of amount 1 taken:-54  like 0 of amount 2 left:-16
like 0 of amount 2 taken:17  like 0 of amount 3 left:-11  like 0 of amount 3 taken:-17  like 0 taken:-15  like 1:-26
like 1 left:-26  like 1 links 0:31  like 1 links 1:-5  like 1 links 2:-6  like 1 links 3:-24  like 1 links 4:-21
like 1 of amount 1 left:-19  like 1 of amount 1 taken:-5  like 1 of amount 2 left:-8  like 1 of amount 2 taken:-26
like 1 of amount 3 left:1  like 1 of amount 3 taken:-36  like 1 taken:1  like 2:-15  like 2 left:5
like 2 links 0:12  like 2 links 1:36  like 2 links 2:-17  like 2 links 3:-18  like 2 links 4:-29
like 2 of amount 1 left:6  like 2 of amount 1 taken:-50  like 2 of amount 2 left:21  like 2 of amount 2 taken:60
like 2 of amount 3 left:-23  like 2 of amount 3 taken:14  like 2 taken:-20  like 3:2  like 3 links 0:14
like 3 links 1:24  like 3 links 2:-17  like 3 links 3:-25  like 3 links 4:7  like 3 of amount 1 left:22
like 3 of amount 1 taken:-12  like 3 of amount 2 left:-8  like 3 of amount 2 taken:27  like 3 of amount 3 left:-14
like 3 of amount 3 taken:-13  like 3 taken:2  like 4:18  like 4 left:-3  like 4 links 0:18  like 4 links 1:12
like 4 links 2:-9  like 4 links 3:-16  like 4 links 4:12  like 4 of amount 1 left:38  like 4 of amount 2 left:-38
like 4 of amount 2 taken:-29  like 4 of amount 3 left:-4  like 4 of amount 3 taken:-15  like 4 taken:21  like 5:49
like 5 left:-10  like 5 links 0:-2  like 5 links 1:38  like 5 links 2:15  like 5 links 3:6  like 5 links 4:-7
like 5 of amount 1 left:30  like 5 of amount 2 left:-27  like 5 of amount 2 taken:-26  like 5 of amount 3 left:-13
like 5 of amount 3 taken:-22  like 5 taken:60  like 6:20  like 6 left:-23  like 6 links 0:-19  like 6 links 1:-32
like 6 links 2:15  like 6 links 3:36  like 6 links 4:21  like 6 of amount 1 left:-57  like 6 of amount 2 left:22
like 6 of amount 2 taken:-22  like 6 of amount 3 left:13  like 6 of amount 3 taken:33  like 6 taken:43
""")
"""How many blocks have the same marks and element."""

_NEIGHBOURS: Final = _table("""
+1 block 00:-5  +1 block 01:-30  +1 block 02:-5  +1 block 03:6  +1 block 04:-41  +1 block 10:-19  +1 block 11:-18
+1 block 12:-7  +1 block 13:-8  +1 block 14:-21  +1 block 20:13  +1 block 21:15  +1 block 22:-3  +1 block 23:28
+1 block 24:-12  +1 block 30:21  +1 block 31:1  +1 block 32:7  +1 block 33:-5  +1 block 34:-31  +1 block 40:26
+1 block 41:-2  +1 block 42:32  +1 block 43:8  +1 block 44:-29  +1 block 50:32  +1 block 51:25  +1 block 52:16
+1 block 53:-24  +1 block 54:-15  +1 block 60:36  +1 block 61:30  +1 block 62:-1  +1 block 64:8  +1 heading 00:19
+1 heading 04:18  +1 heading 10:13  +1 heading 11:42  +1 heading 13:-22  +1 heading 14:-7  +1 heading 20:10
+1 heading 21:24  +1 heading 22:-36  +1 heading 23:-6  +1 heading 24:-14  +1 heading 30:-15  +1 heading 31:-65
+1 heading 32:-5  +1 heading 33:21  +1 heading 34:-17  +1 heading 40:-12  +1 heading 44:9  +1 heading 50:9
+1 left by left:15  +1 left by taken:-8  +1 nothing:-15  +1 same element:1  +1 taken by left:7  +1 taken by taken:1
+2 block 00:-6  +2 block 01:-12  +2 block 02:-35  +2 block 03:3  +2 block 04:-2  +2 block 10:-16  +2 block 11:6
+2 block 12:-12  +2 block 13:-39  +2 block 14:-2  +2 block 20:3  +2 block 21:18  +2 block 22:35  +2 block 23:11
+2 block 24:-1  +2 block 30:10  +2 block 31:23  +2 block 32:-8  +2 block 33:-28  +2 block 34:-7  +2 block 40:1
+2 block 41:-10  +2 block 42:17  +2 block 43:-20  +2 block 44:8  +2 block 50:5  +2 block 51:17  +2 block 52:8
+2 block 53:2  +2 block 54:1  +2 block 60:-19  +2 block 61:23  +2 block 62:8  +2 block 64:-21  +2 heading 00:18
+2 heading 04:47  +2 heading 10:1  +2 heading 11:18  +2 heading 13:-20  +2 heading 14:14  +2 heading 20:23
+2 heading 21:7  +2 heading 22:-22  +2 heading 23:-19  +2 heading 24:11  +2 heading 30:4  +2 heading 31:-3
+2 heading 32:-12  +2 heading 33:-30  +2 heading 34:-2  +2 heading 40:4  +2 heading 44:-3  +2 heading 50:-1
+2 left by left:10  +2 left by taken:-1  +2 nothing:-22  +2 same element:28  +2 taken by left:15
+2 taken by taken:-1  -1 block 00:-10  -1 block 01:-9  -1 block 02:-26  -1 block 03:-12  -1 block 04:-14
-1 block 10:-22  -1 block 11:-13  -1 block 12:-2  -1 block 13:37  -1 block 14:-14  -1 block 20:-14  -1 block 21:-20
-1 block 22:6  -1 block 23:-25  -1 block 24:-25  -1 block 30:26  -1 block 31:10  -1 block 32:-9  -1 block 33:1
-1 block 34:-30  -1 block 40:8  -1 block 41:-9  -1 block 42:11  -1 block 43:-16  -1 block 44:-32  -1 block 50:14
-1 block 51:-4  -1 block 52:22  -1 block 53:2  -1 block 54:10  -1 block 60:25  -1 block 61:6  -1 block 64:9
-1 heading 00:44  -1 heading 04:11  -1 heading 10:-16  -1 heading 11:41  -1 heading 13:5  -1 heading 14:-25
-1 heading 20:43  -1 heading 21:17  -1 heading 22:10  -1 heading 23:-12  -1 heading 24:3  -1 heading 30:35
-1 heading 31:5  -1 heading 32:7  -1 heading 33:-12  -1 heading 34:-39  -1 heading 40:34  -1 heading 44:-16
-1 heading 50:-4  -1 left by left:-26  -1 left by taken:32  -1 nothing:-27  -1 same element:8  -1 taken by left:-4
-1 taken by taken:26  -2 block 00:-5  -2 block 01:-30  -2 block 02:-27  -2 block 03:-19  -2 block 04:10
-2 block 10:14  -2 block 11:8  -2 block 12:-4  -2 block 13:-44  -2 block 14:10  -2 block 20:-3  -2 block 21:-4
-2 block 22:2  -2 block 23:23  -2 block 24:-7  -2 block 30:7  -2 block 31:20  -2 block 32:11  -2 block 33:15
-2 block 34:-4  -2 block 40:7  -2 block 41:-16  -2 block 42:12  -2 block 43:-4  -2 block 44:-25  -2 block 50:9
-2 block 51:13  -2 block 52:7  -2 block 54:-21  -2 block 60:-18  -2 block 61:-5  -2 block 64:-21  -2 heading 00:3
-2 heading 04:34  -2 heading 10:1  -2 heading 11:11  -2 heading 13:-20  -2 heading 14:-8  -2 heading 20:18
-2 heading 21:27  -2 heading 22:-13  -2 heading 23:-38  -2 heading 24:14  -2 heading 30:43  -2 heading 31:19
-2 heading 32:-12  -2 heading 33:-9  -2 heading 34:-6  -2 heading 40:36  -2 heading 44:3  -2 heading 50:-3
-2 left by left:10  -2 left by taken:-11  -2 nothing:-8  -2 same element:10  -2 taken by left:4  -2 taken by taken:6
""")
"""The two blocks before and the two behind."""

_OTHERS: Final = _table("""
among taken:43  any:-14  before taken:-36  behind taken:-97  consent:-77  copyright:-156  currency:-24
left of amount 1:16  left of amount 2:-53  left of amount 3:-52  left of share 0:-39  left of share 1:-24
left of share 2:-11  left of share 3:-15  sentence:26  sentence left:3  sentence taken:23  taken of amount 1:83
taken of amount 3:-56  taken of share 0:-18  taken of share 1:-8  taken of share 2:55  taken of share 3:62
""")
"""What the whole page says, and the words of a block; "any" is for every block."""

MARK_SCORES: Final = _TAGS | _STATES | _WORDS
MARKS: Final = tuple(MARK_SCORES)
SCORES: Final = {
    **{f"in {name}": number for name, number in MARK_SCORES.items()},
    **_SHAPES,
    **_ALIKE,
    **_NEIGHBOURS,
    **_OTHERS,
}
"""By sign, in the words of `scored.block_features`."""
