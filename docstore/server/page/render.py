"""Templates into answers, with the headers that keep a browser from doing anything but showing them.

Knows jinja2; must not know the store.  Every value is escaped: `autoescape` holds for all templates, and none of them
marks a value as safe (a test reads them).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response

from docstore.model.keys import shown_url
from docstore.server.page import shown

HTML = "text/html"
# Referrers stay here.  `no-referrer` would also make a browser send `Origin: null` with our forms, which is refused.
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("docstore.server.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for filter_ in (shown_url, shown.size, shown.number, shown.moment, shown.duration):
        made.filters[filter_.__name__] = filter_
    made.globals["address"] = shown.address
    made.globals["percent"] = shown.percent
    return made


def render(template: str, values: dict[str, Any]) -> bytes:
    """HTML of a template; bytes of no character set that a page had are shown as marks of what is missing."""
    return _environment().get_template(template).render(values).encode("utf-8", "replace")


def html(raw: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """An answer that a browser may only show."""
    return Response(raw, status_code=status, headers={**HEADERS, **(headers or {})}, media_type=HTML)


@lru_cache(maxsize=1)
def _style_sheet() -> bytes:
    return files("docstore.server.page").joinpath("style.css").read_bytes()


def style() -> Response[bytes]:
    """The style sheet."""
    headers = {
        "x-content-type-options": "nosniff",
        "cache-control": "max-age=300",
        "content-security-policy": "default-src 'none'",
    }
    return Response(_style_sheet(), headers=headers, media_type="text/css")
