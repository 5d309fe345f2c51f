# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the check of the built site finds broken links, pages without a link, and pictures without text."""

import sys

import pytest

from documents import ROOT

sys.path.insert(0, str(ROOT / "tests" / "checks"))
import docs_site  # noqa: E402  (tests/ is no package)


def site(folder, **pages):
    """Write pages; `sub_x` is sub/x.html."""
    for name, body in pages.items():
        path = folder / f"{name.replace('_', '/')}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    return docs_site.problems(folder)


def test_a_site_whose_links_resolve_has_no_problems(tmp_path):
    (tmp_path / "style.css").write_text("", encoding="utf-8")
    pages = {
        "index": '<link href="style.css?v=1"><a href="sub/page.html#part">x</a><a href="https://example.org/no">x</a>',
        "sub_page": '<b id="part">x</b><a href="../index.html">x</a><a href="#part">x</a><img src="page.html" alt="x">',
        "genindex": "",
    }
    assert site(tmp_path, **pages) == []


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"index": '<a href="gone.html">x</a>'}, "index.html: gone.html: there is no such page or file"),
        ({"index": '<a href="#gone">x</a>'}, "index.html: #gone: index.html has no anchor 'gone'"),
        ({"index": '<a href="a.html#b">x</a>', "a": ""}, "index.html: a.html#b: a.html has no anchor 'b'"),
        ({"index": "", "a": '<a href="index.html">x</a>'}, "a.html: no link leads there"),
        ({"index": '<img src="index.html">'}, "index.html: the picture index.html has no text"),
    ],
)
def test_defects_are_found(tmp_path, pages, expected):
    assert site(tmp_path, **pages) == [expected]
