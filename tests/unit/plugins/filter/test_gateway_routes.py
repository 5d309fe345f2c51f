# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that returns the configuration of a gateway's routes."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.filter.gateway_routes import FilterModule

ROUTES = FilterModule().filters()["gateway_routes"]


def test_the_lines_are_those_of_the_job_router():
    lines = ROUTES({"main": {"batch_system": "slurm", "walltime": "1h"}})
    assert lines[0] == "JOB_ROUTER_ROUTE_NAMES = main"
    assert '  GridResource = "batch slurm"' in lines


def test_an_error_names_the_variable():
    with pytest.raises(AnsibleFilterError, match="glidein_gateway_routes.main.walltime: missing"):
        ROUTES({"main": {"batch_system": "slurm"}})
