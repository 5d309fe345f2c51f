# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of sizes, durations and records in the facts of batch systems."""

import contextlib

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    clock_s,
    largest,
    node_groups,
    node_record,
    number,
    size_mb,
    smallest,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.facts import UNITS as SGE_UNITS
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf.facts import UNITS as LSF_UNITS
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.facts import UNITS as PBS_UNITS
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "units", "expected"),
    [
        ("64gb", PBS_UNITS, 65536),
        ("527564456kb", PBS_UNITS, 515199),
        ("24684096KB", PBS_UNITS, 24105),
        ("1048576", PBS_UNITS, 1),
        ("1048576b", PBS_UNITS, 1),
        ("1gw", PBS_UNITS, 8192),
        ("2g", PBS_UNITS, 2048),
        ("8G", SGE_UNITS, 8192),
        ("8g", SGE_UNITS, 7629),
        ("23.541G", SGE_UNITS, 24105),
        ("512M", SGE_UNITS, 512),
        ("0.000", SGE_UNITS, 0),
        ("24105M", LSF_UNITS, 24105),
        ("503.5G", LSF_UNITS, 515584),
        ("1.9T", LSF_UNITS, 1992294),
        ("24105", LSF_UNITS, 24105),
        ("5000 K", LSF_UNITS, 4),
    ],
)
def test_sizes_in_mebibytes(text, units, expected):
    assert size_mb(text, units) == expected


@pytest.mark.parametrize("text", ["", "-", "many", "1xb", "1 2", "-5gb", "1.gb", "\u0661gb", "9" * 40 + "gb", "5gb\n"])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(OutputError, match="invalid size: '.*'; expected one such as 4G"):
        size_mb(text, PBS_UNITS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3600", 3600), ("1:30", 90), ("02:00:00", 7200), ("168:00:00", 604800), ("2:00:00:00", 172800), ("10.5", 10)],
)
def test_durations_in_seconds(text, expected):
    assert clock_s(text) == expected


@pytest.mark.parametrize("text", ["", "UNLIMITED", "1:2:3:4:5", "-1", "1::2", "1:00\n", "9" * 5000])
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(OutputError, match="invalid duration: '.*'; expected one such as 24:00:00"):
        clock_s(text)


@given(st.text())
def test_any_text_is_a_quantity_or_an_error(text):
    for convert in (clock_s, number, lambda value: size_mb(value, PBS_UNITS), lambda value: size_mb(value, SGE_UNITS)):
        with contextlib.suppress(OutputError):
            assert convert(text) >= 0


def test_the_lowest_known_limit_applies():
    assert smallest([None, 5, 3]) == 3
    assert smallest([None]) is None


def test_one_queue_without_a_limit_makes_the_largest_unlimited():
    assert largest([3, 5]) == 5
    assert largest([3, None]) is None
    assert largest([]) is None


def nodes(*memories, **known):
    return [node_record(usable=True, cpus=64, memory_mb=memory, **known) for memory in memories]


def test_nodes_with_nearly_the_same_memory_are_a_group_with_the_smallest():
    groups = node_groups(nodes(515_300, 515_199, 515_250, 1_031_000))
    assert [(group["nodes"], group["memory_mb"]) for group in groups] == [(3, 515_199), (1, 1_031_000)]


def test_the_groups_are_ordered_by_their_number_of_nodes_then_by_size():
    groups = node_groups(nodes(1000, 2000, 2000) + nodes(3000, gpus=4))
    assert [(group["nodes"], group["memory_mb"]) for group in groups] == [(2, 2000), (1, 3000), (1, 1000)]


def test_a_node_that_is_down_belongs_to_the_largest_group_of_its_kind():
    down = node_record(usable=False, cpus=64)
    groups = node_groups([*nodes(1000, 2000, 2000), down])
    assert groups[0]["nodes"] == 3
    assert groups[0]["usable_nodes"] == 2
    assert groups[0]["memory_mb"] == 2000


def test_gpus_features_and_cores_separate_groups():
    groups = node_groups(
        nodes(1000)
        + nodes(1000, gpus=4, gpu_type="a100")
        + nodes(1000, gpus=4, gpu_type="h100")
        + nodes(1000, features=["fast"])
    )
    assert len(groups) == 4


def test_the_disk_of_a_group_is_that_of_its_smallest_node():
    assert node_groups(nodes(1000, disk_mb=7) + nodes(1000, disk_mb=5) + nodes(1000))[0]["disk_mb"] == 5
    assert node_groups(nodes(1000))[0]["disk_mb"] is None
