# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the checks and tests, and the tiers to which they belong.

Each part belongs to a tier, and to all tiers after it: `check` (needs no lab), `test` (the main job in a lab), `all`.
"""

import os
import sys
from collections import namedtuple

import prepare

TIERS = ("check", "test", "all")
# Parts that a tier contains and that have a further name in common.
GROUPS = ("lint", "e2e")

# limit_s: run time in seconds after which a part is stopped; it only ends a hang. lab: number of the lab that the part
# has for itself, or None. needs: parts that must have passed before.
Part = namedtuple("Part", "name command tier group needs limit_s lab")


def part(name, command, tier="all", group=None, needs=("venv",), limit_s=3600, lab=None):
    """Return a Part; a command that begins with the name of a Python file runs with .venv's Python."""
    words = list(command) if isinstance(command, (list, tuple)) else command.split()
    if words[0].endswith(".py") or words[0] == "-m":
        words.insert(0, str(prepare.VENV / "bin" / "python"))
    return Part(name, words, tier, group, needs, limit_s, lab)


def preparation(name, command, needs=()):
    """Return a Part of no tier, which runs because others need it; it uses only Python's standard library."""
    return part(name, [sys.executable, *command.split()], None, None, needs)


def lint(name, command, needs=("venv",)):
    """Return a Part that reads the sources only."""
    return part(name, command, "check", "lint", needs)


def scenario(name, lab, needs=(), tier="all"):
    """Return a Part that deploys to a lab and runs tests/e2e/<name> there, with the Molecule scenario of that name.

    Scenarios of one lab run one after the other; all labs have the images of the first one.
    """
    first = os.environ.get("LAB") or "glidein-lab"
    own = first if lab == 1 else f"{first}-{lab}"
    images = os.environ.get("LAB_IMAGES") or first
    command = ["env", f"LAB={own}", f"LAB_IMAGES={images}", "molecule", "test", "--no-command-borders", "-s", name]
    return part(f"e2e-{name}", command, tier, "e2e", ("venv", "collection", "lab", *needs), 3 * 3600, lab)


def pytest(arguments):
    """Return a command of .venv's pytest."""
    return f"-m pytest -p no:cacheprovider -rs {arguments}"


DEMAND_SERVER = "files/demand_server"

# In the order in which they are started: what others wait for, then the longest of each tier.
PARTS = [
    preparation("venv", "tests/prepare.py venv"),
    preparation("lab", "tests/lab/lab.py up"),
    preparation("collection", "tests/prepare.py collection", ("venv",)),
    scenario("main", 1, tier="test"),
    part("ansible-cores", "tests/ansible_cores.py"),
    part("units", "tests/checks/units.py", "check"),
    part("glidein", "tests/checks/payload.py dash", "check"),
    part("server", "tests/checks/server.py", "check"),
    lint("ansible-lint", "ansible-lint --strict --nocolor", ("venv", "collection")),
    part("browser-looks", "tests/checks/browser.py -m looks", "test"),
    # The rest of `all`.
    preparation("ee", "tests/execution_environment.py build", ("venv", "collection", "lab")),
    scenario("pool", 2),
    scenario("sites", 1),
    scenario("glideins", 2, ("ee",)),
    scenario("access", 1),
    part("ansible-test-sanity", "tests/checks/ansible_test.py sanity"),
    part("ansible-test-units", "tests/checks/ansible_test.py units"),
    part("ansible-test-python3.6", "tests/checks/ansible_test.py python3.6"),
    part(
        "properties",
        "env HYPOTHESIS_PROFILE=thorough python tests/checks/units.py tests/unit/plugins/module_utils/controller",
    ),
    part("playbooks", "tests/checks/units.py tests/playbooks"),
    part("glidein-shells", "tests/checks/payload.py busybox,bash"),
    part("server-services", "tests/checks/server.py services"),
    part("server-postgresql", "tests/checks/server.py postgresql"),
    part("fuzz", "tests/checks/server.py fuzz"),
    part("browser", "tests/checks/browser.py"),
    part("awx", pytest("tests/awx"), needs=("venv", "collection")),
    part("bench", pytest("tests/bench")),
    part("galaxy-importer", "tests/checks/galaxy_importer.py", needs=("venv", "collection")),
    part("installed", "tests/checks/installed.py", needs=("venv", "collection")),
    part("docs", "tests/checks/docs_site.py", needs=("venv", "collection")),
    # Quick ones.
    part("documentation", pytest("tests/documentation"), "check"),
    lint("antsibull-docs", "tests/checks/docs.py", ("venv", "collection")),
    lint("types", "tests/checks/server.py types"),
    lint("types-plugins", "tests/checks/plugin_types.py"),
    lint("roles", "tests/checks/roles.py"),
    lint("shellcheck", "tests/checks/shell.py"),
    lint("vermin", "vermin --target=3.6- --eval-annotations --no-tips --violations plugins"),
    lint("import-contracts-plugins", "tests/checks/plugin_imports.py"),
    lint("yamllint", "yamllint --strict ."),
    lint(
        "import-linter",
        f"env PYTHONPATH={DEMAND_SERVER}/src lint-imports --no-cache --no-logo --config {DEMAND_SERVER}/pyproject.toml",
    ),
    lint("ruff", "ruff check ."),
    lint("ruff-format", "ruff format --check --diff ."),
    lint("changelog", "antsibull-changelog lint"),
    lint("release", "tests/checks/release.py"),
    lint("reuse", "reuse lint"),
]


def select(names, parts=None):
    """Return the parts of these names of parts, groups and tiers, with those that they need, in the order of the table.

    Raise KeyError with the first unknown name.
    """
    parts = PARTS if parts is None else parts
    by_name = {each.name: each for each in parts}
    wanted = set()
    todo = list(names)
    while todo:
        name = todo.pop(0)
        if name in by_name:
            wanted.add(name)
            todo.extend(by_name[name].needs)
        elif name in TIERS:
            included = TIERS[: TIERS.index(name) + 1]
            todo.extend(each.name for each in parts if each.tier in included)
        elif name in GROUPS:
            todo.extend(each.name for each in parts if each.group == name)
        else:
            raise KeyError(name)
    return [each for each in parts if each.name in wanted]
