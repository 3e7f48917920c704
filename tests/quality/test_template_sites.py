"""Copies are found among hundreds of pages of one template: a floor under what `tools.bench.template_sites` gives."""

from __future__ import annotations

import pytest

from docstore import compiled
from tools.bench.template_sites import run_site

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason=f"no native code: {compiled.WHY_NOT}")


@pytest.mark.parametrize("site", ["common words", "a tenth its own"])
def test_copies_are_found_on_a_site_of_one_template(site: str) -> None:
    for kind, copies in run_site(site, 400, 60).copies.items():
        named = sum(one.is_named for one in copies if one.jaccard >= 0.8 or kind == "inside a larger page")
        assert named >= 59, kind
