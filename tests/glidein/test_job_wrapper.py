# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Users' jobs do not die of a notice that the batch system sends to every process of its own job."""

import subprocess

from conftest import ROOT, SHELLS


def made(scratch, shell, signals="USR1 USR2"):
    """What config_wrapper prints; it writes the wrapper into the scratch directory."""
    script = ". files/glidein/lib/configure.sh; config_wrapper"
    return subprocess.check_output(
        [*SHELLS[shell], "-c", script],
        cwd=ROOT,
        env={"SCRATCH": str(scratch), "GLIDEIN_NOTICE_TO_ALL": signals},
        text=True,
    )


def run(scratch, *command, **environment):
    return subprocess.run(
        [str(scratch / "job_wrapper"), *command], env=environment, capture_output=True, text=True, check=False
    )


def test_a_job_ignores_the_notice_and_obeys_other_signals(tmp_path, shell):
    assert f"USER_JOB_WRAPPER = {tmp_path}/job_wrapper\n" in made(tmp_path, shell)
    done = run(
        tmp_path, "/bin/sh", "-c", 'kill -s USR1 $$; kill -s USR2 $$; echo "alive $1"; kill -s TERM $$', "x", "a  b"
    )
    assert (done.stdout, done.returncode) == ("alive a  b\n", -15)


def test_a_job_that_cannot_be_executed_is_told_to_htcondor(tmp_path, shell):
    made(tmp_path, shell)
    done = run(tmp_path, "/nonexistent", _CONDOR_WRAPPER_ERROR_FILE=str(tmp_path / "error"))
    assert done.returncode == 1
    assert (tmp_path / "error").read_text() == "/nonexistent cannot be executed\n"


def test_without_such_a_batch_system_there_is_no_wrapper(tmp_path, shell):
    assert made(tmp_path, shell, "") == ""
    assert not list(tmp_path.iterdir())
