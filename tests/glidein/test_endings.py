# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of every ending: the exit status, the last line, and a node without leftovers."""

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from conftest import (
    ROOT,
    SELECTED,
    TOKEN,
    Site,
    advance_clock,
    becomes,
    is_installed,
    job_ad,
    place_for_sites,
    processes_in,
    run_lib,
    summaries,
)


def assert_ended(site, status, output, expected, words):
    assert status == expected, output
    assert words in output.splitlines()[-1], output
    assert "(exit status {},".format(expected) in output.splitlines()[-1]
    assert list(site.scratch.iterdir()) == []
    assert not processes_in(site.scratch)
    assert TOKEN not in output
    # One of the last lines has the same information for programs.
    summary = summaries(output)[-1]
    assert (summary["site"], summary["entry"], summary["exit_status"]) == ("site-1", "short", expected)
    assert "ended because " + summary["reason"][:30] in output.splitlines()[-1]
    assert summary["granted_core_s"] == summary["granted_cpus"] * (summary["ended"] - summary["started"])
    assert (summary["registered"] is not None) == ("registered with" in output)


# --- before HTCondor starts


def replaced(site, packed, listed=None):
    """Replace the tarball, and the checksum in the list by that of `listed`."""
    site.replace(packed if listed is None else listed).tarball.write_bytes(packed)


# name: (preparation of the site, changed settings, exit status, words in the last line)
BEFORE_HTCONDOR = {
    "no list": (lambda site: site.list.unlink(), {}, 11, "tarballs.list is missing"),
    "no tarball": (lambda site: site.tarball.unlink(), {}, 11, "tarballs/native.tar.gz is missing"),
    "truncated": (
        lambda site: replaced(site, site.tarball.read_bytes()[:-10], site.tarball.read_bytes()),
        {},
        12,
        "is damaged",
    ),
    "wrong sum": (lambda site: replaced(site, site.tarball.read_bytes(), b"something else"), {}, 12, "is damaged"),
    "no tar": (lambda site: replaced(site, b"no tar"), {}, 14, "could not be unpacked"),
    "other file": (
        lambda site: site.bring("good", {"SHA256SUMS": (b"0" * 64 + b"  etc/behaviour\n", 0o644)}),
        {},
        14,
        "etc/behaviour",
    ),
    "missing scratch": (None, {"GLIDEIN_SCRATCH": "/nowhere/at all"}, 13, "GLIDEIN_SCRATCH=/nowhere/at all"),
    "unwritable scratch": (lambda site: site.scratch.chmod(0o555), {}, 13, "no scratch directory can be made"),
    "too little room": (None, {"GLIDEIN_DISK_MB": 10**12}, 13, "GLIDEIN_MIN_DISK_MB=1000000000000"),
    "other architecture": (
        lambda site: site.bring("good", master=b"\x7fELF\x02\x01\x01" + b"\0" * 60),
        {},
        15,
        "HTCondor cannot run on this node",
    ),
    "missing library": (
        lambda site: site.bring("good", master=b"#!/bin/sh\necho \"version 'GLIBC_9.9' not found\"\nexit 1\n"),
        {},
        15,
        "GLIBC_9.9",
    ),
    "killed program": (
        lambda site: site.bring("good", master=b"#!/bin/sh\nkill -s ILL $$\n"),
        {},
        15,
        "native: status 132, signal ILL;",
    ),
    "no credential": (lambda site: site.credential.unlink(), {}, 16, "/credential is missing or empty"),
    "empty credential": (lambda site: site.credential.write_text(""), {}, 16, "/credential is missing or empty"),
    "no pool password": (None, {"GLIDEIN_CREDENTIAL": ""}, 16, "etc/pool_password"),
    "less memory": (
        None,
        {"GLIDEIN_MEMORY_MB": 10**9},
        31,
        "GLIDEIN_MEMORY_MB=1000000000 is more than this node has",
    ),
    "unknown name": (
        None,
        {"GLIDEIN_COLLECTOR": "none.invalid"},
        32,
        "GLIDEIN_COLLECTOR=none.invalid cannot be resolved on this node",
    ),
    "no check": (None, {"GLIDEIN_CHECKS": "none /x"}, 11, "checks/none, of GLIDEIN_CHECKS, is missing"),
    "no job_setup": (None, {"GLIDEIN_JOB_SETUP": "/no/setup.sh"}, 11, "GLIDEIN_JOB_SETUP=/no/setup.sh is missing"),
}


