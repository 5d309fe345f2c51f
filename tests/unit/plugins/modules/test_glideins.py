# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module as Ansible runs it, with commands that keep a queue."""

import json
import os
import stat
import time

import pytest
from ansible.module_utils import basic
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import NO_CREDENTIALS, Credentials
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.modules import glideins
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import slurm_with
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, run_module, site_options, token
from ansible_collections.glidein.ops.tests.unit.support.hangs import shorten_limits

CORE = job_name("glidein", "lab", "main", "core")
OLD = job_name("glidein", "lab", "old", "core")


@pytest.fixture
def run(slurm, site_home):
    """Run the module on the deployed site `lab` with a plan {entry: present}."""

    def runner(presents=None, check=False, diff=False, plan_age_s=0, **changes):
        plan = [
            {"site": "lab", "entry": entry, "shape": "core", "present": present}
            for entry, present in (presents or {}).items()
        ]
        options = site_options(site_home, collector="cm.example.org:9618", plan=plan)
        options["plan_as_of"] = int(time.time()) - plan_age_s
        return run_module(glideins.main, dict(options, **changes), check, diff)

    return runner


def events(site_home):
    text = (site_home / "lab" / "aaaaaaaaaaaa" / "submissions.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def counts(result, which="after"):
    return {entry["entry"]: (entry["queued"], entry["running"], entry["sick"]) for entry in result[which]["entries"]}


def test_missing_glideins_are_submitted_at_once_and_a_second_run_changes_nothing(run, slurm, site_home):
    result = run({"main": 3})
    assert result["changed"]
    assert result["submitted"] == [{"entry": "main", "shape": "core", "count": 3, "job_id": "1"}]
    assert len(slurm.calls("sbatch")) == 1
    assert [name for unused, name, unused_state in slurm.jobs()] == [CORE] * 3
    assert (counts(result, "before"), counts(result)) == ({"main": (0, 0, 0)}, {"main": (3, 0, 0)})
    # The submission is recorded before and after.
    first, second = events(site_home)
    assert (first["event"], first["job_name"], first["count"]) == ("submitting", CORE, 3)
    assert (second["event"], second["id"], second["job_id"]) == ("submitted", first["id"], "1")
    assert not run({"main": 3})["changed"]
    assert len(slurm.calls("sbatch")) == 1


def with_credentials(monkeypatch, renew):
    slurm_with(monkeypatch, Credentials, access=lambda _scheduler, _walltime_s: NO_CREDENTIALS, renew=renew)


def test_credentials_of_the_batch_system_are_renewed_even_without_a_change(run, monkeypatch):
    renewed = []
    with_credentials(monkeypatch, lambda scheduler: renewed.append(scheduler.name) or "the old token is used")
    warnings = []
    monkeypatch.setattr(basic.AnsibleModule, "warn", lambda _module, text, **_more: warnings.append(text))
    assert not run({"main": 0})["changed"]
    assert renewed == ["slurm"]
    assert warnings == ["Site lab: the old token is used"]
    run({"main": 0}, check=True)
    assert renewed == ["slurm"]


def test_without_valid_credentials_nothing_is_submitted_and_surplus_is_cancelled(run, slurm, monkeypatch):
    def fail(_scheduler):
        raise GlideinError("the token expired")

    run({"main": 3})
    with_credentials(monkeypatch, fail)
    entries = {"main": raw_entry(), "other": raw_entry()}
    result = run({"main": 1, "other": 1}, entries=entries)
    assert result["msg"] == "Site lab: the token expired"
    assert counts(result) == {"main": (1, 0, 0), "other": (0, 0, 0)}
    assert len(slurm.calls("sbatch")) == 1


def test_a_directory_that_cannot_be_written_is_named(run, slurm, site_home):
    scripts = site_home / "lab" / "aaaaaaaaaaaa" / "scripts"
    scripts.write_text("not a directory\n")
    (error,) = run({"main": 3})["errors"]
    assert error["error"] == (
        "{0} on the login node cannot be written: File exists. Check free space, quota and owner.".format(scripts)
    )
    assert slurm.calls("sbatch") == []


def test_check_mode_decides_the_same_and_touches_nothing(run, slurm, site_home):
    result = run({"main": 2}, check=True, diff=True)
    assert result["changed"]
    assert result["decisions"][0]["submit"] == 2
    assert (result["submitted"], slurm.jobs()) == ([], [])
    assert slurm.calls("sbatch") == []
    found = sorted(str(path.relative_to(site_home / "lab")) for path in (site_home / "lab").rglob("*"))
    assert found == ["aaaaaaaaaaaa", "aaaaaaaaaaaa/glidein.sh", "credential", "current"]
    assert result["diff"][0]["before"] == "main/core: 0 queued, 0 running, 0 sick\n"
    assert result["diff"][0]["after"] == "main/core: 2 queued, 0 running, 0 sick\n"
    assert result["diff"][1]["before"] == ""
    assert "#SBATCH --job-name=" + CORE in result["diff"][1]["after"]
    assert not run({"main": 0}, check=True)["changed"]


def test_the_diff_shows_the_whole_script_again_at_every_submission(run):
    run({"main": 1})
    result = run({"main": 2}, diff=True)
    assert result["diff"][1]["before"] == ""
    assert result["diff"][1]["after"] == result["scripts"][0]["content"]


def test_the_script_submits_the_current_version_and_is_private(run, site_home):
    version = site_home / "lab" / "aaaaaaaaaaaa"
    (script,) = run({"main": 1})["scripts"]
    assert script["path"] == f"{version}/scripts/main.core.sh"
    assert f"GLIDEIN_HOME='{version}'" in script["content"]
    assert f"GLIDEIN_CREDENTIAL='{site_home}/lab/credential'" in script["content"]
    for name in ("submissions.jsonl", "scripts/main.core.sh"):
        assert stat.S_IMODE((version / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((site_home / "lab" / "log").stat().st_mode) == 0o700


def test_a_bad_entry_leaves_the_others_working(run, slurm, site_home):
    entries = {"bad": raw_entry(queue="nosuch", priority=9), "main": raw_entry()}
    result = run({"bad": 1, "main": 1}, entries=entries)
    assert result["failed"]
    assert result["submitted"] == [{"entry": "main", "shape": "core", "count": 1, "job_id": "1"}]
    assert "Site lab: bad/core: sbatch --parsable --array=1-1 " in result["msg"]
    assert "failed with exit status 1: sbatch: error: invalid partition specified: nosuch" in result["msg"]
    assert (result["rc"], result["stderr"]) == (1, "sbatch: error: invalid partition specified: nosuch\n")
    assert result["cmd"][0] == "sbatch"
    # Ansible prints the whole result of a failed task.
    assert [sorted(script) for script in result["scripts"]] == [["entry", "path", "shape"]] * 2
    assert [event["event"] for event in events(site_home)] == ["submitting", "refused", "submitting", "submitted"]


@pytest.mark.parametrize("mode", ["hang", "accept_and_time_out", "garbage"])
def test_an_unknown_outcome_is_an_error_and_not_repeated(run, slurm, site_home, mode, monkeypatch):
    shorten_limits(monkeypatch, slurm.directory)
    slurm.mode("sbatch", mode)
    result = run({"main": 2})
    assert result["failed"]
    assert "outcome of this submission is unknown; it is not repeated" in result["msg"]
    assert len(slurm.calls("sbatch")) == 1
    assert result["submitted"] == [{"entry": "main", "shape": "core", "count": 2, "job_id": None}]
    assert [event["event"] for event in events(site_home)] == ["submitting", "unknown"]


def test_after_a_time_out_the_rest_of_the_site_is_not_tried(run, slurm, monkeypatch):
    shorten_limits(monkeypatch, slurm.directory)
    slurm.mode("sbatch", "hang")
    entries = {name: raw_entry() for name in ("a", "b", "c")}
    result = run({"a": 1, "b": 1, "c": 1}, entries=entries)
    assert len(slurm.calls("sbatch")) == 1
    assert len(slurm.calls("squeue")) == 1
    assert [error["entry"] for error in result["errors"]] == ["a", "b", "c"]
    assert result["errors"][2]["error"] == "nothing was submitted or cancelled here after sbatch timed out in this run."
    assert result["after"] is None


def test_without_a_readable_queue_nothing_is_submitted(run, slurm):
    slurm.mode("squeue", "down")
    result = run({"main": 2})
    assert result["failed"]
    assert "failed with exit status 1: slurm_load_jobs error: Unable to contact slurm controller" in result["msg"]
    assert slurm.calls("sbatch") == []


def test_orphans_are_cancelled_while_they_are_queued(run, slurm):
    run({"old": 2}, entries={"old": raw_entry()})
    slurm.set("1_1", "RUNNING")
    result = run({}, diff=True)
    assert result["cancelled"] == [{"entry": None, "shape": None, "count": 1, "job_ids": ["1_2"]}]
    assert slurm.jobs() == [("1_1", OLD, "RUNNING")]
    assert result["after"]["orphans"] == {"queued": 0, "running": 1}


def test_failing_to_cancel_is_an_error(run, slurm):
    run({"main": 2})
    slurm.mode("scancel", "down")
    result = run({"main": 0})
    assert result["failed"]
    assert result["cancelled"] == []
    assert "Unable to contact slurm controller" in result["msg"]


@pytest.mark.parametrize("change", [{"walltime": "1h"}, {"memory_overhead_mb": 0}])
def test_a_glidein_that_can_never_start_is_not_replaced_by_another_of_the_same_request(run, slurm, change):
    run({"main": 1})
    slurm.set("1_1", "PENDING", "BadConstraints")
    for _cycle in range(3):
        assert not run({"main": 1})["changed"]
    assert len(slurm.jobs()) == 1
    # A later request may start.
    smaller = {"main": raw_entry(**change)}
    assert [one["count"] for one in run({"main": 1}, entries=smaller)["submitted"]] == [1]
    assert [one["job_ids"] for one in run({"main": 1}, entries=smaller)["cancelled"]] == [["1_1"]]
    assert not run({"main": 1}, entries=smaller)["changed"]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"plan_age_s": 700}, "s old; expected at most 600 s"),
        ({"scheduler": "pbs"}, "'pbs' is invalid; expected one of gateway, htcondor, htcondor_ce, lsf, "),
        ({"entries": {"main": raw_entry(walltime="48x")}}, "glidein_entries.main.walltime: '48x'"),
        ({"limits": {"total": -1}}, "glidein_limits.total: -1"),
        ({"collector": "cm:"}, "collector: 'cm:'"),
        ({"scratch": "$(id)"}, "scratch: '$(id)'"),
        ({"environment": {"A": "x\ny"}}, "environment.A: 'x\\ny' is invalid"),
        ({"modules": ["a b"]}, "modules: ['a b'] is invalid"),
        ({"log_dir": "/logs$(id)"}, "log_dir: '/logs$(id)' is invalid"),
        ({"home": "/nowhere"}, "Run the playbook glidein.ops.deploy for this host first"),
    ],
)
def test_invalid_input_is_refused_before_any_change(run, slurm, changes, words):
    result = run({"main": 1}, **changes)
    assert result["failed"]
    assert words in result["msg"]
    assert slurm.read()["calls"] == []


