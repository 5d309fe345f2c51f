# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the parts that PBS Professional and Torque share."""

import fnmatch

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, SICK
from ansible_collections.glidein.ops.tests.unit.support.fake_pbs import FakePbsPro, FakeTorque

FAKES = {"pbspro": FakePbsPro, "torque": FakeTorque}
both = pytest.mark.parametrize("kind", sorted(FAKES))


@both
@pytest.mark.parametrize(
    "submission, ours, others",
    [
        ("4[].head", ["g-1.4[1].head.out", "g-1.4[12].head.out"], ["g-1.44[1].head.out", "g-1.4.head.out"]),
        ("4.head", ["g-1.4.head.out"], ["g-1.4[1].head.out", "g-1.4.head.pbs.out", "g-1.14.head.out"]),
    ],
)
def test_the_logs_of_a_submission_are_those_of_its_tasks(kind, submission, ours, others):
    pattern = make_scheduler(kind).log_pattern(submission)
    assert [name for name in ours + others if fnmatch.fnmatchcase(name, pattern)] == ours


@both
def test_a_held_glidein_is_sick_with_a_reason(kind):
    full = "Not Running: Not enough free nodes available"
    failed = "job held, too many failed attempts to run"
    fake = FAKES[kind].__new__(FAKES[kind])
    rows = (("H", "u", ""), ("H", "u", full), ("H", "s", failed), ("Q", "n", full))
    jobs = [fake.job(f"{n}.pbshost", "g", state, why, "me", holds=holds) for n, (state, holds, why) in enumerate(rows)]
    assert [(job.state, job.reason) for job in make_scheduler(kind).parse_list(fake.document(jobs), "me")] == [
        (SICK, "Hold_Types = u"),
        (SICK, "Hold_Types = u"),
        (SICK, failed),
        (QUEUED, full),
    ]