@pytest.mark.parametrize("name", BEFORE_HTCONDOR)
def test_ends_before_htcondor_starts(site, shell, name):
    prepare, changes, expected, words = BEFORE_HTCONDOR[name]
    if prepare:
        prepare(site)
    assert_ended(site, *site.run(shell, **changes), expected, words)


def test_missing_part_of_the_script(site, shell):
    (site.home / "lib" / "install.sh").unlink()
    status, output = site.run(shell)
    assert status == 11
    assert "lib/install.sh is missing" in output


def test_missing_parents_of_the_scratch_directory_are_made_with_mode_0700(site, shell):
    wanted = site.scratch / "user" / "jobs" / "77.server"
    glidein = site.start(shell, GLIDEIN_SCRATCH=wanted).wait_for("registered with")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (wanted, wanted.parent, wanted.parent.parent)] == [0o700] * 3
    assert len(list(wanted.glob("glidein.*/condor_config"))) == 1
    glidein.signal(signal.SIGTERM).end()
    assert not wanted.exists() and wanted.parent.is_dir()


def test_an_existing_scratch_parent_is_kept(site, shell):
    glidein = site.start(shell).wait_for("registered with")
    glidein.signal(signal.SIGTERM).end()
    assert site.scratch.is_dir()


def test_unwritable_scratch(site, shell):
    site.scratch.chmod(0o555)
    assert_ended(site, *site.run(shell), 13, "no scratch directory can be made")


def test_a_scratch_path_with_brackets_is_replaced_by_its_parent(site, shell):
    task = site.scratch / "33[1].server"
    task.mkdir()
    glidein = site.start(shell, GLIDEIN_SCRATCH=task / "tmp").wait_for("registered with")
    assert glidein.directory().parent == site.scratch
    assert "[" not in (glidein.directory() / "log" / "EnvironmentLog").read_text().replace("123_4[5].server", "")
    status, output = glidein.signal(signal.SIGTERM).end()
    assert f"GLIDEIN_SCRATCH={task / 'tmp'} has brackets: using {site.scratch}" in output
    task.rmdir()
    assert_ended(site, status, output, 143, "signal TERM")


def test_a_scratch_path_with_brackets_below_an_unwritable_parent_is_refused(site, shell):
    (site.scratch / "33[1].server").mkdir()
    site.scratch.chmod(0o555)
    status, output = site.run(shell, GLIDEIN_SCRATCH=site.scratch / "33[1].server")
    assert status == 10
    assert f"33[1].server' has brackets, and {site.scratch} is not writable" in output.splitlines()[-1]


# --- with a stand-in for condor_master. Each takes seconds of waiting, so all are started at once.

# name: (what the stand-in does, changed settings, exit status, words in the last line)
BY_ITSELF = {
    "idle": ("good", {"GLIDEIN_IDLE_TIMEOUT_S": 1, "GLIDEIN_IDLE_AFTER_JOB_S": 600}, 0, "no job ran for 1 s"),
    "idle after a job": ("worked", {"GLIDEIN_IDLE_AFTER_JOB_S": 2}, 0, "no job ran for 2 s"),
    "retired": ("good", {"GLIDEIN_WALLTIME_S": 100, "GLIDEIN_RETIREMENT_S": 99}, 0, "has no job left"),
    "walltime": ("busy", {"GLIDEIN_WALLTIME_S": 8, "GLIDEIN_RETIREMENT_S": 2}, 0, "walltime is over"),
    "stubborn": ("stubborn", {"GLIDEIN_WALLTIME_S": 4, "GLIDEIN_RETIREMENT_S": 0}, 0, "walltime is over"),
    "told to stop": ("off", {}, 0, "the pool shut it down"),
    "master fails": ("crash", {}, 18, "condor_master ended by itself with status 44"),
    "startd fails": ("startd_dies", {}, 18, "the startd failed"),
    "starter fails": ("no_starter", {}, 18, "condor_starter does not work"),
    "no answer": ("silent", {"GLIDEIN_REGISTER_S": 1}, 19, "localhost: no answer"),
    "jobs fail": ("failing", {}, 30, "5 jobs in a row failed within 60 s each"),
    "jobs fail on a full disk": ("failing_full", {}, 30, "cannot be written"),
    # It began long ago, for example to fetch an image. The start of the master counts.
    "late": (
        "late",
        {"GLIDEIN_STARTED_AT": int(time.time()) - 900, "GLIDEIN_IDLE_TIMEOUT_S": 1},
        0,
        "no job ran for 1 s",
    ),
    "no CCB": ("alone", {"GLIDEIN_REGISTER_S": 1}, 19, "could not be joined within 1 s"),
}
SIGNALS = {
    "HUP": 129,
    "INT": 130,
    "QUIT": 131,
    "USR1": 138,
    "USR2": 140,
    "PIPE": 141,
    "TERM": 143,
    "XCPU": 152,
    "XFSZ": 153,
}
VACATE = "MACHINEMAXVACATETIME = "
SLOW_TO_START = b"#!/bin/sh\nsleep 300\n"


