"""Four sites for crawlers: an honest one, two that put a session id into each link, and a trap.

Knows what each URL answers; must not know any crawler.  `serve` counts requests and bytes.  A page that is worth having
says so in its title (`REAL`); all others repeat one.

- honest: articles with lists and print views, an index under two names, and a gallery whose pages have the same text
  and lead to pictures: who stops at duplicates without looking loses the pictures;
- sessions: 60 articles whose links carry an id that is another at each visit: without end;
- sticky: the same, but a URL's links always carry the same ids: a second crawl finds every page unchanged (304);
- trap: 60 articles; a calendar with links to the next month for ever; and links to pages that are gone, which answer
  200, say that nothing is there and link one level deeper.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from random import Random
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

REAL = "Real: "
ARTICLES = 150
PICTURES = 120
SHORT_SITE = 60
EACH_PAGE = 10


class Answer(NamedTuple):
    """What a URL answers."""

    body: str
    status: int = 200
    location: str = ""


Site = Callable[[str, Mapping[str, str]], Answer]
"""Path and query parameters to an answer."""


class Counts:
    """What a site was asked for, and gave."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = 0
        self.body_bytes = 0
        self.not_modified = 0

    def add(self, status: int, body_bytes: int) -> None:
        with self._lock:
            self.requests += 1
            self.body_bytes += body_bytes
            self.not_modified += status == 304


class Served(NamedTuple):
    """A site that runs."""

    url: str
    counts: Counts


def page(title: str, text: str, links: Mapping[str, str]) -> Answer:
    """A page with a menu of links and a text."""
    menu = "".join(f'<li><a href="{target}">{words}</a></li>' for target, words in links.items())
    return Answer(
        f"<!doctype html><html><head><title>{title}</title></head><body><nav><ul>{menu}</ul></nav>"
        f"<main><h1>{title}</h1><p>{text}</p></main></body></html>"
    )


def honest(path: str, query: Mapping[str, str]) -> Answer:
    """See the module."""
    name, _, number = path.strip("/").partition("/")
    index = int(number) if number.isdigit() else 0
    if name in {"", "index.html"}:
        first = {"/articles?page=0": "Articles", "/gallery?page=0": "Gallery", "/index.html": "Home", "/old": "Old"}
        return page(f"{REAL}Home", sentences("home", 8), first)
    if name == "old":
        return Answer("", 301, "/article/3")
    if name == "articles":
        return _list("article", "List", int(query.get("page", "0")), ARTICLES, sentences)
    if name == "gallery":
        return _list("picture", "Gallery", int(query.get("page", "0")), PICTURES, lambda *_: "")
    if name == "article" and index < ARTICLES:
        links = {f"/print/{index}": "Print", f"/article/{(index + 1) % ARTICLES}": "Next", "/": "Home"}
        return page(f"{REAL}article {index}", sentences(f"article {index}", 14), links)
    if name == "print" and index < ARTICLES:
        text = sentences(f"article {index}", 14)
        return page(f"{REAL}article {index}", text, {f"/article/{index}": "Back", "/": "Home"})
    if name == "picture" and index < PICTURES:
        return page(f"{REAL}picture {index}", sentences(f"picture {index}", 9), {"/": "Home"})
    return Answer("<title>Not found</title>", 404)


def _list(kind: str, title: str, number: int, total: int, teaser: Callable[[str, int], str]) -> Answer:
    """One page of a list; its teasers are its only text of its own."""
    indexes = range(number * EACH_PAGE, min((number + 1) * EACH_PAGE, total))
    if not indexes:
        return Answer("<title>Not found</title>", 404)
    links = {f"/{kind}/{index}": "" for index in indexes}
    if (number + 1) * EACH_PAGE < total:
        links[f"/{kind if kind != 'picture' else 'gallery'}{'s' if kind == 'article' else ''}?page={number + 1}"] = (
            "More"
        )
    teasers = " ".join(teaser(f"{kind} {index}", 1) for index in indexes)
    return page(title, f"{sentences(title, 7)} {teasers}", {**links, "/": "Home"})


def sessions(articles: int = SHORT_SITE, *, sticky: bool = False) -> Site:
    """See the module; each answer has an id of its own, if it is sticky each URL."""
    ids = count(1)

    def answer(path: str, query: Mapping[str, str]) -> Answer:
        origin = f"{path} {query.get('sid', '')}" if sticky else str(next(ids))
        session = sha256(origin.encode()).hexdigest()[:16]
        number = path.removeprefix("/article/")
        if path != "/" and not (number.isdigit() and int(number) < articles):
            return Answer("<title>Not found</title>", 404)
        here = -1 if path == "/" else int(number)
        near = [(here + step) % articles for step in range(1, 9)]
        links = {f"/article/{index}?sid={session}": f"Article {index}" for index in near}
        links[f"/?sid={session}"] = "Home"
        title = "home" if here < 0 else f"article {here}"
        return page(REAL + title, sentences(f"sessions {title}", 12), links)

    return answer


