"""sweep, diff, stats --dedup, lsh, reindex and export --collapse, through the terminal on small real stores."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import docstore
from docstore.cli.main import main
from docstore.dedup.index import has_postings
from docstore.model.capture import TEXT_CHECKSUM, PagePointer
from docstore.model.choices import Durability, VerdictKind
from docstore.model.format import POSTING_TEXT
from docstore.model.plain import iso
from docstore.model.types import DeleteRow, RowMutations
from docstore.reports.dedup import dedup_stats
from docstore.storage.engine import Engine
from tests.cli_case import Terminal, article, html
from tests.pages import changed
from tests.stores import change_capture

SECOND = 1_000_000
TYPE = {"Content-Type": "text/html; charset=utf-8"}
A, NEAR, COPY, OTHER = (f"https://example.com/{name}" for name in ("a", "near", "copy", "other"))

ENDING = [f"ending{number}" for number in range(20)]


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A store with a page, one near it, a copy, and another page in two versions."""
    text = article(1, 200)
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        for second, (url, body) in enumerate(
            [
                (A, html("Tablets", text)),
                (NEAR, html("Tablets", changed(text, 3, 2))),
                (COPY, html("Tablets", text)),
                (OTHER, html("Other", article(2))),
                (OTHER, html("Other", [*article(2)[:100], *ENDING])),
            ]
        ):
            store.put_page(url, body, headers=TYPE, fetched_at=(second + 1) * SECOND, any_time=True)
    return Terminal(tmp_path / "store", capsys)


def drop_postings(engine: Engine, keep: int) -> None:
    """Delete all postings but the first few rows."""
    rows = [row.row_key for row in engine.scan("postings")][keep:]
    engine.mutate_rows([RowMutations("postings", row_key, [DeleteRow()]) for row_key in rows], Durability.NONE)


# --- reindex


def test_a_text_that_leads_to_no_page_is_found_and_posted_again(terminal: Terminal) -> None:
    """Body and keys are posted, the row between them is not: no page would be found by that text."""
    with docstore.open(terminal.store, durability="none") as store:
        texts = list(store.backend.engine.scan("postings", bytes((POSTING_TEXT,)), bytes((POSTING_TEXT + 1,))))
        rows = [RowMutations("postings", row.row_key, [DeleteRow()]) for row in texts]
        store.backend.engine.mutate_rows(rows, Durability.NONE)
    assert terminal("check").code == 5
    assert terminal("tool", "reindex", "--json").object()["posted"] == 5
    assert terminal("check").code == 0
    with docstore.open(terminal.store, durability="none") as store:
        again = list(store.backend.engine.scan("postings", bytes((POSTING_TEXT,)), bytes((POSTING_TEXT + 1,))))
        assert again == texts


# --- sweep


