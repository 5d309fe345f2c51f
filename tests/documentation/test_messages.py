# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the programs still have each message in docs/troubleshooting.md."""

import re

from documents import ROOT

PAGE = "docs/troubleshooting.md"
SOURCES = (
    "plugins/**/*.py",
    "playbooks/**/*.yml",
    "roles/*/tasks/*.yml",
    "roles/*/files/run",
    "files/demand_server/src/**/*.py",
    "files/glidein/**/*.sh",
    "files/gateway/*.sh",
)
# A string that continues on the next line: `"one " \n f"two"`, or in a ClassAd expression `"one ", \\ \n "two"`.
CONTINUED = re.compile(r'" *\n *f?"')
LEAST = 6  # minimum length of a searched part of a message


def messages():
    """Return the code spans in the first column of the tables whose header's first cell is `message`."""
    found, heading = [], None
    for line in (ROOT / PAGE).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            heading = None
            continue
        first = line.split("|")[1].strip()
        heading = heading or first
        if heading == "message":
            found += re.findall(r"`([^`]+)`", first)
    return found


def sources():
    """Return the texts of the programs, with strings and folded YAML on one line."""
    texts = []
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            texts.append(" ".join(CONTINUED.sub("", path.read_text(encoding="utf-8")).split()))
    return texts


def test_the_programs_have_each_message():
    texts = sources()
    found = messages()
    assert len(found) > 40
    missing = []
    for message in found:
        parts = [part.strip() for part in message.split("…") if len(part.strip()) >= LEAST]
        assert parts, f"{message}: too short to be found"
        if not any(all(part in text for part in parts) for text in texts):
            missing.append(message)
    assert missing == []
