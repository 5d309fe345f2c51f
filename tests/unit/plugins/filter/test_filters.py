# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that each filter file defines the filter of its name, with the documented arguments in the documented order."""

import inspect

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.doc_fragments.hosts import ModuleDocFragment
from ansible_collections.glidein.ops.plugins.filter import (
    demand_server_sites,
    inventory_sites,
    job_explanation,
    seconds,
    select_hosts,
)


@pytest.mark.parametrize(
    "plugin",
    [
        demand_server_sites,
        inventory_sites,
        job_explanation,
        seconds,
        select_hosts,
    ],
)
def test_a_filter_accepts_the_documented_arguments(plugin):
    documentation = yaml.safe_load(plugin.DOCUMENTATION)
    options = dict(documentation.get("options", {}))
    if "extends_documentation_fragment" in documentation:
        assert documentation["extends_documentation_fragment"] == ["glidein.ops.hosts"]
        options.update(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"])
    name = plugin.__name__.rsplit(".", 1)[1]
    assert documentation["name"] == name
    filters = plugin.FilterModule().filters()
    assert list(filters) == [name]
    parameters = list(inspect.signature(filters[name]).parameters.values())[1:]
    assert [one.name for one in parameters] == [
        name for name in documentation.get("positional", "").split(", ") if name
    ]
    for one in parameters:
        option = options[one.name]
        if one.default is inspect.Parameter.empty:
            assert option["required"] is True
        else:
            assert option.get("default") == one.default


def test_seconds_are_read_as_walltimes_are():
    read = seconds.FilterModule().filters()["seconds"]
    assert [read(value) for value in ("15d", "1d12h", 90, "2:30:00")] == [1296000, 129600, 90, 9000]
    with pytest.raises(AnsibleFilterError, match="'2 fortnights' is invalid; expected a duration: seconds as a number"):
        read("2 fortnights")


@pytest.mark.parametrize("value", ["soon", 0, -1, None])
def test_a_duration_below_the_minimum_names_the_variable(value):
    assert seconds.seconds("1", 1, "glidein_site_timeout") == 1
    with pytest.raises(AnsibleFilterError, match=r"glidein_site_timeout: .* is invalid; expected a duration of at le"):
        seconds.seconds(value, 1, "glidein_site_timeout")


def test_hosts_are_selected_by_their_variables():
    selected = select_hosts.FilterModule().filters()["select_hosts"]
    hosts = {
        "plain": {},
        "revoked": {"glidein_revoked": "yes", "cycle_queue": {"queue": {}}},
        "read": {"glidein_revoked": "false", "cycle_queue": {"queue": {}}},
    }
    assert selected(hosts, list(hosts), with_any=["glidein_revoked", "glidein_pull"]) == ["revoked"]
    assert selected(hosts, list(hosts), ["cycle_queue"], without=["glidein_revoked"]) == ["read"]
    assert selected(hosts, list(hosts), ["glidein_pull"]) == []
    assert selected(hosts, list(hosts)) == list(hosts)
