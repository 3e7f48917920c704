"""Who looks at the page: HTTP Basic with a token as the password; and what changes something carries a proof.

Knows headers and tokens; must not know what is shown.  A browser keeps Basic credentials for one origin, host and port:
unlike a cookie they never reach the archive API, which shows stored pages on another port.  It sends them by itself,
so a form carries a proof that only a page of this server can hold; requests of other origins are refused before that.
"""

from __future__ import annotations

import hashlib
import hmac
import os

from docstore.server.exchange import Exchange
from docstore.server.tokens import Grade, Tokens


class Access:
    """Settles who looks.

    Args:
        tokens: who may do what; None where only this machine can ask.
    """

    def __init__(self, tokens: Tokens | None) -> None:
        self._tokens = tokens
        self._secret = os.urandom(32)

    def grade(self, exchange: Exchange) -> Grade:
        """What the visitor may do; names it in the exchange."""
        if exchange.grade is Grade.NONE and self._tokens is not None:
            token = self._tokens.of_header(exchange.headers.get("authorization", ""), ("basic",))
            if token is not None:
                exchange.grade, exchange.asker = token.grade, token.name
        return exchange.grade

    def proof(self, exchange: Exchange) -> str:
        """What a form of this visitor carries."""
        return hmac.new(self._secret, exchange.asker.encode(), hashlib.sha256).hexdigest()

    def is_proof(self, exchange: Exchange, given: str) -> bool:
        """Whether a form came from a page that this visitor was shown."""
        return hmac.compare_digest(self.proof(exchange).encode(), given.encode("utf-8", "replace"))
