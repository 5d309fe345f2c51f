# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that axe-core finds no serious problem, in light and dark mode, on wide and narrow screens."""

import os
from pathlib import Path

import pytest

from conftest import DESKTOP, PHONE

SIZES = {"desktop": DESKTOP, "phone": PHONE}
SCHEMES = ("light", "dark")
RUN = "() => axe.run(document, { resultTypes: ['violations'] })"


@pytest.fixture(scope="module")
def axe():
    """Return the text of axe.min.js, which tests/checks/browser.py fetches."""
    path = os.environ.get("AXE_CORE", "")
    if not path:
        pytest.skip("axe-core could not be fetched from the npm registry (AXE_CORE names no file)")
    return Path(path).read_text()


VIEWS = [(name, size, scheme) for name in ("good", "bad", "paused", "empty") for size in SIZES for scheme in SCHEMES]


# The large pool has the same elements as the others, only more of them.
@pytest.mark.parametrize(("name", "size", "scheme"), [*VIEWS, ("many", "desktop", "light")])
def test_nothing_stands_in_the_way_of_people_with_disabilities(scene, watched, axe, name, size, scheme):
    page = watched.open(scene(name).url, viewport=SIZES[size], color_scheme=scheme)
    for folded in page.locator("figure details > summary").all():
        folded.click()
    page.evaluate(axe)
    found = page.evaluate(RUN)
    wrong = [
        (each["impact"], each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found["violations"]
    ]
    assert [each for each in wrong if each[0] in ("serious", "critical")] == []
    assert wrong == []
