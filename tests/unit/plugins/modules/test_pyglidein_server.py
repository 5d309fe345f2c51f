# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of demand_info with a PyGlidein server at glidein_demand_url, as during a migration."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import DemandClient
from ansible_collections.glidein.ops.plugins.modules import demand_info
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module
from ansible_collections.glidein.ops.tests.unit.support.pyglidein_server import STATE, pyglidein_server


@pytest.fixture
def server():
    with pyglidein_server() as url_and_calls:
        yield url_and_calls


def test_the_server_answers_as_pyglidein_does(server):
    assert DemandClient(server[0]).call("get_state") == STATE


@pytest.mark.parametrize(
    "options",
    [{}, {"sites": ["lab"], "attributes": ["ProjectName"]}, {"tokens": ["0123456789abcdef", "fedcba9876543210"]}],
)
@pytest.mark.parametrize("check", [False, True])
def test_one_sentence_names_the_server_and_the_remedy(server, options, check):
    url, called = server
    result = run_module(demand_info.main, dict(options, server_url=url), check=check)
    assert result["failed"]
    assert "demand" not in result
    assert result["msg"] == (
        f"Demand server {url}/jsonrpc, get_demand: HTTP 400, JSON-RPC error -32601: Method not found. This looks like "
        "a PyGlidein server, which cannot serve glidein.ops. Install the demand server with glidein.ops.deploy, which "
        "also answers PyGlidein's clients, and set server_url (glidein_demand_url) to its address"
    )
    assert set(called) == {"get_demand"}