# Variables that an outer HTCondor and a login environment leave.
OUTER = {
    "_CONDOR_SCRATCH_DIR": "/outer",
    "_CONDOR_DAEMON_LIST": "MASTER, SCHEDD",
    "_condor_COLLECTOR_HOST": "elsewhere",
    "_CONDOR_ANCESTOR_17": "18:19:20",
    "CONDOR_CONFIG": "/etc/condor/condor_config",
    "CONDOR_IDS": "1.1",
    "_CHIRP_DELAYED_UPDATE_PREFIX": "Chirp*",
    "BATCH_SYSTEM": "HTCondor",
    "X509_USER_PROXY": "/outer/proxy",
    "BEARER_TOKEN_FILE": "/outer/token",
    "TMPDIR": "/outer",
    "KEPT": "yes",
}


FAILED = job_ad(2, code=1, told=1795255185)
HISTORY = job_ad(4, cpus=2, told=1795255185) + 5 * FAILED


def no_log_directory(site):
    shutil.rmtree(site.logs)
    site.logs.write_text("a file")


# name: (preparation of the site, changed settings). They run until their test ends them.
UNTIL_ENDED = {
    **{name: (lambda site: site.bring("busy"), {}) for name in SIGNALS},
    "patient": (lambda site: site.bring("deaf"), {"GLIDEIN_GRACE_S": 9}),
    "murdered": (lambda site: site.bring("stubborn"), {}),
    "logs to stderr": (lambda site: site.bring("good"), {"GLIDEIN_LOG_DIR": "-"}),
    "within HTCondor": (lambda site: site.bring("good"), OUTER),
    "killed master": (lambda site: site.bring("stubborn"), {}),
    "no logs": (no_log_directory, {}),
    "token": (lambda site: site.bring("good"), {"GLIDEIN_START": 'TARGET.Owner == "alice"'}),
    "pool password": (
        lambda site: site.bring("good", {"etc/pool_password": (b"secret", 0o644)}),
        {"GLIDEIN_CREDENTIAL": ""},
    ),
}


@pytest.fixture(scope="module")
def together():
    """Start all glideins of BY_ITSELF and UNTIL_ENDED with every shell at once: {(shell, name): (Site, Glidein)}."""
    wanted = {
        **{
            name: (lambda site, b=row[0]: site.bring(b, {"etc/history": (HISTORY.encode(), 0o644)}), row[1])
            for name, row in BY_ITSELF.items()
        },
        **UNTIL_ENDED,
    }
    with place_for_sites() as root:
        started = {}
        for shell in filter(is_installed, SELECTED):
            for name, (prepare, changes) in wanted.items():
                directory = root / shell / name.replace(" ", "_")
                directory.mkdir(parents=True)
                site = Site(directory)
                prepare(site)
                started[shell, name] = site, site.start(shell, **changes)
        yield started


@pytest.mark.parametrize("name", BY_ITSELF)
def test_ends_by_itself(together, shell, name):
    site, glidein = together[shell, name]
    _behaviour, _changes, expected, words = BY_ITSELF[name]
    assert_ended(site, *glidein.end(), expected, words)


def test_a_refused_glidein_reports_the_answer_of_the_collector(site, shell):
    advance_clock(site)
    glidein = site.bring("refused").start(shell).wait_for("condor_master started")
    assert becomes(lambda: any("DENIED" in log.read_text() for log in site.scratch.glob("*/log/StartLog")))
    advance_clock(site, 301)
    assert_ended(site, *glidein.end(), 19, 'could not be joined within 300 s: localhost: SECMAN:2010:Received "DENIED"')