def trap(articles: int = SHORT_SITE) -> Site:
    """See the module."""

    def answer(path: str, query: Mapping[str, str]) -> Answer:
        name, _, number = path.strip("/").partition("/")
        menu = {"/": "Home", "/calendar?month=0": "Calendar"}
        if not name:
            return page(f"{REAL}home", sentences("trap home", 10), menu | {"/article/0": "First"})
        if name == "article" and number.isdigit() and int(number) < articles:
            index = int(number)
            links = {f"/article/{(index + 1) % articles}": "Next", f"/gone/{index}/": "Source"}
            return page(f"{REAL}article {index}", sentences(f"trap article {index}", 12), menu | links)
        if name == "calendar" and query.get("month", "").lstrip("-").isdigit():
            month = int(query["month"])
            around = {f"/calendar?month={month + step}": f"{step:+} months" for step in (1, -1, 12, -12)}
            return page("Events", f"{sentences('calendar', 9)} Month {month % 12 + 1}.", menu | around)
        return page("Nothing here", sentences("nothing", 9), menu | {"deeper/": "Similar pages"})

    return answer


SITES: dict[str, Callable[[], Site]] = {
    "honest": lambda: honest,
    "sessions": sessions,
    "sticky": lambda: sessions(sticky=True),
    "trap": trap,
}
REAL_PAGES = {"honest": ARTICLES + PICTURES + 1, "sessions": SHORT_SITE + 1, "sticky": SHORT_SITE + 1}
REAL_PAGES["trap"] = SHORT_SITE + 1
"""Different pages of each site that are worth having."""


@contextmanager
def serve(site: Site, port: int = 0) -> Iterator[Served]:
    """Serve a site on the loopback interface while the context lasts; port 0 takes a free one."""
    counts = Counts()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            answer = site(parts.path, query)
            body = answer.body.encode()
            tag = f'"{sha256(body).hexdigest()[:16]}"'
            status = answer.status
            if status == 200 and self.headers.get("If-None-Match") == tag:
                status, body = 304, b""
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: text/html; charset=utf-8\r\n"
            head += f"Content-Length: {len(body)}\r\nETag: {tag}\r\n"
            head += f"Location: {answer.location}\r\n\r\n" if answer.location else "\r\n"
            self.wfile.write(head.encode() + body)  # one write: two would wait for each other
            counts.add(status, len(body))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="site", daemon=True)
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_address[1]}/", counts)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_SUBJECTS = """the baker| a quiet ferry| the old observatory| our neighbour| the second violin| a patient gardener|
the harbour master| an unread letter| the mountain railway| a lost umbrella| the night watch| a
travelling salesman| the glass blower| her youngest brother| the parish clerk| a stubborn mule| the
river pilot| an empty theatre| the chess club| a retired boxer"""
_VERBS = """waited for| measured| forgot| painted| repaired| inherited| described| followed| borrowed|
photographed| avoided| sold| carried| translated| weighed| remembered| counted| praised| hid|
questioned"""
_OBJECTS = """the copper kettle| a map of the coast| seven postcards| the broken clock| a barrel of herring| the
northern road| an orange tree| two wooden boats| the morning train| a bag of chestnuts| the market
bell| a difficult theorem| the winter coats| a recipe for bread| the last lighthouse| an album of
stamps| the village fountain| a silver whistle| the long bridge| a basket of plums"""
_ENDS = """before the rain came| with great care| although nobody asked| until the lamps were lit| on the first
Monday of May| in spite of the doctor| while the orchestra rested| for the third time that week| at
the edge of the forest| without a word| because of the fog| as the bells rang| near the customs
house| after a long silence| in the year of the flood"""
_PARTS = [
    [part.strip().replace("\n", " ") for part in words.split("|")] for words in (_SUBJECTS, _VERBS, _OBJECTS, _ENDS)
]


def sentences(seed: str, count: int) -> str:
    """So many sentences of about eleven words."""
    random = Random(seed)
    return " ".join(f"{' '.join(random.choice(part) for part in _PARTS).capitalize()}." for _ in range(count))
