# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the pictures in docs/pictures: drawn from their text, with a title, without network, and of limited size."""

import sys
from xml.etree import ElementTree

import pytest

from documents import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import pictures  # noqa: E402  (tests/ is no package)

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = sorted(pictures.PICTURES.glob("*.svg"))


@pytest.mark.parametrize("name", pictures.TITLES)
def test_terminal_output_is_drawn_from_its_text(name):
    recorded = (pictures.PICTURES / f"{name}.txt").read_text(encoding="utf-8")
    drawn = (pictures.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == pictures.draw(name, recorded), "run: python3 tests/prepare.py exec python tests/pictures.py"


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_a_drawing_has_a_title_and_loads_nothing(path):
    root = ElementTree.parse(path).getroot()  # noqa: S314  (a file of the project)
    assert root.find(f"{SVG}title").text.strip()
    assert not [element.tag for element in root.iter() if element.tag in (f"{SVG}image", f"{SVG}script", f"{SVG}a")]
    text = path.read_text(encoding="utf-8")
    assert "@import" not in text
    assert "url(http" not in text


@pytest.mark.parametrize(
    "path", [path for path in DRAWN if path.stem not in pictures.TITLES], ids=lambda path: path.stem
)
def test_a_diagram_has_a_description_and_colours_for_dark_mode(path):
    root = ElementTree.parse(path).getroot()  # noqa: S314  (a file of the project)
    assert len(root.find(f"{SVG}desc").text.split()) > 20
    assert "prefers-color-scheme: dark" in path.read_text(encoding="utf-8")


def test_pictures_are_small():
    large = {path.name: path.stat().st_size for path in pictures.PICTURES.iterdir() if path.stat().st_size > 200_000}
    assert large == {}
