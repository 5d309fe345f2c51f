# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the catalogue that the ad of a gateway's schedd has."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.catalogue import catalogue_config

ROUTES = {
    "cpu": {"batch_system": "slurm", "walltime": "30m", "queues": ["cpu", "debug"], "memory_mb": 300, "max_cpus": 8},
    "gpu": {
        "batch_system": "htcondor",
        "walltime": "1h",
        "max_walltime": 86430,
        "max_gpus": 2,
        "max_memory_mb": 4000,
        "max_jobs": 9,
    },
}
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
ATTRIBUTES = "OSG_Resource OSG_ResourceGroup OSG_BatchSystems OSG_ResourceCatalog grid_resource GatewayRouted"


def settings(*arguments, **options):
    """Return the configuration as {name: value}."""
    return dict(line.split(" = ", 1) for line in catalogue_config(*arguments, **options))


def test_the_catalogue_of_routes_has_the_largest_pilots_that_each_accepts():
    requested = "set_xcount = RequestCPUs; set_maxMemory = RequestMemory"
    assert settings("lab", ROUTES, {}) == {
        "OSG_Resource": '"lab"',
        "OSG_ResourceGroup": '"lab"',
        "OSG_BatchSystems": '"htcondor,slurm"',
        "OSG_ResourceCatalog": (
            '{ [ Name = "cpu"; CPUs = 8; Memory = 300; MaxWallTime = 30; '
            f'Transform = [ {requested}; set_queue = "cpu" ] ], '
            f'[ Name = "gpu"; CPUs = 1; Memory = 4000; MaxWallTime = 1441; GPUs = 2; MaxPilots = 9; '
            f"Transform = [ {requested} ] ] }}"
        ),
        "grid_resource": 'strcat("condor ", "$(SCHEDD_NAME)", " ", "$(COLLECTOR_HOST)")',
        "GatewayRouted": "true",
        "SCHEDD_ATTRS": f"$(SCHEDD_ATTRS) {ATTRIBUTES}",
    }


def test_without_routes_the_catalogue_has_the_largest_glidein_of_each_entry():
    found = settings("lab", {}, ENTRIES, scheduler="slurm")
    assert found["OSG_BatchSystems"] == '"slurm"'
    assert found["GatewayRouted"] == "false"
    assert found["OSG_ResourceCatalog"] == (
        '{ [ Name = "main"; CPUs = 4; Memory = 8000; MaxWallTime = 2; MaxPilots = 7; GPUs = 1; WholeNode = true; '
        'Transform = [ set_BatchQueue = "cpu" ] ], '
        '[ Name = "other"; CPUs = 1; Memory = 1068; MaxWallTime = 60; MaxPilots = 100 ] }'
    )


def test_the_resource_group_and_the_vos_are_those_of_the_operator():
    found = settings("lab", ROUTES, {}, resource_group="PSC", vos=["icecube", "osg"])
    assert found["OSG_ResourceGroup"] == '"PSC"'
    assert found["OSG_ResourceCatalog"].count('; AllowedVOs = { "icecube", "osg" } ]') == 2


@pytest.mark.parametrize(("entries", "scheduler"), [({}, "slurm"), (ENTRIES, ""), (ENTRIES, "gateway")])
def test_without_routes_and_entries_of_a_batch_system_there_is_no_catalogue(entries, scheduler):
    assert catalogue_config("lab", {}, entries, scheduler) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"resource_group": "a b"}, "glidein_gateway_resource_group: 'a b' is invalid; expected 1 to 64 letters"),
        ({"vos": "osg"}, "glidein_gateway_vos: 'osg' is invalid; expected a list of names of VOs"),
        ({"vos": ['a"b']}, "glidein_gateway_vos: ['a\"b'] is invalid; expected a list of names of VOs"),
    ],
)
def test_an_error_names_the_variable(options, error):
    with pytest.raises(InputError) as raised:
        catalogue_config("lab", ROUTES, {}, **options)
    assert str(raised.value).startswith(error)
