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
<aside>:-158  <button>:-102  <dd>:-82  <details>:-72  <dialog>:0  <fieldset>:-105  <figcaption>:-55  <figure>:-63
<footer>:-314  <form>:-59  <header>:-72  <li>:-7  <main>:40  <nav>:-192  <ol>:0  <option>:-87  <pre>:49
<section>:15  <select>:-87  <table>:35  <td>:-14  <tr>:68  <ul>:58
""")
"""Marks of tags."""

_STATES: Final = _table("""
hidden:-22  itemprop=articlebody:121  itemprop=author:-137  itemprop=itemlistelement:1  itemprop=text:10
role=banner:-37  role=complementary:-36  role=contentinfo:-89  role=listitem:35  role=main:5  role=menuitem:-26
role=navigation:-47  role=presentation:-100  role=region:-13  role=search:-10  role=tabpanel:6
""")
"""Marks of other attributes."""

_WORDS: Final = _table("""
about:12  accordion:36  actions:-73  address:106  alert:14  answer:-18  article:-14  author:-70  banner:13  bar:-68
bio:-34  body:-2  bottom:-28  breadcrumbs:-13  buy:-171  byline:-36  cards:32  carousel:-38  cart:-9  categories:-75
checkbox:-67  code:-27  collapse:6  collapsed:-4  comment:-68  comments:-49  consent:0  cookie:-38  copy:-57
copyright:0  country:0  cta:0  date:-39  desc:60  description:32  desktop:-11  details:98  dialog:-26
disclaimer:-149  discussion:42  doc:11  download:-33  drawer:-15  dropdown:-23  email:-39  embed:6  entry:76
error:-36  events:1  excerpt:2  faqs:-99  feature:31  features:-12  feed:7  feedback:-75  filter:-51  filters:-124
fixed:-8  floating:-91  footer:-38  footnote:-92  gallery:-40  gdpr:-8  guide:26  header:-38  headline:-67  help:-18
hentry:71  hero:-66  highlight:43  history:-39  image:-10  images:5  index:76  info:-31  input:-65  intro:23
item:-17  items:14  job:31  language:-51  legal:-77  link:-6  markdown:142  marketing:-10  markup:10  media:-1
mega:-23  megamenu:-28  menu:0  metadata:-62  mobile:22  name:146  newsletter:-13  note:19  notice:-65  page:25
placeholder:-32  popover:-90  popup:-81  post:2  poster:99  posts:-33  price:43  primary:-42  product:-22
products:-9  profile:-51  prose:79  published:-9  question:-122  questions:-162  quote:148  rating:0
recommended:-44  reference:48  related:-84  replies:-67  reply:0  report:-24  results:106  review:-191  reviews:-153
richtext:44  right:0  rte:10  secondary:63  section:13  shipping:-40  side:-60  signature:-141  signup:0  slide:-71
slider:7  social:-19  sort:-24  spec:-21  sr:-83  stars:-8  step:67  steps:74  stock:23  store:8  submenu:-53
subnav:-157  subscribe:-47  subtitle:22  summary:31  tab:-13  tabpanel:59  tagline:30  terms:-62  text:14
textwidget:-82  thumbnails:-16  tile:-7  tiles:69  time:81  tip:-69  topic:-1  trending:-28  user:-46  utility:29
video:89  visually:-63  votes:47  watch:-77
""")
"""Marks of the words of classes and ids."""

_SHAPES: Final = _table("""
block 00:-54  block 01:-5  block 02:-32  block 03:-13  block 04:-92  block 10:-51  block 11:-13  block 12:-12
block 13:-35  block 14:-89  block 20:-27  block 22:-32  block 24:-37  block 30:5  block 31:-16  block 32:-5
block 33:-27  block 34:-24  block 40:52  block 41:-4  block 42:23  block 43:9  block 44:12  block 50:79  block 51:66
block 52:-24  block 53:20  block 54:-1  block 60:100  block 61:110  block 62:48  block 63:-50  block 64:-1
heading 00:-23  heading 04:14  heading 10:-53  heading 11:-15  heading 13:2  heading 14:9  heading 20:-8
heading 21:-7  heading 22:5  heading 23:8  heading 24:10  heading 30:2  heading 31:5  heading 33:11  heading 34:4
heading 40:-11  heading 41:-4  heading 42:-3  heading 44:22  heading 50:68  left block 00:-37  left block 01:-5
left block 02:-23  left block 03:-11  left block 04:-50  left block 10:-45  left block 11:-10  left block 12:-24
left block 13:-23  left block 14:-31  left block 20:-28  left block 21:7  left block 22:-13  left block 23:-12
left block 24:-12  left block 30:-12  left block 31:11  left block 32:-4  left block 33:-30  left block 34:-17
left block 40:18  left block 41:-4  left block 42:40  left block 43:11  left block 44:-1  left block 50:14
left block 51:39  left block 52:6  left block 53:34  left block 54:38  left block 60:73  left block 61:36
left block 63:-50  left block 64:-16  left heading 00:-35  left heading 04:3  left heading 10:-36
left heading 11:-10  left heading 12:1  left heading 13:2  left heading 21:-3  left heading 22:-1  left heading 23:9
left heading 24:-11  left heading 30:23  left heading 33:-18  left heading 34:-48  left heading 40:-11
left heading 44:8  taken block 00:-17  taken block 02:-9  taken block 04:-42  taken block 10:-6  taken block 11:-3
taken block 12:12  taken block 13:-12  taken block 14:-59  taken block 21:-7  taken block 22:-19  taken block 23:12
taken block 24:-25  taken block 30:17  taken block 31:-27  taken block 32:-1  taken block 33:3  taken block 34:-7
taken block 40:34  taken block 42:-18  taken block 43:-2  taken block 44:13  taken block 50:66  taken block 51:26
taken block 52:-30  taken block 54:-39  taken block 60:26  taken block 61:74  taken block 62:12  taken heading 00:12
taken heading 04:11  taken heading 10:-18  taken heading 11:-5  taken heading 12:-1  taken heading 14:9
taken heading 20:-8  taken heading 21:-4  taken heading 22:6  taken heading 24:21  taken heading 30:-21
taken heading 31:2  taken heading 34:53  taken heading 42:-1  taken heading 44:14  taken heading 50:13
""")
"""Size and share of links of a block or a heading; alone, and by what `combined` did with it."""

_ALIKE: Final = _table("""
like 0:-45  like 0 left:-60  like 0 links 0:15  like 0 links 2:-3  like 0 links 3:17  like 0 links 4:-74
like 0 of amount 1 left:-49  like 0 of amount 1 taken:-34  like 0 of amount 2 left:-14  like 0 of amount 2 taken:-32
like 0 of amount 3 left:3  like 0 of amount 3 taken:-60  like 0 taken:15  like 1:-56  like 1 left:-42
like 1 links 0:34  like 1 links 1:19  like 1 links 2:-18  like 1 links 3:-20  like 1 links 4:-70
like 1 of amount 1 left:6  like 1 of amount 1 taken:-12  like 1 of amount 2 left:-87  like 1 of amount 2 taken:-9
like 1 of amount 3 left:39  like 1 of amount 3 taken:-9  like 1 taken:-14  like 2:-18  like 2 left:-28
like 2 links 0:-4  like 2 links 1:15  like 2 links 2:-1  like 2 links 3:11  like 2 links 4:-38
like 2 of amount 1 left:-56  like 2 of amount 1 taken:-8  like 2 of amount 2 left:52  like 2 of amount 2 taken:36
like 2 of amount 3 left:-24  like 2 of amount 3 taken:13  like 2 taken:10  like 3:-8  like 3 left:-14
like 3 links 0:45  like 3 links 1:47  like 3 links 2:-48  like 3 links 3:-78  like 3 links 4:26
like 3 of amount 1 left:32  like 3 of amount 1 taken:17  like 3 of amount 2 left:-1  like 3 of amount 2 taken:-1
like 3 of amount 3 left:-45  like 3 of amount 3 taken:-9  like 3 taken:6  like 4:19  like 4 left:6
like 4 links 0:22  like 4 links 1:32  like 4 links 2:-5  like 4 links 3:-49  like 4 links 4:19
like 4 of amount 1 left:56  like 4 of amount 1 taken:48  like 4 of amount 2 left:-54  like 4 of amount 2 taken:-19
like 4 of amount 3 left:5  like 4 of amount 3 taken:-16  like 4 taken:12  like 5:53  like 5 left:5
like 5 links 0:16  like 5 links 1:15  like 5 links 2:26  like 5 links 3:21  like 5 links 4:-25
like 5 of amount 1 left:67  like 5 of amount 1 taken:34  like 5 of amount 2 left:-11  like 5 of amount 2 taken:31
like 5 of amount 3 left:-51  like 5 of amount 3 taken:-16  like 5 taken:49  like 6:45  like 6 left:-6
like 6 links 0:-13  like 6 links 1:-7  like 6 links 2:21  like 6 links 3:25  like 6 links 4:17
like 6 of amount 1 left:-49  like 6 of amount 2 left:34  like 6 of amount 2 taken:4  like 6 of amount 3 left:9
like 6 of amount 3 taken:34  like 6 taken:51
""")
"""How many blocks have the same marks and element."""

_NEIGHBOURS: Final = _table("""
+1 block 00:-3  +1 block 01:-20  +1 block 02:-11  +1 block 03:6  +1 block 04:-42  +1 block 10:-14  +1 block 11:-19
+1 block 12:-11  +1 block 13:-17  +1 block 14:-15  +1 block 20:13  +1 block 21:12  +1 block 22:21  +1 block 23:61
+1 block 24:8  +1 block 30:42  +1 block 31:12  +1 block 32:16  +1 block 33:22  +1 block 34:-55  +1 block 40:39
+1 block 41:-35  +1 block 42:3  +1 block 43:23  +1 block 44:-43  +1 block 50:23  +1 block 51:30  +1 block 52:-47
+1 block 53:-39  +1 block 54:-12  +1 block 60:11  +1 block 61:16  +1 block 62:-5  +1 block 63:-5  +1 block 64:-1
+1 heading 00:31  +1 heading 01:16  +1 heading 04:46  +1 heading 10:-5  +1 heading 11:52  +1 heading 12:5
+1 heading 13:-14  +1 heading 14:-5  +1 heading 20:9  +1 heading 21:17  +1 heading 22:-65  +1 heading 23:5
+1 heading 24:-18  +1 heading 30:-10  +1 heading 31:-43  +1 heading 32:-14  +1 heading 33:27  +1 heading 34:-74
+1 heading 40:13  +1 heading 41:12  +1 heading 42:-1  +1 heading 44:-25  +1 heading 50:14  +1 left by left:-8
+1 left by taken:-23  +1 nothing:40  +1 same element:11  +1 taken by left:-12  +1 taken by taken:-7  +2 block 00:11
+2 block 01:-7  +2 block 02:-39  +2 block 03:4  +2 block 04:8  +2 block 10:-24  +2 block 11:3  +2 block 12:-22
+2 block 13:-38  +2 block 14:1  +2 block 20:11  +2 block 21:11  +2 block 22:43  +2 block 23:-11  +2 block 24:5
+2 block 30:7  +2 block 31:10  +2 block 32:-22  +2 block 33:-14  +2 block 34:5  +2 block 40:-10  +2 block 41:-43
+2 block 42:12  +2 block 43:2  +2 block 44:6  +2 block 50:-17  +2 block 51:3  +2 block 52:-53  +2 block 53:6
+2 block 54:33  +2 block 60:-39  +2 block 61:20  +2 block 62:7  +2 block 63:-4  +2 block 64:-6  +2 heading 00:39
+2 heading 01:8  +2 heading 03:1  +2 heading 04:49  +2 heading 10:-14  +2 heading 11:13  +2 heading 13:-12
+2 heading 14:-12  +2 heading 20:36  +2 heading 21:3  +2 heading 22:-53  +2 heading 23:27  +2 heading 24:36
+2 heading 30:97  +2 heading 31:-2  +2 heading 32:-15  +2 heading 33:-23  +2 heading 34:-36  +2 heading 40:26
+2 heading 44:-19  +2 heading 50:-16  +2 left by left:9  +2 left by taken:-14  +2 nothing:-15  +2 same element:31
+2 taken by left:12  +2 taken by taken:-1  -1 block 00:1  -1 block 01:-7  -1 block 02:-31  -1 block 03:-13
-1 block 04:-24  -1 block 10:-17  -1 block 11:-14  -1 block 12:-34  -1 block 13:-12  -1 block 14:-4  -1 block 20:-9
-1 block 21:-22  -1 block 22:-2  -1 block 23:-29  -1 block 24:-46  -1 block 30:39  -1 block 31:36  -1 block 32:-4
-1 block 33:27  -1 block 34:-57  -1 block 40:41  -1 block 41:5  -1 block 42:-12  -1 block 43:15  -1 block 44:-27
-1 block 50:22  -1 block 51:-8  -1 block 52:-40  -1 block 53:-1  -1 block 54:37  -1 block 60:30  -1 block 61:-23
-1 block 62:17  -1 block 64:9  -1 heading 00:44  -1 heading 01:-9  -1 heading 03:1  -1 heading 04:34
-1 heading 10:-10  -1 heading 11:32  -1 heading 12:11  -1 heading 13:2  -1 heading 14:-22  -1 heading 20:60
-1 heading 21:14  -1 heading 22:7  -1 heading 23:-45  -1 heading 24:16  -1 heading 30:25  -1 heading 31:3
-1 heading 32:-11  -1 heading 33:-8  -1 heading 34:-52  -1 heading 40:11  -1 heading 41:3  -1 heading 42:-1
-1 heading 50:-26  -1 left by left:-41  -1 left by taken:11  -1 nothing:35  -1 same element:3  -1 taken by left:-18
-1 taken by taken:4  -2 block 00:29  -2 block 01:-26  -2 block 02:-27  -2 block 03:-29  -2 block 04:19
-2 block 10:38  -2 block 11:18  -2 block 12:-10  -2 block 13:-33  -2 block 14:29  -2 block 20:4  -2 block 21:5
-2 block 22:3  -2 block 23:29  -2 block 24:-12  -2 block 30:-1  -2 block 31:44  -2 block 32:10  -2 block 33:3
-2 block 34:-16  -2 block 40:-4  -2 block 41:-32  -2 block 42:-37  -2 block 43:36  -2 block 44:-27  -2 block 50:12
-2 block 51:2  -2 block 52:-17  -2 block 53:16  -2 block 54:-16  -2 block 60:-23  -2 block 61:-20  -2 block 62:1
-2 block 64:-7  -2 heading 00:10  -2 heading 01:-2  -2 heading 04:37  -2 heading 10:-22  -2 heading 11:-3
-2 heading 12:-1  -2 heading 14:-25  -2 heading 20:21  -2 heading 21:14  -2 heading 22:-28  -2 heading 23:-58
-2 heading 24:8  -2 heading 30:14  -2 heading 31:8  -2 heading 32:-11  -2 heading 33:-3  -2 heading 34:-28
-2 heading 40:34  -2 heading 41:1  -2 heading 42:-3  -2 heading 44:-1  -2 heading 50:9  -2 left by left:-10
-2 left by taken:-39  -2 nothing:47  -2 same element:25  -2 taken by left:7  -2 taken by taken:-13
""")
"""The two blocks before and the two behind."""

_OTHERS: Final = _table("""
among taken:68  any:12  before any heading:-40  before taken:-50  behind a heading:31  behind taken:-157
consent:-65  copyright:-187  currency:4  fifth 0:-1  fifth 0 left:-51  fifth 0 taken:51  fifth 1:12
fifth 1 left:-17  fifth 1 taken:29  fifth 2:20  fifth 2 left:-11  fifth 2 taken:32  fifth 3:-7  fifth 3 left:-30
fifth 3 taken:23  fifth 4:-34  fifth 4 left:-30  fifth 4 taken:-4  is repeated:13  left of amount 1:7
left of amount 2:-83  left of amount 3:-63  left of share 0:-32  left of share 1:-30  left of share 2:-39
left of share 3:-38  repeats:-246  sentence:53  sentence left:34  sentence taken:18  taken of amount 1:57
taken of amount 2:10  taken of amount 3:-63  taken of share 0:18  taken of share 1:7  taken of share 2:43
taken of share 3:62  title block:39  title heading:-49
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
