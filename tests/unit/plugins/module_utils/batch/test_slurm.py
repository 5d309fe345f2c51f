# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import answering

# squeue -r -o '%i|%T|%V|%S|%r|%j' of Slurm 24.11.5 (Debian 13), TZ=UTC0.
RECORDED = """\
JOBID|STATE|SUBMIT_TIME|START_TIME|REASON|NAME
12_1|PENDING|2026-11-21T03:30:54|2026-11-21T05:30:55|Resources|g5bf7a-d4e3c50d
13_1|PENDING|2026-11-21T03:30:55|2026-11-21T04:30:55|BeginTime|g5bf7a-31086659
15|PENDING|2026-11-21T03:30:55|2026-11-21T04:30:55|BeginTime|a|b c
13_2|PENDING|2026-11-21T03:30:55|2026-11-21T04:30:55|JobHeldUser|g5bf7a-31086659
11_1|RUNNING|2026-11-21T03:30:54|2026-11-21T03:30:55|None|g5bf7a-7eb8c79c
"""

slurm = make_scheduler("slurm")


def line(state="PENDING", reason="None", job_id="5_1", started="N/A"):
    return f"{job_id}|{state}|2026-11-21T00:02:52|{started}|{reason}|g5bf7a-7eb8c79c\n"


def parsed(**changes):
    return slurm.parse_list(RECORDED[: RECORDED.index("\n") + 1] + line(**changes), "me")[0]


def test_recorded_output_is_read():
    found = slurm.parse_list(RECORDED, "me")
    # date -u -d '2026-11-21 03:30:54' +%s. Only jobs that have started have a start time.
    assert [tuple(job)[:8] for job in found] == [
        ("12_1", "12", "g5bf7a-d4e3c50d", QUEUED, True, "Resources", 1795231854, None),
        ("13_1", "13", "g5bf7a-31086659", QUEUED, True, "BeginTime", 1795231855, None),
        ("15", "15", "a|b c", QUEUED, True, "BeginTime", 1795231855, None),
        ("13_2", "13", "g5bf7a-31086659", SICK, True, "JobHeldUser", 1795231855, None),
        ("11_1", "11", "g5bf7a-7eb8c79c", RUNNING, False, "", 1795231854, 1795231855),
    ]
    assert parsed(state="RUNNING", started="N/A").started is None
    suspended = parsed(state="SUSPENDED", started="2026-11-21T00:02:53")
    assert (suspended.started, suspended.reason) == (1795219373, "SUSPENDED")


@pytest.mark.parametrize(
    "text",
    [
        line(job_id="5_[1-4]"),
        line(job_id="x"),
        line().replace("2026-11-21T00:02:52", "N/A"),
        line().replace("2026-11-21T00:02:52", "00:02"),
        line(started="00:02"),
        line(started=""),
        "5_1|RUNNING|g5bf7a-7eb8c79c\n",
    ],
)
def test_unparsable_output_is_an_error_that_quotes_it(text):
    with pytest.raises(OutputError, match="slurm: cannot read .*" + re.escape(text.strip())):
        slurm.parse_list(RECORDED + text, "me")


def test_several_clusters_in_one_list_are_an_error_that_names_them():
    lists = [f"CLUSTER: {name}\n{RECORDED}" for name in ("genius", "wice")]
    assert len(answering("slurm", lists[0]).jobs("me")) == 5
    with pytest.raises(OutputError, match=r"squeue lists jobs of several clusters: genius, wice.*--clusters"):
        answering("slurm", "\n".join(lists)).jobs("me")


# Reasons with which a job can never start, and with which it waits its turn.
NEVER = """\
JobHeldUser JobHeldAdmin JobHoldMaxRequeue BadConstraints AccountNotAllowed InvalidAccount InvalidQOS
PartitionTimeLimit MaxMemPerLimit DependencyNeverSatisfied launch_failed_requeued_held
user_env_retrieval_failed_requeued_held job_requeued_in_held_state QOSMaxCpuPerJobLimit AssocMaxCpuPerJobLimit
QOSMaxWallDurationPerJobLimit AssocMaxWallDurationPerJobLimit QOSMinCpuNotSatisfied AssocGrpCPUMinutesLimit
QOSGrpGRESMinutes QOSMaxBillingMinutesPerJob AssocGrpBillingMinutes AssocGrpWallLimit QOSGrpWallLimit
QOSUsageThreshold AssocMaxCpuPerNode QOSMaxGRESPerNode BurstBufferOperation ReservationDeleted ReservationInvalid
"""
WAITS = """\
None Priority Resources QOSMaxJobsPerUserLimit QOSMaxCpuPerUserLimit AssocMaxJobsLimit AssocGrpCpuLimit QOSGrpCpuLimit
AssocGrpBillingRunMinutes AssocGrpCPURunMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpGRESRunMinutes
QOSGrpMemoryRunMinutes AssocGrpUnknownRunMinutes MaxCpuRunMinsPerAccount MaxGRESRunMinsPerUser QOSMaxNodePerUserLimit
MaxNodePerAccount AssocGrpNodeLimit PartitionNodeLimit PartitionConfig Constraints AccountingPolicy ReqNodeNotAvail
ReqNodeNotAvail,_UnavailableNodes:n1 BeginTime Dependency JobArrayTaskLimit Licenses Reservation PartitionDown NodeDown
Cleaning
Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions
"""


@pytest.mark.parametrize("reason", [*NEVER.split(), "launch failed requeued held"])
def test_a_glidein_that_can_never_start_is_sick_with_its_reason(reason):
    job = parsed(reason=reason)
    assert (job.state, job.reason, job.cancellable) == (SICK, reason, True)


@pytest.mark.parametrize("reason", WAITS.split())
def test_a_glidein_that_waits_its_turn_is_queued(reason):
    assert parsed(reason=reason).state == QUEUED


@pytest.mark.parametrize("reason, never", [("BadConstraints", True), ("JobHeldUser", False), ("Priority", False)])
def test_a_request_with_which_no_job_can_start_is_distinguished(reason, never):
    assert parsed(reason=reason).never_starts is never
