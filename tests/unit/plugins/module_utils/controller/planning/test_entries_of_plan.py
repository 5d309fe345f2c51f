# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of entry settings that only the plan uses: shapes derived from a node, and accepted jobs."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry


def shapes_of(node):
    entry = raw_entry(node=node)
    del entry["shapes"]
    return normalise_site("glidein", "lab", {"main": entry})["entries"]["main"]["shapes"]


def test_without_shapes_they_are_the_whole_the_half_and_so_on_of_the_node():
    shapes = shapes_of({"cpus": 6, "memory_mb": 1000, "disk_mb": 100})
    sizes = {name: (one["cpus"], one["asked_memory_mb"], one["disk_mb"]) for name, one in shapes.items()}
    assert sizes == {"whole": (6, 1000, 100), "half": (3, 500, 50), "quarter": (1, 250, 25)}


def test_parts_of_a_node_with_gpus_have_at_least_one():
    shapes = shapes_of({"cpus": 64, "memory_mb": 256000, "disk_mb": 1000000, "gpus": 4})
    assert {name: one["gpus"] for name, one in shapes.items()} == {"whole": 4, "half": 2, "quarter": 1}


def test_a_whole_node_entry_has_no_smaller_shapes():
    assert list(shapes_of({"cpus": 64, "memory_mb": 256000, "disk_mb": 1000000, "whole_node": True})) == ["whole"]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"node": {"cpus": 1, "memory_mb": 1, "disk_mb": 1}}, ": parameters are mutually exclusive: shapes|node"),
        ({"accept": {"gpus": {"min": 1, "max": 0}}}, ".accept.gpus: {'min': 1, 'max': 0}"),
        ({"eagerness": 4}, ".eagerness: 4"),
        ({"eagerness": "eager"}, ".eagerness: 'eager'"),
        ({"eagerness": True}, ".eagerness: True"),
        ({"limits": {"cores": -1}}, ".limits.cores: -1"),
        ({"accept_requirements": 5}, ".accept_requirements: 5"),
    ],
)
def test_invalid_rules_of_an_entry_are_errors_with_their_path(changes, words):
    with pytest.raises(InputError) as raised:
        normalise_site("glidein", "lab", {"main": raw_entry(**changes)})
    assert f"glidein_entries.main{words}" in str(raised.value)


@pytest.mark.parametrize(
    "of_entry, of_site, step",
    [(None, None, 0), (None, "redundant", 2), ("certain", 3, 0), ("roomy", None, 1), ("2", "everywhere", 2), (3, 0, 3)],
)
def test_the_eagerness_of_an_entry_overrides_that_of_its_site(of_entry, of_site, step):
    one = normalise_site("glidein", "lab", {"main": raw_entry(eagerness=of_entry)}, eagerness=of_site)
    assert one["entries"]["main"]["eagerness"] == step


def test_an_invalid_eagerness_of_a_site_is_an_error_with_the_steps():
    with pytest.raises(
        InputError, match="glidein_eagerness: 'fast' .* certain, roomy, redundant, everywhere, or its number"
    ):
        normalise_site("glidein", "lab", {"main": raw_entry()}, eagerness="fast")