def test_sweep_prints_totals_and_writes_pairs(terminal: Terminal, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    answer = terminal("sweep", "--dry-run", "--pairs", str(pairs), "--json")
    report = answer.object()
    assert (report["captures"], report["duplicates"], report["with_duplicates"]) == (5, 2, 3)
    assert (report["pairs"], report["written"], report["canonical_policy"]) == (3, 0, "canonical-link")
    lines = [line.split("\t") for line in pairs.read_text().splitlines()]
    assert [(one, other) for one, _, other, _, _ in lines] == [(A, COPY), (A, NEAR)]
    assert lines[0][4] == "1.000000"
    assert 0.8 < float(lines[1][4]) < 1
    shown = terminal("sweep")
    assert shown.code == 0
    assert "captures with 500 or more" in shown.out
    assert "clusters" in shown.out
    assert terminal("sweep", "--json").object()["written"] == 0
    assert (
        terminal("sweep", "--threshold", "0.99", "--canonical-policy", "shortest-url", "--json").object()["clusters"]
        == 1
    )


def test_sweep_applies_a_policy_and_says_what_it_did(terminal: Terminal) -> None:
    tried = terminal("sweep", "--apply", "reject", "--dry-run")
    assert "applied" in tried.out and "1 exact" in tried.out and "1 of another kind" in tried.out
    assert "nothing: dry run" in tried.out
    assert not terminal("dups", "--rejected", "--json").objects()
    done = terminal("sweep", "--apply", "reject", "--kinds", "exact, near", "--progress", "--json")
    assert done.object()["applied"] == {"exact": 1, "near": 1}
    assert "apply" in done.err
    assert len(terminal("dups", "--rejected", "--json").objects()) == 2
    assert re.search("^applied +no change$", terminal("sweep", "--apply", "reject").out, re.MULTILINE)
    assert "applied" not in terminal("sweep").out


def test_a_policy_that_is_applied_after_a_sweep_says_which_pages_it_changed(terminal: Terminal) -> None:
    terminal("sweep")
    first, second = (terminal("sweep", "--apply", "reference").out for _ in range(2))
    assert re.search("^applied +1 exact  [0-9]+ bytes", first, re.MULTILINE)
    assert re.search("^applied +no change$", second, re.MULTILINE)
    assert re.search("^left .*1 already stored by reference", second, re.MULTILINE)
    for out in (first, second):
        assert re.search("^clusters written +for 0 pages$", out, re.MULTILINE)


def test_sweep_refuses_what_makes_no_sense(terminal: Terminal) -> None:
    for words in (
        ["--threshold", "0"],
        ["--policy", "best"],
        ["--text", "title"],
        ["--apply", "flag"],
        ["--kinds", "x"],
        ["--shingle-words", "0"],
    ):
        assert terminal("sweep", *words).code == 2
    refused = terminal("sweep", "--pairs", "/nowhere/pairs.tsv")
    assert refused.code == 2
    assert "cannot write" in refused.err


# --- what is left


def exported(terminal: Terminal, tmp_path: Path, *words: str) -> tuple[set[str], dict[str, tuple[str, float]]]:
    """URLs that were exported, and URL -> (canonical, similarity) of those that were not."""
    output, dropped = tmp_path / "unique.jsonl", tmp_path / "dropped.tsv"
    names = ("--output", str(output), "--dropped", str(dropped))
    assert terminal("export", "--format", "jsonl", "--collapse", *words, *names).code == 0
    kept = {json.loads(line)["url"] for line in output.read_text().splitlines()}
    lines = [line.split("\t") for line in dropped.read_text().splitlines()]
    return kept, {url: (canonical, float(similarity)) for url, canonical, similarity in lines}


@pytest.mark.parametrize("swept", [True, False])
def test_export_unique_leaves_one_page_of_each_cluster(terminal: Terminal, tmp_path: Path, swept: bool) -> None:
    if swept:
        terminal("sweep")
    kept, dropped = exported(terminal, tmp_path)
    assert kept == {A, OTHER}
    assert {url: canonical for url, (canonical, _) in dropped.items()} == {NEAR: A, COPY: A}
    assert dropped[COPY][1] == 1.0
    assert 0.8 < dropped[NEAR][1] < 1
    assert terminal("delete", A, "--yes").code == 0
    kept, again = exported(terminal, tmp_path)
    if swept:
        assert kept == {NEAR, OTHER}  # the oldest that is left
        assert again == {COPY: (NEAR, dropped[NEAR][1])}  # computed again from the texts
    else:
        assert OTHER in kept
        assert len(kept) == 2


def test_export_unique_chooses_among_the_pages_that_are_selected(terminal: Terminal, tmp_path: Path) -> None:
    terminal("sweep")
    kept, dropped = exported(terminal, tmp_path, "--since", "1970-01-01T00:00:02Z")
    assert kept == {NEAR, OTHER}
    assert set(dropped) == {COPY}
    assert terminal("export", "--dropped", "x").code == 2


def test_collapse_keeps_rank_order_and_one_page_of_each_cluster(terminal: Terminal) -> None:
    with docstore.open(terminal.store) as store:
        for _ in range(2):  # by verdicts, then by clusters
            assert store.collapse([OTHER, NEAR, A, COPY, "https://unknown.example/"]) == [
                OTHER,
                NEAR,
                "https://unknown.example/",
            ]
            assert store.collapse([COPY, A]) == [COPY]
            docstore_sweep(store)
        late = "https://example.com/late"  # written after the sweep: its verdict names a page of a cluster
        store.put_page(late, html("The tablets", article(1, 200)), headers=TYPE, fetched_at=9 * SECOND, any_time=True)
        assert store.collapse([late, NEAR, OTHER]) == [late, OTHER]
        # a version that has changed since is no longer what the sweep saw
        store.put_page(NEAR, html("Tablets", article(77)), headers=TYPE, fetched_at=10 * SECOND, any_time=True)
        assert store.collapse([A, NEAR]) == [A, NEAR]


def docstore_sweep(store: docstore.DocumentStore) -> None:
    from docstore.sweep.job import sweep

    sweep(store)


# --- look


def test_diff_marks_words_that_went_and_came(terminal: Terminal) -> None:
    answer = terminal("diff", OTHER)
    assert answer.code == 0
    assert answer.out.startswith("similarity 0.")
    assert f"{{+{' '.join(ENDING)}.+}}" in answer.out
    assert "[-" in answer.out
    assert "\x1b" not in answer.out
    same = terminal("diff", A, COPY, "--json").object()
    assert (same["similarity"], same["changes"]) == (1.0, [])
    whole = terminal("diff", A, COPY, "--all", "--json").object()
    assert {change["change"] for change in whole["changes"]} == {"same", "break"}
    old = terminal("diff", OTHER, OTHER, "--at", "4", "--at", "5", "--json").object()
    assert [page["timestamp"] for page in old["pages"]] == [iso(4 * SECOND), iso(5 * SECOND)]
    alone = terminal("diff", A)
    assert (alone.code, f"no version of {A} before its only version" in alone.err) == (1, True)
    none = terminal("diff", A, "https://example.com/none")
    assert (none.code, "no page https://example.com/none" in none.err) == (1, True)


def test_diff_is_coloured_on_a_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.cli.output.colours", lambda stream: True)
    shown = terminal("diff", OTHER).out
    assert f"\x1b[32m{' '.join(ENDING)}.\x1b[0m" in shown
    assert "[-" not in shown


def test_stats_of_duplicates_by_host_prefix_and_parameter(terminal: Terminal) -> None:
    terminal("sweep")
    with docstore.open(terminal.store, durability="none") as store:
        for number in range(6):
            body = html("List", article(50))
            store.put_page(f"https://shop.example/list?sid={number}&q=1", body, headers=TYPE)
            store.put_page(
                f"https://shop.example/item?id={number}&sid=7", html("Item", article(number + 60)), headers=TYPE
            )
    hosts = terminal("stats", "--dedup", "--by", "host", "--json").object()
    assert hosts["groups"]["shop.example"]["verdicts"]["exact"] == 5
    assert next(iter(hosts["groups"])) == "shop.example"
    assert hosts["total"]["captures"] == 17
    assert (hosts["clustered"], hosts["cluster_sizes"]["3-5"], hosts["unseen"]) == (3, 1, 0)
    assert hosts["total"]["saved_bytes"] > 0
    prefixes = terminal("stats", "--dedup", "--by", "prefix", "--json").object()["groups"]
    assert prefixes["shop.example/list"]["captures"] == 6
    traps = terminal("stats", "--dedup", "--by", "parameter", "--json").object()["traps"]
    assert (traps[0]["parameter"], traps[0]["never_changes"]) == ("sid", True)
    assert {trap["parameter"]: trap["superfluous"] for trap in traps} == {"sid": 5, "id": 5, "q": 0}
    assert not next(trap for trap in traps if trap["parameter"] == "id")["never_changes"]
    shown = terminal("stats", "--dedup", "--by", "parameter").out
    assert "never" in shown
    assert terminal("stats", "--by", "host").code == 2


def test_pages_that_were_rejected_show_the_parameter_that_traps_crawlers(tmp_path: Path) -> None:
    reject = {VerdictKind.EXACT: docstore.Policy.REJECT}
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        for number in range(6):
            url = f"https://shop.example/list?sid={number}"
            store.put_page(url, html("List", article(50)), headers=TYPE, policies=reject)
            store.put_page(f"https://shop.example/item?id={number}", html("Item", article(number + 60)), headers=TYPE)
        assert len(list(store.rejected())) == 5
        traps = dedup_stats(store).traps
    assert [(trap.parameter, trap.urls, trap.pages, trap.is_trap) for trap in traps] == [
        ("sid", 6, 1, True),
        ("id", 6, 1, False),
    ]


def test_lsh_picks_bands_without_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", "lsh", "--threshold", "0.8", "--recall", "0.99", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recall"] >= 0.99
    assert found["bands"] * found["band_width"] <= 256
    assert found["shipped"] == {"bands": 16, "band_width": 5}
    assert main(["tool", "lsh", "--threshold", "0.8"]) == 0
    assert "found at 0.8" in capsys.readouterr().out
    assert main(["tool", "lsh", "--threshold", "0.3", "--background", "0.29", "--recall", "0.999"]) == 2


