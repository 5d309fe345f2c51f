# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pathlib
import re

import pytest
import yaml
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.units import parse_duration
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    settings,
    unknown_of_host,
    unquoted_names,
    unreadable,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES
from ansible_collections.glidein.ops.tests.unit.support.unreadable import Unreadable

ROOT = pathlib.Path(__file__).parents[5]
# Host groups, a Python package, and prefixes of patterns such as glidein_ssh_*.
NO_VARIABLES = {
    "glidein_",
    "glidein_demand",
    "glidein_central_manager",
    "glidein_controllers",
    "glidein_demand_server",
    "glidein_sites",
    "glidein_ssh_",
    "glidein_ssh_sessions",
    "glidein_left_out",
    "glidein_with_gateway",
    "glidein_gateway_renewed",
    "glidein_token_checked",
    "glidein_token_due",
    "glidein_token_ends_soon",
}


MORE = ("glidein_log_days", "glidein_home", "glidein_modules")


def names_in(paths):
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return {name for text in texts for name in re.findall(r"\bglidein_[a-z0-9_]*\b", text)}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("glidein_limts", "'glidein_limits'"), ("glidein_enviroment", "'glidein_environment'"), ("glidein_xyzzyx", None)],
)
def test_an_unknown_variable_is_named_with_the_nearest_known_one(name, nearest):
    variables = {name: 1, "glidein_site": "lab", "other": 1}
    known = f" (did you mean {nearest}?)" if nearest else ""
    (error,) = unknown_of_host({"h": variables}, "h", variables)
    assert error.startswith(f"{name}: unknown variable{known}. The names that begin with glidein_ are those of")


def test_all_unknown_variables_of_a_host_are_one_error():
    variables = {"glidein_xyzzyx": 1, "glidein_limts": 1}
    (error,) = unknown_of_host({"h": variables}, "h", variables)
    limts, xyzzyx = (
        "glidein_limts: unknown variable (did you mean 'glidein_limits'?)",
        "glidein_xyzzyx: unknown variable",
    )
    assert error.startswith(f"{limts}; {xyzzyx}. The names")


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("{{ glidein_mine }}", 0),
        ({"total": "{{ glidein_mine | int }}"}, 0),
        (["{{ [glidein_mine] }}"], 0),
        ("{{ glidein_mine_2 }}", 1),
        ("glidein_mine", 1),
    ],
)
def test_a_variable_to_which_another_one_of_any_host_refers_is_the_operators_own(value, errors):
    mine = {"glidein_mine": "{{ glidein_mine }}"}
    hostvars = {"cm": mine, "lab": {**mine, "other": value}}
    assert len(unknown_of_host(hostvars, "lab", hostvars["lab"])) == errors
    assert len(unknown_of_host(hostvars, "cm", mine, ["lab"])) == errors


def test_every_variable_that_plays_and_roles_read_is_known():
    read = names_in(ROOT.glob("playbooks/*.yml")) | names_in(ROOT.glob("roles/*/defaults/main.yml"))
    read |= names_in(ROOT.glob("roles/*/vars/main.yml")) | names_in(ROOT.glob("roles/*/tasks/*.yml"))
    read |= names_in(ROOT.glob("roles/*/templates/*"))
    read |= names_in(ROOT.glob("inventories/*/*_vars/*.yml"))
    assert sorted(read - NO_VARIABLES - set(VARIABLES)) == []


def test_settings_have_their_defaults_and_are_checked_with_their_meaning():
    names = ("glidein_site_timeout", "glidein_revoked", "glidein_order", "glidein_collector", "glidein_site")
    given = {"glidein_revoked": "no", "glidein_collector": "cm", "glidein_order": None}
    order = ["gpus", "memory", "cpus", "disk"]
    assert settings(given, *names) == dict(zip(names, (300, False, order, "cm", None)))
    with pytest.raises(InputError) as error:
        settings({"glidein_log_days": "soon", "glidein_home": 7, "glidein_modules": "{{ x }}"}, *names, *MORE)
    assert error.value.problems == [
        "glidein_modules: it refers to an undefined variable: {{ x }}",
        "glidein_collector: missing; expected HOST or HOST:PORT: letters, digits, dots, dashes and underscores, "
        "first a letter or digit (the collector that glideins join)",
        "glidein_log_days: 'soon' is invalid; expected a whole number of at least 0 (days after which logs are "
        "removed; 0 keeps all)",
        "glidein_home: 7 is invalid; expected text (directory of the login node that the compute nodes also see); put "
        "it in quotes, because YAML reads it as a number, a date or a truth value",
    ]


@pytest.mark.parametrize("value", ["", "2h", 7200, "7200", "2:30:00"])
def test_a_time_until_the_shutdown_of_a_gateway_is_a_duration_or_empty(value):
    name = "glidein_gateway_idle_shutdown"
    assert settings({name: value}, name)[name] == (parse_duration(value) or 0)
    with pytest.raises(InputError, match=r"'soon' is invalid; expected a duration .*, or nothing"):
        settings({name: "soon"}, name)


def test_the_configuration_of_a_gateway_may_have_nested_lists():
    name = "glidein_gateway_routes"
    assert settings({name: "EVALSET x {{1, 2}}"}, name)[name] == "EVALSET x {{1, 2}}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("glidein_gateway_routes", "File not found: /inventory/routes.cfg"),
        ("glidein_demand_token", "cannot be read (RuntimeError; not shown)"),
        ("tarball_publish_dir", "cannot be read (RuntimeError; not shown)"),
    ],
)
def test_the_error_of_a_template_is_shown_unless_the_variable_may_have_a_secret(name, reason):
    variables = Unreadable(name, {}, RuntimeError("File not found:\n/inventory/routes.cfg"))
    assert unreadable(variables, name) == [f"{name}: {reason}"]


def test_of_a_value_with_an_unresolved_template_only_the_template_is_shown():
    (error,) = unreadable({"glidein_demand_token": "s3cret-{{ x }}-part"}, "glidein_demand_token", "glidein_site")
    assert error == "glidein_demand_token: it refers to an undefined variable: {{ x }}"


def test_names_that_yaml_reads_as_numbers_are_to_be_quoted():
    text = """
    glidein_site: 012345
    glidein_deployment: no
    glidein_demand_token: 1234567812345678
    glidein_entries:
      2022_123: {shapes: {8: {}, node: {}}}
      good: {}
    """
    variables = yaml.safe_load(text)
    errors = unquoted_names(variables, variables["glidein_entries"])
    names = ["site", "deployment", "demand_token", "entries.2022123", "entries.2022123.shapes.8"]
    remedy = "not text; put it in quotes, because YAML reads it as a number, a date or a truth value"
    assert errors == [f"glidein_{name}: {remedy}" for name in names]
    assert unquoted_names({"glidein_site": "012345"}, None) == []
