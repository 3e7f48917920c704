"""What each sign is worth that `scored` reads from a page: hundredths of a natural logarithm of odds.

Constants only.  Fitted to pages with known content by `tools.fit_scorecard`, not written by hand; a change
changes main texts, and with them fingerprints, so it needs another name of the extractor.
"""

from __future__ import annotations

from typing import Final


def _table(text: str) -> dict[str, int]:
    """Signs with their scores: a name, a colon, a number; two blanks or a line end between."""
    entries = (entry.rsplit(":", 1) for line in text.split("\n") for entry in line.split("  ") if entry)
    return {name: int(number) for name, number in entries}


_TAGS: Final = _table("""
<aside>:-149  <button>:-120  <dd>:-105  <details>:-68  <dialog>:-19  <fieldset>:-96  <figcaption>:-58  <figure>:-51
<footer>:-313  <form>:-80  <header>:-86  <li>:-8  <main>:26  <nav>:-209  <ol>:-8  <option>:-88  <pre>:48
<section>:17  <select>:-88  <table>:38  <td>:12  <tr>:51  <ul>:64
""")
"""Marks of tags."""

_STATES: Final = _table("""
hidden:-36  itemprop=articlebody:22  itemprop=author:-118  itemprop=itemlistelement:-8  itemprop=text:15
role=banner:-38  role=complementary:-67  role=contentinfo:-100  role=listitem:9  role=main:17  role=menuitem:-31
role=navigation:-53  role=presentation:-57  role=region:-12  role=search:-8  role=tabpanel:18
""")
"""Marks of other attributes."""

_WORDS: Final = _table("""
about:-27  accordion:20  actions:-61  address:47  alert:10  answer:-21  article:3  author:-50  banner:-6  bar:-60
bio:-27  body:-3  bottom:-32  breadcrumbs:-12  buy:-179  byline:0  cards:7  carousel:-54  cart:-9  categories:-65
checkbox:-52  code:0  collapse:18  collapsed:5  comment:-109  comments:-26  consent:0  cookie:-28  copy:-39
copyright:-12  country:-6  cta:-8  date:-37  desc:76  description:47  desktop:-29  details:107  dialog:-53
disclaimer:-131  discussion:41  doc:-5  download:-46  drawer:-13  dropdown:-35  email:-40  embed:-20  entry:67
error:-29  events:-5  excerpt:-9  faqs:-92  feature:42  features:-9  feed:2  feedback:-84  filter:-45  filters:-111
fixed:-41  floating:-96  footer:-39  footnote:-94  gallery:-34  gdpr:-3  guide:39  header:-44  headline:26  help:-33
hentry:76  hero:-17  highlight:48  history:-60  image:-4  images:-6  index:61  info:-5  input:-52  intro:-8  item:-4
items:27  job:8  language:-50  legal:-76  link:15  markdown:152  marketing:0  markup:11  media:-14  mega:-30
megamenu:-25  menu:0  metadata:-27  mobile:9  name:117  newsletter:-17  note:-2  notice:-40  page:31
placeholder:-42  popover:-105  popup:-89  post:23  poster:95  posts:-48  price:71  primary:-44  product:-44
products:-5  profile:-39  prose:72  published:-11  question:-138  questions:-188  quote:146  rating:0
recommended:-17  reference:50  related:-89  replies:-73  reply:0  report:5  results:53  review:-183  reviews:-122
richtext:51  right:3  rte:2  secondary:57  section:-1  shipping:-66  side:-56  signature:-154  signup:-9  slide:-65
slider:46  social:-50  sort:-20  spec:-21  sr:-66  stars:-14  step:55  steps:37  stock:34  store:-17  submenu:-33
subnav:-147  subscribe:-47  subtitle:-12  summary:36  tab:-21  tabpanel:65  tagline:14  terms:-33  text:10
textwidget:-46  thumbnails:-8  tile:-19  tiles:67  time:81  tip:-86  topic:15  trending:-11  user:-66  utility:27
video:86  visually:-35  votes:43  watch:-65
""")
"""Marks of the words of classes and ids."""