# --- reindex


def test_reindex_posts_what_the_detector_cannot_see(terminal: Terminal) -> None:
    assert terminal("tool", "reindex", "--dry-run", "--json").object()["unseen"] == 0
    with docstore.open(terminal.store, durability="none") as store:
        drop_postings(store.backend.engine, 1)
    assert terminal("check").code == 5
    unseen = terminal("tool", "reindex", "--dry-run", "--json").object()
    assert (unseen["pages"], unseen["posted"]) == (5, 0)
    assert unseen["unseen"] >= 3
    assert terminal("stats", "--dedup", "--json").object()["unseen"] == unseen["unseen"]
    assert terminal("tool", "reindex", "--json").object()["posted"] == unseen["unseen"]
    assert "posted" in terminal("tool", "reindex").out
    assert terminal("check").code == 0
    with docstore.open(terminal.store) as store:
        result = store.put_page("https://new.example/", html("The tablets", article(1, 200)), headers=TYPE)
    assert str(result.verdict.kind) == "near"
    assert result.verdict.similarity == 1.0


def test_reindex_fingerprints_pages_of_another_scheme_again(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with docstore.open(terminal.store, durability="none") as store:
        drop_postings(store.backend.engine, 0)
        cell = next(c for c in store.cells.slices(A, families=("dedup",)) if c.qualifier == b"text_checksum")
        change_capture(store, A, {TEXT_CHECKSUM: b"\x63" + cell.value[1:]})
        assert store.table.read_row(store.cells.row_key(A))
    found = terminal("tool", "reindex", "--json").object()
    assert (found["outdated"], found["posted"]) == (1, 5)
    with docstore.open(terminal.store) as store:
        again = next(c for c in store.cells.slices(A, families=("dedup",)) if c.qualifier == b"text_checksum")
        assert again == cell
        checksum = next(c for c in store.cells.slices(A, families=("dedup",)) if c.qualifier == b"checksum").value
        pointer = PagePointer(cell.timestamp, store.cells.row_key(A))
        assert has_postings(store.backend.engine, pointer, checksum)
