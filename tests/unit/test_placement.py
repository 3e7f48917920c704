"""Values sorted by where they go, before there is a store to put them into."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docstore.model.format import INLINE_LIMIT_BYTES
from docstore.storage.values import encode_inline, parse_envelope, sort_values

columns = st.tuples(st.sampled_from(["http", "text"]), st.binary(max_size=3))
lengths = st.sampled_from([0, 1, 100, INLINE_LIMIT_BYTES, INLINE_LIMIT_BYTES + 1, 5000])


@given(st.dictionaries(columns, lengths.map(bytes), max_size=8))
def test_each_value_stands_in_its_cell_or_is_left_as_it_is(values: dict[tuple[str, bytes], bytes]) -> None:
    inline, long = sort_values(values)
    assert {column: parse_envelope(envelope).value for column, envelope in inline.items()} | long == values
    assert all(parse_envelope(envelope).ref is None for envelope in inline.values())
    assert all(len(raw) > INLINE_LIMIT_BYTES for raw in long.values())
    assert max(map(len, inline.values()), default=0) <= INLINE_LIMIT_BYTES + 1


def test_the_limit_is_the_longest_value_of_a_cell() -> None:
    short, long = bytes(INLINE_LIMIT_BYTES), bytes(INLINE_LIMIT_BYTES + 1)
    body, main = ("page", b"body"), ("text", b"main")
    assert sort_values({body: short, main: long}) == ({body: encode_inline(short)}, {main: long})
    assert sort_values({}) == ({}, {})
