# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the summary, in which each job of the history counts once, and of stale glideins, which are removed."""

import os

import pytest
from conftest import job_ad, run_lib, summaries

ENDED = 1795255185
OF_ITSELF = {"ended": ENDED, "told": ENDED}
SUCCESS = job_ad(5, code=0, **OF_ITSELF)
FAILURE = job_ad(5, code=3, **OF_ITSELF)
SIGNALLED = job_ad(5, **OF_ITSELF).replace("ExitBySignal = false\nExitCode = 0\n", "ExitBySignal = true\n")
SLOW_FAILURE = job_ad(600, code=3, **OF_ITSELF)
EVICTED = job_ad(100)
# An earlier run on another machine failed and the job was retried: the ad has the end of that run.
EVICTED_LATER = job_ad(100, code=3, ended=ENDED, told=ENDED - 5000)
NOT_STARTED = job_ad(1).replace("JobPid = 1081\n", "").replace("ExitCode = 0\n", "")


def run(shell, tmp_path, script):
    """Run commands in a shell with the functions of lib/; return the output."""
    (tmp_path / "jobs").mkdir(exist_ok=True)
    head = f"""
exec 2>&1; LC_ALL=C; export LC_ALL; unset NAME
for part in run limits settings scratch logs summary; do . "$0/$part.sh"; done
SCRATCH='{tmp_path}'; GLIDEIN_CPUS=4; STARTED_AT=100
GLIDEIN_DEPLOYMENT=d GLIDEIN_SITE=s GLIDEIN_ENTRY=e GLIDEIN_SHAPE=h GLIDEIN_BATCH_ID='1.x' GLIDEIN_LOG_DIR=-
REGISTERED_AT=
told() {{ echo "$JOBS $JOBS_FAILED $BUSY_CORE_S $FAST_FAILURES"; }}
"""
    done = run_lib(shell, head + script)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("history", "counts"),
    [
        ("", "0 0 0 0"),
        (SUCCESS, "1 0 5 0"),
        (FAILURE, "1 1 5 1"),
        (SIGNALLED, "1 1 5 1"),
        (SLOW_FAILURE, "1 1 600 0"),
        (EVICTED + EVICTED_LATER, "2 0 200 0"),
        (NOT_STARTED, "1 1 1 1"),
        (5 * FAILURE + SUCCESS + 2 * FAILURE, "8 7 40 2"),
        (FAILURE + SLOW_FAILURE + EVICTED + FAILURE, "4 3 710 2"),
        # Two cores; more cores than the machine has, which is invalid; no cores reported.
        (job_ad(10, cpus=2), "1 0 20 0"),
        (job_ad(10, cpus=10**9), "1 0 40 0"),
        (job_ad(10).replace("CpusProvisioned = 1\n", ""), "1 0 10 0"),
        # An incomplete ad.
        (SUCCESS + FAILURE[:-60], "1 0 5 0"),
        ('Arguments = "*** Offset"\n' + SUCCESS, "1 0 5 0"),
    ],
)
def test_jobs_are_counted(shell, tmp_path, history, counts):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "history").write_text(history)
    assert run(shell, tmp_path, "count_jobs; told") == counts + "\n"


def test_each_job_counts_once_while_the_history_grows_and_is_rotated(shell, tmp_path):
    for name, text in {"a": SUCCESS, "b": FAILURE[:70], "c": FAILURE[70:] + SUCCESS, "d": FAILURE}.items():
        (tmp_path / name).write_text(text)
    script = """
cd "$SCRATCH"
cat a >>jobs/history; count_jobs; told; count_jobs; told
cat b >>jobs/history; count_jobs; told
cat c >>jobs/history; mv jobs/history jobs/history.20261121T100000; cat d >jobs/history
count_jobs; told; count_jobs; told; ls jobs
"""
    assert run(shell, tmp_path, script).splitlines() == [
        "1 0 5 0", "1 0 5 0", "1 0 5 0", "4 2 20 1", "4 2 20 1", "history",
    ]  # fmt: skip


def test_the_summary_is_one_line_of_valid_json(shell, tmp_path):
    script = """read_now() { NOW=160; }; write_summary 18 'a "quoted" \\ thing
and '"$(printf '\\303\\244\\001')$(printf '%0400d' 0)"; write_summary 0 'again'"""
    (summary,) = summaries(run(shell, tmp_path, script))
    assert summary.pop("reason") == 'a "quoted" \\ thing?and ???' + 274 * "0"
    assert summary == {
        "name": "glidein_1.x_100", "site": "s", "entry": "e", "shape": "h", "batch_id": "1.x", "started": 100,
        "registered": None, "ended": 160, "granted_cpus": 4, "granted_core_s": 240, "busy_core_s": 0, "jobs": 0,
        "jobs_failed": 0, "exit_status": 18,
    }  # fmt: skip


