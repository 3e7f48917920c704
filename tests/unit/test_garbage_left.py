"""Python's collector while groups are written: left alone, and put back as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import docstore
from docstore import Page
from docstore.model.errors import InvalidArgument
from docstore.store import DocumentStore
from docstore.writing.sequencer import GROUP_PAGES, Sequencer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    was_on = gc.isenabled()
    with docstore.open(tmp_path / "s", create=True, durability="none") as opened:
        yield opened
    (gc.enable if was_on else gc.disable)()


def pages(count: int) -> list[Page]:
    return [Page(f"https://example.com/{number}", b"<p>page %d" % number) for number in range(count)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_off_while_a_group_is_written_and_as_it_was_between_groups(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch, was_on: bool, threads: int
) -> None:
    commit = Sequencer.commit
    while_written: list[bool] = []

    def noted(self: Sequencer) -> None:
        while_written.append(gc.isenabled())
        commit(self)

    monkeypatch.setattr(Sequencer, "commit", noted)
    (gc.enable if was_on else gc.disable)()
    between = {gc.isenabled() for _ in store.put_pages(pages(GROUP_PAGES + 1), threads=threads)}
    assert while_written == [False, False]
    assert between == {was_on}
    assert gc.isenabled() is was_on


def test_the_collector_is_on_again_after_a_write_that_failed(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(self: Sequencer) -> None:
        raise InvalidArgument("no")

    monkeypatch.setattr(Sequencer, "commit", refuses)
    gc.enable()
    with pytest.raises(InvalidArgument):
        list(store.put_pages(pages(1)))
    assert gc.isenabled()
