# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what a release needs: one version, one address of the repository, and a changelog without earlier history.

galaxy.yml has the version and the address. `.venv/bin/python tests/checks/release.py --write` writes both to the other
places.
"""

import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# The address until the owner of the project sets the real one.
PLACEHOLDER = "https://github.com/glidein/ops"
# (file, pattern) of the addresses; the pattern's group is the part that galaxy.yml's `repository` decides.
ADDRESSES = [
    ("galaxy.yml", r"(?m)^(?:issues|documentation|homepage): (\S+?)(?:/issues|/tree/main/docs)?$"),
    ("files/glidein/glidein.sh", r"glidein: see (\S+)/tree/main/"),
    ("files/monitoring/alerts.yml", r"runbook_url: (\S+)/blob/main/"),
    ("tests/server/data/alerts_test.yml", r"runbook_url: (\S+)/blob/main/"),
]
VERSIONS = [
    ("files/demand_server/pyproject.toml", r'(?m)^version = "(.*)"$'),
    ("files/demand_server/src/glidein_demand/__init__.py", r'(?m)^__version__ = "(.*)"$'),
]
# Sections of a fragment that compare with an earlier release.
COMPARING = {"breaking_changes", "bugfixes", "deprecated_features", "removed_features", "security_fixes"}


def with_value(text, pattern, value):
    """Return the text with the value in the place of each group of the pattern. Raises ValueError without a match."""
    parts, end = [], 0
    for match in re.finditer(pattern, text):
        parts += [text[end : match.start(1)], value]
        end = match.end(1)
    if not parts:
        raise ValueError(f"nothing matches {pattern}")
    return "".join([*parts, text[end:]])


def settle(places, value, root, write):
    """Return the problems of places whose value differs; with `write`, correct them instead."""
    problems = []
    for name, pattern in places:
        path = root / name
        text = path.read_text(encoding="utf-8")
        expected = with_value(text, pattern, value)
        if expected != text and write:
            path.write_text(expected, encoding="utf-8")
        elif expected != text:
            problems.append(f"{name}: not {value}; run .venv/bin/python tests/checks/release.py --write")
    return problems


def changelog_problems(root, repository):
    """Return the problems of the fragments before the first release, and of a release with the made-up address."""
    if (root / "changelogs" / "changelog.yaml").exists():
        return [f"galaxy.yml: repository is still {PLACEHOLDER}"] if repository == PLACEHOLDER else []
    fragments = root / "changelogs" / "fragments"
    first = fragments / "first-release.yml"
    others = sorted(path.name for path in fragments.glob("*.yml") if path != first)
    problems = [f"{name}: write it to {first.name}, the only file before the first release" for name in others]
    if not first.exists():
        return [*problems, f"{first.name}: missing; before the first release, it describes the features"]
    found = sorted(COMPARING & set(yaml.safe_load(first.read_text(encoding="utf-8"))))
    return problems + [f"{first.name}: {section}: the first release has nothing to compare with" for section in found]


def check(root, write=False):
    """Return the problems of a checkout."""
    galaxy = yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))
    return (
        settle(ADDRESSES, galaxy["repository"], root, write)
        + settle(VERSIONS, galaxy["version"], root, write)
        + changelog_problems(root, galaxy["repository"])
    )


def main():
    """Command line; return 1 with the problems, if any."""
    problems = check(ROOT, write=sys.argv[1:] == ["--write"])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
