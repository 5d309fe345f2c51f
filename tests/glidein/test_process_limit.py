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
from conftest import NOBODY, ROOT, SELECTED, SHELLS, advance_clock, becomes, processes_in, require, run_lib
from test_endings import assert_ended


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


def fill_until(happened, glidein, meanwhile=lambda: None):
    """Allow the script and its guard no new process until `happened()` is true."""
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed: as root, apt-get install util-linux")
    processes = shells_of(glidein)
    assert len(processes) == 2
    limit_processes(processes, 0)
    meanwhile()
    assert becomes(happened), glidein.output
    living = [process for process in processes if Path(f"/proc/{process}/cwd").exists()]
    limit_processes(living)


def descriptors(process):
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


def test_a_glidein_survives_a_full_process_limit(site, shell):
    glidein = site.bring("busy").start(shell).wait_for("registered")
    before = descriptors(glidein.process)
    # dash and busybox print "Cannot fork", bash "fork: retry".
    fill_until(lambda: glidein.output.count("fork") >= 2, glidein)
    assert not becomes(lambda: glidein.process.poll() is not None, 3), glidein.output
    assert "got TERM" not in (glidein.directory() / "log" / "MasterLog").read_text()
    assert len(shells_of(glidein)) == 2, "the guard has ended"
    # A line of the log whose `date` cannot be started leaves the two ends of a pipe; a round of checks leaves nothing.
    assert becomes(lambda: descriptors(glidein.process) <= before + 2), "files stay open"
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


@pytest.mark.parametrize(
    ("behaviour", "message", "status", "words"),
    [
        ("stubborn", "condor_master still runs: killing it", 143, "signal TERM"),
        ("busy", "stopping condor_master", 0, "its walltime is over"),
    ],
)
def test_a_glidein_that_ends_while_the_process_limit_is_full_leaves_nothing(
    site, shell, behaviour, message, status, words
):
    advance_clock(site)
    glidein = site.bring(behaviour).start(shell, GLIDEIN_GRACE_S=1).wait_for("registered")
    # bash waits until it can start a process.
    happened = "fork: retry" if shell == "bash" else message
    meanwhile = (lambda: glidein.signal(signal.SIGTERM)) if status else (lambda: advance_clock(site, 3600))
    fill_until(lambda: happened in glidein.output, glidein, meanwhile)
    assert_ended(site, *glidein.end(), status, words)


def test_a_glidein_that_is_killed_while_the_process_limit_is_full_is_cleaned_up(site, shell):
    glidein = site.bring("stubborn").start(shell).wait_for("registered")

    def kill():
        glidein.signal(signal.SIGKILL).process.wait(60)
        time.sleep(3)  # the guard writes nothing that could be awaited

    fill_until(lambda: True, glidein, kill)
    assert becomes(lambda: "ended because" in glidein.output and not processes_in(site.scratch)), glidein.output
    assert_ended(site, 137, glidein.output, 137, "glidein.sh was killed")


@pytest.mark.skipif("bash" not in SELECTED, reason="only bash ends, after it could not start a process for 15 s")
def test_a_guard_cleans_up_after_bash_has_ended_because_of_the_full_process_limit(site):
    glidein = site.bring("stubborn").start(require("bash")).wait_for("registered")
    fill_until(lambda: glidein.process.poll() is not None, glidein)
    assert becomes(lambda: "ended because" in glidein.output and not processes_in(site.scratch)), glidein.output
    assert_ended(site, 137, glidein.output, 137, "glidein.sh was killed")


def lib(shell, script, *arguments):
    text = 'for part in run limits settings machine scratch summary daemons; do . "$0/$part.sh"; done; '
    return run_lib(shell, text + script, *arguments).stdout


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


def test_a_search_for_processes_that_never_succeeds_is_repeated(shell, tmp_path):
    script = 'SCRATCH=$1; leftovers() { :; }; sleep() { :; }; kill_leftovers; echo "$?"'
    assert lib(shell, script, tmp_path) == "255\n"


