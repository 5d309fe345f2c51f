# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of condor_q -better-analyze: the commands, and the output of HTCondor 23.9.6."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.job_analysis import (
    MOST_CONDITIONS,
    address_command,
    analysis_command,
    parse_analysis,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from hypothesis import given
from hypothesis import strategies as st

# Recorded with HTCondor 23.9.6: a job that matches no slot, in a pool with one glidein.
NO_MATCH = """\


-- Schedd: cm : <10.89.2.10:9618?...
The Requirements expression for job 1.000 is

    ((TARGET.GLIDEIN_Site == "nowhere") && (TARGET.Memory > 50)) &&
    (TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") &&
    (TARGET.Disk >= RequestDisk) && (TARGET.Memory >= RequestMemory) &&
    ((TARGET.FileSystemDomain == MY.FileSystemDomain) ||
      (TARGET.HasFileTransfer))

Job 1.000 defines the following attributes:

    FileSystemDomain = "cm"
    RequestDisk = 10240 (kb)
    RequestMemory = 100 (mb)

The Requirements expression for job 1.000 reduces to these conditions:

         Slots
Step    Matched  Condition
-----  --------  ---------
[0]           0  TARGET.GLIDEIN_Site == "nowhere"
[12]          2  TARGET.HasFileTransfer

No successful match recorded.
Last failed match: Sun Nov 22 21:26:31 2026

Reason for last match failure: no match found 

001.000:  Run analysis summary ignoring user priority.  Of 1 machines,
      1 are rejected by your job's requirements
      0 reject your job because of their own requirements
      0 match and are already running your jobs
      0 match but are serving other users
      0 are able to run your job

WARNING:  Be advised:
   No machines matched the jobs's constraints

"""  # noqa: W291
# The same job in a pool without machines: no summary.
NO_MACHINE = NO_MATCH.partition("No successful match")[0].replace("[12]          2", "[11]          0")
# An id that the schedd does not have.
UNKNOWN_JOB = "\n\n-- Schedd: cm : <10.89.2.10:9618?...\n"


def test_the_commands():
    assert analysis_command("1.0") == ["condor_q", "-better-analyze", "1.0"]
    assert analysis_command("1.0", "<10.0.0.1:9618>")[1:3] == ["-addr", "<10.0.0.1:9618>"]
    assert address_command("alice@cm.example.org")[2:4] == ["-constraint", 'Name == "alice@cm.example.org"']


@pytest.mark.parametrize("job", ["", "1", "-af", "1.0 -long", "1.0\n", "x.0"])
def test_other_texts_are_not_ids(job):
    with pytest.raises(InputError, match="job: .* an id such as 123.0"):
        analysis_command(job)


@pytest.mark.parametrize("schedd", ["", "-long", 'a" || "b', "a b", "cm\n"])
def test_other_texts_are_not_schedds(schedd):
    with pytest.raises(InputError, match="schedd: "):
        address_command(schedd)


def test_the_conditions_the_verdicts_and_the_last_failure_are_read():
    assert parse_analysis(NO_MATCH) == {
        "conditions": [
            {"slots": 0, "condition": 'TARGET.GLIDEIN_Site == "nowhere"'},
            {"slots": 2, "condition": "TARGET.HasFileTransfer"},
        ],
        "machines": 1,
        "counts": [{"machines": 1, "verdict": "are rejected by your job's requirements"}],
        "last_failure": "no match found",
    }


def test_without_machines_there_is_no_summary():
    found = parse_analysis(NO_MACHINE)
    assert (found["machines"], found["counts"], found["last_failure"]) == (None, [], None)
    assert [each["slots"] for each in found["conditions"]] == [0, 0]


def test_an_unknown_job_has_no_analysis():
    assert parse_analysis(UNKNOWN_JOB) == {"conditions": [], "machines": None, "counts": [], "last_failure": None}


def test_of_many_conditions_the_first_are_returned():
    text = "".join(f"[{number}]   {number}  TARGET.X{number} > 1\n" for number in range(100))
    assert len(parse_analysis(text)["conditions"]) == MOST_CONDITIONS


@given(st.text())
def test_any_output_is_read(text):
    assert set(parse_analysis(text)) == {"conditions", "machines", "counts", "last_failure"}
