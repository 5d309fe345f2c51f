# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that documentation, roles, playbooks and modules agree with the table of the inventory's variables."""

import importlib
import pathlib
import re

import pytest
import yaml
from ansible_collections.glidein.ops.plugins.doc_fragments.site import ModuleDocFragment
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.ce import HTCondorCE
from ansible_collections.glidein.ops.plugins.module_utils.common.units import parse_duration
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import OPTION_VARIABLES, PREFIX
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import OPTIONS
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import read_site
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import EACH, VARIABLES

ROOT = pathlib.Path(__file__).parents[5]
HEADER = "| variable | type | default | meaning |"
# {{ glidein_name | default(VALUE) }}; a value with parentheses is no default of the table.
DEFAULT = re.compile(r"(?<![.\w])(glidein_\w+) \| default\(([^()]*)\)")


def same(one, other):
    """Return whether two defaults are equal; all empty ones are."""
    empty = (None, "", [], {})
    return (one in empty and other in empty) or (type(one), one) == (type(other), other)


def rows_of(name):
    """Return [(variables, their types, default)] of the tables of a document."""
    found, inside = [], False
    for line in (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines():
        inside = line == HEADER or (inside and line.startswith("|"))
        if inside and line.startswith("| `"):
            cell, kind, default = line[2:].split(" | ")[:3]
            names = re.findall(r"`(\w+)`", cell)
            kinds = kind.split(", ")
            found.append((names, kinds * len(names) if len(kinds) == 1 else kinds, default))
    return found


ROWS = rows_of("variables.md") + rows_of("two-factor.md")


def test_the_documentation_lists_each_variable_with_its_type():
    documented = {name: kind for names, kinds, _default in ROWS for name, kind in zip(names, kinds)}
    assert documented == {name: variable.kind for name, variable in VARIABLES.items()}


@pytest.mark.parametrize(("names", "default"), [(names, default) for names, _kinds, default in ROWS])
def test_the_documentation_has_the_default_of_each_variable(names, default):
    shown = re.fullmatch(r"`([^`]+)`", default)
    for variable in (VARIABLES[name] for name in names):
        if variable.required:
            assert default == "required"
        elif shown and isinstance(variable.default, str) and "{{" not in variable.default:
            assert shown[1] == variable.default
        elif "{{" not in str(variable.default):
            assert same(yaml.safe_load(shown[1]) if shown else None, variable.default)


def test_roles_have_the_defaults_of_the_table():
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        given = {name: default for name, default in given.items() if name.startswith(PREFIX)}
        assert [name for name in given if not same(given[name], VARIABLES[name].default)] == [], path


def test_playbooks_and_roles_have_the_defaults_of_the_table_where_they_read_a_variable():
    paths = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/*/*")]
    found = [(path, *match) for path in paths for match in DEFAULT.findall(path.read_text(encoding="utf-8"))]
    assert found
    for path, name, argument in found:
        value = argument.removesuffix(", true")
        if value == "inventory_hostname":
            value = repr("{{ inventory_hostname }}")
        if value != "omit":
            assert same(yaml.safe_load(value), VARIABLES[name].default), f"{path}: {name} | default({argument})"


class Asked(dict):
    """The variables of a host, with the names of those that are read."""

    def __init__(self, values):
        super().__init__(values)
        self.names = set()

    def get(self, key, default=None):
        self.names.add(key)
        return super().get(key, default)


def test_pull_mode_copies_the_variables_of_the_plan_and_of_modules():
    copied = yaml.safe_load((ROOT / "roles/pull/vars/main.yml").read_text(encoding="utf-8"))["__pull_names"]
    needed = {name for name, variable in VARIABLES.items() if variable.required or variable.modules} | set(OPTIONS)
    needed |= {name for variables in OPTION_VARIABLES.values() for name in variables.values()}
    variables = Asked({})
    read_site({"host": variables}, "host", variables)
    needed |= variables.names & set(VARIABLES)
    # The role pull refuses glidein_log_s3: the key of the bucket stays on the controller. It sets the token itself, and
    # the login node's own cycles are ordinary ones.
    assert needed - set(copied) == {"glidein_log_s3", "glidein_demand_token", "glidein_pull"}
    assert set(copied) <= set(VARIABLES)


def test_a_ce_has_the_default_of_the_table():
    wait_s = parse_duration(VARIABLES["glidein_queue_wait"].default)
    assert HTCondorCE.more_options["queue_wait"]["default"] == wait_s


@pytest.mark.parametrize("module", EACH)
def test_options_of_modules_are_those_of_the_table_with_its_defaults(module):
    loaded = importlib.import_module(f"ansible_collections.glidein.ops.plugins.modules.{module}")
    texts = (ModuleDocFragment.DOCUMENTATION, loaded.DOCUMENTATION)
    options = {key: option for text in texts for key, option in (yaml.safe_load(text).get("options") or {}).items()}
    read = {PREFIX + option for option in options if PREFIX + option in VARIABLES}
    assert read == {name for name, variable in VARIABLES.items() if module in variable.modules}
    for name in read - {"glidein_site", "glidein_deployment"}:
        given, variable = options[name.removeprefix(PREFIX)], VARIABLES[name]
        assert bool(given.get("required")) == variable.required
        assert same(given.get("default", variable.default), variable.default)
