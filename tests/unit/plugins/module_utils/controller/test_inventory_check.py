# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the check of the inventory before a deployment."""

import time

import pytest
from ansible_collections.glidein.ops.plugins.action.inventory_check import ActionModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_check import inventory_errors
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry
from ansible_collections.glidein.ops.tests.unit.support.unreadable import AnsibleVaultError, Unreadable

LONG = {"main": raw_entry(walltime="13d")}
LOG_S3 = {"bucket": "logs", "endpoint": "https://s3.example.org", "access_key": "lab", "secret_key": "lab-key"}
SECRET = "secret word"  # noqa: S105


def host(**changes):
    """Return the variables of a valid site."""
    valid = {
        "glidein_scheduler": "slurm",
        "glidein_entries": {"main": raw_entry()},
        "glidein_collector": "cm.example.org:9618",
        "glidein_demand_url": "https://demand.example.org",
    }
    return {**valid, **changes}


def never_expires(path):
    return None


def errors_of(hosts, managers=None, servers=None, expires=never_expires):
    """Return the errors of these sites, {host: variables}, and of these hosts of the pool."""
    hostvars = {**hosts, **(managers or {}), **(servers or {})}
    groups = {"glidein_sites": list(hosts)}
    for group, members in (("glidein_central_manager", managers), ("glidein_demand_server", servers)):
        if members:
            groups[group] = list(members)
    return inventory_errors(hostvars, list(hosts), groups, expires)[0]


def test_all_errors_of_a_site_are_named():
    wrong = host(glidein_limts={}, glidein_collector="", glidein_log_s3={"bukket": "x"})
    names = {error.split(": ")[1] for error in errors_of({"h": wrong})}
    assert names == {"glidein_limts", "glidein_collector", "glidein_log_s3.bukket", "glidein_log_s3.bucket"}


def test_a_valid_inventory_has_no_errors():
    pool = {"managers": {"cm": {}}, "servers": {"cm": {}}}
    other = host(glidein_credential="pool_password", glidein_entries=LONG)
    assert errors_of({"h": host(), "other": other}, **pool) == []


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"glidein_limts": {}}, "glidein_limts: unknown variable (did you mean 'glidein_limits'?)"),
        ({"glidein_deployment": 12}, "glidein_deployment: not text; put it in quotes"),
        ({"glidein_limits": [1]}, "glidein_limits: [1] is invalid; expected a mapping"),
        ({"glidein_scheduler": "slrum"}, "glidein_scheduler: 'slrum' is invalid; expected "),
        ({"glidein_entries": {"main": raw_entry(walltime="x")}}, "glidein_entries.main.walltime: 'x' is invalid"),
        ({"glidein_demand_token": SECRET}, "glidein_demand_token: invalid (not shown)"),
        ({"glidein_collector": None}, "glidein_collector: missing; expected HOST or HOST:PORT: letters, "),
        ({"glidein_collector": "cm:x"}, "glidein_collector: 'cm:x' is invalid"),
        ({"glidein_collector": "-cm"}, "glidein_collector: '-cm' is invalid"),
        ({"glidein_demand_url": "cm:11001"}, "glidein_demand_url: 'cm:11001' is invalid; expected http:// or https"),
        ({"glidein_demand_url": ""}, "glidein_demand_url: '' is invalid; expected http:// or https"),
        ({"glidein_credential": ""}, "glidein_credential: '' is invalid; expected token or pool_password"),
        (
            {"glidein_credential": "pool_password", "glidein_revoked": True},
            "glidein_credential: 'pool_password' is invalid with glidein_revoked; expected token.",
        ),
        ({"glidein_pull_schedule": "@daily"}, "glidein_pull_schedule: '@daily' is invalid; expected the five fields"),
        ({"glidein_gateway_supervisor": ""}, "glidein_gateway_supervisor: '' is invalid; expected auto, systemd or "),
        ({"glidein_queue_wait": "long"}, "glidein_queue_wait: 'long' is invalid; expected a duration of at least"),
        ({"glidein_log_s3": {**LOG_S3, "secret_key": SECRET}}, "glidein_log_s3.secret_key: invalid"),
        (
            {"glidein_log_s3": LOG_S3, "glidein_entries": {"main": raw_entry(walltime="5d")}},
            "glidein_log_s3: a glidein may need the form for 691200 s",
        ),
    ],
)
def test_an_invalid_variable_of_a_site_is_named_once_with_its_hosts(changes, error):
    (line,) = errors_of({"a": host(**changes), "good": host(), "b": host(**changes)})
    assert line.startswith(f"a; b: {error}")
    assert SECRET not in line and "lab-key" not in line