def test_summaries_are_read_on_request(run, slurm):
    assert run({"main": 1})["summaries"] is None
    found = run({"main": 1}, summaries_since=5)["summaries"]
    assert (found["since"], found["glideins"]) == (5, [])


def test_an_expired_token_is_an_error_before_any_submission(run, slurm, site_home):
    credential = site_home / "lab" / "credential"
    credential.write_text(token(exp=1795211280))
    result = run({"main": 1})
    assert result["failed"]
    assert "credential expired at 2026-11-20 21:48:00 UTC: run the playbook glidein.ops.deploy" in result["msg"]
    assert slurm.read()["calls"] == []
    assert "GLIDEIN_CREDENTIAL=''" in run({"main": 1}, credential="pool_password")["scripts"][0]["content"]
    credential.write_text(token(exp=int(time.time()) + 3600))
    assert run({"main": 2})["submitted"][0]["count"] == 1


def test_after_a_refusal_the_rest_is_skipped_and_accepted_jobs_are_returned(run, slurm, site_home):
    slurm.mode("sbatch", "refuse_second")
    result = run({"main": 3}, limits={"array": 1})
    assert result["failed"]
    assert [one["job_id"] for one in result["submitted"]] == ["1"]
    assert len(slurm.calls("sbatch")) == 2
    assert [event["event"] for event in events(site_home)] == ["submitting", "submitted", "submitting", "refused"]
    assert counts(result) == {"main": (1, 0, 0)}


