# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a node on which no process can be started for some seconds, because a job has filled the user's limit."""

import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import NOBODY, becomes, processes_in, run_lib
from test_endings import assert_ended

FULL_S = 3  # bash tries to start a process for 15 s before it ends


def shells_of(glidein):
    """Return the ids of the glidein's script and of its guard."""
    guards = [process for process, command in processes_in(glidein.site.scratch).items() if b"guard.sh" in command]
    return [glidein.process.pid, *guards]


def limit_processes(processes, number=None):
    """Set the limit of the user's processes for each of these processes; without a number, as it was."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    number = hard if number is None else number
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    for process in processes:
        command = ["prlimit", f"--nproc={'unlimited' if number == resource.RLIM_INFINITY else number}:"]
        subprocess.run([*command, "--pid", str(process)], check=True, timeout=120, **user)


def fill_for_a_while(glidein, meanwhile=lambda: None):
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed: as root, apt-get install util-linux")
    processes = shells_of(glidein)
    assert len(processes) == 2
    limit_processes(processes, 0)
    meanwhile()
    time.sleep(FULL_S)  # as long as the limit is full; nothing is awaited
    living = [process for process in processes if Path(f"/proc/{process}/cwd").exists()]
    limit_processes(living)


def test_a_glidein_survives_a_full_process_limit(site, shell):
    glidein = site.bring("busy").start(shell).wait_for("registered")
    fill_for_a_while(glidein)
    assert not becomes(lambda: glidein.process.poll() is not None, 4), glidein.output
    assert "got TERM" not in (glidein.directory() / "log" / "MasterLog").read_text()
    assert len(shells_of(glidein)) == 2, "the guard has ended"
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_a_glidein_that_ends_while_the_process_limit_is_full_leaves_nothing(site, shell):
    glidein = site.bring("stubborn").start(shell, GLIDEIN_GRACE_S=6).wait_for("registered")
    fill_for_a_while(glidein, lambda: glidein.signal(signal.SIGTERM))
    assert_ended(site, *glidein.end(), 143, "signal TERM")


def test_a_glidein_that_is_killed_while_the_process_limit_is_full_is_cleaned_up(site, shell):
    glidein = site.bring("stubborn").start(shell).wait_for("registered")
    fill_for_a_while(glidein, lambda: glidein.signal(signal.SIGKILL).process.wait(60))
    assert becomes(lambda: "ended because" in glidein.output and not processes_in(site.scratch)), glidein.output
    assert_ended(site, 137, glidein.output, 137, "glidein.sh was killed")


def lib(shell, script, *arguments):
    text = '. "$0/report.sh"; . "$0/scratch.sh"; . "$0/summary.sh"; . "$0/daemons.sh"; ' + script
    return run_lib(shell, text, *arguments).stdout


@pytest.mark.parametrize("program", ["ls", "grep"])
def test_a_search_for_processes_that_fails_does_not_mean_that_there_are_none(shell, tmp_path, program):
    (tmp_path / "execute").mkdir()
    job = subprocess.Popen(["sleep", "300"], cwd=tmp_path / "execute", env={"PATH": "/usr/bin:/bin"})
    # The first time, the search ends as a shell that cannot start a process.
    script = f"""
        SCRATCH=$1; log() {{ echo "$*"; }}
        {program}() {{ [ -e "$SCRATCH/failed" ] || {{ : >"$SCRATCH/failed"; exit 2; }}; command {program} "$@"; }}
        kill_leftovers
    """
    try:
        assert lib(shell, script, tmp_path) == ""
        assert job.wait(60) == -signal.SIGKILL
    finally:
        job.kill()
        job.wait()


def test_records_of_jobs_that_could_not_be_read_are_counted_later(shell, tmp_path):
    (tmp_path / "jobs").mkdir()
    record = "CompletionDate = 9\nExitCode = 0\nJobPid = 7\n*** Offset = 0\n"
    (tmp_path / "jobs" / "history.1").write_text(record)
    (tmp_path / "jobs" / "history").write_text(record)
    script = """
        SCRATCH=$1 GLIDEIN_CPUS=1 GLIDEIN_FAST_FAILURE_S=60
        awk() { exit 2; }
        count_jobs; count_jobs
        unset -f awk
        count_jobs
        echo "$JOBS $FAST_FAILURES $LAST_JOB_AT $COUNTED_BYTES"
    """
    assert lib(shell, script, tmp_path) == f"2 0 9 {len(record)}\n"
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["history"]


def test_a_failed_look_at_the_logs_counts_as_a_job(shell, tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "execute").mkdir()
    (tmp_path / "log" / "StarterLog.slot1_1").write_text("")
    script = """
        SCRATCH=$1
        has_jobs; has_jobs; echo "$?"
        ls() { exit 2; }
        has_jobs; echo "$?"; has_jobs; echo "$?"
    """
    assert lib(shell, script, tmp_path).split() == ["1", "0", "0"]


def test_a_child_process_with_an_error_does_not_continue_the_script(shell):
    """A shell error in a child process of busybox continues the script in the child, after `command eval`."""
    script = """
        . "$0/report.sh"
        child() { (: >/nonexistent/x; exit 3); log "in a child" | cat >/dev/null; echo done; }
        attempt child
        echo "$?"
        attempt false
        echo "$?"
    """
    assert run_lib(shell, script).stdout.split() == ["done", "0", "1"]