def test_a_glidein_that_was_refused_at_first_and_has_a_job_is_registered(site, shell):
    glidein = site.bring("refused_at_first").start(shell).wait_for("registered with")
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_after_fast_failures_no_more_jobs_are_accepted(together, shell):
    site, glidein = together[shell, "jobs fail"]
    _status, output = glidein.end()
    (summary,) = summaries(output)
    assert (summary["jobs"], summary["jobs_failed"], summary["busy_core_s"]) == (6, 5, 4 * 2 + 5 * 2)
    (kept,) = site.logs.iterdir()
    # START is the last setting that is written.
    assert "got HUP\nSTART = time()" in (kept / "MasterLog").read_text()
    assert "\nSTART = False\n" in (kept / "MasterLog").read_text()


def test_failing_master_shows_its_log_without_tokens(together, shell):
    _site, glidein = together[shell, "master fails"]
    _status, output = glidein.end()
    assert "ERROR with <token> in it" in output


def test_logs_are_kept(together, shell):
    site, glidein = together[shell, "idle"]
    glidein.end()
    (kept,) = site.logs.iterdir()
    assert kept.name.startswith("glidein_123_4_5_.server_")
    assert "got TERM" in (kept / "MasterLog").read_text()
    assert TOKEN not in (kept / "EnvironmentLog").read_text()


@pytest.mark.parametrize("name", SIGNALS)
def test_signal_to_the_whole_group_reaches_the_daemons_only_through_the_script(together, shell, name):
    if shutil.which("setsid") is None:
        pytest.skip("setsid is not installed: without it the daemons are in the script's session")
    site, glidein = together[shell, name]
    directory = glidein.wait_for("registered").directory()
    # Grid Engine and LSF send their notice this way. The stand-in ends at any signal but TERM, which it logs.
    assert int((directory / "session").read_text()) != glidein.process.pid
    status, output = glidein.signal_group(getattr(signal, "SIG" + name)).end()
    assert_ended(site, status, output, SIGNALS[name], "signal " + name)
    (kept,) = site.logs.iterdir()
    assert (kept / "MasterLog").read_text().count("got TERM") == 1


def test_the_limit_of_cpu_time_reaches_the_daemons_only_through_the_script(site, shell):
    """Send XCPU to every process of the job, whatever its session, as Grid Engine at s_cpu and LSF at CPULIMIT."""
    glidein = site.bring("busy").start(shell).wait_for("registered")
    for process in processes_in(site.scratch):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGXCPU)
    status, output = glidein.signal(signal.SIGXCPU).end()
    assert_ended(site, status, output, 152, "signal XCPU")
    (kept,) = site.logs.iterdir()
    assert "got TERM" in (kept / "MasterLog").read_text()


def test_a_glidein_whose_output_has_no_reader_leaves_nothing(site, shell):
    """Close the other end of the pipe, as a batch system's daemon that fails does."""
    site.bring("busy").give_to_user()
    reader, writer = os.pipe()
    glidein = site.start(shell, output=writer)
    os.close(writer)
    assert becomes(lambda: list(site.scratch.glob("glidein.*/log/SharedPortLog")))
    os.close(reader)
    # It writes to its output next when it registers or stops.
    glidein.signal(signal.SIGTERM)
    assert glidein.process.wait(120) in (141, 143)
    assert list(site.scratch.iterdir()) == []
    assert not processes_in(site.scratch)


def test_a_stop_uses_at_most_two_thirds_of_the_notice(together, shell):
    site, glidein = together[shell, "patient"]
    directory = glidein.wait_for("registered").directory()
    # At the end of the walltime: two thirds of the margin, minus the time to report how the jobs have ended.
    assert VACATE + "78" in (directory / "condor_config").read_text().splitlines()
    status, output = glidein.signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert "running jobs have 6 s to vacate" in output
    assert "condor_master still runs after 6 s" in output


def test_the_guard_cleans_up_after_a_killed_script(together, shell):
    if shutil.which("setsid") is None:
        pytest.skip("setsid is not installed: without it the daemons are killed with the script")
    site, glidein = together[shell, "murdered"]
    glidein.wait_for("registered").signal_group(signal.SIGKILL).end()
    assert becomes(lambda: "ended because" in glidein.output and not processes_in(site.scratch)), glidein.output
    # The guard reports how the glidein ended and saves the logs.
    assert_ended(site, 137, glidein.output, 137, "glidein.sh was killed")
    (kept,) = site.logs.iterdir()
    assert "starting as stubborn" in (kept / "MasterLog").read_text()


