# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the trusted and the revoked sites of an inventory."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_sites import (
    inventory_sites,
    select_hosts,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.tests.unit.support.unreadable import Encrypted, Marker, Unreadable


def test_sites_have_a_name_and_a_credential():
    hostvars = {
        "a": {"glidein_site": "alpha"},
        "b": {"glidein_credential": "pool_password"},
        "c": {"glidein_site": "gamma", "glidein_revoked": True, "glidein_credential_file": "/token"},
    }
    assert inventory_sites(hostvars, ["a", "b", "c"]) == {
        "trusted": [
            {"site": "alpha", "credential": "token", "supplied": False},
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


def test_two_hosts_of_a_site_are_one_site():
    hostvars = {"a": {"glidein_site": "s"}, "b": {"glidein_site": "s", "glidein_credential": "pool_password"}}
    assert inventory_sites(hostvars, ["a", "b"])["trusted"] == [
        {"site": "s", "credential": "pool_password", "supplied": False}
    ]


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
