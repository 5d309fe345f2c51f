# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of steps that hang: the glidein ends or continues without them, and signals end it; logs; clock changes."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ROOT, SELECTED, SHELLS, advance_clock, becomes, limit, program, require, run_lib, wait_for_round
from test_endings import assert_ended

# It hangs in a child process, as in programs that start others. No other process sleeps for exactly so long.
DURATION = str(3_000_000 + os.getpid())
HANGS = f"sleep {DURATION}; exit 1"


def hanging():
    """Return the ids of the processes that hang."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):  # not "[0-9]*/cmdline": glob fails if a process ends meanwhile
        try:
            if (path / "cmdline").read_bytes() == f"sleep\0{DURATION}\0".encode():
                found.append(path.name)
        except OSError:
            pass
    return found


@pytest.fixture(autouse=True)
def nothing_hangs():
    """Assert that no process hangs before and after a test."""
    assert hanging() == []
    yield
    becomes(lambda: not hanging())
    left = hanging()
    for process in left:
        os.kill(int(process), signal.SIGKILL)
    assert left == []


GPUS = {"libexec/condor_gpu_discovery": ("#!/bin/sh\n{}\n".format(HANGS).encode(), 0o755)}


def hang_gpus(site):
    site.bring("good", GPUS)
    return {"GLIDEIN_GPUS": 1}


def hang_master(site):
    site.bring("good", master="#!/bin/sh\n{}\n".format(HANGS).encode())
    return {}


def hang_name(site):
    return {"PATH": program(site, "getent", HANGS), "GLIDEIN_COLLECTOR": "cm.example.org"}


def hang_scratch(site):
    return {"PATH": program(site, "mkdir", "case $* in *glidein.????????) " + HANGS + ' ;; esac; exec {real} "$@"')}


def hang_tar(site):
    return {"PATH": program(site, "tar", HANGS)}


def hang_credential(site):
    return {"PATH": program(site, "cp", "case $* in *credential*) " + HANGS + ' ;; esac; exec {real} "$@"')}


# name: (what hangs, limit, exit status, words)
HANGING = {
    "gpus": (hang_gpus, "DISCOVERY_S", 17, "condor_gpu_discovery -properties did not end within 1 s"),
    "master": (hang_master, "TRY_S", 15, "condor_master -version took longer than 1 s"),
    "name": (hang_name, "NAME_S", 32, "GLIDEIN_COLLECTOR=cm.example.org cannot be resolved on this node"),
    "scratch": (hang_scratch, "SCRATCH_S", 34, "making a directory in GLIDEIN_SCRATCH="),
    "tar": (hang_tar, "install_condor", 34, "installing HTCondor took longer than 1 s"),
    "credential": (hang_credential, "copy_credential", 34, "copying the credential took longer than 1 s"),
}


@pytest.mark.parametrize(("name", "shell"), list(zip(HANGING, itertools.cycle(SELECTED))))
def test_a_step_that_hangs_ends_the_glidein_at_its_time_limit(site, name, shell):
    hang, its_limit, status, words = HANGING[name]
    settings = hang(site)
    limit(site, its_limit, 1)
    assert_ended(site, *site.run(require(shell), **settings), status, words)


@pytest.mark.parametrize("name", HANGING)
def test_a_signal_ends_a_step_that_hangs_at_once(site, shell, name):
    settings = HANGING[name][0](site)
    glidein = site.start(shell, **settings)
    assert becomes(hanging), glidein.output
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_optional_steps_that_hang_are_left_out(site, shell):
    """Use a repository and a removal of stale directories that hang."""
    (site.scratch / "glidein.LEFTOVER").mkdir()
    program(site, "find", "case $* in *-prune*) " + HANGS + ' ;; esac; exec {real} "$@"')
    path = program(
        site, "ls", "case $* in *slow.example.org*) " + HANGS + ' ;; */cvmfs/*) echo x; exit ;; esac; exec {real} "$@"'
    )
    for name, seconds in {"remove_stale": 1, "CVMFS_S": 3}.items():
        limit(site, name, seconds)
    glidein = site.start(shell, PATH=path, GLIDEIN_CVMFS="slow.example.org good.example.org").wait_for("registered")
    assert "removing stale scratch directories took more than 60 s" in glidein.output
    assert "CVMFS: repositories that could not be listed within 3 s are left out" in glidein.output
    config = (next(site.scratch.glob("glidein.*/condor_config"))).read_text()
    assert "HAS_CVMFS_good_example_org = True" in config
    assert "HAS_CVMFS_slow_example_org" not in config
    (site.scratch / "glidein.LEFTOVER").rmdir()
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_the_last_line_is_written_if_the_scratch_directory_cannot_be_removed(site, shell):
    path = program(site, "rm", 'case $* in "-rf "*) ' + HANGS + ' ;; esac; exec {real} "$@"')
    site.credential.unlink()
    limit(site, "remove_scratch", 1)
    status, output = site.run(shell, PATH=path)
    assert status == 16
    assert "could not remove all of {}".format(site.scratch) in output
    assert "is missing or empty (exit status 16, " in output.splitlines()[-1]


@pytest.mark.parametrize("program_name", ["df", "du"])
def test_a_signal_stops_the_daemons_at_once_while_a_file_system_does_not_respond(site, shell, program_name):
    """Use a df, and a du of the logs, that hang once HTCondor runs."""
    limit(site, "RENEW_S", 1)
    limit(site, "MEASURE_S", 300)
    hangs = f"[ ! -e '{site.root}/hangs' ] || {{{{ {HANGS}; }}}}\nexec {{real}} \"$@\""
    glidein = site.bring("busy").start(shell, PATH=program(site, program_name, hangs)).wait_for("registered")
    (site.root / "hangs").write_text("")
    assert becomes(hanging), glidein.output
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(60), 143, "signal TERM")


def test_a_killed_step_ends_the_glidein(site, shell):
    """Kill a step, as the kernel does if the memory is exhausted."""
    path = program(site, "cp", 'case $* in *credential*) kill -KILL $PPID ;; esac; exec {real} "$@"')
    assert_ended(site, *site.run(shell, PATH=path), 34, "copying the credential was killed: status 137, signal KILL")


# --- a collector that is lost


LOST = "the pool's collector, localhost, cannot be reached"


def test_a_lost_collector_ends_a_glidein_without_jobs(site, any_shell):
    limit(site, "RENEW_S", 1)
    status, output = site.bring("lost").run(any_shell, GLIDEIN_LOST_S=2)
    assert_ended(site, status, output, 36, "collector, localhost, could not be reached for ")
    assert LOST in output


def test_a_collector_that_is_found_again_ends_no_glidein(site, any_shell):
    limit(site, "RENEW_S", 1)
    glidein = site.bring("lost").start(any_shell, GLIDEIN_LOST_S=1000).wait_for(LOST)
    with (glidein.directory() / "log" / "SharedPortLog").open("a") as log:
        log.write("01/01/26 00:00:00 CCBListener: registered with CCB server cm:9618 as ccbid cm:9618#1\n")
    glidein.wait_for("the pool's collector can be reached again, after ")
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_a_lost_collector_does_not_end_a_glidein_with_a_job(site, any_shell):
    limit(site, "RENEW_S", 1)
    advance_clock(site)
    glidein = site.bring("lost_busy").start(any_shell, GLIDEIN_LOST_S=1).wait_for(LOST)
    advance_clock(site, 3600)
    assert_ended(site, *glidein.end(), 0, "walltime is over")


def test_after_a_signal_nothing_more_is_awaited(shell, tmp_path):
    """Send a signal while `du` measures the first of two jobs, and hangs."""
    for number in (1, 2):
        job = tmp_path / "execute" / f"dir_{number}"
        job.mkdir(parents=True)
        (job / ".machine.ad").write_text("Disk = 1024\n")
        (job / ".job.ad").write_text(f'GlobalJobId = "cm#{number}.0#1"\nNumShadowStarts = 1\n')
    script = f"""
        SCRATCH=$1 MASTER_PID=1 MEASURE_S=300; catch_signals; trap - EXIT
        du() {{ mkdir "$SCRATCH/signal" 2>/dev/null && kill -s TERM $$; {HANGS}; }}
        hold_large_jobs
        echo "$SIGNAL"
    """
    assert lib(shell, script, tmp_path) == "TERM\n"


# --- logs


def lib(shell, script, *arguments, **environment):
    text = 'for part in run limits machine scratch install configure daemons; do . "$0/$part.sh"; done; ' + script
    environment.update(PATH="/usr/bin:/bin", GLIDEIN_CONDOR_CONFIG="")
    done = run_lib(shell, text, *arguments, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("log_mb", "cpus"), [(20, 1), (20, 128), (1, 8), (1, 2000)])
def test_the_logs_of_all_cores_fit_into_the_limit(shell, tmp_path, log_mb, cpus):
    settings = {"GLIDEIN_LOG_MB": str(log_mb), "GLIDEIN_CPUS": str(cpus)}
    config = lib(shell, "SCRATCH=$1 NAME=n; config_paths", tmp_path, **settings)
    (each,) = re.findall(r"^MAX_DEFAULT_LOG = (\d+) Kb$", config, re.MULTILINE)
    assert f"MAX_PROCD_LOG = {each} Kb\n" in config
    (older,) = re.findall(r"^MAX_NUM_DEFAULT_LOG = (\d+)$", config, re.MULTILINE)
    # MasterLog, StartLog, SharedPortLog, ProcLog, StarterLog, XferStatsLog, and StarterLog.slot1_N
    needed = (6 + cpus) * int(each) * (1 + int(older))
    assert int(each) == 32 or needed <= log_mb * 1024
    assert int(each) >= 32
    assert "\nFILE_TRANSFER_STATS_LOG =\n" in config


def test_rotated_logs_are_removed_above_the_limit(shell, tmp_path):
    (tmp_path / "log").mkdir()
    for name, size in (("StarterLog.slot1_1", 600), ("StarterLog.slot1_1.old", 600), ("MasterLog", 10)):
        (tmp_path / "log" / name).write_bytes(b"x" * size * 1024)
    lib(shell, "SCRATCH=$1; limit_logs", tmp_path, GLIDEIN_LOG_MB="2")
    assert len(list((tmp_path / "log").iterdir())) == 3
    lib(shell, "SCRATCH=$1; limit_logs", tmp_path, GLIDEIN_LOG_MB="1")
    assert {path.name for path in (tmp_path / "log").iterdir()} == {"StarterLog.slot1_1", "MasterLog"}


def test_a_change_of_the_clock_neither_ends_a_glidein_nor_delays_its_stop(site, shell):
    offset = site.root / "offset"
    offset.write_text("0")
    body = f"case $1 in +%s) echo $(($({{real}} +%s) + $(cat '{offset}'))) ;; *) exec {{real}} \"$@\" ;; esac"
    site.bring("stubborn")
    limit(site, "RENEW_S", 1)
    glidein = site.start(shell, PATH=program(site, "date", body), GLIDEIN_GRACE_S=9).wait_for("registered")
    offset.write_text("86400")  # later than the end of the walltime
    for _round in (1, 2):  # between the two, the glidein checks all its times
        wait_for_round(glidein)
    assert glidein.process.poll() is None, glidein.output
    offset.write_text("-86400")
    status, output = glidein.signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert "condor_master still runs after 6 s" in output
    assert 6 <= int(output.rsplit("after ", 1)[1].split()[0]) < 80000


def test_a_signal_to_the_whole_group_ends_each_step(shell, tmp_path):
    """The signal ends the processes of a step while the script waits for one: bash may lose the status of another.

    With many scripts at once, some are at this point. A child that does not end shows whether one waits for ever.
    """
    script = tmp_path / "steps.sh"
    script.write_text(
        f"cd '{ROOT}/files/glidein/lib' && . ./run.sh && . ./limits.sh\n"
        "(trap '' HUP && exec sleep 600) &\n"
        "other=$!\n"
        "trap 'SIGNAL=HUP' HUP\n"
        "echo ready\n"
        'while [ -z "$SIGNAL" ]; do run_limited 20 sleep 0.02; done\n'
        'kill "$other"\n'
    )
    command = [*SHELLS[shell], "-u", str(script)]
    scripts = [
        subprocess.Popen(command, stdout=-1, stderr=subprocess.DEVNULL, start_new_session=True) for _ in range(60)
    ]
    try:
        for one in scripts:
            assert one.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        for one in scripts:
            os.killpg(one.pid, signal.SIGHUP)
        assert becomes(lambda: all(one.poll() is not None for one in scripts))
    finally:
        for one in scripts:
            one.stdout.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
