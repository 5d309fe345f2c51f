# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that returns the configuration of a gateway's catalogue."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.filter.gateway_catalogue import FilterModule

CATALOGUE = FilterModule().filters()["gateway_catalogue"]


def test_the_lines_are_those_of_the_schedds_ad():
    lines = CATALOGUE("lab", {"main": {"batch_system": "slurm", "walltime": "1h"}})
    assert lines[0] == 'OSG_Resource = "lab"'
    assert lines[-1].startswith("SCHEDD_ATTRS = $(SCHEDD_ATTRS) OSG_Resource ")


def test_without_routes_and_entries_there_are_none():
    assert CATALOGUE("lab") == []


def test_an_error_names_the_variable():
    with pytest.raises(AnsibleFilterError, match="glidein_gateway_vos: \\[7\\] is invalid"):
        CATALOGUE("lab", {}, {}, "", "", [7])
