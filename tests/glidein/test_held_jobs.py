# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that jobs that exhaust the glidein's memory or disk are held."""

import pytest
from conftest import limit, program, report_killed, run_lib

KILLED = """\
ExitBySignal = true
ExitSignal = 9
GlobalJobId = "cm.example.org#12.0#1795344333"
NumShadowStarts = 2
RequestMemory = 1024
"""
SHELL_OF_KILLED = KILLED.replace("ExitBySignal = true\nExitSignal = 9", "ExitBySignal = false\nExitCode = 137")
JOB = "cm.example.org#12.0#1795344333/2"
V1 = {"proc/self/cgroup": "12:memory:/slurm/job_7\n", "sys/fs/cgroup/memory/slurm/job_7/memory.oom_control": ""}
V2 = {"proc/self/cgroup": "0::/slurm/job_7/task\n", "sys/fs/cgroup/cgroup.controllers": "memory\n"}


def run(shell, script, *arguments, stdin=""):
    libraries = '. "$0/report.sh"; . "$0/resources.sh"; . "$0/held_jobs.sh"; '
    done = run_lib(shell, libraries + script, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def tree(root, *parts):
    for name, text in {key: value for part in parts for key, value in part.items()}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([V1, {"sys/fs/cgroup/memory/slurm/job_7/memory.oom_control": "under_oom 0\noom_kill 3\n"}], "3\n"),
        ([V2, {"sys/fs/cgroup/slurm/job_7/task/memory.events": "oom 9\noom_kill 2\noom_group_kill 7\n"}], "2\n"),
        # The innermost group with a counter: the groups above it count kills of other jobs, too.
        (
            [V2, {f"sys/fs/cgroup/slurm/{at}memory.events": f"oom_kill {n}\n" for at, n in (("", 8), ("job_7/", 4))}],
            "4\n",
        ),
        # Linux before 4.13 has no counter.
        ([V1, {"sys/fs/cgroup/memory/slurm/job_7/memory.oom_control": "under_oom 0\n"}], ""),
        ([], ""),
    ],
)
def test_out_of_memory_kills_are_read_from_the_control_group(shell, tmp_path, parts, expected):
    assert run(shell, 'oom_kills "$1"', tree(tmp_path, *parts)) == expected


def job_exit(shell, scratch, ad, kills, before=0):
    """Return the ids of the jobs to hold after a job with that ad has ended."""
    (scratch / "killed").mkdir(exist_ok=True)
    script = f"SCRATCH=$1 counted={before} HOLD_S=0; oom_kills() {{ echo {kills}; }}; report_killed_job"
    run(shell, script, str(scratch), stdin=ad)
    return sorted(path.read_text().strip() for path in (scratch / "killed").glob("*/job"))


@pytest.mark.parametrize("ad", [KILLED, SHELL_OF_KILLED])
def test_a_killed_job_is_reported_when_the_kernel_has_counted_a_kill(shell, tmp_path, ad):
    assert job_exit(shell, tmp_path, ad, kills=1) == [JOB]


def test_the_hook_waits_until_its_starter_has_held_the_job(shell, tmp_path):
    (tmp_path / "log").mkdir()
    log = tmp_path / "log" / "StarterLog.slot1_1"
    script = (
        'SCRATCH=$1; sleep() { echo "(pid:$PPID) Hold all jobs" >>"$SCRATCH/log/StarterLog.slot1_1"; }; wait_for_hold'
    )
    log.write_text("(pid:1) Hold all jobs\n")
    run(shell, script, str(tmp_path))
    assert len(log.read_text().splitlines()) == 2


def test_each_kill_belongs_to_one_job(shell, tmp_path):
    assert job_exit(shell, tmp_path, KILLED, kills=1) == [JOB]
    other = KILLED.replace("#12.0#", "#13.0#")
    assert job_exit(shell, tmp_path, other, kills=1) == [JOB]
    assert job_exit(shell, tmp_path, other, kills=2) == [JOB, JOB.replace("#12.0#", "#13.0#")]


@pytest.mark.parametrize(
    ("ad", "kills"),
    [
        (KILLED, 4),  # none since the glidein started
        (KILLED, ""),
        (KILLED.replace("ExitSignal = 9", "ExitSignal = 15"), 5),
        (SHELL_OF_KILLED.replace("137", "1"), 5),
        (KILLED.replace("cm.example.org#", "$(X)"), 5),
        (KILLED.replace("cm.example.org#", "a,b"), 5),
        ("", 5),
    ],
)
def test_other_jobs_are_not_held(shell, tmp_path, ad, kills):
    assert job_exit(shell, tmp_path, ad, kills, before=4) == []