def test_without_a_log_directory_the_logs_go_to_stderr(together, shell):
    site, glidein = together[shell, "logs to stderr"]
    status, output = glidein.wait_for("registered").signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert "\n==> MasterLog of glidein_123_4_5_.server_" in output
    assert "\ngot TERM\n" in output
    assert list(site.logs.iterdir()) == []


def test_no_setting_of_another_htcondor_reaches_the_daemons(together, shell):
    site, glidein = together[shell, "within HTCondor"]
    directory = glidein.wait_for("registered").directory()
    seen = dict(
        line.split("=", 1) for line in (directory / "log" / "EnvironmentLog").read_text().splitlines() if "=" in line
    )
    assert seen["CONDOR_CONFIG"] == str(directory / "condor_config")
    assert seen["TMPDIR"] == str(directory / "tmp")
    # The outer HTCondor uses it to recognise the processes of its job.
    assert seen["_CONDOR_ANCESTOR_17"] == "18:19:20"
    assert seen["KEPT"] == "yes"
    assert not (set(OUTER) - {"CONDOR_CONFIG", "TMPDIR", "_CONDOR_ANCESTOR_17", "KEPT"}) & set(seen)
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_signal_before_the_master_runs(site, shell):
    # The signal goes to all processes, as from a batch system. test_timeouts.py sends it to the script alone.
    glidein = site.bring("good", master=SLOW_TO_START).start(shell)
    glidein.wait_for("verified").signal_group(signal.SIGTERM)
    assert_ended(site, *glidein.end(), 143, "signal TERM")


def test_a_killed_master_ends_with_its_children(together, shell):
    site, glidein = together[shell, "killed master"]
    master = glidein.wait_for("registered").output.split("condor_master started, process ")[1].split()[0]
    assert processes_in(glidein.directory() / "execute")
    os.kill(int(master), signal.SIGKILL)
    assert_ended(site, *glidein.end(), 18, "condor_master ended by itself with status 137, signal KILL")


def test_files_that_cannot_be_removed_do_not_keep_a_glidein(site, shell):
    """A job in a container may leave files of another user. No starter runs for them."""
    if os.getuid() != 0:
        pytest.skip("only root can make files that the glidein cannot remove")
    advance_clock(site)
    glidein = site.start(shell).wait_for("registered")
    left = glidein.directory() / "execute" / "dir_4194305"  # no process has such a number
    (left / "rootfs").mkdir(parents=True)
    (left / "rootfs" / "file").write_text("")
    left.chmod(0o755)
    advance_clock(site, 1200)
    status, output = glidein.end()
    assert status == 0, output
    assert "ended because no job ran for 1200 s" in output.splitlines()[-1]
    assert f"could not remove all of {left.parents[1]}: " in output and "/execute/dir_4194305/rootfs/file" in output
    shutil.rmtree(left.parents[1])


def test_unwritable_log_directory_does_not_matter(together, shell):
    site, glidein = together[shell, "no logs"]
    status, output = glidein.wait_for("registered").signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert "logs are lost" in output


def test_a_glidein_killed_with_its_guard_is_cleaned_up_by_the_next_one(site, shell):
    if shutil.which("setsid") is None:
        pytest.skip("setsid is not installed: without it there is no guard")
    neighbour = site.start(shell).wait_for("registered")
    lives = neighbour.directory()
    site.bring("stubborn")
    victim = site.start(shell).wait_for("registered")
    (dead,) = set(site.scratch.iterdir()) - {lives}
    job = next(path for path in Path("/proc").glob("[0-9]*") if is_in(path, dead / "execute"))
    state = dict(line.split("=", 1) for line in (dead / "state").read_text().splitlines())
    os.kill(int(state["OWNER_GUARD"]), signal.SIGKILL)
    victim.signal(signal.SIGKILL).end()
    os.kill(int(victim.output.split("condor_master started, process ")[1].split()[0]), signal.SIGKILL)
    assert job.exists()

    # Processes of another host, or of this host in another container, cannot be checked from here.
    elsewhere = site.scratch / "glidein.ELSEWHER"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "state").write_text((dead / "state").read_text().replace("OWNER_HOST=", "OWNER_HOST=x"))
    broken = site.scratch / "glidein.BROKENNN"
    broken.mkdir(mode=0o700)
    (broken / "state").write_text((dead / "state").read_text().replace("\nJOBS=0", "\nJOBS=$(id)"))

    site.bring("good")
    status, output = site.start(shell, GLIDEIN_IDLE_TIMEOUT_S=1).end()
    assert status == 0, output
    assert "{} belongs to".format(dead) in output
    assert set(site.scratch.iterdir()) == {lives, elsewhere, broken}
    # The job was killed, but its process entry remains until init has read its exit status.
    assert becomes(lambda: not job.exists())
    (own,) = summaries(output)
    assert own["exit_status"] == 0
    assert neighbour.process.poll() is None
    assert neighbour.signal(signal.SIGTERM).end()[0] == 143


