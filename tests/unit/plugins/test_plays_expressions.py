# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of decisive expressions in plays and roles."""

import pathlib

import pytest
import yaml
from ansible.plugins.test.core import match
from jinja2.nativetypes import NativeEnvironment

ROOT = pathlib.Path(__file__).parents[3]


def fact_of(path, task, name, **variables):
    """Return the value that a set_fact task sets a fact to, with these variables."""
    loaded = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    tasks = loaded[0].get("tasks", loaded)
    facts = next(each for each in tasks if each["name"] == task)["ansible.builtin.set_fact"]
    environment = NativeEnvironment()  # noqa: S701
    environment.tests.update(match=match)
    environment.filters["dict2items"] = lambda pairs: [{"key": key, "value": value} for key, value in pairs.items()]
    return environment.from_string(facts[name]).render(variables)


@pytest.mark.parametrize("end, unfit", [("", []), ("\n", ["lab"]), (" ", ["lab"])])
def test_a_token_with_a_line_break_is_unfit(end, unfit):
    path = "roles/demand_server/tasks/preflight.yml"
    tokens = {"lab": "0123456789abcdef" + end}
    found = fact_of(path, "Find invalid tokens", "__demand_server_invalid_tokens", demand_server_site_tokens=tokens)
    assert found == unfit
