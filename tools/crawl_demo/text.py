"""Sentences made from a seed: the same number gives the same text, another number another text.

Knows words alone.
"""

from __future__ import annotations

from random import Random

_SUBJECTS = """the baker| a quiet ferry| the old observatory| our neighbour| the second violin| a patient gardener|
the harbour master| an unread letter| the mountain railway| a lost umbrella| the night watch| a
travelling salesman| the glass blower| her youngest brother| the parish clerk| a stubborn mule| the
river pilot| an empty theatre| the chess club| a retired boxer"""
_VERBS = """waited for| measured| forgot| painted| repaired| inherited| described| followed| borrowed|
photographed| avoided| sold| carried| translated| weighed| remembered| counted| praised| hid|
questioned"""
_OBJECTS = """the copper kettle| a map of the coast| seven postcards| the broken clock| a barrel of herring| the
northern road| an orange tree| two wooden boats| the morning train| a bag of chestnuts| the market
bell| a difficult theorem| the winter coats| a recipe for bread| the last lighthouse| an album of
stamps| the village fountain| a silver whistle| the long bridge| a basket of plums"""
_ENDS = """before the rain came| with great care| although nobody asked| until the lamps were lit| on the first
Monday of May| in spite of the doctor| while the orchestra rested| for the third time that week| at
the edge of the forest| without a word| because of the fog| as the bells rang| near the customs
house| after a long silence| in the year of the flood"""
_PARTS = [
    [part.strip().replace("\n", " ") for part in words.split("|")] for words in (_SUBJECTS, _VERBS, _OBJECTS, _ENDS)
]


def sentences(seed: str, count: int) -> str:
    """So many sentences of about eleven words."""
    random = Random(seed)
    return " ".join(f"{' '.join(random.choice(part) for part in _PARTS).capitalize()}." for _ in range(count))