def test_a_variable_that_cannot_be_read_is_named_once_without_its_value():
    for name in ("glidein_demand_token", "glidein_collector", "glidein_log_s3", "glidein_entries", "glidein_revoked"):
        (line,) = errors_of({"h": Unreadable(name, host(), AnsibleVaultError(SECRET))})
        assert line.startswith(f"h: {name}: the vault that holds it cannot be decrypted")


def test_the_hosts_of_the_pool_have_no_unknown_variables_and_unquoted_names_either():
    lines = errors_of({"h": host()}, {"cm": {"glidein_limts": 1}}, {"server": {"glidein_deployment": 12}})
    assert [line.split(";")[0].split(" (")[0] for line in lines] == [
        "cm: glidein_limts: unknown variable",
        "server: glidein_deployment: not text",
    ]


def test_the_hosts_of_two_sites_of_one_name_are_named():
    (line,) = errors_of({"a": host(glidein_site="twin"), "b": host(glidein_site="twin")})
    assert line.startswith("a; b: glidein_site: 'twin' is the name of 2 sites of the inventory")


def test_an_invalid_variable_of_the_plan_is_named_beside_those_of_sites():
    deployment = {"glidein_allocation": "fair"}
    plan, site = errors_of({"a": host(**deployment), "b": host(glidein_scheduler="slrum", **deployment)})
    assert plan.startswith("glidein_allocation: 'fair' is invalid; expected priority or spread (how entries of ")
    assert site.startswith("b: glidein_scheduler: ")


@pytest.mark.parametrize(
    "manager, changes, error",
    [
        (
            {},
            {"glidein_entries": LONG},
            "h: A glidein may need its token for 1382400 s: glidein_queue_wait (3d) and the longest walltime of its "
            "entries. Tokens are renewed when 1296000 s are left: set tarball_token_renew_before, in the variables of "
            "cm, to 1382400s or more (it is 15d), and tarball_token_lifetime to twice as much.",
        ),
        ({}, {"glidein_entries": LONG, "glidein_queue_wait": "2d"}, None),
        ({"tarball_token_renew_before": "16d"}, {"glidein_entries": LONG}, None),
        ({"tarball_token_renew_before": "soon"}, {}, "cm: tarball_token_renew_before: 'soon' is invalid; expected a d"),
        ({}, {"glidein_entries": LONG, "glidein_credential": "pool_password"}, None),
    ],
)
def test_tokens_are_renewed_before_the_longest_glidein_needs_a_new_one(manager, changes, error):
    lines = errors_of({"h": host(**changes)}, {"cm": manager})
    assert len(lines) == (error is not None), lines
    if error:
        assert lines[0].startswith(error)


def test_a_supplied_token_expires_after_the_longest_glidein(tmp_path):
    path = tmp_path / "token"
    hosts = {"h": host(glidein_credential_file=str(path))}
    needed_s = 3 * 86400 + 2 * 3600
    soon = int(time.time()) + needed_s - 60
    assert errors_of(hosts, expires=lambda path: soon) == []  # the role site reports a missing file
    path.touch()
    (line,) = errors_of(hosts, {"cm": {"tarball_token_renew_before": "1d"}}, expires=lambda path: soon)
    assert line.startswith(f"h: glidein_credential_file={path}: the token expires at 2")
    assert f" UTC, but a glidein may need it for {needed_s} s: glidein_queue_wait (3d) and the longest " in line
    assert errors_of(hosts, expires=lambda path: soon + 120) == []
    assert errors_of(hosts) == []

    def undecryptable(path):
        raise InputError("glidein_credential_file: no password")

    assert errors_of(hosts, expires=undecryptable) == ["h: glidein_credential_file: no password"]


def test_sites_without_a_token_of_the_demand_server_are_found_except_revoked_ones():
    hosts = {
        "named": host(),
        "empty": host(glidein_demand_token=""),
        "revoked": host(glidein_revoked="yes"),
        "good": host(glidein_demand_token="x" * 16),
        "odd": Unreadable("glidein_demand_token", host()),
    }
    assert inventory_errors(hosts, list(hosts), {}, never_expires)[1] == ["named", "empty"]


def test_the_variables_of_one_host_are_checked_by_prefix_and_by_name():
    action = ActionModule.__new__(ActionModule)
    action._templar = type("Templar", (), {"template": staticmethod(lambda value: value)})
    variables = {"glidein_gateway_supervisor": "x", "glidein_collector": "cm:x", "glidein_platforms": [1], "other": 1}
    names = ["glidein_collector", "glidein_platforms", "glidein_site"]
    errors = action._errors_of_host("glidein_gateway", names, {**variables, "glidein_queue_wait": "long"})
    assert [error.partition(":")[0] for error in errors] == sorted(set(variables) - {"other"})
