# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of site_drain as Ansible runs it, with a stand-in for Slurm, and of a drain's effect on the cycle's modules."""

import fcntl
import json
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import SiteDirectory
from ansible_collections.glidein.ops.plugins.modules import glideins, queue_info, site_drain
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, run_module, site_options

CORE = job_name("glidein", "lab", "main", "core")
OTHER = job_name("glidein", "lab", "other", "core")
STARTED = "2026-11-20T12:01:00"


@pytest.fixture
def options(site_home):
    return dict(site_options(site_home), entries={"main": raw_entry(), "other": raw_entry()})


@pytest.fixture
def run(slurm, options):
    """Run the module for the deployed site `lab`, as the user ada."""

    def runner(check=False, **changes):
        return run_module(site_drain.main, dict(options, **{"by": "ada", **changes}), check, diff=True)

    return runner


@pytest.fixture
def drains(slurm, options):
    """Return the drains that queue_info returns."""
    return lambda: run_module(queue_info.main, options, check=True)["queue"]["drains"]


def of(entry, reason="", by="ada"):
    return {"entry": entry, "by": by, "reason": reason}


def without_time(found):
    return [{key: one[key] for key in ("entry", "by", "reason")} for one in found]


def test_a_drain_cancels_queued_glideins_and_is_recorded(run, slurm, drains):
    slurm.add("1", CORE)
    slurm.add("2", OTHER)
    slurm.add("3", CORE, state="RUNNING", started=STARTED)
    slurm.add("4", "job-of-another-user")
    before = int(time.time())
    result = run(reason="disks")
    assert (result["changed"], sorted(result["cancelled"]), result["running_ids"]) == (True, ["1", "2"], ["3"])
    assert [name for _id, name, _state in slurm.jobs()] == [CORE, "job-of-another-user"]
    assert result["diff"]["before"] == "glideins: 2 queued, 1 running, 0 sick\n"
    assert result["diff"]["after"].endswith(": disks\nglideins: 0 queued, 1 running, 0 sick\n")
    assert result["summary"].endswith(": disks. 2 queued glideins were cancelled, 1 running glidein continues.")
    assert without_time(drains()) == [of(None, "disks")]
    assert before <= drains()[0]["since"] <= time.time()
    assert not run(by="bob")["changed"]


def test_an_entry_is_drained_separately(run, slurm, drains):
    slurm.add("1", CORE)
    slurm.add("2", OTHER)
    assert run(drain_entry="main")["cancelled"] == ["1"]
    assert [name for _id, name, _state in slurm.jobs()] == [OTHER]
    assert without_time(drains()) == [of("main")]
    assert not run(state="undrained", drain_entry="other")["changed"]
    assert run(state="undrained", drain_entry="main")["changed"]
    assert drains() == []


def test_the_end_of_the_sites_drain_ends_those_of_its_entries(run, drains, site_home):
    run(drain_entry="main")
    run()
    refused = run(state="undrained", drain_entry="main")
    assert "drain_entry: 'main' cannot be undrained, because the whole site is drained by ada" in refused["msg"]
    assert len(drains()) == 2
    result = run(state="undrained")
    assert (result["changed"], result["diff"]["after"]) == (True, "")
    assert result["diff"]["before"].count("drained by ada") == 2
    assert not (site_home / "lab" / "drain.json").exists()
    assert not run(state="undrained")["changed"]


@pytest.mark.parametrize("state", ["drained", "undrained"])
def test_check_mode_changes_nothing_and_shows_the_same(run, slurm, site_home, state):
    slurm.add("1", CORE)
    if state == "undrained":
        run()
    files = sorted((site_home / "lab").iterdir())
    check = run(check=True, state=state)
    assert sorted((site_home / "lab").iterdir()) == files
    assert len(slurm.jobs()) == (1 if state == "drained" else 0)
    done = run(state=state)
    for key in ("changed", "cancelled", "running"):
        assert check[key] == done[key]
    assert check["diff"]["after"].count("\n") == done["diff"]["after"].count("\n")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"drain_entry": "RM"}, "drain_entry: 'RM' is invalid; expected one of main, other"),
        ({"reason": "two\nlines"}, "reason: 'two\\nlines' is invalid; expected one printable line of at most 300"),
        ({"by": "x" * 301}, "is invalid; expected one printable line of at most 300"),
    ],
)
def test_an_invalid_option_is_quoted_and_nothing_is_drained(run, drains, changes, error):
    assert error in run(**changes)["msg"]
    assert drains() == []


def test_a_site_that_is_not_deployed_cannot_be_drained(run, tmp_path):
    for check in (True, False):
        result = run(check, home=str(tmp_path / "none"))
        assert "does not exist on this login node. Run the playbook glidein.ops.deploy" in result["msg"]
        assert not run(check, home=str(tmp_path / "none"), state="undrained")["changed"]
    assert not (tmp_path / "none").exists()


def test_a_drain_waits_for_the_cycle_that_changes_the_site(run, site_home, monkeypatch):
    with SiteDirectory(str(site_home), "lab").lock(), monkeypatch.context() as impatient:
        impatient.setattr(site_drain, "PATIENCE_S", 0)
        assert "Another run is changing the glideins of lab now" in run()["msg"]
    with (site_home / "lab" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # The other run ends while the drain waits.
        monkeypatch.setattr(time, "sleep", lambda _seconds: fcntl.flock(held, fcntl.LOCK_UN))
        assert run()["changed"]


def test_a_damaged_file_stops_the_submission_with_a_reason(run, options, site_home):
    path = site_home / "lab" / "drain.json"
    for content in ("{", "[]", '{"drains": [{"entry": "main"}]}', '{"drains": [{"entry": "../x", "since": 1}]}'):
        path.write_text(content)
        for result in (run(), run_module(queue_info.main, options, check=True)):
            assert result["failed"]
            assert f"{path}" in result["msg"] and "Nothing is submitted at this site." in result["msg"]


def test_a_plan_that_is_older_than_the_drain_submits_nothing(run, slurm, options):
    run(reason="disks", drain_entry="main")
    plan = [{"entry": entry, "shape": "core", "present": 2} for entry in ("main", "other")]
    arguments = dict(options, plan=plan, plan_as_of=int(time.time()), collector="cm", credential="pool_password")
    for check in (True, False):
        result = run_module(glideins.main, arguments, check)
        decisions = {one["entry"]: one for one in result["decisions"]}
        assert (decisions["main"]["submit"], decisions["other"]["submit"]) == (0, 2)
        assert decisions["main"]["limited_by"].startswith("drained by ada since ")
    assert json.dumps([name for _id, name, _state in slurm.jobs()]).count(CORE) == 0