def test_an_array_that_the_site_refuses_for_its_size_is_made_smaller(run, slurm):
    slurm.limit(array=3)
    result = run({"main": 9})
    assert not result.get("failed")
    assert [one["count"] for one in result["submitted"]] == [2, 2, 2, 2, 1]
    assert len(slurm.jobs()) == 9
    assert len(slurm.calls("sbatch")) == 2 + 5  # 9 and 4 are refused
    assert result["hints"] == [
        "main/core: the batch system refused an array of 4 glideins and accepted 2 at a time. Set limits.array of the "
        "entry to 2."
    ]


def test_a_site_with_a_limit_of_jobs_per_user_gets_that_many(run, slurm):
    slurm.limit(jobs=4)
    result = run({"main": 8})
    assert len(slurm.jobs()) == 4
    assert result["failed"]
    assert "AssocMaxSubmitJobLimit" in result["msg"]
    assert "4 of 8 glideins were submitted." in result["msg"]
    assert "set limits.array of the entry. If it limits the jobs of a user, set limits.queued" in result["msg"]
    assert run({"main": 4})["changed"] is False


def test_running_glideins_are_cancelled_only_on_request(run, slurm):
    run({"main": 3})
    slurm.set("1_1", "RUNNING")
    slurm.set("1_2", "RUNNING")
    assert [one["job_ids"] for one in run({"main": 0})["cancelled"]] == [["1_3"]]
    result = run({"main": 1}, cancel_running=True)
    assert result["cancelled"] == [{"entry": "main", "shape": "core", "count": 1, "job_ids": ["1_2"]}]
    run({}, cancel_running=True, entries={"other": raw_entry()})  # an orphan now
    assert slurm.jobs() == []


