# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the job attributes that accept_requirements refers to."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import (
    MOST_NAMES,
    accepted_attributes,
    unreported_hint,
)


def names(text, **entry):
    return accepted_attributes([{"entries": {"main": dict(entry, accept_requirements=text)}}])


@pytest.mark.parametrize(
    "text, expected",
    [
        ('TARGET.ProjectName == "icecube"', ["ProjectName"]),
        ('ProjectName == "icecube" && projectname isnt undefined', ["ProjectName"]),
        ("TARGET.'Zone' == 1 || MY.Rack == 2", ["Zone"]),
        ('stringListMember(Owner, "alice") && RequestCpus > 2', ["Owner"]),
        ('TARGET.User == "alice@pool"', ["User"]),
        ("TARGET.ImageSize < 5 && TARGET.RequestGPUs =?= 0", ["ImageSize", "RequestGPUs"]),
        ("TARGET.'odd name' == 1", []),
        ("true", []),
        (None, []),
        (7, []),
    ],
)
def test_the_jobs_attributes_of_an_expression_are_found(text, expected):
    assert names(text) == expected


def test_a_name_that_the_entry_states_is_the_machines():
    assert names("HAS_CVMFS && Zone == 1", attributes={"has_cvmfs": True}) == ["Zone"]


def test_all_sites_together_ask_for_a_bounded_number_of_names():
    text = " && ".join(f"TARGET.A{number:02} == 1" for number in range(30))
    assert names(text) == [f"A{number:02}" for number in range(MOST_NAMES)]


@pytest.mark.parametrize("sites", [[{}], [{"entries": "x"}], [{"entries": {"main": "x"}}], [{"entries": None}]])
def test_entries_that_cannot_be_read_ask_for_nothing(sites):
    assert accepted_attributes(sites) == []


def test_attributes_that_the_server_returns_cause_no_note():
    assert unreported_hint(["ProjectName"], ["projectname"]) == ""
