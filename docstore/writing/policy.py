"""How a page is stored: the one rule of policies, over named facts about the page.

    how_stored(facts, policy) -> one of the STORED_ words

The rule is pure: it reads nothing.  `policy_table` has its answers for all cases, for the native core, which reads a
fact of the policy's page only if the answer depends on it (`native/store/src/own.rs`).  `sweep --apply` asks the
function.  The first line that holds decides:

    fact                                             flag    reference    reject     reject-any
    is_damaged                                       body    body         body       body
    confirms, and not is_shown                       confirmed, under every policy
    not names_page                                   whole   whole        whole      whole
    wants_body, and not body_is_kept                 whole   whole        whole      whole
    not wants_body                                   text    text         (below)    (below)
    not same_site                                    whole   reference    whole      (below)
    is_current, and not is_shown                     whole   reference    rejected   rejected
    else                                             whole   reference    whole      whole

`whole` is body, or text if the caller does not want the body stored.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.model.capture import (
    STORED_BODY,
    STORED_CONFIRMED,
    STORED_REFERENCE,
    STORED_REJECTED,
    STORED_TEXT,
)
from docstore.model.format import VERDICT_STORED
from docstore.model.types import Policy


class Facts(NamedTuple):
    """What the rule asks about a page that has its verdict.

    Attributes:
        is_damaged: its row has the same bytes, but they cannot be read.
        confirms: the page of its own row before it has the same bytes under a status of the same class, and its body is
            kept if this page's body is wanted.
        is_shown: readers see another capture of its row at this very time.
        wants_body: the caller wants its body stored.
        names_page: its verdict names a page, the policy's page.
        same_site: the policy's page is of the same site.
        body_is_kept: the body of the policy's page is kept.
        is_current: the policy's page is what its URL shows today.
    """

    is_damaged: bool
    confirms: bool
    is_shown: bool
    wants_body: bool
    names_page: bool
    same_site: bool
    body_is_kept: bool
    is_current: bool


def how_stored(facts: Facts, policy: Policy) -> str:
    """How a page is stored by the policy for its verdict: one of the STORED_ words of `model.capture`."""
    if facts.is_damaged:
        return STORED_BODY  # under every policy: it is the only readable copy
    if facts.confirms and not facts.is_shown:
        return STORED_CONFIRMED
    whole = STORED_BODY if facts.wants_body else STORED_TEXT
    if policy is Policy.FLAG or not facts.names_page:
        return whole
    if facts.wants_body and not facts.body_is_kept:
        return whole  # else its bytes would be nowhere
    if policy is Policy.REFERENCE:
        return STORED_REFERENCE if facts.wants_body else whole
    if policy is Policy.REJECT and not facts.same_site:
        return whole
    return STORED_REJECTED if facts.is_current and not facts.is_shown else whole


def policy_table() -> bytes:
    """The answers of `how_stored` as numbers in `VERDICT_STORED`: of each policy in turn all cases.

    The fact number i of `Facts` is the bit i of a case.
    """
    places = range(len(Facts._fields))
    cases = [Facts(*(bool(case >> place & 1) for place in places)) for case in range(1 << len(places))]
    return bytes(VERDICT_STORED.index(how_stored(facts, policy)) for policy in Policy for facts in cases)
