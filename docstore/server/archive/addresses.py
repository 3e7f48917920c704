"""Row keys as archives address them: SURT, which merges http and https, and which pages the archive API shows at all.

Knows row keys and nothing of a store.  Pages of http and https are shown; one whose URL names a password is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from docstore.model import keys
from docstore.model.errors import InvalidArgument

_SCHEMES = frozenset({b"http", b"https"})
_WITH_SCHEME = ("http://", "https://")
_NO_URL = re.compile(r"\s*(?:about|blob|data|javascript|mailto):", re.IGNORECASE)


class Address(NamedTuple):
    """A row key, taken apart.

    Attributes:
        path_key: host and path, ``com,example)/path``: the part that its neighbours share.
        scheme: http or https.
        port: "" for the default one.
    """

    path_key: bytes
    scheme: bytes
    port: bytes

    @property
    def surt(self) -> str:
        """The SURT of the URL: ``com,example:8080)/path``; the same for http and https."""
        path_key = self.path_key.decode("ascii")
        if not self.port:
            return path_key
        host, _, rest = path_key.partition(")")
        return f"{host}:{self.port.decode('ascii')}){rest}"


def address_of(row_key: bytes) -> Address | None:
    """The parts of a row key; None for a page that the archive API does not show."""
    path_key, mark, suffix = row_key.rpartition(b" ")
    origin, _, userinfo = suffix.partition(b"@")
    scheme, _, port = origin.partition(b":")
    if not mark or scheme not in _SCHEMES or b":" in userinfo:
        return None
    return Address(path_key, scheme, port)


class Asked(NamedTuple):
    """A URL that a client asks for: canonical, its row key, and that taken apart."""

    url: str
    row_key: bytes
    address: Address


def asked(text: str) -> Asked:
    """What a client asks for, with or without a scheme.

    Raises:
        InvalidArgument: it is no URL of http or https.
    """
    if _NO_URL.match(text):
        raise InvalidArgument("nothing is archived under such a URL; ask for one of http or https")
    row_key, url = keys.row_key_and_url(text if text.startswith(_WITH_SCHEME) else keys.complete_url(text))
    address = address_of(row_key)
    if address is None:
        raise InvalidArgument("only URLs of http and https without a password are shown here")
    return Asked(url, row_key, address)


def rows_of_path(path_key: bytes) -> keys.KeyRange:
    """Row keys of one host and path, whatever their scheme, port and user."""
    return keys.KeyRange(path_key + b" ", path_key + b"!")


def spellings(page: Asked) -> Iterator[Asked]:
    """A page, and what may have been meant if there is none.

    Servers drop the mark of an empty query, and clients that cannot read a semicolon in a link write ``%3B``.
    """
    yield page
    if "%3B" in page.url:
        yield asked(page.url.replace("%3B", ";"))
    if "?" not in page.url:
        yield asked(f"{page.url}?")


def in_links(url: str) -> str:
    """A canonical URL as a part of a link of ours, from which `requests.replayed` gives it back.

    A semicolon breaks clients that read `Link`, and an empty query does not come back as it is: such a URL is encoded
    once more.
    """
    if ";" not in url and not url.endswith("?"):
        return url
    return "".join(_encoded_once_more(url))


def _encoded_once_more(url: str) -> Iterator[str]:
    for character in url:
        yield character if character.isalnum() or character in "-._~/" else f"%{ord(character):02X}"
