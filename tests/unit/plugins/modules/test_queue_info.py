# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.modules import queue_info
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    make_site_home,
    run_module,
    site_options,
    token,
)


def run(tmp_path, **changes):
    return run_module(queue_info.main, site_options(tmp_path / "home", **changes), check=True)


def test_the_queue_is_counted_even_where_nothing_is_deployed(slurm, tmp_path):
    name = job_name("glidein", "lab", "main", "core")
    slurm.add("3_1", name)
    slurm.add("3_2", name, "RUNNING")
    slurm.add("4", "a job of mine | with a bar")
    result = run(tmp_path)
    assert not result["changed"]
    queue = result["queue"]
    assert (queue["entries"][0]["queued"], queue["entries"][0]["running"]) == (1, 1)
    assert queue["versions"] == {}
    assert slurm.calls("squeue")[0][:4] == ["-r", "-u", queue["user"], "-o"]


def test_only_the_expiry_time_of_the_token_is_returned(slurm, tmp_path):
    assert run(tmp_path)["queue"]["credential_expires"] is None
    text = token(exp=NOW, sub="glidein-secret@pool")
    (make_site_home(tmp_path / "home") / "lab" / "credential").write_text(text)
    result = run(tmp_path)
    assert result["queue"]["credential_expires"] == NOW
    assert "glidein-secret" not in str(result)
    assert not [part for part in text.strip().split(".") if part in str(result)]


def test_the_content_of_the_directory_is_returned(slurm, tmp_path):
    absent = {"deployed": False, "credential": False, "newest_output": None, "oldest_log": None}
    assert run(tmp_path)["queue"]["files"] == absent
    make_site_home(tmp_path / "home")
    assert run(tmp_path)["queue"]["files"] == dict(absent, deployed=True, credential=True)


def test_a_failure_has_all_known_details(slurm, tmp_path):
    slurm.mode("squeue", "down")
    result = run(tmp_path)
    assert result["failed"]
    assert result["rc"] == 1
    assert result["stderr"].startswith("slurm_load_jobs error")
    assert result["cmd"][0] == "squeue"
    assert result["msg"].startswith("Site lab: squeue -r -u ")