def test_old_logs_are_removed_in_passing(run, site_home):
    log = site_home / "lab" / "log" / (CORE + ".1_1.out")
    log.parent.mkdir()
    log.write_text("x")
    os.utime(str(log), (time.time() - 15 * 86400,) * 2)
    run({"main": 0}, check=True)
    run({"main": 0}, log_days=16)
    assert log.exists()
    run({"main": 0})
    assert not log.exists()


def test_the_form_for_uploads_is_a_private_file_beside_the_credential(run, site_home):
    form = site_home / "lab" / "log_s3"
    text = "url https://s3.example.org/logs\npolicy cG9saWN5\n"
    assert str(run({"main": 1}, check=True, log_form=text)).count("cG9saWN5") == 0
    assert not form.exists()
    result = run({"main": 1}, log_form=text, log_interval="5m")
    assert form.read_text() == text
    assert form.stat().st_mode & 0o777 == 0o600
    content = result["scripts"][0]["content"]
    assert f"GLIDEIN_LOG_S3='{form}'\n" in content
    assert "GLIDEIN_LOG_INTERVAL_S='300'\n" in content
    assert "cG9saWN5" not in str(result)
    # Without the option, the next submission removes it.
    assert "GLIDEIN_LOG_S3" not in run({"main": 2})["scripts"][0]["content"]
    assert not form.exists()


def test_logs_can_lie_elsewhere(run, slurm, tmp_path):
    result = run({"main": 1}, log_dir=str(tmp_path / "logs"))
    assert f'--output="{tmp_path}/logs/' in result["scripts"][0]["content"]
    assert (tmp_path / "logs").is_dir()
