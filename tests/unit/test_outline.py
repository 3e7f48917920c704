from hypothesis import given
from hypothesis import strategies as st

from tests.reference.blocks import ADVERT, ARTICLE, HINT, MAIN, outline, render, text_weight
from tests.reference.page import visible
from tests.reference.tokens import split

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


def parts(page: str) -> list[tuple[str, bool]]:
    """Texts of a page's blocks, and whether an advert is around them."""
    found = outline(split(page), apart=True)
    within = [False] * len(found.parents)
    for element, evidence in enumerate(found.evidence):
        within[element] = within[found.parents[element]] or bool(evidence & ADVERT)
    return [(block.text.strip(), within[block.owner]) for block in found.blocks]


def test_inline_adverts_stand_apart_where_that_is_asked_for() -> None:
    page = '<p>one <ins class="adsbygoogle">buy <ins>it</ins> now</ins> two <span class=x>three</span></p>'
    assert parts(page) == [("one", False), ("buy", True), ("it", True), ("now", True), ("two three", False)]
    assert len(outline(split(page)).blocks) == 1
    assert parts("<a class=sponsored href=x>buy</a> this <a href=y>two</a>") == [("buy", True), ("this two", False)]
    assert outline(split("<a class=sponsored href=x>buy</a> this"), apart=True).blocks[0].link_weight == 3


def test_an_unclosed_inline_advert_ends_with_what_holds_it() -> None:
    assert parts("<p>one <span class=ad>buy<p>two</p>three") == [
        ("one", False),
        ("buy", True),
        ("two", False),
        ("three", False),
    ]
    assert parts("<p>one <span class=ad>buy</p>two") == [("one", False), ("buy", True), ("two", False)]
    assert parts("<li>one <span class=ad>buy<li>two") == [("one", False), ("buy", True), ("two", False)]
    assert parts("<div>one <span class=ad>buy</div>two") == [("one", False), ("buy", True), ("two", False)]
    assert parts("<p>a<div><span class=ad><p>buy</p>now</span>two") == [
        ("a", False),
        ("buy", True),
        ("now", True),
        ("two", False),
    ]


def test_an_advert_that_the_end_of_the_page_swallows_is_no_element() -> None:
    assert parts("<p>one<ins class=ad") == [("one", False)]


def test_the_name_of_a_custom_element_is_evidence_as_a_class_is() -> None:
    page = "<amp-ad>a</amp-ad><x-footer>b</x-footer><not-ad>c</not-ad><amp-embed>d</amp-embed><ad>e</ad>"
    found = outline(split(page), apart=True)
    assert found.evidence == [0, HINT | ADVERT, HINT, 0, HINT | ADVERT, 0]
    assert outline(split(page)).evidence == [0] * 6


def test_items_and_cells_without_end_tags_are_siblings() -> None:
    found = outline(split("<ul><li>a<li>b<ul><li>c</ul><li>d</ul><table><tr><td>e<td>f<tr><td>g</table>"))
    by_text = {block.text: found.parents[block.owner] for block in found.blocks}
    assert by_text["a"] == by_text["b"] == by_text["d"] != by_text["c"]
    assert by_text["e"] == by_text["f"] != by_text["g"]
