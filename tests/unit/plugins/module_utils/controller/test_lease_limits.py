# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the number of jobs that a site's glideins can run at once, the limit of its leases."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_limits import lease_limits
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.tests.unit.support.unreadable import Unreadable

CORE = {"cpus": 1, "memory_mb": 2000, "disk_mb": 10000}
NODE = {"cpus": 28, "memory_mb": 120000, "disk_mb": 100000}


def entry(limits=None, **shapes):
    return {"walltime": "1h", "shapes": shapes or {"core": CORE}, "limits": limits or {}}


def limit(limits=None, **entries):
    variables = {"glidein_site": "PSC", "glidein_entries": entries, "glidein_limits": limits or {}}
    return lease_limits({"host": variables}, ["host"])["PSC"]


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


def test_hosts_without_entries_have_no_limit_and_others_have_the_name_of_their_site():
    hostvars = {"one": {"glidein_entries": {"a": entry({"total": 5})}}, "two": {}}
    assert lease_limits(hostvars, ["one", "two"]) == {"one": 5}


def test_invalid_entries_are_an_error_that_names_the_host():
    with pytest.raises(InputError, match="one: .*glidein_entries.a.walltime"):
        lease_limits({"one": {"glidein_entries": {"a": {"shapes": {"core": CORE}}}}}, ["one"])


def test_a_variable_that_cannot_be_read_is_an_error_that_names_the_host():
    with pytest.raises(InputError, match="^odd: glidein_limits: "):
        lease_limits({"odd": Unreadable("glidein_limits", {})}, ["odd"])