_SHAPES: Final = _table("""
block 00:-46  block 01:-6  block 02:-30  block 03:-10  block 04:-89  block 10:-41  block 11:-9  block 12:-23
block 13:-42  block 14:-79  block 20:-19  block 21:-26  block 22:-39  block 23:-8  block 24:-42  block 30:4
block 31:-18  block 32:-4  block 34:-12  block 40:40  block 41:-14  block 42:19  block 44:7  block 50:72
block 51:71  block 52:4  block 53:3  block 54:-26  block 60:72  block 61:90  block 62:2  block 63:-8  block 64:15
heading 00:-28  heading 04:10  heading 10:-42  heading 11:-8  heading 12:-1  heading 13:2  heading 14:13
heading 20:4  heading 21:-4  heading 22:4  heading 23:2  heading 24:7  heading 30:22  heading 31:4  heading 32:4
heading 33:18  heading 34:14  heading 40:35  heading 41:-4  heading 42:-3  heading 44:25  heading 50:52
left block 00:-29  left block 01:-7  left block 02:-22  left block 03:-8  left block 04:-75  left block 10:-26
left block 11:-8  left block 12:-23  left block 13:-28  left block 14:-54  left block 20:-23  left block 21:-10
left block 22:-12  left block 23:-5  left block 24:-19  left block 30:-21  left block 31:-22  left block 32:-1
left block 33:20  left block 34:-8  left block 40:24  left block 41:-21  left block 42:7  left block 43:-1
left block 44:1  left block 50:39  left block 51:45  left block 52:2  left block 53:15  left block 54:4
left block 60:64  left block 61:23  left block 63:-8  left block 64:4  left heading 00:-14  left heading 04:7
left heading 10:-34  left heading 11:-2  left heading 12:1  left heading 13:2  left heading 14:16
left heading 20:11  left heading 23:4  left heading 24:-8  left heading 30:53  left heading 32:4
left heading 33:-14  left heading 34:-32  left heading 40:22  left heading 44:8  taken block 00:-17
taken block 02:-7  taken block 04:-14  taken block 10:-14  taken block 11:-1  taken block 13:-14  taken block 14:-25
taken block 20:4  taken block 21:-16  taken block 22:-26  taken block 23:-2  taken block 24:-23  taken block 30:25
taken block 31:4  taken block 32:-4  taken block 33:-19  taken block 34:-4  taken block 40:16  taken block 41:6
taken block 42:12  taken block 43:2  taken block 44:7  taken block 50:33  taken block 51:27  taken block 52:3
taken block 54:-30  taken block 60:8  taken block 61:67  taken block 62:3  taken heading 00:-15  taken heading 04:3
taken heading 10:-8  taken heading 11:-6  taken heading 12:-2  taken heading 14:-3  taken heading 20:-7
taken heading 21:-3  taken heading 22:4  taken heading 24:15  taken heading 30:-31  taken heading 31:2
taken heading 34:46  taken heading 40:13  taken heading 42:-1  taken heading 44:17  taken heading 50:30
""")
"""Size and share of links of a block or a heading; alone, and by what `combined` did with it."""

_ALIKE: Final = _table("""
like 0:-52  like 0 left:-66  like 0 links 0:44  like 0 links 1:-9  like 0 links 2:-14  like 0 links 3:-8
like 0 links 4:-65  like 0 of amount 1 left:-31  like 0 of amount 1 taken:-38  like 0 of amount 2 left:-34
like 0 of amount 2 taken:-13  like 0 of amount 3 left:-1  like 0 of amount 3 taken:-56  like 0 taken:14  like 1:-50
like 1 left:-42  like 1 links 0:41  like 1 links 1:4  like 1 links 2:-14  like 1 links 3:-30  like 1 links 4:-51
like 1 of amount 1 left:-6  like 1 of amount 1 taken:-5  like 1 of amount 2 left:-32  like 1 of amount 2 taken:1
like 1 of amount 3 left:-3  like 1 of amount 3 taken:-20  like 1 taken:-9  like 2:-29  like 2 left:-24
like 2 links 0:10  like 2 links 1:17  like 2 links 2:-28  like 2 links 3:1  like 2 links 4:-30
like 2 of amount 1 left:-78  like 2 of amount 1 taken:-51  like 2 of amount 2 left:62  like 2 of amount 2 taken:63
like 2 of amount 3 left:-8  like 2 of amount 3 taken:20  like 2 taken:-5  like 3:10  like 3 left:3
like 3 links 0:21  like 3 links 1:18  like 3 links 2:-13  like 3 links 3:-37  like 3 links 4:21
like 3 of amount 1 left:65  like 3 of amount 1 taken:22  like 3 of amount 2 left:-13  like 3 of amount 2 taken:-3
like 3 of amount 3 left:-50  like 3 of amount 3 taken:-11  like 3 taken:7  like 4:23  like 4 left:27
like 4 links 0:29  like 4 links 1:31  like 4 links 2:-11  like 4 links 3:-28  like 4 links 4:2
like 4 of amount 1 left:57  like 4 of amount 1 taken:37  like 4 of amount 2 left:-50  like 4 of amount 2 taken:-27
like 4 of amount 3 left:20  like 4 of amount 3 taken:-14  like 4 taken:-4  like 5:62  like 5 left:12
like 5 links 0:22  like 5 links 1:34  like 5 links 2:23  like 5 links 3:16  like 5 links 4:-33
like 5 of amount 1 left:79  like 5 of amount 1 taken:82  like 5 of amount 2 left:-17  like 5 of amount 2 taken:-4
like 5 of amount 3 left:-50  like 5 of amount 3 taken:-28  like 5 taken:50  like 6:37  like 6 left:-22
like 6 links 0:-6  like 6 links 1:-23  like 6 links 2:-5  like 6 links 3:44  like 6 links 4:28
like 6 of amount 1 left:-61  like 6 of amount 2 left:22  like 6 of amount 2 taken:-16  like 6 of amount 3 left:17
like 6 of amount 3 taken:34  like 6 taken:59
""")
"""How many blocks have the same marks and element."""

