"""Routes of the operator's page.

Knows HTTP, who may look, and which view answers; must not know what a view reads.  GET changes nothing.  POST starts
and stops jobs, for a visitor who may (grade admin), with the proof of a page that this server has made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import parse_qs

from litestar import Response, get, post

from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.server.answers import AnyRequest, Asked
from docstore.server.exchange import Exchange, exchange_of
from docstore.server.page.access import Access
from docstore.server.page.clusters import clusters
from docstore.server.page.comparing import comparison
from docstore.server.page.lookup import listing, lookup
from docstore.server.page.overview import overview
from docstore.server.page.render import html, render, style
from docstore.server.refusals import Refusal, failure, is_bug
from docstore.server.routes.described import opens
from docstore.server.service import Service
from docstore.server.tokens import CHALLENGE, Grade, Tokens
from docstore.version import __version__

OPEN: Final = opens(Grade.NONE)
"""The page settles itself who may look: a browser asks for a password only if an answer says so."""
STARTED_HERE: Final = ("compact", "sweep", "check")
MOST_FORM_BYTES: Final = 10_000
LARGEST_TIME: Final = 2**62

View = Callable[[], dict[str, Any]]


def make_page(tokens: Tokens | None) -> list[Any]:
    """The routes.

    Args:
        tokens: who may do what; None where only this machine can ask.
    """
    access = Access(tokens)

    async def answer(request: AnyRequest, service: Service, template: str, view: View | None) -> Response[bytes]:
        exchange = exchange_of(request.scope)
        if access.grade(exchange) < Grade.READ:
            return _denied(access, exchange, service)
        base = _base(access, exchange, service)
        status = 200
        try:
            values = await service.read(view) if view else {}
            if values.get("page", True) is None or values.get("pages", True) is None:
                status = 404
            raw = await service.read(render, template, base | values)
        except DocstoreError as error:
            if is_bug(error):
                raise
            status = failure(error)[0]
            raw = render("error.html", base | {"message": str(error)})
        return html(raw, status)

    @get("/", opt=OPEN)
    async def show_overview(request: AnyRequest, service: Asked) -> Response[bytes]:
        """How much there is."""
        return await answer(
            request, service, "overview.html", lambda: overview(service.store, service.metrics.rate.minutes())
        )

    @get("/page", opt=OPEN)
    async def show_page(request: AnyRequest, service: Asked) -> Response[bytes]:
        """One URL."""
        given = _Query(request)
        return await answer(
            request, service, "lookup.html", lambda: lookup(service.store, given.text("url"), given.time("at"))
        )

    @get("/list", opt=OPEN)
    async def show_list(request: AnyRequest, service: Asked) -> Response[bytes]:
        """URLs with a prefix."""
        given = _Query(request)

        def view() -> dict[str, Any]:
            return listing(service.store, given.text("prefix").strip(), given.text("after"))

        return await answer(request, service, "list.html", view)

    @get("/clusters", opt=OPEN)
    async def show_clusters(request: AnyRequest, service: Asked) -> Response[bytes]:
        """Clusters of the last sweep."""
        given = _Query(request)
        return await answer(request, service, "clusters.html", lambda: clusters(service.store, given.text("after")))

    @get("/diff", opt=OPEN)
    async def show_diff(request: AnyRequest, service: Asked) -> Response[bytes]:
        """Two captures side by side."""
        given = _Query(request)

        def view() -> dict[str, Any]:
            one, other = given.text("a"), given.text("b")
            return comparison(service.store, one, given.time("a_at"), other, given.time("b_at"))

        return await answer(request, service, "diff.html", view)

    @get("/jobs", opt=OPEN)
    async def show_jobs(request: AnyRequest, service: Asked) -> Response[bytes]:
        """Long work, running and done."""
        return await answer(request, service, "jobs.html", None)

    @post("/jobs", opt=OPEN, status_code=303)
    async def change_jobs(request: AnyRequest, service: Asked) -> Response[bytes]:
        """Start or stop a job; then its list."""
        exchange = exchange_of(request.scope)
        if access.grade(exchange) < Grade.READ:
            return _denied(access, exchange, service)
        try:
            if exchange.grade < Grade.ADMIN:
                raise Refusal(403, "starting and stopping jobs needs a token of grade admin")
            form = await _form(exchange)
            if not access.is_proof(exchange, form.get("proof", "")):
                raise Refusal(403, "this form is of an earlier run of the server; load the page again")
            _change(service, form)
        except DocstoreError as error:
            if is_bug(error):
                raise
            base = _base(access, exchange, service)
            return html(render("error.html", base | {"message": str(error)}), failure(error)[0])
        return html(b"", 303, {"location": "/jobs"})

    @get("/page.css", opt=OPEN, sync_to_thread=False)
    def show_style() -> Response[bytes]:
        """The style sheet; it says nothing of the store."""
        return style()

    return [
        show_overview, show_page, show_list, show_clusters, show_diff, show_jobs, change_jobs, show_style,
    ]  # fmt: skip


class _Query:
    """Parameters of a request; a wrong one is told when the view is made, so that it is shown as a page."""

    def __init__(self, request: AnyRequest) -> None:
        raw = request.scope["query_string"].decode("latin-1")
        try:
            self._values = parse_qs(raw, errors="surrogateescape", max_num_fields=20)
            self._is_wrong = False
        except ValueError:
            self._values, self._is_wrong = {}, True

    def text(self, name: str) -> str:
        """A parameter; "" if it is not there."""
        if self._is_wrong:
            raise InvalidArgument("this address has more parameters than any page here")
        return self._values.get(name, [""])[0]

    def time(self, name: str) -> int | None:
        """A time in microseconds; None if it is not there."""
        value = self.text(name)
        if not value:
            return None
        if not value.isascii() or not value.isdecimal() or len(value) > 19 or int(value) > LARGEST_TIME:
            raise InvalidArgument(f"{name} is a time in microseconds since 1970, not {value[:40]!r}")
        return int(value)


def _base(access: Access, exchange: Exchange, service: Service) -> dict[str, Any]:
    """Values of every template."""
    may_change = exchange.grade >= Grade.ADMIN
    jobs = [asdict(job) for job in service.jobs.list()]
    return {
        "version": __version__,
        "store_name": service.store.opened.path.name,
        "asker": exchange.asker,
        "jobs": jobs,
        "running": [job for job in jobs if job["state"] == "running"],
        "trouble": service.health.trouble(),
        "may_change": may_change,
        "proof": access.proof(exchange) if may_change else "",
        "archive_url": service.archive_url,
        "startable": STARTED_HERE,
    }


def _denied(access: Access, exchange: Exchange, service: Service) -> Response[bytes]:
    values = {"version": __version__, "store_name": "", "asker": "", "running": [], "trouble": ""}
    return html(render("denied.html", values), 401, {"www-authenticate": CHALLENGE})


async def _form(exchange: Exchange) -> dict[str, str]:
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refusal(415, "this takes the form of its own page")
    raw = await exchange.body(MOST_FORM_BYTES)
    try:
        found = parse_qs(raw.decode("ascii"), max_num_fields=20)
    except ValueError as error:
        raise InvalidArgument("this is no form of this page") from error
    return {name: values[0] for name, values in found.items()}


def _change(service: Service, form: dict[str, str]) -> None:
    if form.get("cancel"):
        service.jobs.cancel(form["cancel"])
        return
    kind = form.get("start", "")
    if kind not in STARTED_HERE:
        raise InvalidArgument(f"this page starts {', '.join(STARTED_HERE)}, not {kind[:100]!r}")
    options: dict[str, Any] = {}
    if kind == "compact":
        options["level"] = form.get("level", "fast")
    if kind == "sweep" and form.get("threshold"):
        try:
            options["threshold"] = float(form["threshold"])
        except ValueError as error:
            raise InvalidArgument(f"a threshold is a number such as 0.8, not {form['threshold'][:40]!r}") from error
    service.jobs.start(kind, options, is_local=False)
