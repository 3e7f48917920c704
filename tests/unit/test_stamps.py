"""Dates, times and counts beside content are known for what they are; numbers that tell pages apart are none."""

import pytest

from tests.pages import words
from tests.reference.scored import is_stamp, scored
from tests.reference.tokens import split

POSTS = [" ".join(words(seed, 30)).capitalize() + "." for seed in range(8)]


@pytest.mark.parametrize(
    "text",
    [
        "3 days ago",
        "Brian October 1, 2025, 12:57pm",
        "Posted by Brian » Tue Aug 27, 2019 10:02 pm",
        "12 replies",
        "1,204 Views",
        "2025-10-01",
        "01.10.2025",
        "1/2/25",
        "at 12:16",
        "vor 3 Tagen",
        "hace 2 horas",
        "12 марта",
        "3天前",
        "2025年10月1日",
    ],
)
def test_dates_times_and_counts_are_stamps(text: str) -> None:
    assert is_stamp(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "12",
        "(12)",
        "10 hours",
        "$ 12.90",
        "1.2.3",
        "192.168.0.1",
        "Version 2.10",
        "May",
        "Battery lasts for 12 hours from May 3",
        "Chapter 3: the long way home",
        "2025 - 10 - 01",
    ],
)
def test_other_numbers_are_no_stamps(text: str) -> None:
    assert not is_stamp(text)


def thread(day: int, views: int) -> str:
    posts = "".join(
        f'<div class="post"><div class="author">user{number} May {day}, 2026, 1:{day + number:02}pm</div>'
        f'<div class="content"><p>{each}</p></div><span class=views>{views * number + 2} views</span></div>'
        for number, each in enumerate(POSTS)
    )
    return scored(split(f"<body><title>Lamps</title><main><h1>Lamps</h1>{posts}</main>"))


def test_a_copy_with_other_dates_and_counts_has_the_same_main_text() -> None:
    assert thread(3, 5) == thread(21, 977)
    assert all(post in thread(3, 5) for post in POSTS)


def test_a_page_of_dates_keeps_them() -> None:
    rows = "".join(f"<tr><td>Harbour {number}</td><td>{7 + number}:15</td></tr>" for number in range(12))
    page = f"<body><title>Ferries</title><main><h1>Ferries</h1><table>{rows}</table></main>"
    assert "18:15" in scored(split(page))


def test_a_heading_with_a_date_stays() -> None:
    page = f"<body><main><h1>Notes</h1><h2>May 3, 2026</h2><p>{POSTS[0]}</p><p>{POSTS[1]}</p><p>{POSTS[2]}</p></main>"
    assert "May 3, 2026" in scored(split(page))