# The first round ends at `interrupted`; the second one must do what is left.
@pytest.mark.parametrize(
    ("interrupted", "checks", "expected"),
    [
        (
            "log_tail",
            """
            (exit 44) & MASTER_PID=$!; echo x >"$SCRATCH/log/master.out"
            end_with() { echo "$2"; }
            attempt master_ended; master_ended
            """,
            ["condor_master ended by itself with status 44"],
        ),
        (
            "write_state",
            """
            GLIDEIN_COLLECTOR=c NAME=n NOW=0 registered=; has_registered() { true; }
            attempt wait_to_register; [ -n "$registered" ] || wait_to_register
            """,
            ["registered with c as n, 0 s after start"],
        ),
        (
            "rm",
            """
            GLIDEIN_SCRATCH=s; mkdir "$SCRATCH/reserve"
            measure_disk() { exit 100; }; hold_large_jobs() { :; }
            attempt watch_disk; watch_disk
            ls "$SCRATCH"
            """,
            ["s is full, 0 MB free: jobs that use more disk than their slot has are held"] * 2 + ["log"],
        ),
    ],
)
def test_a_round_that_ended_early_is_repeated(shell, tmp_path, interrupted, checks, expected):
    if shell == "bash":
        pytest.skip("bash retries to start a process, and exits")
    (tmp_path / "log").mkdir()
    script = f"""
        SCRATCH=$1; log() {{ echo "$*"; }}; seconds_since() {{ echo 0; }}
        {interrupted}() {{ [ -n "${{ended_early-}}" ] || {{ ended_early=yes; : "${{NOTHING:?}}"; }}
            [ {interrupted} != rm ] || command rm "$@"; }}
        {checks}
    """
    assert lib(shell, script, tmp_path).splitlines() == expected


def test_records_of_jobs_that_could_not_be_read_are_counted_later(shell, tmp_path):
    (tmp_path / "jobs").mkdir()
    record = "CompletionDate = 9\nExitCode = 0\nJobPid = 7\n*** Offset = 0\n"
    (tmp_path / "jobs" / "history.1").write_text(record)
    (tmp_path / "jobs" / "history").write_text(record)
    script = """
        SCRATCH=$1 GLIDEIN_CPUS=1
        awk() { exit 2; }
        count_jobs; count_jobs
        unset -f awk
        count_jobs
        echo "$JOBS $FAST_FAILURES $COUNTED_BYTES"
    """
    assert lib(shell, script, tmp_path) == f"2 0 {len(record)}\n"
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


def test_a_child_process_with_an_error_does_not_continue_the_script(shell, tmp_path):
    """A shell error in a child process of busybox continues the script in the child, after `command eval`."""
    (tmp_path / "script.sh").write_text(f"""
        . {ROOT}/files/glidein/lib/run.sh
        child() {{ (: >/nonexistent/x; exit 3); log "in a child" | cat >/dev/null; echo done; }}
        attempt child
        echo "$?"
        attempt false
        echo "$?"
    """)
    # From a file: with -c, the child of busybox would not end.
    done = run_lib(shell, f'exec {" ".join(SHELLS[shell])} "$1"', tmp_path / "script.sh")
    assert done.stdout.split() == ["done", "0", "1"]


def test_an_error_that_remains_ends_the_repetition(shell):
    """Use an error of the shell itself, which ends bash."""
    script = (
        '. "$0/run.sh"; busy_wait() { :; }; broken() { echo once; : "${NOTHING:?}"; }; until_done broken; echo "$?"'
    )
    assert run_lib(shell, script).stdout.split() == (["once"] if shell == "bash" else ["once"] * 10 + ["255"])


def test_a_shell_that_ends_after_a_signal_gives_the_signal_as_reason(shell):
    """End the script as bash does if it cannot start a process for 15 s."""
    script = "stop_master() { :; }; clean_up() { :; }; trap finish EXIT; SIGNAL=TERM SIGNAL_STATUS=143; exit 254"
    assert "ended because of signal TERM (exit status 143, " in lib(shell, script)