def test_the_state_can_be_read_again(shell, tmp_path):
    script = """
NAME=glidein_1_x; JOBS=7; BUSY_CORE_S=99; REGISTERED_AT=103; write_state
JOBS=0; BUSY_CORE_S=0; REGISTERED_AT=; NAME=; GLIDEIN_SITE=other
read_state "$SCRATCH/state" && told && echo "$NAME $GLIDEIN_SITE $REGISTERED_AT $OWNER_PID $$"
is_stale || echo alive
OWNER_START=1; is_stale && echo dead
OWNER_HOST=another; is_stale || echo unknown
"""
    *counts, names, alive, dead, unknown = run(shell, tmp_path, script).splitlines()
    assert counts == ["7 0 99 0"]
    *rest, owner, own = names.split()
    assert (rest, owner) == (["glidein_1_x", "s", "103"], own)
    assert (alive, dead, unknown) == ("alive", "dead", "unknown")


def test_a_search_for_the_owner_that_fails_does_not_mean_that_it_is_dead(shell, tmp_path):
    """Use programs and functions that end as a shell that cannot start a process."""
    script = """
NAME=n; GUARD_PID=$$; write_state; read_state "$SCRATCH/state"
sed() { exit 2; }; cut() { exit 2; }
is_stale || echo alive
unset -f sed cut
start_of() { exit 2; }
is_stale || echo alive
OWNER_START=1 OWNER_GUARD_START=1
is_stale || echo alive
identify_owner() { exit 2; }
write_state || echo unchanged
read_state "$SCRATCH/state" && echo "$OWNER_PID $$"
"""
    *found, owner = run(shell, tmp_path, script).splitlines()
    assert found == ["alive"] * 3 + ["unchanged"]
    assert len(set(owner.split())) == 1


# The state's age in seconds, and the boot ids of its node and of this one (empty: unknown).
@pytest.mark.parametrize(
    ("age_s", "boot", "own_boot", "dead"),
    [
        (0, "b", "b", False),
        (100, "a", "b", False),
        (3599, "a", "b", False),
        (3700, "a", "b", True),
        (10**6, "a", "", False),
        (10**6, "", "b", False),
    ],
)
def test_a_glidein_of_another_boot_is_stale_if_its_state_is_old(shell, tmp_path, age_s, boot, own_boot, dead):
    script = f"""
NAME=n; write_state; read_state "$SCRATCH/state"
boot_id() {{ echo {own_boot}; }}
OWNER_BOOT={boot}; SEEN_AT=$((SEEN_AT - {age_s}))
if is_stale; then echo dead; else echo alive; fi
"""
    assert run(shell, tmp_path, script) == ("dead\n" if dead else "alive\n")


def test_empty_scratch_directories_and_images_older_than_a_day_are_removed(shell, tmp_path):
    old, used, new = (tmp_path / f"glidein.{letter * 8}" for letter in "abc")
    old_image, new_image = (tmp_path / f"glidein-image.{letter * 8}" for letter in "ab")
    for directory in (old, used, new, old_image, new_image):
        directory.mkdir()
    for directory in (used, old_image, new_image):
        (directory / "file").write_text("")
    for directory in (old, used, old_image):
        os.utime(directory, (1, 1))
    run(shell, tmp_path, f"GLIDEIN_SCRATCH={tmp_path}\nremove_old_directories\n")
    assert sorted(tmp_path.glob("glidein*")) == [new_image, used, new]


def test_a_stale_glidein_is_removed_without_a_summary(shell, tmp_path):
    script = """
NAME=glidein_2_dead; SCRATCH="$SCRATCH/glidein.AAAAAAAA"; mkdir "$SCRATCH"; write_state
(clean_up_stale "$SCRATCH"); ls "$SCRATCH"
sed -i 's/^OWNER_START=.*/OWNER_START=1/' "$SCRATCH/state"
clean_up_stale "$SCRATCH"
"""
    output = run(shell, tmp_path, script)
    assert output.startswith("state\n")
    assert "glidein.AAAAAAAA belongs to glidein_2_dead, which was killed, or whose node failed: removing it" in output
    assert not (tmp_path / "glidein.AAAAAAAA").exists()
    assert summaries(output) == []


@pytest.mark.parametrize(
    "change",
    [
        ("\nJOBS=0", "\nJOBS=$(id)"),
        ("NAME=n", "NAME=../../x"),
        ("CPUS=4", "CPUS=4; id"),
        ("CPUS=4", "CPUS="),
        ("JOBS_FAILED=0\n", ""),
        ("JOBS_FAILED=0", "PATH=/x"),
    ],
)
def test_a_state_file_with_an_invalid_value_is_refused(shell, tmp_path, change):
    run(shell, tmp_path, "NAME=n; write_state")
    state = (tmp_path / "state").read_text()
    assert change[0] in state
    (tmp_path / "state").write_text(state.replace(*change))
    assert run(shell, tmp_path, 'read_state "$SCRATCH/state" || echo refused') == "refused\n"
