# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that docs/releases.md lists the public modules and plugins, and that all others say that they are internal.

As its example, an internal module names a file that uses it.
"""

import re

import yaml

from documents import ROOT

INTERNAL = "This is internal and may change in any version."
KINDS = {"modules": "module", "inventory": "inventory plugin", "lookup": "lookup plugin", "filter": "filter plugin"}


def first_line(path):
    """Return the first line of the description of a module or plugin."""
    text = re.search(r'^DOCUMENTATION = r?"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[1]
    description = yaml.safe_load(text)["description"]
    return description if isinstance(description, str) else description[0]


def test_docs_list_the_modules_and_plugins_that_are_not_internal():
    found = {
        (path.stem, KINDS.get(path.parent.name, path.parent.name)): first_line(path)
        for folder in (*KINDS, "callback")
        for path in (ROOT / "plugins" / folder).glob("*.py")
    }
    text = (ROOT / "docs/releases.md").read_text(encoding="utf-8")
    section = text.split("### Modules and plugins\n")[1].split("\n## ")[0]
    public = set(re.findall(r"^\| `(\w+)` \| ([\w ]+?) \|", section, re.MULTILINE))
    assert public
    assert {name for name, line in found.items() if line != INTERNAL} == public


def test_internal_modules_name_a_file_that_uses_them():
    wrong = []
    for path in sorted((ROOT / "plugins/modules").glob("*.py")):
        if first_line(path) == INTERNAL:
            named = re.search(r'^EXAMPLES = "\\n# See (\S+)\\n"$', path.read_text(encoding="utf-8"), re.MULTILINE)
            if not named or f"glidein.ops.{path.stem}:" not in (ROOT / named[1]).read_text(encoding="utf-8"):
                wrong.append(path.stem)
    assert wrong == []
