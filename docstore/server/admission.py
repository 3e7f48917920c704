"""Who may ask: Host, Origin, and the token of a request.

Knows headers and tokens; must not know routes.  A browser lets any web page send requests to this machine.  So a
request must name this server as its Host (an attacker's name that resolves to 127.0.0.1 does not), and one that a web
page makes must come from a page of this server, or from an origin that was allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from docstore.server.exchange import Exchange
from docstore.server.refusals import Refusal
from docstore.server.settings import Settings
from docstore.server.tokens import Grade, Tokens

LOCAL = "local"
"""Who asks through the unix socket, or where there are no tokens."""


class Admission:
    """Decides who may ask.

    Args:
        settings: names and origins that are allowed.
        tokens: who may do what; None where only this machine can ask, and may do everything.
    """

    def __init__(self, settings: Settings, tokens: Tokens | None) -> None:
        self._hosts = {"localhost", settings.host.lower(), *(host.lower() for host in settings.hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in settings.origins}
        self._tokens = tokens

    def admit(self, exchange: Exchange) -> None:
        """Settle what an asker may do: its grade and name.

        Raises:
            Refusal: the request names another host, or comes from a web page of another origin.
        """
        if exchange.is_local:
            exchange.grade, exchange.asker = Grade.ADMIN, LOCAL
            return
        host = self._checked_host(exchange)
        self._check_origin(exchange, host)
        if self._tokens is None:
            exchange.grade, exchange.asker = Grade.ADMIN, LOCAL
            return
        token = self._tokens.of_header(exchange.headers.get("authorization", ""), ("bearer",))
        if token is not None:
            exchange.grade, exchange.asker = token.grade, token.name

    def _checked_host(self, exchange: Exchange) -> str:
        given = _values(exchange, b"host")
        if len(given) != 1:
            raise Refusal(400, "a request has one Host header")
        host = given[0].lower()
        if (name := host_name(host)) not in self._hosts and not _is_address(name):
            raise Refusal(403, f"this server is not {name[:100]!r}; `docstore serve --allow-host NAME` makes it so")
        return host

    def _check_origin(self, exchange: Exchange, host: str) -> None:
        origins = _values(exchange, b"origin")
        own = {f"http://{host}", f"https://{host}"}
        for origin in origins:
            if origin.lower() not in self._origins | own:
                raise Refusal(
                    403, f"pages of {origin[:100]!r} may not ask; `docstore serve --allow-origin ORIGIN` lets them"
                )
        if origins or exchange.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return
        is_link = exchange.headers.get("sec-fetch-mode") == "navigate" and exchange.method == "GET"
        if not is_link or exchange.scope["path"].startswith("/v1"):
            raise Refusal(403, "web pages of other origins may not ask")


def check_grade(exchange: Exchange, needed: Grade) -> None:
    """Refuse an asker who may not do this.

    Raises:
        Refusal: 401 without a token that is known, 403 with one of a lower grade.
    """
    if exchange.grade >= needed:
        return
    if exchange.grade is Grade.NONE:
        raise Refusal(401, "give a token: `Authorization: Bearer TOKEN`")
    raise Refusal(403, f"this needs a token of grade {needed.name.lower()}; yours is {exchange.grade.name.lower()}")


def host_name(host: str) -> str:
    """The name or address in a Host header, without its port."""
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name if ":" in name and (not port or port.startswith(":")) else host
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    """Whether it is an address: no name that somebody else could let resolve to ours."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _values(exchange: Exchange, name: bytes) -> list[str]:
    headers: Iterable[tuple[bytes, bytes]] = exchange.scope["headers"]
    return [value.decode("latin-1") for key, value in headers if key == name]
