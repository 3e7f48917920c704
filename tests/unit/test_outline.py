from hypothesis import given
from hypothesis import strategies as st

from docstore.text.content import visible
from docstore.text.evidence import ARTICLE, HINT, MAIN
from docstore.text.outline import outline, render, text_weight
from docstore.text.tokens import split

_TAGS = """
<div> </div> <p> </p> <li> </li> <ul> </ul> <a href=x> <a> </a> <b> </b> <br> <img> <hr> <table> <tr> <td> </table>
<h2> </h2> <noscript> </noscript> <pre> </pre> <textarea>t</textarea> <script>s</script> <!--c--> <article> </article>
<x-y> </x-y> word two&amp;&lt;three 春天 &nbsp; <template> </template> </body> <dd> <option> <xmp><b></xmp>
"""
PIECES = st.sampled_from([*_TAGS.split(), " ", "\n", "a\nb"])
PAGES = st.lists(PIECES, max_size=40).map("".join)


@given(PAGES)
def test_all_blocks_together_are_the_visible_text(page: str) -> None:
    markup = split(page)
    assert render(outline(markup).blocks) == visible(markup)


@given(PAGES)
def test_parents_come_before_children_and_weights_add_up(page: str) -> None:
    markup = split(page)
    found = outline(markup)
    assert all(parent < number for number, parent in enumerate(found.parents) if number)
    assert len(found.parents) == len(found.evidence)
    assert all(0 <= block.link_weight <= block.weight and block.weight > 0 for block in found.blocks)
    assert all(0 <= block.owner < len(found.parents) for block in found.blocks)
    assert sum(block.weight for block in found.blocks) == text_weight(visible(markup))


def test_weight_counts_letters_and_wide_ones_three_times() -> None:
    assert text_weight(" ab\u00a0c \n") == 3
    assert text_weight("春天 a") == 7
    assert text_weight("ไทย") == 3
    assert text_weight("𠀀") == 3


def test_links_are_weighed_where_they_have_an_href() -> None:
    block = outline(split('<p>one <a href="/x">two</a> <a name=y>three</a>')).blocks[0]
    assert (block.weight, block.link_weight) == (11, 3)


def test_a_leaf_speaks_for_the_block_behind_it_alone() -> None:
    found = outline(split('<div><p class="byline">who<p>what<h2>head</h2>tail</div>'))
    assert [block.evidence for block in found.blocks] == [HINT, 0, 0, 0]
    assert [block.is_heading for block in found.blocks] == [False, False, True, False]
    assert {block.owner for block in found.blocks} == {1}


def test_an_end_tag_closes_what_is_open_inside_and_a_stray_one_nothing() -> None:
    found = outline(split("<main><div><section>a</main>b</div></section><article>c"))
    assert [block.owner for block in found.blocks] == [3, 0, 4]
    assert found.evidence == [0, MAIN, 0, 0, ARTICLE]
    assert found.parents == [0, 0, 1, 2, 0]


def test_items_and_cells_without_end_tags_are_siblings() -> None:
    found = outline(split("<ul><li>a<li>b<ul><li>c</ul><li>d</ul><table><tr><td>e<td>f<tr><td>g</table>"))
    by_text = {block.text: found.parents[block.owner] for block in found.blocks}
    assert by_text["a"] == by_text["b"] == by_text["d"] != by_text["c"]
    assert by_text["e"] == by_text["f"] != by_text["g"]
