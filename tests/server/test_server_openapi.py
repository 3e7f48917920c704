"""Any bytes at any route give an answer with a reason: what the OpenAPI allows, and what it does not."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from counts import share
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from docstore.serving.settings import Limits
from tests.serving import Serving, serving

KINDS = {"InvalidArgument", "StoreUnavailable", "Absent", "NotFound", "Forbidden", "CommitUnknown", "StorageError"}
QUIET = settings(
    max_examples=share(4, 2),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
LONG = settings(QUIET, max_examples=200)
RAW = st.binary(max_size=300) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("fuzzed") / "store", limits=Limits(body_seconds=5)) as one:
        one.store.put_page("https://a.example/", b"<p>" + b"words " * 60, fetched_at=1_700_000_000_000_000)
        yield one


@functools.cache
def operations(url: str) -> list[Any]:
    import schemathesis

    schema = schemathesis.openapi.from_url(f"{url}/v1/openapi.json")
    return [one.ok() for one in schema.get_all_operations()]


def accepts(status: int, body: bytes) -> None:
    """An answer that says what is wrong, if anything is; one to HEAD has no body."""
    assert b"Traceback" not in body
    if status >= 400 and body:
        parsed = json.loads(body)
        assert status < 500 or status in (503, 507), (status, body[:500])
        assert parsed["error"]["message"] and parsed["error"]["class"] in KINDS, body[:500]


def ask_everything(served: Serving, how: settings) -> int:
    """Ask each operation what its schema allows; -> how many there are."""
    found = operations(served.server.url)
    for operation in found:

        @how
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            if case.path.startswith("/v1/jobs") and case.method.upper() == "POST":
                return  # what a job does is tested by itself
            answer = case.call(base_url=served.server.url, timeout=30)
            accepts(answer.status_code, answer.content)

        ask()
    return len(found)


def ask_with_bytes(served: Serving, how: settings) -> None:
    """Ask each operation with bytes that are nothing, and parameters that are anything."""
    kinds = st.sampled_from(["application/json", "application/msgpack", "text/html"])

    @how
    @given(st.sampled_from(operations(served.server.url)), RAW, kinds, st.text())
    def ask(operation: Any, body: bytes, kind: str, value: str) -> None:
        path = operation.path.replace("{name}", "some-job")
        params = {one.name: value.encode("utf-8", "surrogatepass") for one in operation.query}
        answer = served.http.request(
            operation.method.upper(), path, params=params, content=body, headers={"content-type": kind}
        )
        accepts(answer.status_code, answer.content)

    ask()


def test_what_the_openapi_allows_is_answered(served: Serving) -> None:
    assert ask_everything(served, QUIET) > 35
    assert '"bug"' not in served.logged()


def test_what_it_does_not_allow_is_refused_with_a_reason(served: Serving) -> None:
    ask_with_bytes(served, settings(QUIET, max_examples=share(120, 4)))
    assert '"bug"' not in served.logged()


@pytest.mark.slow
def test_both_for_long(served: Serving) -> None:
    ask_everything(served, LONG)
    ask_with_bytes(served, settings(QUIET, max_examples=5000))
    assert '"bug"' not in served.logged()
    assert served.http.get("/healthz").status_code == 200