@pytest.mark.parametrize("name", ["link", "link//x/.."])
def test_processes_are_found_if_the_scratch_path_has_links(shell, tmp_path, name):
    directory = tmp_path / "real" / "x"
    directory.mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    job = subprocess.Popen(["sleep", "300"], cwd=directory, env={"PATH": "/usr/bin:/bin"})
    script = '. "$0/run.sh"; . "$0/scratch.sh"; SCRATCH=$1; leftovers'
    try:
        assert run_lib(shell, script, tmp_path / name).stdout.split() == [str(job.pid), "end"]
    finally:
        job.kill()
        job.wait()


def test_the_state_file_is_removed_last(shell, tmp_path):
    """Assert the order, because a later glidein finds the rest of an interrupted removal by the state file."""
    for name in ("state", "condor_config", ".hidden"):
        (tmp_path / name).write_text("")
    (tmp_path / "execute" / "dir_1").mkdir(parents=True)
    script = """
        log() { echo "$*"; }
        . "$0/scratch.sh"
        SUMMARY_WRITTEN= SCRATCH=$1
        rm() { case $* in *execute*) return 1 ;; esac; command rm "$@"; }
        remove_scratch
        ls -A "$1"
        unset -f rm
        remove_scratch
        ls -d "$1" 2>&1
    """
    assert run_lib(shell, script, tmp_path).stdout.splitlines()[:3] == [
        f"could not remove all of {tmp_path}",
        "execute",
        "state",
    ]
    assert not tmp_path.exists()


def is_in(process, directory):
    try:
        return str((process / "cwd").readlink()).startswith(str(directory))
    except OSError:
        return False


TABLE = ROOT / "docs" / "glidein.md"
SIGNALLED = set(SIGNALS.values())


def table_of_endings():
    """Return {exit status: [reasons]} of the documentation."""
    found = {}
    for first, reasons in re.findall(r"^\| ([0-9][0-9, ]*) \| (.*?) \| ", TABLE.read_text(), re.MULTILINE):
        for status in first.split(","):
            found.setdefault(int(status), []).extend(re.findall(r"`([^`]+)`", reasons))
    return found


def reasons_of_the_script():
    """Return [(exit status, reason with … for variables)] of every ending in the scripts."""
    found = []
    for part in sorted((ROOT / "files" / "glidein").rglob("*.sh")):
        text = part.read_text().replace("\\\n", "")
        calls = re.findall(
            r"""\b(?:(?:end|stop|fail)_with|leave_node) (\d+) """
            r"""\"((?:[^"$]|\$\([^()]*(?:\([^()]*\))*[^()]*\)|\$)*)\"""",
            text,
        )
        found += [(int(status), re.sub(r"\$(\(.*?\)\)?|\{.*?\}|\w+|\*)", "…", reason)) for status, reason in calls]
    return found


def covers(pattern, reason):
    """Return whether a reason of the table, with … for any text, matches that of the script."""
    return re.match(".*".join(map(re.escape, pattern.split("…"))), reason) is not None


def test_the_table_of_endings_has_exactly_the_reasons_of_the_scripts():
    table, told = table_of_endings(), reasons_of_the_script()
    assert len(told) > 45
    missing = [row for row in told if not any(covers(pattern, row[1]) for pattern in table.get(row[0], ()))]
    assert missing == []
    known = [*told, *((status, "of signal …") for status in SIGNALLED)]
    unknown = [
        (status, pattern)
        for status, patterns in table.items()
        for pattern in patterns
        if not any(status == used and covers(pattern, reason) for used, reason in known)
    ]
    assert unknown == []


