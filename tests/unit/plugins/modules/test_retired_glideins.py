# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module retired_glideins, with stand-ins for HTCondor's commands."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError
from ansible_collections.glidein.ops.plugins.modules import retired_glideins
from ansible_collections.glidein.ops.plugins.modules.retired_glideins import off_command, retire
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

# As HTCondor 23.9.6 prints it; a retiring glidein has no START.
ACCEPTS = '"3_1" "slot1@glidein_3_1_5b69ac74@slurm" time() < 1795375328 && (true)\n'
RETIRES = '"3_2" "slot1@glidein_3_2_11111111@slurm" undefined\n'
LAB = 'is_glidein && GLIDEIN_Site == "lab"'


class StandIn:
    """The commands of a pool. readings: the output of each condor_status call; the last one is repeated."""

    def __init__(self, *readings, failures=0):
        self.readings = list(readings)
        self.failures = failures
        self.sent = []
        self.now = 0

    def run(self, argv):
        if argv[0] == "condor_status":
            return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        self.sent.append(argv)
        if len(self.sent) <= self.failures:
            raise CommandError("condor_off failed: Can't find addresses", argv, 1)
        return ""

    def clock(self):
        return self.now

    def pause(self, seconds):
        self.now += seconds


def outcome(pool, check=False, **changes):
    params = {"site": "lab", "entry": None, "batch_ids": [], "patience": 10, **changes}
    return retire(params, check, pool, pool.clock, pool.pause)


def test_all_glideins_are_requested_until_the_collector_shows_that_they_retire():
    pool = StandIn(ACCEPTS + RETIRES, ACCEPTS + RETIRES, RETIRES)
    found, accepting, missing = outcome(pool)
    assert (found, accepting, missing) == ({"slot1@glidein_3_1_5b69ac74@slurm"}, set(), [])
    assert pool.sent == [off_command(LAB)] * 2


def test_a_second_run_sends_no_command():
    pool = StandIn(RETIRES)
    assert outcome(pool, batch_ids=["3_2"]) == (set(), set(), [])
    assert pool.sent == [] and pool.now == 0


def test_glideins_that_register_meanwhile_are_requested_to_retire():
    pool = StandIn("", "", ACCEPTS, "")
    found, accepting, missing = outcome(pool, batch_ids=["3_1"])
    assert (len(found), accepting, missing) == (1, set(), [])


def test_glideins_that_do_not_register_in_time_are_named():
    pool = StandIn(RETIRES)
    assert outcome(pool, batch_ids=["3_2", "3_9"])[2] == ["3_9"]
    assert pool.now == 10


def test_an_ad_of_a_master_may_come_later_than_that_of_the_startd():
    pool = StandIn(ACCEPTS, ACCEPTS, "", failures=1)
    assert len(outcome(pool)[0]) == 1
    pool = StandIn(ACCEPTS, failures=99)
    with pytest.raises(CommandError, match="Can't find addresses"):
        outcome(pool)
    # A failure that did not recur does not explain why glideins still accept jobs.
    assert len(outcome(StandIn(ACCEPTS, failures=1))[1]) == 1


def test_check_mode_counts_and_sends_no_command():
    pool = StandIn(ACCEPTS + RETIRES)
    found, _accepting, missing = outcome(pool, check=True, batch_ids=["3_1", "3_9"])
    assert (len(found), missing, pool.sent, pool.now) == (1, ["3_9"], [], 0)


def test_an_entry_is_retired_separately():
    pool = StandIn(ACCEPTS, "")
    outcome(pool, entry="RM")
    assert pool.sent == [off_command(LAB + ' && GLIDEIN_Entry == "RM"')]


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Install commands of a pool in PATH; its only glidein retires when it is requested to."""
    write_program(tmp_path / "condor_status", f"#!/bin/sh\n[ -e {tmp_path}/told ] || printf '%s' '{ACCEPTS}'\n")
    write_program(tmp_path / "condor_off", f"#!/bin/sh\n: >{tmp_path}/told\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_the_module_returns_its_actions(commands):
    check = run_module(retired_glideins.main, {"site": "lab"}, check=True, diff=True)
    assert (check["changed"], check["retired"]) == (True, 1)
    assert check["summary"].startswith("lab: 1 glidein would be retired.")
    assert check["diff"]["before"] == "slot1@glidein_3_1_5b69ac74@slurm\n"
    assert not (commands / "told").exists()
    done = run_module(retired_glideins.main, {"site": "lab"})
    assert (done["changed"], done["retired"], done["missing"]) == (True, 1, [])
    again = run_module(retired_glideins.main, {"site": "lab", "batch_ids": ["7"], "patience": 0})
    assert (again["changed"], again["missing"]) == (False, ["7"])
    assert "batch jobs 7" in again["summary"] and "repeat this" in again["summary"]


def test_glideins_that_still_accept_jobs_are_an_error(commands):
    (commands / "condor_off").write_text("#!/bin/sh\n")
    result = run_module(retired_glideins.main, {"site": "lab", "patience": 0})
    assert "1 glideins of lab still accept jobs after 0 s: slot1@glidein_3_1_5b69ac74@slurm" in result["msg"]


def test_names_are_checked_before_they_are_part_of_an_expression(commands):
    for option in ("site", "entry"):
        result = run_module(retired_glideins.main, {"site": "lab", option: '" || true || "'})
        assert f"{option}: '\" || true || \"' is invalid; expected 1 to 64 letters" in result["msg"]