_NEIGHBOURS: Final = _table("""
+1 block 00:-1  +1 block 01:-21  +1 block 02:-10  +1 block 03:5  +1 block 04:-61  +1 block 10:-21  +1 block 11:-12
+1 block 12:-12  +1 block 13:-16  +1 block 14:-27  +1 block 20:18  +1 block 21:-3  +1 block 22:1  +1 block 23:8
+1 block 24:-7  +1 block 30:33  +1 block 31:16  +1 block 32:14  +1 block 33:-2  +1 block 34:-42  +1 block 40:35
+1 block 41:-19  +1 block 42:28  +1 block 43:9  +1 block 44:-25  +1 block 50:32  +1 block 51:35  +1 block 52:11
+1 block 53:-13  +1 block 54:-17  +1 block 60:18  +1 block 61:-2  +1 block 63:-8  +1 block 64:7  +1 heading 00:24
+1 heading 01:14  +1 heading 04:22  +1 heading 10:1  +1 heading 11:35  +1 heading 12:4  +1 heading 13:-19
+1 heading 14:-1  +1 heading 20:21  +1 heading 21:15  +1 heading 22:-23  +1 heading 23:3  +1 heading 24:-26
+1 heading 30:12  +1 heading 31:-45  +1 heading 32:-5  +1 heading 33:17  +1 heading 34:-44  +1 heading 40:5
+1 heading 41:9  +1 heading 42:-3  +1 heading 44:-4  +1 heading 50:9  +1 left by left:12  +1 left by taken:-15
+1 nothing:25  +1 same element:1  +1 taken by left:-3  +1 taken by taken:-19  +2 block 00:-4  +2 block 01:-9
+2 block 02:-45  +2 block 03:7  +2 block 04:1  +2 block 10:-27  +2 block 12:-18  +2 block 13:-56  +2 block 14:12
+2 block 20:9  +2 block 21:-2  +2 block 22:50  +2 block 23:1  +2 block 24:7  +2 block 30:12  +2 block 31:7
+2 block 32:-6  +2 block 33:-15  +2 block 34:-5  +2 block 40:-8  +2 block 41:-41  +2 block 42:24  +2 block 43:-15
+2 block 44:3  +2 block 50:-11  +2 block 51:16  +2 block 52:10  +2 block 54:16  +2 block 60:-31  +2 block 61:13
+2 block 62:5  +2 block 63:-1  +2 block 64:-22  +2 heading 00:35  +2 heading 01:6  +2 heading 03:2  +2 heading 04:45
+2 heading 10:3  +2 heading 11:13  +2 heading 12:-3  +2 heading 13:-18  +2 heading 14:9  +2 heading 20:27
+2 heading 21:4  +2 heading 22:-4  +2 heading 23:-14  +2 heading 24:52  +2 heading 30:3  +2 heading 31:-3
+2 heading 32:-10  +2 heading 33:-26  +2 heading 34:3  +2 heading 40:15  +2 heading 42:-1  +2 heading 44:-7
+2 heading 50:3  +2 left by left:-1  +2 left by taken:3  +2 nothing:-21  +2 same element:23  +2 taken by left:16
+2 taken by taken:4  -1 block 00:-16  -1 block 01:-6  -1 block 02:-32  -1 block 03:-14  -1 block 04:-32
-1 block 10:-38  -1 block 11:-7  -1 block 12:-4  -1 block 13:7  -1 block 14:-21  -1 block 20:-21  -1 block 21:-5
-1 block 22:19  -1 block 23:-35  -1 block 24:-50  -1 block 30:14  -1 block 31:7  -1 block 32:-9  -1 block 33:10
-1 block 34:-61  -1 block 40:9  -1 block 41:-25  -1 block 42:6  -1 block 43:-16  -1 block 44:-29  -1 block 50:13
-1 block 51:-15  -1 block 52:19  -1 block 53:1  -1 block 54:5  -1 block 60:27  -1 block 61:-7  -1 block 64:11
-1 heading 00:50  -1 heading 01:-12  -1 heading 03:2  -1 heading 04:13  -1 heading 10:-24  -1 heading 11:35
-1 heading 12:9  -1 heading 13:9  -1 heading 14:5  -1 heading 20:51  -1 heading 21:12  -1 heading 22:13
-1 heading 23:-1  -1 heading 24:28  -1 heading 30:47  -1 heading 31:3  -1 heading 32:11  -1 heading 33:-14
-1 heading 34:-12  -1 heading 40:25  -1 heading 41:-6  -1 heading 42:-1  -1 heading 44:-10  -1 heading 50:1
-1 left by left:-55  -1 left by taken:11  -1 nothing:24  -1 same element:2  -1 taken by left:6  -1 taken by taken:16
-2 block 00:8  -2 block 01:-19  -2 block 02:-36  -2 block 03:-19  -2 block 04:25  -2 block 10:9  -2 block 11:9
-2 block 12:-18  -2 block 13:-39  -2 block 14:13  -2 block 20:-8  -2 block 21:-4  -2 block 22:1  -2 block 23:38
-2 block 24:-7  -2 block 30:-10  -2 block 31:30  -2 block 32:14  -2 block 33:11  -2 block 34:-11  -2 block 40:-5
-2 block 41:-53  -2 block 42:9  -2 block 43:-12  -2 block 44:-25  -2 block 50:8  -2 block 51:10  -2 block 52:9
-2 block 53:1  -2 block 54:-29  -2 block 60:-21  -2 block 61:2  -2 block 62:2  -2 block 64:2  -2 heading 00:12
-2 heading 01:-2  -2 heading 04:21  -2 heading 10:-18  -2 heading 11:9  -2 heading 12:-2  -2 heading 13:-9
-2 heading 14:23  -2 heading 20:9  -2 heading 21:16  -2 heading 22:-7  -2 heading 23:-19  -2 heading 24:17
-2 heading 30:7  -2 heading 31:10  -2 heading 32:-11  -2 heading 33:-5  -2 heading 34:-13  -2 heading 40:36
-2 heading 41:-2  -2 heading 42:-4  -2 heading 44:-4  -2 heading 50:6  -2 left by left:-2  -2 left by taken:-29
-2 nothing:42  -2 same element:11  -2 taken by left:-16  -2 taken by taken:6
""")
"""The two blocks before and the two behind."""

_OTHERS: Final = _table("""
among taken:61  any:36  before any heading:-33  before taken:-32  behind a heading:33  behind taken:-141
consent:-72  copyright:-138  currency:-28  fifth 0:3  fifth 0 left:-40  fifth 0 taken:43  fifth 1:12
fifth 1 left:-26  fifth 1 taken:38  fifth 2:24  fifth 2 taken:24  fifth 3 left:-15  fifth 3 taken:16  fifth 4:-39
fifth 4 left:-30  fifth 4 taken:-8  is repeated:-2  left of amount 1:25  left of amount 2:-62  left of amount 3:-75
left of share 0:-16  left of share 1:-27  left of share 2:-37  left of share 3:-32  repeats:-253  sentence:49
sentence left:18  sentence taken:31  taken of amount 1:88  taken of amount 2:1  taken of amount 3:-76
taken of share 0:14  taken of share 1:-13  taken of share 2:51  taken of share 3:61  title block:-6
title heading:-74
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
