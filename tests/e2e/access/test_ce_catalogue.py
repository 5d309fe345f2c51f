# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of the CE on the lab's host `ce` as an inventory."""

import pytest
from conftest import bring_up, wait_for
from gateway_lab import catalogue


@pytest.fixture(scope="module", autouse=True)
def ce():
    bring_up("ce")


def test_a_ce_is_a_site_with_the_entries_of_its_catalogue(tmp_path):
    def listed():
        found = catalogue(tmp_path, "ce_collector", compose={"ansible_host": "'ap.example.org'"})
        return found if found[0] else None

    hosts, groups, _errors = wait_for("the ad of the CE", listed, 400)
    assert groups == dict.fromkeys(("glidein_sites", "ce_catalogue", "ce_group_lab", "ce_batch_slurm"), ["ce"])
    variables = hosts["ce"]
    assert variables["ansible_host"] == "ap.example.org"
    assert variables["ce_allowed_vos"] == ["lab", "physics"]
    # As in inventories/lab-ce.
    assert (variables["glidein_scheduler"], variables["glidein_ce"]) == ("htcondor_ce", "ce:9619")
    assert variables["glidein_scheduler_options"] == {"schedd": "ce@"}
    cpu, gpu = variables["glidein_entries"]["cpu"], variables["glidein_entries"]["gpu"]
    assert (cpu["queue"], cpu["walltime"], cpu["node"]["cpus"]) == ("cpu", "2h", 8)
    assert (gpu["queue"], gpu["accept"], gpu["shapes"]["pilot"]["gpus"]) == ("gpu", {"gpus": {"min": 1}}, 2)
