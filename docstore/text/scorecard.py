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
<aside>:-134  <button>:-71  <dd>:-94  <details>:-31  <dialog>:-22  <fieldset>:-71  <figcaption>:-49  <figure>:-41
<footer>:-261  <form>:-72  <header>:-59  <li>:1  <main>:17  <nav>:-122  <ol>:16  <option>:-54  <pre>:-55
<section>:4  <select>:-54  <table>:27  <td>:2  <tr>:43  <ul>:45
""")
"""Marks of tags."""

_STATES: Final = _table("""
hidden:-23  itemprop=articlebody:21  itemprop=author:-128  itemprop=itemlistelement:-7  itemprop=text:-5
role=banner:-50  role=complementary:-80  role=contentinfo:-45  role=listitem:-2  role=main:14  role=menuitem:-47
role=navigation:-67  role=presentation:-118  role=region:-23  role=search:-10  role=tabpanel:31
""")
"""Marks of other attributes."""

_WORDS: Final = _table("""
about:-51  accordion:33  actions:-63  address:61  alert:-25  answer:26  article:23  author:-59  banner:-34  bar:-31
bio:-56  body:9  bottom:-18  breadcrumbs:-6  buy:-148  byline:0  cards:25  carousel:-85  cart:0  categories:-67
checkbox:-41  code:-7  collapse:16  collapsed:38  comment:-98  comments:-31  consent:0  cookie:-23  copy:-29
copyright:-13  country:-16  cta:-5  date:-15  desc:13  description:52  desktop:-43  details:65  dialog:-25
disclaimer:-186  discussion:55  doc:-24  download:-61  drawer:-10  dropdown:-10  email:-63  embed:-8  entry:55
error:-29  events:-14  excerpt:-21  faqs:-103  feature:7  features:19  feed:13  feedback:-101  filter:-64
filters:-64  fixed:-40  floating:-84  footer:-36  footnote:-48  gallery:3  gdpr:-5  guide:72  header:-22
headline:-2  help:-45  hentry:57  hero:-9  highlight:67  history:-94  image:-15  images:-14  index:45  info:-21
input:-42  intro:12  item:-11  items:17  job:9  language:-34  legal:-92  link:-6  markdown:200  marketing:-31
markup:9  media:2  mega:-1  megamenu:-31  menu:0  metadata:-45  mobile:-14  name:68  newsletter:-26  note:4
notice:-65  page:28  placeholder:-33  popover:-115  popup:-148  post:24  poster:109  posts:-28  price:64
primary:-12  product:-13  products:8  profile:-39  prose:55  published:-1  question:-107  questions:-146  quote:99
rating:-15  recommended:-14  reference:68  related:-102  replies:-87  reply:-19  report:10  results:24  review:-144
reviews:-62  richtext:76  right:4  rte:34  secondary:58  section:-7  shipping:-114  side:-38  signature:-194
signup:-9  slide:-40  slider:25  social:-88  sort:-21  spec:-22  sr:-85  stars:-23  step:75  steps:45  stock:33
store:-5  submenu:-39  subnav:-151  subscribe:-60  subtitle:-32  summary:8  tab:-23  tabpanel:65  tagline:17
terms:-12  text:13  textwidget:-60  thumbnails:-10  tile:-44  tiles:91  time:115  tip:-136  topic:11  trending:-24
user:-9  utility:29  video:90  visually:-43  votes:52  watch:-90
""")
"""Marks of the words of classes and ids."""

_SHAPES: Final = _table("""
block 00:-30  block 01:-7  block 02:-32  block 03:-11  block 04:-57  block 10:-32  block 11:-10  block 12:-17
block 13:-30  block 14:-60  block 20:-15  block 21:-29  block 22:-22  block 23:-1  block 24:-31  block 30:-4
block 31:-14  block 32:-9  block 33:-28  block 34:-19  block 40:21  block 41:-13  block 42:22  block 43:4
block 44:16  block 50:55  block 51:48  block 52:5  block 53:2  block 54:-17  block 60:64  block 61:75  block 62:6
block 63:-13  block 64:32  heading 00:-28  heading 04:10  heading 10:-53  heading 11:-13  heading 12:-1
heading 13:1  heading 14:-9  heading 20:-16  heading 21:-7  heading 22:11  heading 23:6  heading 24:-6  heading 30:8
heading 31:6  heading 32:8  heading 33:18  heading 34:3  heading 40:29  heading 41:-6  heading 42:-4  heading 44:32
heading 50:61  left block 00:4  left block 01:-7  left block 02:-25  left block 03:-10  left block 04:-56
left block 10:-8  left block 11:-9  left block 12:-23  left block 13:-15  left block 14:-35  left block 20:-14
left block 21:-12  left block 22:7  left block 23:-8  left block 24:-9  left block 30:-15  left block 31:-12
left block 32:1  left block 33:-2  left block 34:-18  left block 40:4  left block 41:-30  left block 42:19
left block 44:-9  left block 50:14  left block 51:23  left block 52:4  left block 53:25  left block 54:17
left block 60:31  left block 61:12  left block 63:-13  left block 64:19  left heading 00:-18  left heading 04:14
left heading 10:-48  left heading 11:-4  left heading 12:1  left heading 13:1  left heading 14:17
left heading 20:-5  left heading 22:4  left heading 23:8  left heading 30:50  left heading 32:7  left heading 33:-19
left heading 34:-41  left heading 40:14  left heading 44:13  taken block 00:-34  taken block 02:-7
taken block 04:-1  taken block 10:-24  taken block 11:-2  taken block 12:6  taken block 13:-14  taken block 14:-25
taken block 20:-1  taken block 21:-17  taken block 22:-30  taken block 23:7  taken block 24:-22  taken block 30:11
taken block 31:-3  taken block 32:-10  taken block 33:-26  taken block 34:-1  taken block 40:17  taken block 41:16
taken block 42:2  taken block 43:4  taken block 44:24  taken block 50:40  taken block 51:25  taken block 52:1
taken block 54:-35  taken block 60:34  taken block 61:63  taken block 62:9  taken heading 00:-10
taken heading 04:-4  taken heading 10:-5  taken heading 11:-9  taken heading 12:-1  taken heading 14:-26
taken heading 20:-11  taken heading 21:-7  taken heading 22:7  taken heading 24:-7  taken heading 30:-42
taken heading 31:2  taken heading 34:43  taken heading 40:15  taken heading 42:-1  taken heading 44:20
taken heading 50:34
""")
"""Size and share of links of a block or a heading; alone, and by what `combined` did with it."""

_ALIKE: Final = _table("""
like 0:-47  like 0 left:-26  like 0 links 0:37  like 0 links 1:-24  like 0 links 2:-1  like 0 links 3:-3
like 0 links 4:-57  like 0 of amount 1 left:-10  like 0 of amount 1 taken:-31  like 0 of amount 2 left:-14
like 0 of amount 2 taken:16  like 0 of amount 3 left:-2  like 0 of amount 3 taken:-52  like 0 taken:-21  like 1:-35
like 1 left:-25  like 1 links 0:46  like 1 links 1:4  like 1 links 2:-25  like 1 links 3:-40  like 1 links 4:-20
like 1 of amount 1 left:-11  like 1 of amount 1 taken:7  like 1 of amount 2 left:-18  like 1 of amount 2 taken:-10
like 1 of amount 3 left:3  like 1 of amount 3 taken:-31  like 1 taken:-10  like 2:-23  like 2 left:-5
like 2 links 0:8  like 2 links 1:16  like 2 links 2:-25  like 2 links 3:7  like 2 links 4:-28
like 2 of amount 1 left:-30  like 2 of amount 1 taken:-54  like 2 of amount 2 left:28  like 2 of amount 2 taken:61
like 2 of amount 3 left:-3  like 2 of amount 3 taken:33  like 2 taken:-18  like 3:2  like 3 left:4
like 3 links 0:20  like 3 links 1:29  like 3 links 2:-14  like 3 links 3:-46  like 3 links 4:13
like 3 of amount 1 left:40  like 3 of amount 1 taken:-16  like 3 of amount 2 left:-6  like 3 of amount 2 taken:13
like 3 of amount 3 left:-31  like 3 of amount 3 taken:1  like 3 taken:-2  like 4:12  like 4 left:-1
like 4 links 0:23  like 4 links 1:22  like 4 links 2:1  like 4 links 3:-45  like 4 links 4:10
like 4 of amount 1 left:36  like 4 of amount 1 taken:35  like 4 of amount 2 left:-35  like 4 of amount 2 taken:-16
like 4 of amount 3 left:-2  like 4 of amount 3 taken:-6  like 4 taken:13  like 5:53  like 5 left:-12
like 5 links 0:-9  like 5 links 1:17  like 5 links 2:23  like 5 links 3:32  like 5 links 4:-11
like 5 of amount 1 left:36  like 5 of amount 1 taken:113  like 5 of amount 2 left:-29  like 5 of amount 2 taken:-34
like 5 of amount 3 left:-19  like 5 of amount 3 taken:-14  like 5 taken:65  like 6:22  like 6 left:-24
like 6 links 0:-17  like 6 links 1:-38  like 6 links 2:12  like 6 links 3:45  like 6 links 4:20
like 6 of amount 1 left:-49  like 6 of amount 2 left:21  like 6 of amount 2 taken:-14  like 6 of amount 3 left:4
like 6 of amount 3 taken:25  like 6 taken:47
""")
"""How many blocks have the same marks and element."""

_NEIGHBOURS: Final = _table("""
+1 block 00:-6  +1 block 01:-31  +1 block 02:-7  +1 block 03:5  +1 block 04:-42  +1 block 10:-32  +1 block 11:-13
+1 block 12:-12  +1 block 13:-1  +1 block 14:-19  +1 block 20:11  +1 block 21:14  +1 block 22:-5  +1 block 23:35
+1 block 24:-11  +1 block 30:19  +1 block 31:1  +1 block 32:6  +1 block 33:-9  +1 block 34:-38  +1 block 40:22
+1 block 41:-7  +1 block 42:38  +1 block 43:13  +1 block 44:-33  +1 block 50:25  +1 block 51:23  +1 block 52:19
+1 block 53:-26  +1 block 54:-20  +1 block 60:34  +1 block 61:20  +1 block 63:-13  +1 block 64:7  +1 heading 00:20
+1 heading 01:27  +1 heading 03:-1  +1 heading 04:15  +1 heading 10:14  +1 heading 11:48  +1 heading 12:6
+1 heading 13:-26  +1 heading 14:-10  +1 heading 20:6  +1 heading 21:23  +1 heading 22:-35  +1 heading 23:4
+1 heading 24:-10  +1 heading 30:-19  +1 heading 31:-71  +1 heading 32:-5  +1 heading 33:23  +1 heading 34:-22
+1 heading 40:2  +1 heading 41:4  +1 heading 42:-3  +1 heading 44:4  +1 heading 50:10  +1 left by left:21
+1 left by taken:-32  +1 nothing:8  +1 same element:3  +1 taken by left:7  +1 taken by taken:-20  +2 block 00:-13
+2 block 01:-12  +2 block 02:-44  +2 block 03:18  +2 block 04:-2  +2 block 10:-14  +2 block 11:1  +2 block 12:-15
+2 block 13:-51  +2 block 14:-3  +2 block 20:9  +2 block 21:17  +2 block 22:38  +2 block 23:2  +2 block 24:-5
+2 block 30:11  +2 block 31:24  +2 block 32:-10  +2 block 33:-38  +2 block 34:-7  +2 block 40:1  +2 block 41:-10
+2 block 42:25  +2 block 43:-26  +2 block 44:7  +2 block 50:6  +2 block 51:17  +2 block 52:14  +2 block 53:-4
+2 block 54:28  +2 block 60:-23  +2 block 61:23  +2 block 62:13  +2 block 63:-3  +2 block 64:-19  +2 heading 00:21
+2 heading 01:13  +2 heading 03:3  +2 heading 04:41  +2 heading 10:-6  +2 heading 11:18  +2 heading 12:-8
+2 heading 13:-22  +2 heading 14:7  +2 heading 20:25  +2 heading 21:6  +2 heading 22:-18  +2 heading 23:-11
+2 heading 24:20  +2 heading 30:-3  +2 heading 31:-3  +2 heading 32:-12  +2 heading 33:-30  +2 heading 34:-5
+2 heading 40:15  +2 heading 42:-1  +2 heading 44:-10  +2 heading 50:4  +2 left by left:15  +2 left by taken:-12
+2 nothing:-26  +2 same element:26  +2 taken by left:23  +2 taken by taken:-16  -1 block 00:-9  -1 block 01:-11
-1 block 02:-30  -1 block 03:-13  -1 block 04:-19  -1 block 10:-25  -1 block 11:-7  -1 block 12:1  -1 block 13:25
-1 block 14:-6  -1 block 20:-15  -1 block 21:-30  -1 block 22:2  -1 block 23:-39  -1 block 24:-23  -1 block 30:17
-1 block 31:14  -1 block 32:-19  -1 block 33:20  -1 block 34:-33  -1 block 40:10  -1 block 41:-7  -1 block 42:8
-1 block 43:-21  -1 block 44:-37  -1 block 50:11  -1 block 51:-2  -1 block 52:24  -1 block 54:16  -1 block 60:24
-1 block 61:8  -1 block 64:16  -1 heading 00:36  -1 heading 01:-16  -1 heading 03:3  -1 heading 04:25
-1 heading 10:-22  -1 heading 11:45  -1 heading 12:8  -1 heading 13:13  -1 heading 14:-23  -1 heading 20:30
-1 heading 21:19  -1 heading 22:19  -1 heading 23:-1  -1 heading 24:2  -1 heading 30:28  -1 heading 31:5
-1 heading 32:9  -1 heading 33:-9  -1 heading 34:-52  -1 heading 40:37  -1 heading 41:-8  -1 heading 42:-2
-1 heading 44:-22  -1 heading 50:-4  -1 left by left:-27  -1 left by taken:26  -1 nothing:-38  -1 same element:3
-1 taken by left:-7  -1 taken by taken:30  -2 block 00:-6  -2 block 01:-20  -2 block 02:-34  -2 block 03:-24
-2 block 04:15  -2 block 10:8  -2 block 11:11  -2 block 12:-1  -2 block 13:-42  -2 block 14:14  -2 block 20:-8
-2 block 21:-6  -2 block 22:-3  -2 block 23:33  -2 block 24:-6  -2 block 30:3  -2 block 31:25  -2 block 32:7
-2 block 33:20  -2 block 34:-7  -2 block 40:4  -2 block 41:-24  -2 block 42:12  -2 block 43:-6  -2 block 44:-25
-2 block 50:10  -2 block 51:12  -2 block 52:9  -2 block 54:-21  -2 block 60:-21  -2 block 61:-13  -2 block 62:2
-2 block 64:-2  -2 heading 00:6  -2 heading 04:41  -2 heading 10:-11  -2 heading 11:11  -2 heading 12:-2
-2 heading 13:-18  -2 heading 14:-23  -2 heading 20:7  -2 heading 21:27  -2 heading 22:-8  -2 heading 23:-28
-2 heading 24:20  -2 heading 30:10  -2 heading 31:17  -2 heading 32:-12  -2 heading 33:-6  -2 heading 34:-5
-2 heading 40:44  -2 heading 41:-3  -2 heading 42:-3  -2 heading 44:1  -2 heading 50:4  -2 left by left:3
-2 left by taken:-19  -2 nothing:-7  -2 same element:15  -2 taken by left:3  -2 taken by taken:4
""")
"""The two blocks before and the two behind."""

_OTHERS: Final = _table("""
among taken:46  any:20  before any heading:-32  before taken:-37  behind a heading:16  behind taken:-100
consent:-68  copyright:-203  currency:-40  fifth 0:8  fifth 0 left:-30  fifth 0 taken:38  fifth 1:10
fifth 1 left:-22  fifth 1 taken:32  fifth 2:7  fifth 2 left:-12  fifth 2 taken:20  fifth 3:-10  fifth 3 left:-17
fifth 3 taken:6  fifth 4:-31  fifth 4 left:-9  fifth 4 taken:-21  is repeated:6  left of amount 1:12
left of amount 2:-54  left of amount 3:-49  left of share 0:-40  left of share 1:-26  left of share 2:-12
left of share 3:-12  repeats:-170  sentence:33  sentence left:6  sentence taken:27  taken of amount 1:91
taken of amount 2:15  taken of amount 3:-45  taken of share 0:-2  taken of share 1:-16  taken of share 2:39
taken of share 3:53  title block:13  title heading:-61
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
