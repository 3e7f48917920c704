"""Which links of duplicate pages are followed, by the results of earlier links."""

from __future__ import annotations

import pytest

pytest.importorskip("scrapy", reason="Scrapy is not installed: pip install '.[scrapy]'")

from docstore.model.keys import template_of
from docstore.scrapy.links import AT_FIRST, ENOUGH, ONE_IN, LinkGate, State

SHAPE = "a.example/calendar?month"


@pytest.mark.parametrize(
    ("url", "shape"),
    [
        ("https://a.example/", "a.example/"),
        ("https://a.example/calendar?month=3&year=2031", "a.example/calendar?month&year"),
        ("https://a.example/calendar?year=&month=", "a.example/calendar?month&year"),
        ("https://a.example/S(4ab8)/page/7", "a.example/#/"),
        ("https://a.example/gone/deeper/deeper/", "a.example/gone/"),
        ("https://a.example:81/b#c", "a.example:81/b"),
    ],
)
def test_pages_of_one_template_have_one_shape(url: str, shape: str) -> None:
    assert template_of(url) == shape


def closed() -> LinkGate[int]:
    gate: LinkGate[int] = LinkGate()
    for _ in range(ENOUGH):
        gate.learn(SHAPE, is_new=False)
    assert gate.state(SHAPE) is State.CLOSED
    return gate


def test_an_undecided_shape_follows_a_few_links_and_drops_none() -> None:
    gate: LinkGate[int] = LinkGate()
    passed = gate.admit(SHAPE, list(range(20)))
    assert (len(passed.follow), passed.held, passed.dropped) == (AT_FIRST, 20 - AT_FIRST, 0)
    assert gate.held == passed.held


def test_a_shape_whose_links_lead_to_duplicates_is_closed_and_drops_held_links() -> None:
    gate: LinkGate[int] = LinkGate()
    gate.admit(SHAPE, list(range(20)))
    passed = [gate.learn(SHAPE, is_new=False) for _ in range(ENOUGH)][-1]
    assert passed.change is State.CLOSED
    assert (passed.follow, passed.dropped, gate.held) == ([], 20 - AT_FIRST, 0)


def test_a_shape_whose_links_lead_to_new_pages_is_open_and_follows_held_links() -> None:
    gate: LinkGate[int] = LinkGate()
    first = gate.admit(SHAPE, list(range(20)))
    passed = [gate.learn(SHAPE, is_new=turn % 3 == 0) for turn in range(ENOUGH)][-1]
    assert passed.change is State.OPEN
    assert sorted(first.follow + passed.follow) == list(range(20))
    assert gate.admit(SHAPE, [1, 2, 3, 4, 5]).follow == [1, 2, 3, 4, 5]


def test_a_closed_shape_follows_less_than_one_link_for_each_page() -> None:
    """Else the samples of an endless trap would not come to an end."""
    gate = closed()
    followed = [len(gate.admit(SHAPE, list(range(50))).follow) for _ in range(ONE_IN * 10)]
    assert sum(followed) == 10
    assert max(followed) == 1


def test_a_closed_shape_opens_if_its_samples_lead_to_new_pages() -> None:
    gate = closed()
    states = []
    for _ in range(10):
        gate.learn(SHAPE, is_new=True)
        states.append(gate.state(SHAPE))
    assert states[-1] is State.OPEN
    for _ in range(40):
        gate.learn(SHAPE, is_new=False)
    assert gate.state(SHAPE) is State.CLOSED


def test_held_links_are_released_when_a_crawl_is_idle() -> None:
    gate: LinkGate[int] = LinkGate()
    first = gate.admit(SHAPE, list(range(30))).follow
    released: list[int] = []
    while more := gate.release():
        assert len(more) <= ENOUGH
        released += more
    assert sorted(first + released) == list(range(30))
    assert gate.held == 0


def test_held_links_are_bounded() -> None:
    gate: LinkGate[int] = LinkGate(max_held=0)
    assert gate.admit(SHAPE, [1, 2, 3, 4, 5]).follow == [1, 2, 3, 4, 5]


def test_each_shape_is_decided_by_its_own_results() -> None:
    gate = closed()
    assert gate.state("a.example/gallery?page") is State.UNDECIDED
    assert len(gate.admit("a.example/gallery?page", [1, 2]).follow) == 2


def test_a_shape_that_an_earlier_crawl_closed_starts_closed_and_can_open() -> None:
    gate: LinkGate[int] = LinkGate()
    gate.close(SHAPE)
    followed = [len(gate.admit(SHAPE, list(range(50))).follow) for _ in range(ONE_IN * 4)]
    assert (sum(followed), gate.held) == (4, 0)
    for _ in range(3):
        gate.learn(SHAPE, is_new=True)
    assert gate.state(SHAPE) is State.OPEN
    gate.close(SHAPE)
    assert gate.state(SHAPE) is State.OPEN  # the results of this crawl count more


def test_links_of_a_replacement_wait_for_the_original() -> None:
    gate: LinkGate[int] = LinkGate()
    for original in "abcd":
        assert gate.defer(original, SHAPE, [1, 2]).held == 2
    assert gate.defer("a", SHAPE, [3]).follow == [3]
    assert (gate.arrived("b"), gate.arrived("b"), gate.held) == ((SHAPE, [1, 2]), ("", []), 6)
    assert (gate.release(), gate.release(), gate.held) == ([1, 2] * 3, [], 0)
    assert LinkGate[int](max_held=1).defer("a", SHAPE, [1, 2]).follow == [1, 2]