def test_every_exit_status_is_documented_and_tested():
    explained = set(table_of_endings())
    used = {
        int(number)
        for part in (ROOT / "files" / "glidein").rglob("*.sh")
        for number in re.findall(r"(?:_with |leave_node | [A-Z0-9]+:)(\d+)\b", part.read_text())
    }
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    provoked = {int(number) for number in re.findall(r"(?:\.run\(.*\)|\.end\(\)|output|ended|\)), (\d+), ", tests)}
    provoked |= {row[2] for row in (*BEFORE_HTCONDOR.values(), *BY_ITSELF.values())}
    assert used == explained
    assert explained - {10, 36} - SIGNALLED <= provoked, explained - provoked
    assert "36, " in tests


def test_the_demand_server_knows_the_statuses_of_signals():
    server = ROOT / "files/demand_server/src/glidein_demand/store/glidein_tracking.py"
    (numbers,) = re.findall(r"^SIGNALS = \((.*)\)$", server.read_text(), re.MULTILINE)
    assert set(map(int, numbers.split(", "))) == SIGNALLED


def test_glideins_on_one_node_do_not_interfere(site, any_shell):
    glideins = [site.start(any_shell).wait_for("condor_master started") for _unused in range(3)]
    names = {glidein.output.split("name ")[1].split()[0] for glidein in glideins}
    assert len(names) == len(list(site.scratch.iterdir())) == 3
    assert [glidein.signal(signal.SIGTERM).end()[0] for glidein in glideins] == [143] * 3
    assert list(site.scratch.iterdir()) == []


def test_files_of_a_running_glidein(together, shell):
    site, glidein = together[shell, "token"]
    directory = glidein.wait_for("registered").directory()
    token = directory / "credential" / "tokens.d" / "token"
    assert token.read_text().strip() == TOKEN
    assert [stat.S_IMODE(path.stat().st_mode) for path in (directory, token.parent, token)] == [0o700, 0o700, 0o600]
    config = (directory / "condor_config").read_text()
    assert TOKEN not in config
    for line in (
        'GLIDEIN_Site = "site-1"',
        'GLIDEIN_BatchId = "123_4[5].server"',
        'OpSysAndVer = "RHEL8"',
        "COLLECTOR_HOST = localhost:9618",
        "LOCAL_DIR = {}".format(directory),
        "NUM_CPUS = 2",
        "DISK = 1024",
        "SEC_DEFAULT_AUTHENTICATION_METHODS = IDTOKENS",
    ):
        assert line in config.splitlines()
    assert [line for line in config.splitlines() if line.startswith("START =") and 'TARGET.Owner == "alice")' in line]
    (attributes,) = [line for line in config.replace("\\\n", "").splitlines() if line.startswith("STARTD_ATTRS")]
    assert {"is_glidein", "GLIDEIN_Shape", "OpSysAndVer", "HAS_X"} <= set(attributes.split())
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_the_pool_password_is_moved_out_of_the_tarball(together, shell):
    site, glidein = together[shell, "pool password"]
    directory = glidein.wait_for("registered").directory()
    password = directory / "credential" / "pool_password"
    assert (password.read_bytes(), stat.S_IMODE(password.stat().st_mode)) == (b"secret", 0o600)
    assert not (directory / "condor" / "etc" / "pool_password").exists()
    assert "SEC_DEFAULT_AUTHENTICATION_METHODS = PASSWORD" in (directory / "condor_config").read_text().splitlines()
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def renew(site, shell):
    """Call renew_credential with `site.root` as the scratch directory; return its output."""
    script = '. "$0/run.sh"; . "$0/limits.sh"; . "$0/install.sh"; SCRATCH=$1; GLIDEIN_CREDENTIAL=$2; renew_credential'
    return run_lib(shell, script, site.root, site.credential).stdout


def test_a_renewed_token_replaces_the_old_one(site, shell):
    # site.root is used as the scratch directory
    held = site.root / "held"
    (held / "credential" / "tokens.d").mkdir(parents=True)
    token = held / "credential" / "tokens.d" / "token"
    token.write_text("old\n")
    site.root = held
    assert "credential renewed" in renew(site, shell)
    assert token.read_text() == TOKEN + "\n"
    assert [path.name for path in token.parent.iterdir()] == ["token"]
    assert renew(site, shell) == ""
    site.credential.write_text("")
    assert renew(site, shell) == ""
    assert token.read_text() == TOKEN + "\n"