@pytest.mark.parametrize(("version", "has_hook"), [("23.9.6", True), ("25.14.1", False), ("", False)])
def test_only_htcondor_23_gets_the_exit_hook(shell, tmp_path, version, has_hook):
    (tmp_path / "tmp").mkdir()
    if version:
        (tmp_path / "tmp" / "try.out").write_text(f"$CondorVersion: {version} 2026-10-16 PackageID: {version} $\n")
    else:
        (tmp_path / "tmp" / "try.out").write_text("")
    config = run(shell, "SCRATCH=$1; oom_kills() { echo 0; }; config_held_jobs", str(tmp_path))
    assert ("GLIDEIN_HOOK_JOB_EXIT = " in config) == has_hook
    assert "GLIDEIN_HOLD_FOR_DISK = " in config


def test_a_killed_job_is_added_to_condor_config(site, shell):
    site.bring("failing")  # condor_master stores it when it reads the configuration again
    glidein = site.start(shell).wait_for("registered with")
    directory = glidein.directory()
    for number, text in ((1, "x\nSTART = True"), (2, "$(X)/1"), (3, JOB)):
        report_killed(glidein, number, text)
    glidein.wait_for(f"killed a process of job {JOB} because the memory was exhausted: the job is held")
    config = (directory / "condor_config").read_text()
    assert f"\nGLIDEIN_KILLED_JOBS = $(GLIDEIN_KILLED_JOBS),{JOB}\n" in config
    assert "$(X)" not in config and config.count("\nGLIDEIN_KILLED_JOBS = $") == 1
    glidein.signal(15)
    assert glidein.end()[0] == 143


def disk(site):
    """Make a df that shows the free room, in KiB, of a file; return the file and the PATH."""
    free = site.root / "free"
    free.write_text("200000")
    return free, program(site, "df", f"echo; echo \"/dev/x 300000 1 $(cat '{free}') 50% /x\"")


def test_a_job_that_fills_the_disk_is_held(site, shell):
    free, path = disk(site)
    site.bring("failing")
    glidein = site.start(shell, PATH=path).wait_for("registered with")
    directory = glidein.directory()
    for number, size, starts in ((1, 2 << 20, 1), (2, 0, 2)):
        job = directory / "execute" / f"dir_{number}"
        job.mkdir()
        (job / ".machine.ad").write_text("Cpus = 1\nDisk = 1024\nTotalDisk = 9999999\n")
        (job / ".job.ad").write_text(f'GlobalJobId = "cm#{number}.0#1795344333"\nNumShadowStarts = {starts}\n')
        (job / "output").write_bytes(b"x" * size)
    site.give_to_user()
    free.write_text("0")
    glidein.wait_for("job cm#1.0#1795344333/1 uses more disk than its slot has, 1 MB: the job is held")
    config = (directory / "condor_config").read_text()
    assert config.endswith("\nGLIDEIN_DISK_JOBS = $(GLIDEIN_DISK_JOBS),cm#1.0#1795344333/1\n")
    assert not (directory / "reserve").exists()
    free.write_text("200000")
    glidein.wait_for("has room again")
    assert glidein.signal(15).end()[0] == 143
    assert glidein.output.count("the job is held") == 1


def test_a_disk_that_stays_full_ends_a_glidein(site, shell):
    free, path = disk(site)
    limit(site, "DISK_FULL_S", 1)
    glidein = site.start(shell, PATH=path).wait_for("registered with")
    free.write_text("0")
    status, output = glidein.end()
    assert (status, "is full: 0 MB free after" in output.splitlines()[-1]) == (13, True), output
    assert list(site.scratch.iterdir()) == []


def test_a_report_that_could_not_be_read_is_read_in_the_next_round(shell, tmp_path):
    (tmp_path / "killed" / "1").mkdir(parents=True)
    (tmp_path / "killed" / "1" / "job").write_text(JOB + "\n")
    script = 'SCRATCH=$1; log() { :; }; hold_job() { echo "$2"; }; head() { exit 2; }; hold_killed_jobs; '
    script += "unset -f head; hold_killed_jobs; hold_killed_jobs"
    assert run(shell, script, str(tmp_path)) == JOB + "\n"


def test_a_job_that_could_not_be_held_is_held_in_the_next_round(shell, tmp_path):
    (tmp_path / "killed" / "1").mkdir(parents=True)
    (tmp_path / "killed" / "1" / "job").write_text(JOB + "\n")
    script = "SCRATCH=$1; log() { :; }; hold_job() { return 1; }; hold_killed_jobs; "
    script += 'hold_job() { echo "$2"; }; hold_killed_jobs; hold_killed_jobs'
    assert run(shell, script, str(tmp_path)) == JOB + "\n"
