# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of how many jobs a partitionable slot holds, compared with a startd of HTCondor 23.9.6."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import (
    jobs_per_slot,
    resources_left,
)
from hypothesis import given
from hypothesis import strategies as st

sizes = st.tuples(st.integers(1, 64), st.integers(1, 20000), st.integers(1, 9000), st.integers(0, 4))
requests = st.tuples(st.integers(1, 8), st.integers(1, 4000), st.integers(1, 3000), st.integers(0, 2))


# The remaining disk is not recorded from the startd, which reports KiB.
@pytest.mark.parametrize(
    "slot, asked, jobs, left",
    [
        ((8, 4000, 8000, 0), (1, 4000, 8000, 0), 1, (7, 0, 0, 0)),
        ((8, 64000, 8000, 0), (1, 128, 2000, 0), 3, (5, 63616, 1997, 0)),
        ((8, 64000, 8000, 0), (1, 100, 1999, 0), 4, (4, 63488, 0, 0)),
        ((8, 4000, 8000, 0), (1, 1000, 1, 0), 3, (5, 928, 7994, 0)),
        ((8, 4000, 8000, 0), (1, 1950, 1, 0), 2, (6, 2, 7996, 0)),
        ((8, 228, 8000, 0), (1, 30, 1, 0), 4, (4, 10, 7992, 0)),
        ((8, 4000, 10, 0), (1, 100, 1, 0), 5, (3, 3360, 0, 0)),
    ],
)
def test_a_slot_is_divided_as_a_startd_did_it(slot, asked, jobs, left):
    assert jobs_per_slot(slot, asked) == jobs
    assert resources_left(slot, asked, jobs) == left


@pytest.mark.parametrize("resource", range(4))
def test_a_job_that_requests_more_of_one_resource_does_not_fit(resource):
    slot = (2, 1000, 1000, 1)
    assert jobs_per_slot(slot, slot) == 1
    assert jobs_per_slot(slot, tuple(there + (number == resource) for number, there in enumerate(slot))) == 0


def after_one_job(slot, asked):
    """Return the slot's remainder after one job, or None if the job does not fit, by the startd's rule step by step."""
    for memory_mb in (-(-asked[1] // 128) * 128, asked[1]):
        if all(there >= need for there, need in zip(slot, (asked[0], memory_mb, asked[2], asked[3]))):
            taken = (asked[0], memory_mb, min(asked[2] + 1, slot[2]), asked[3])
            return tuple(there - need for there, need in zip(slot, taken))
    return None


@given(sizes, requests, st.integers(0, 70))
def test_many_jobs_are_counted_as_if_one_came_after_the_other(slot, asked, most):
    left, jobs = slot, 0
    while jobs < most and after_one_job(left, asked) is not None:
        left, jobs = after_one_job(left, asked), jobs + 1
    assert min(most, jobs_per_slot(slot, asked)) == jobs
    assert resources_left(slot, asked, jobs) == left
