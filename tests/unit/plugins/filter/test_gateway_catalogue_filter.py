# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that returns the catalogue of a gateway."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.filter.gateway_catalogue import FilterModule

CATALOGUE = FilterModule().filters()["gateway_catalogue"]
ENTRIES = {
    "main": {
        "queue": "cpu",
        "walltime": "90s",
        "limits": {"total": 7},
        "shapes": {
            "small": {"cpus": 1, "memory_mb": 1000, "disk_mb": 1000},
            "large": {"cpus": 4, "memory_mb": 8000, "disk_mb": 1000, "gpus": 1, "whole_node": True},
        },
    },
    "other": {"walltime": "1h", "shapes": {"one": {"cpus": 1, "memory_mb": 1000, "disk_mb": 1000}}},
}


def test_the_catalogue_has_the_largest_glidein_of_each_entry():
    assert CATALOGUE(ENTRIES) == (
        '{ [ Name = "main"; CPUs = 4; Memory = 8000; MaxWallTime = 2; MaxPilots = 7; GPUs = 1; WholeNode = true; '
        'Transform = [ set_BatchQueue = "cpu" ] ], '
        '[ Name = "other"; CPUs = 1; Memory = 1068; MaxWallTime = 60; MaxPilots = 100 ] }'
    )


def test_an_error_names_the_variable():
    with pytest.raises(AnsibleFilterError, match="glidein_entries.main.walltime: missing"):
        CATALOGUE({"main": dict(ENTRIES["main"], walltime=None)})
