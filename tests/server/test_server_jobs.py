"""Jobs over HTTP: started, watched, refused and cancelled, beside writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from docstore.model.errors import StoreUnavailable
from docstore.model.types import Page
from docstore.reports.check import check
from docstore.serving.client import connect
from docstore.store import DocumentStore, open_store
from tests.serving import Serving, serving

AT = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("jobs")
    with serving(folder / "store", backup_root=folder / "backups") as one:
        body = "<title>t</title><p>" + " ".join(f"word{number}" for number in range(120))
        pages = [
            Page(f"https://a.example/{number}", f"{body} {number % 5}".encode(), fetched_at=AT) for number in range(60)
        ]
        list(one.store.put_pages(pages))
        yield one


def run(client: httpx.Client, kind: str, **options: Any) -> dict[str, Any]:
    """A job when it has ended."""
    answer = client.post("/v1/jobs", json={"kind": kind, "options": options})
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = answer.json()
    while job["state"] == "running":
        job = client.get(f"/v1/jobs/{job['id']}", params={"wait_seconds": 30, "revision": job["revision"]}).json()
    return job


def test_every_kind_of_job_runs_to_its_result(served: Serving, tmp_path: Path) -> None:
    swept = run(served.http, "sweep", threshold=0.8)
    assert swept["state"] == "done" and swept["result"]["captures"] == 60
    assert run(served.http, "compact", level="fast")["result"]["rows"] >= 60
    assert run(served.http, "reindex", dry_run=True)["result"]["unseen"] == 0
    assert run(served.http, "check")["result"] == {"count": 0, "problems": []}
    backup = run(served.local, "backup", folder=str(tmp_path / "copy"))
    assert backup["result"]["segments"] >= 1
    listed = served.http.get("/v1/jobs").json()["jobs"]
    assert [one["kind"] for one in listed] == ["backup", "check", "reindex", "compact", "sweep"]


def test_times_in_the_result_of_a_job_are_iso_8601(served: Serving) -> None:
    result = run(served.http, "report")["result"]
    assert result["oldest"] == result["newest"] == "2023-11-14T22:13:20Z"
    assert result["periods"][0]["since"].startswith("2023-11-14T22:13:")


def test_files_are_named_only_where_that_is_allowed(served: Serving, tmp_path: Path) -> None:
    for client, options, status in (
        (served.http, {"folder": str(tmp_path / "elsewhere")}, 403),
        (served.http, {"folder": f"{tmp_path}/../backups/../../x"}, 403),
        (served.http, {"folder": "relative"}, 400),
        (served.local, {"folder": "relative"}, 400),
    ):
        answer = client.post("/v1/jobs", json={"kind": "backup", "options": options})
        assert answer.status_code == status, answer.text
    inside = Path(served.store.backend.path).parent / "backups" / "one"
    inside.parent.mkdir()
    assert run(served.http, "backup", folder=str(inside))["state"] == "done"
    pairs = {"kind": "sweep", "options": {"pairs": str(tmp_path / "pairs.tsv")}}
    assert served.http.post("/v1/jobs", json=pairs).status_code == 403


def test_what_is_no_job_is_refused(served: Serving) -> None:
    for job, word in (
        ({"kind": "explode"}, "there are compact"),
        ({"kind": "compact", "options": {"level": 3}}, "options.level"),
        ({"kind": "compact", "options": {"speed": 3}}, "speed"),
    ):
        answer = served.http.post("/v1/jobs", json=job)
        assert answer.status_code == 400 and word in answer.json()["error"]["message"]
    assert served.http.get("/v1/jobs/none-1").status_code == 404
    assert served.http.delete("/v1/jobs/none-1").status_code == 404
    failed = run(served.http, "compact", level="fastest")
    assert failed["state"] == "failed" and failed["error"]["class"] == "InvalidArgument"


def test_a_job_while_another_of_its_kind_runs_is_refused_as_unavailable(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client is told to wait: its call was right, as that of a second `compact` in one process is."""
    runs, ends, compact = Event(), Event(), DocumentStore.compact

    def held(store: DocumentStore, **options: Any) -> object:
        runs.set()
        assert ends.wait(60)
        return compact(store, **options)

    monkeypatch.setattr(DocumentStore, "compact", held)
    first = served.http.post("/v1/jobs", json={"kind": "compact"}).json()
    assert runs.wait(60)
    with connect(served.server.url) as client, pytest.raises(StoreUnavailable, match="wait for it"):
        client.compact()
    ends.set()
    while served.http.get(f"/v1/jobs/{first['id']}", params={"wait_seconds": 30}).json()["state"] == "running":
        pass


def test_a_cancelled_job_leaves_a_sound_store(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served:
        pages = [Page(f"https://b.example/{number}", b"<p>some words " * 40, fetched_at=AT) for number in range(30)]
        list(served.store.put_pages(pages))
        for kind in ("compact", "sweep", "check", "reindex"):
            job = served.http.post("/v1/jobs", json={"kind": kind}).json()
            served.http.delete(f"/v1/jobs/{job['id']}")
            while job["state"] == "running":
                job = served.http.get(
                    f"/v1/jobs/{job['id']}", params={"wait_seconds": 30, "revision": job["revision"]}
                ).json()
            assert job["state"] in ("cancelled", "done"), job
        assert list(check(served.store.backend)) == []
    with open_store(tmp_path / "store") as store:
        assert all(store.get(page.url) for page in pages)
