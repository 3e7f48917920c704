"""Rejected captures: for which pages they are rejected, their previous versions, and when they are stored again."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest
from blake3 import blake3
from cli_case import Terminal
from pages import page, words

import docstore
from docstore import Policy, Previous, Schema, UnsupportedFormat, VerdictKind
from docstore.model.capture import decode_verdict
from docstore.reading import queries as scans
from docstore.storage.schema import decode_schema, encode_schema
from docstore.sweep.job import SweepOptions, sweep
from tests.serving import serving

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
SECOND = 1_000_000
A, B, C = (f"https://h.example/{name}" for name in "abc")
STRANGER = "https://stranger.example/"
REJECT = {VerdictKind.EXACT: Policy.REJECT}
REJECT_ANY = dict.fromkeys((VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR), Policy.REJECT_ANY)


def put(
    store: docstore.DocumentStore, url: str, body: bytes, second: int, policies: dict[VerdictKind, Policy] = REJECT
) -> docstore.PutResult:
    return store.put_page(url, body, headers=HTML, fetched_at=T0 + second * SECOND, policies=policies)


@pytest.mark.parametrize("rejected", [0, 1, 2, 3])
def test_the_previous_version_is_found_before_rejected_captures(store: docstore.DocumentStore, rejected: int) -> None:
    own = page(words(0, 80))
    put(store, A, own, 0)
    for number in range(rejected):
        other = page(words(number + 1, 80))
        put(store, B, other, 10 + 2 * number)
        assert put(store, A, other, 11 + 2 * number).stored == "rejected"
    again = put(store, A, own, 90)
    assert (again.previous, again.previous_similarity, again.stored) == (Previous.SAME_BYTES, 1.0, "confirmed")


def test_a_rejected_capture_is_known_only_while_it_would_be_rejected_again(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    assert put(store, B, body, 1).stored == "rejected"
    assert put(store, B, body, 1).stored == "known"
    store.delete(A)
    again = put(store, B, body, 1)
    assert (again.verdict.kind, again.stored, again.timestamp) == (VerdictKind.NEW, "body", T0 + SECOND)
    found = store.get(B)
    assert found is not None and found.body == body
    assert found.text is not None and found.text.split() == words(1, 80)
    assert list(store.rejected()) == []
    assert put(store, C, body, 2).verdict.of_url == B


def test_scans_say_none_for_a_row_without_a_find(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, body, 1)
    put(store, C, page(words(2, 80)), 2)
    rejected = scans.rejected(store.table, store.backend.values)
    assert [None if one is None else one[0] for one in rejected] == [None, B, None]
    assert [one[0] for one in store.rejected()] == [B]
    assert list(scans.orphans(store.table, store.backend.values)) == [None, None, None]
    store.delete(A)
    found = [None if one is None else one.url for one in scans.orphans(store.table, store.backend.values)]
    assert found == [B, None] and [one.url for one in store.orphans()] == [B]


def test_a_rejected_capture_names_the_page_that_is_left(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, C, body, 1, {})
    put(store, B, body, 2)
    store.delete(A)
    again = put(store, B, body, 2)
    assert (again.stored, again.verdict.of_url) == ("rejected", C)
    assert [(url, verdict.of_url) for url, _, verdict in store.rejected()] == [(B, C)]


def test_a_rejected_capture_is_stored_under_another_policy(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, body, 1)
    assert put(store, B, body, 1, {}).stored == "body"
    assert put(store, B, body, 1, {}).stored == "known"


# --- no page is rejected for a page of another host


def test_no_page_is_rejected_for_another_host_unless_the_policy_says_so(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, STRANGER, body, 0)
    kept = put(store, A, body, 1)
    assert (kept.verdict.kind, kept.verdict.of_url, kept.stored) == (VerdictKind.EXACT, STRANGER, "body")
    assert put(store, B, body, 2, REJECT_ANY).stored == "rejected"


def test_pages_are_not_rejected_for_a_page_that_contains_their_texts(store: docstore.DocumentStore) -> None:
    texts = [words(number, 80) for number in range(5)]
    hidden = "".join(f"<div hidden style='display:none'><p>{' '.join(text)}</p></div>" for text in texts)
    put(store, STRANGER, page(words(9, 60)).replace(b"</body>", hidden.encode() + b"</body>"), 0, REJECT_ANY)
    put(store, A, page([word for text in texts for word in text]), 1, REJECT_ANY)
    for number, text in enumerate(texts):
        result = put(store, f"https://h.example/{number}", page(text), 2, REJECT_ANY)
        assert result.stored == "body", result.verdict.kind


def test_a_page_is_rejected_only_for_one_that_still_shows_its_content(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, A, page(words(2, 80)), 1)
    pages = [docstore.Page(C, page(words(3, 80)), 200, HTML, T0), docstore.Page(C, b"gone", 404, HTML, T0 + SECOND)]
    pages += [docstore.Page(B + name, page(words(3, 80)), 200, HTML, T0 + 2 * SECOND) for name in "12"]
    assert put(store, B, body, 2).stored == "body"
    assert [result.stored for result in store.put_pages(pages, policies=REJECT)] == ["body"] * 3 + ["rejected"]


def orphans(store: docstore.DocumentStore) -> list[tuple[str, str, str]]:
    return [(one.url, str(one.loss), one.verdict.of_url) for one in store.orphans()]


def test_rejected_pages_are_orphans_when_their_duplicate_goes_or_changes(store: docstore.DocumentStore) -> None:
    body, near = page(words(1, 80)), page([*words(1, 80), "more"])
    put(store, A, body, 0)
    rejected = [put(store, url, part, 1, REJECT_ANY) for url, part in ((B, body), (STRANGER, near))]
    assert [result.stored for result in rejected] == ["rejected"] * 2 and orphans(store) == []
    put(store, A, body, 2)  # confirms
    assert orphans(store) == []
    put(store, A, page(words(2, 80)), 3)
    assert orphans(store) == [(B, "changed", A), (STRANGER, "changed", A)]
    store.delete(A)
    put(store, A, page(words(2, 80)), 3)
    (one, _) = store.orphans()
    assert (one.loss, one.timestamp, one.verdict.kind) == ("gone", T0 + SECOND, VerdictKind.EXACT)
    assert one.checksum[1:] == blake3(body).digest()
    assert put(store, B, body, 4).stored == "body"
    assert orphans(store) == [(STRANGER, "gone", A)]
    store.put_page(STRANGER, status=304, fetched_at=T0 + 5 * SECOND)
    assert orphans(store) == [(STRANGER, "gone", A)]
    put(store, STRANGER, near, 1, REJECT_ANY)  # near B now: rejected again, for a page that stands
    assert orphans(store) == []
    store.delete(B)
    assert orphans(store) == [(STRANGER, "gone", B)]


# --- what an older docstore does not know


def test_words_of_a_newer_docstore_are_refused_by_name() -> None:
    known = encode_schema(Schema(policies={"exact": "reject-any"}))
    assert decode_schema(known).policy(VerdictKind.EXACT) is Policy.REJECT_ANY
    for old, new in (
        (b"\xaareject-any", b"\xaareject-few"),
        (b"\xa5exact", b"\xa5alike"),
        (b"keyed_bands", b"keyed_hands"),
    ):
        assert old in known
        with pytest.raises(UnsupportedFormat, match=new.decode("latin-1")[-5:]):
            decode_schema(known.replace(old, new))
    with pytest.raises(UnsupportedFormat, match="number 6"):
        decode_verdict(msgpack.packb([6, b"", 0, 0, "", b"", 0, 0, 0, 0, 0]))


# --- what a rejected page is to its reader


def reached(store: docstore.DocumentStore, url: str, **how: int) -> tuple[str, int, tuple[str, ...]] | None:
    found = store.get(url, follow_duplicates=True, **how)
    return None if found is None else (found.url, (found.timestamp - T0) // SECOND, found.via)


def test_history_lists_rejected_fetches(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, page(words(2, 80)), 1)
    put(store, B, body, 2)
    assert store.put_page(B, status=304, fetched_at=T0 + 3 * SECOND).stored == "visit"  # it confirms no older page
    found = [(one.timestamp - T0) // SECOND for one in store.history(B)]
    assert found == [2, 1]
    rejected = store.history(B)[0].newest
    assert rejected.verdict is not None and rejected.shown_verdict is not None
    assert (rejected.verdict.stored, rejected.shown_verdict.kind, rejected.shown_verdict.of_url) == (
        "rejected",
        "exact",
        A,
    )
    assert (rejected.status, rejected.body, rejected.checksum) == (None, None, b"\x01" + blake3(body).digest())


def test_a_rejected_page_is_served_by_the_page_that_it_duplicates(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, body, 1)
    assert store.get(B) is None and B not in store
    assert reached(store, B) == (A, 0, (B,))
    assert reached(store, B, at=T0) is None  # it had not been fetched then
    assert reached(store, A) == (A, 0, ())
    assert reached(store, C) is None
    put(store, A, page(words(2, 80)), 2)
    assert reached(store, B) == (A, 0, (B,))  # the version that it repeats, not what its URL shows today
    put(store, B, page(words(3, 80)), 3)
    assert reached(store, B) == (B, 3, ())


def test_a_url_with_a_newer_rejected_fetch_does_not_show_its_older_version(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, B, page(words(2, 80)), 0)
    put(store, A, body, 1)
    put(store, B, body, 2)
    assert reached(store, B) == (A, 1, (B,))
    assert reached(store, B, at=T0 + SECOND) == (B, 0, ())


def test_a_rejected_page_without_its_original_is_not_served(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, body, 1)
    store.delete(A)
    assert reached(store, B) is None and len(store.history(B)) == 1
    put(store, A, page(words(2, 80)), 2)
    assert reached(store, B) is None  # other bytes
    put(store, A, body, 3)
    assert reached(store, B) == (A, 3, (B,))


def test_rejected_pages_are_followed_along_a_chain_of_the_same_bytes(store: docstore.DocumentStore) -> None:
    body, other = page(words(1, 80)), page(words(2, 80))
    put(store, A, body, 0)
    put(store, B, body, 1)
    store.delete(A)
    put(store, C, body, 2)
    put(store, A, body, 3)
    assert reached(store, B) == (C, 2, (B,))
    store.delete(C)
    assert reached(store, B) is None
    put(store, C, other, 4)
    put(store, A, other, 5)  # rejected for C by now, of other bytes than B
    assert reached(store, A) == (C, 4, (A,)) and reached(store, B) is None


def test_rejected_pages_that_name_each_other_end(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, body, 1)
    store.delete(A)
    assert put(store, C, body, 2).stored == "body"
    put(store, A, body, 3)
    store.delete(C)
    put(store, B, body, 4)
    store.delete(A)
    put(store, A, body, 5)
    assert [reached(store, url) for url in (A, B)] in ([(B, 4, (A,)), (B, 4, ())], [(A, 5, ()), (A, 5, (B,))])


TAGS = (*HTML, ("ETag", '"copy"'), ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"), ("X-Other", "x"))


@pytest.mark.parametrize("swept", [False, True])
def test_validators_of_a_rejected_page_are_those_of_its_last_fetch(store: docstore.DocumentStore, swept: bool) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    policies = {} if swept else REJECT
    store.put_page(B, body, headers=TAGS, fetched_at=T0 + SECOND, policies=policies)
    if swept:
        sweep(store, SweepOptions(apply="reject"))
    expected = {"etag": '"copy"', "last_modified": TAGS[2][1], "last_visit": T0 + SECOND}
    assert store.get(B) is None and store.validators(B) == expected
    visit = store.put_page(B, status=304, headers=(("etag", '"later"'),), fetched_at=T0 + 2 * SECOND)
    assert (visit.stored, visit.verdict.kind, visit.verdict.of_url) == ("visit", VerdictKind.EXACT, A)
    assert store.get(B) is None
    assert store.validators(B) == expected | {"etag": '"later"', "last_visit": T0 + 2 * SECOND}
    assert store.put_page(B, status=304, fetched_at=T0 + 2 * SECOND).stored == "known"


@pytest.mark.parametrize("loss", ["changed", "deleted", "error", "nothing"])
def test_a_rejected_page_whose_original_shows_it_no_more_is_fetched(store: docstore.DocumentStore, loss: str) -> None:
    body, other = page(words(1, 80)), page(words(2, 80))
    put(store, A, body, 0)
    store.put_page(B, other, headers=TAGS, fetched_at=T0 + SECOND)
    assert store.put_page(B, body, headers=TAGS, fetched_at=T0 + 2 * SECOND, policies=REJECT).stored == "rejected"
    if loss == "changed":
        put(store, A, page(words(3, 80)), 3)
    elif loss == "error":
        store.put_page(A, page(words(3, 80)), status=404, fetched_at=T0 + 3 * SECOND)
    elif loss != "nothing":
        store.delete(A)
    assert (store.validators(B) is None) == (loss != "nothing"), "not those of the version before: its text is another"
    put(store, A, body, 9)
    assert (store.validators(B) is None) == (loss == "deleted"), "what was named is live, or gone"


def test_a_visit_after_a_rejected_fetch_that_comes_again_is_answered_the_same(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, page(words(2, 80)), 1)
    assert put(store, B, body, 2).stored == "rejected"
    first, again = (store.put_page(B, status=304, fetched_at=T0 + 3 * SECOND) for _ in range(2))
    assert (first.stored, first.verdict.kind, first.verdict.of_url) == ("visit", VerdictKind.EXACT, A)
    assert (again.stored, again.known_as, again.verdict) == ("known", "visit", first.verdict)


def test_a_visit_that_comes_again_after_a_late_rejected_fetch_keeps_its_page(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    put(store, B, page(words(2, 80)), 1)
    first = store.put_page(B, status=304, fetched_at=T0 + 3 * SECOND)
    assert first.stored == "confirmed"
    assert put(store, B, body, 2).stored == "rejected"
    again = store.put_page(B, status=304, fetched_at=T0 + 3 * SECOND)
    assert (again.stored, again.known_as, again.verdict) == ("known", "confirmed", first.verdict)


def test_an_endless_validator_is_not_kept_of_a_rejected_page(store: docstore.DocumentStore) -> None:
    body = page(words(1, 80))
    put(store, A, body, 0)
    store.put_page(B, body, headers=(("ETag", "x" * 5000),), fetched_at=T0 + SECOND, policies=REJECT)
    assert store.validators(B) == {"etag": "", "last_modified": "", "last_visit": T0 + SECOND}


# --- a page whose newest fetch was rejected says so


def test_a_page_says_that_its_newest_fetch_was_rejected(store: docstore.DocumentStore) -> None:
    body, own = page(words(1, 80)), page(words(2, 80))
    put(store, A, body, 0)
    put(store, B, own, 1)
    assert put(store, B, body, 2).stored == "rejected"
    store.put_page(B, status=304, fetched_at=T0 + 3 * SECOND)
    found = store.get(B)
    assert found is not None and found.rejected is not None and found.body == own
    rejected = found.rejected
    assert (rejected.url, rejected.timestamp, rejected.verdict.kind) == (B, T0 + 2 * SECOND, VerdictKind.EXACT)
    assert rejected.verdict.of_url == A
    assert [store.get(B, at=T0 + n * SECOND).rejected is None for n in (1, 2)] == [True, False]  # type: ignore[union-attr]
    assert store.get(A).rejected is None  # type: ignore[union-attr]
    assert found.asdict()["rejected"]["verdict"]["of_url"] == A
    put(store, B, own, 4)
    assert store.get(B).rejected is None  # type: ignore[union-attr]


def test_every_face_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with docstore.open(tmp_path / "store", create=True) as store:
        put(store, A, page(words(1, 80)), 0)
        put(store, B, page(words(2, 80)), 1)
        put(store, B, page(words(1, 80)), 2)
    terminal, word = Terminal(tmp_path / "store", capsys), words(2, 80)[7]
    shown = terminal("get", B)
    assert f"the newest fetch is not shown: {B} was rejected at 2023-11-14T22:13:22Z: exact copy of {A}" in shown.err
    assert word in shown.out
    fields = terminal("get", B, "--json").object()
    assert (fields["rejected"]["timestamp"], fields["rejected"]["verdict"]["kind"]) == ("2023-11-14T22:13:22Z", "exact")
    assert "rejected" not in terminal("get", A, "--json").object()
    terminal("index")
    assert "newest fetch rejected" in terminal("search", word).out
    assert terminal("search", word, "--json").object()["rejected"]["verdict"]["of_url"] == A
    with serving(tmp_path / "store") as served:
        assert served.http.get("/v1/page", params={"url": B}).json()["rejected"]["verdict"]["of_url"] == A
        for path, query in (("/page", {"url": B}), ("/search", {"query": word})):
            text = served.http.get(path, params=query, headers={"accept": "text/html"}).text
            assert "ewest fetch" in text and A in text, path
