"""What a store declares: a schema by which nothing could be written is refused before anything is made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore import ColumnFamily, GCPolicy, InvalidArgument, Page, Policy, Schema, VerdictKind
from docstore.cli.main import main
from docstore.store import DocumentStore

EXACT_REJECTED = ((VerdictKind.EXACT, Policy.REJECT_ANY),)
BODY = b"<p>the same bytes under two URLs"


@pytest.mark.parametrize(
    "policies",
    [
        {"exact": "reject-any"},
        {VerdictKind.EXACT: "reject-any"},
        {"exact": Policy.REJECT_ANY},
        [("exact", "reject-any")],
    ],
    ids=repr,
)
def test_policies_are_taken_as_strings(policies: Any, tmp_path: Path) -> None:
    """11.C1: strings were taken, and stored by reference."""
    assert Schema(policies=policies).policies == EXACT_REJECTED
    with docstore.open(tmp_path / "s", create=True) as store:
        store.put_page("https://a.example/", BODY)
        assert store.put_page("https://b.example/", BODY, policies=policies).stored == "rejected"
        (result,) = store.put_pages([Page("https://c.example/", BODY)], policies=policies)
        assert result.stored == "rejected"
    with docstore.open(tmp_path / "t", create=True, schema=Schema(policies=policies)) as store:
        store.put_page("https://a.example/", BODY)
        assert store.put_page("https://b.example/", BODY).stored == "rejected"


@pytest.mark.parametrize(
    "policies",
    [
        {"exakt": "reject"},
        {"exact": "rejekt"},
        {"exact": None},
        {"new": "reject"},
        {"contained": "reject"},
        {"contained": "reject-any"},
        {1: "reject"},
        "exact=reject",
        ["x"],
    ],
    ids=repr,
)
def test_a_typo_in_policies_is_refused(policies: Any, store: DocumentStore) -> None:
    with pytest.raises(InvalidArgument, match="polic"):
        Schema(policies=policies)
    with pytest.raises(InvalidArgument, match="polic"):
        store.put_page("https://a.example/", BODY, policies=policies)
    with pytest.raises(InvalidArgument, match="polic"):
        store.put_pages([Page("https://a.example/", BODY)], policies=policies)
    assert store.get("https://a.example/") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"near_threshold": 80},
        {"near_threshold": 0},
        {"near_threshold": math.nan},
        {"near_threshold": "0.8"},
        {"contained_threshold": -1},
        {"contained_threshold": True},
        {"shingle_words": 0},
        {"shingle_words": 2.5},
        {"shingle_words": "5"},
        {"shingle_words": 2**63},
        {"extractor": None},
        {"extractor": b"scored"},
        {"families": "notes"},
        {"families": ("notes",)},
        {"families": (ColumnFamily("a"), ColumnFamily("a"))},
    ],
    ids=repr,
)
def test_a_schema_with_a_value_out_of_range_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=r"must be|twice"):
        Schema(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_versions": 0},
        {"max_versions": 1.5},
        {"max_versions": True},
        {"max_age_seconds": 0},
        {"max_age_seconds": math.nan},
        {"max_age_seconds": math.inf},
        {"max_age_seconds": "30d"},
        {"intersection": "no"},
    ],
    ids=repr,
)
def test_a_gc_policy_with_a_value_out_of_range_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="must be"):
        GCPolicy(**fields)


@pytest.mark.parametrize(
    ("name", "gc"), [("", GCPolicy()), (1, GCPolicy()), (b"a", GCPolicy()), ("a", {}), ("a", None)]
)
def test_a_family_with_a_wrong_name_or_policy_is_refused(name: Any, gc: Any) -> None:
    with pytest.raises(InvalidArgument, match="must be"):
        ColumnFamily(name, gc)


def test_a_store_that_could_analyse_no_page_is_not_made(tmp_path: Path) -> None:
    """11.C1: the store was made, and every write to it failed."""
    with pytest.raises(InvalidArgument, match="choose one of"):
        docstore.open(tmp_path / "s", create=True, schema=Schema(extractor="readability"))
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--extractor", "readability"],
        ["--near-threshold", "80"],
        ["--near-threshold", "nan"],
        ["--contained-threshold", "-1"],
        ["--family", "Notes"],
        ["--family", "notes:max_age=0s"],
        ["--family", "notes", "--family", "notes"],
        ["--policy", "new=reject"],
        ["--policy", "contained=reject"],
    ],
    ids=" ".join,
)
def test_init_refuses_what_no_store_can_declare(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--store", str(tmp_path / "s"), *words]) == InvalidArgument.exit_code
    assert "docstore: error:" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
