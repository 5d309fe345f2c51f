# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the sites of an inventory: trusted and revoked ones, and what the demand server needs of them."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_sites import (
    demand_server_sites,
    inventory_sites,
    select_hosts,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.tests.unit.support.unreadable import (
    AnsibleVaultError,
    Encrypted,
    Marker,
    Unreadable,
)


def test_sites_have_a_name_and_a_credential():
    hostvars = {
        "a": {"glidein_site": "alpha"},
        "b": {"glidein_credential": "pool_password"},
        "c": {"glidein_site": "gamma", "glidein_revoked": True, "glidein_credential_file": "/token"},
        # The last host of a site decides.
        "twin": {"glidein_site": "alpha", "glidein_credential": "pool_password"},
    }
    assert inventory_sites(hostvars, list(hostvars)) == {
        "trusted": [
            {"site": "alpha", "credential": "pool_password", "supplied": False},
            {"site": "b", "credential": "pool_password", "supplied": False},
        ],
        "revoked": [{"site": "gamma", "credential": "token", "supplied": True}],
        "revoked_hosts": ["c"],
    }


@pytest.mark.parametrize(
    ("value", "revoked"),
    [(True, True), ("yes", True), ("false", False), ("no", False), (None, False), ("", False), ("maybe", True)],
)
def test_text_of_an_inventory_is_read_as_a_boolean(value, revoked):
    found = inventory_sites({"a": {"glidein_revoked": value}}, ["a"])
    assert bool(found["revoked"]) is revoked
    assert bool(found["trusted"]) is not revoked


@pytest.mark.parametrize(
    "variables",
    [
        Unreadable("glidein_revoked", {}),
        {"glidein_revoked": Encrypted()},
        {"glidein_revoked": Marker()},
        # As ansible-core before 2.19 returns it.
        {"glidein_revoked": "{{ gone }}"},
    ],
)
def test_a_variable_that_cannot_be_read_is_named_and_costs_only_its_host(variables):
    hostvars = {"odd": variables, "good": {"glidein_revoked": True}, "other": {}}
    warnings = []
    assert select_hosts(hostvars, list(hostvars), ["glidein_revoked"], warn=warnings.append) == ["good"]
    assert select_hosts(hostvars, list(hostvars), without=["glidein_revoked"], warn=warnings.append) == ["other"]
    assert [text[:21] for text in warnings] == ["odd: glidein_revoked:"] * 2
    # The state of the pool follows from all sites.
    for strict in (select_hosts, inventory_sites):
        with pytest.raises(InputError, match="^odd: glidein_revoked: "):
            strict(hostvars, list(hostvars), *([["glidein_revoked"]] if strict is select_hosts else []))


CORE = {"cpus": 1, "memory_mb": 2000, "disk_mb": 10000}
NODE = {"cpus": 28, "memory_mb": 120000, "disk_mb": 100000}


def entry(limits=None, **shapes):
    return {"walltime": "1h", "shapes": shapes or {"core": CORE}, "limits": limits or {}}


def limit(limits=None, **entries):
    variables = {"glidein_site": "PSC", "glidein_entries": entries, "glidein_limits": limits or {}}
    return demand_server_sites({"host": variables}, ["host"])["lease_limits"]["PSC"]


@pytest.mark.parametrize(
    "limits, entries, jobs",
    [
        ({}, {"a": entry({"total": 50})}, 50),
        ({}, {"a": entry({"total": 50}, core=CORE, node=NODE)}, 1400),
        ({}, {"a": entry({"total": 50}), "b": entry({"total": 2}, node=NODE)}, 106),
        ({}, {"a": entry({"total": 50, "cores": 100}, node=NODE)}, 100),
        ({"total": 3}, {"a": entry({"total": 50}), "b": entry({"total": 50}, node=NODE)}, 84),
        ({"cores": 40}, {"a": entry({"total": 50}), "b": entry({"total": 50}, node=NODE)}, 40),
        ({}, {"a": entry({"total": 0})}, 0),
        ({}, {"a": entry()}, 100),
    ],
)
def test_the_limits_of_entries_and_site_bound_the_jobs(limits, entries, jobs):
    assert limit(limits, **entries) == jobs


@pytest.mark.parametrize(
    "variables, error",
    [
        ({"glidein_entries": {"a": {"shapes": {"core": CORE}}}}, "one: .*glidein_entries.a.walltime"),
        (Unreadable("glidein_limits", {}), "^one: glidein_limits: "),
    ],
)
def test_invalid_and_unreadable_variables_are_errors_that_name_the_host(variables, error):
    with pytest.raises(InputError, match=error):
        demand_server_sites({"one": variables}, ["one"])


def test_the_demand_server_gets_tokens_and_limits_of_sites_or_an_error_that_names_the_host():
    hosts = {
        "a": {"glidein_site": "A", "glidein_demand_token": "of A", "glidein_entries": {"a": entry({"total": 5})}},
        "b": {"glidein_demand_token": ""},
        "c": {},
        "r": {"glidein_demand_token": "of r", "glidein_revoked": True},
        "former": {"glidein_site": "A", "glidein_revoked": True},
    }
    found = demand_server_sites(hosts, list(hosts))
    assert found == {"tokens": {"A": "of A", "b": ""}, "revoked": ["r"], "lease_limits": {"A": 5}}
    hosts["c"] = Unreadable("glidein_demand_token", {}, AnsibleVaultError("no secrets"))
    with pytest.raises(InputError, match="^c: glidein_demand_token: the vault that holds it cannot be decrypted"):
        demand_server_sites(hosts, list(hosts))
