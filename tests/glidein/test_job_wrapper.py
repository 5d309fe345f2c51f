# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the environment of jobs, the site's set-up, the rank, the operator's files, and signals that jobs ignore."""

import re
import signal
import subprocess

from conftest import ROOT, SHELLS
from test_endings import assert_ended

SETTINGS = {
    "GLIDEIN_SITE": "site-1",
    "GLIDEIN_SITE_RESOURCE": "res",
    "GLIDEIN_ENTRY": "short",
    "GLIDEIN_GPUS": "1",
    "GLIDEIN_JOB_ENVIRONMENT": "",
    "GLIDEIN_JOB_SETUP": "",
    "GLIDEIN_NOTICE_TO_ALL": "",
}


def made(scratch, shell, **settings):
    """Return the output of config_jobs, which writes the wrapper into the scratch directory."""
    script = ". files/glidein/lib/configure.sh; config_jobs"
    return subprocess.check_output(
        [*SHELLS[shell], "-u", "-c", script], cwd=ROOT, env={"SCRATCH": str(scratch), **SETTINGS, **settings}, text=True
    )


def rank(shell, **settings):
    script = ". files/glidein/lib/configure.sh; rank_of_jobs"
    values = {"GLIDEIN_CPUS": "8", "GLIDEIN_MEMORY_MB": "64000", "GLIDEIN_GPUS": "0", "GLIDEIN_RANK": "", **settings}
    return subprocess.check_output([*SHELLS[shell], "-u", "-c", script], cwd=ROOT, env=values, text=True).strip()


def test_a_glidein_with_gpus_ranks_jobs_that_use_them_first(shell):
    assert rank(shell, GLIDEIN_GPUS="2") == "ifThenElse((TARGET.RequestGPUs ?: 0) > 0, 0.0, -1.0)"


def test_a_glidein_with_much_memory_ranks_jobs_that_use_it_first(shell):
    share = "real(TARGET.RequestMemory) * 8 / ((TARGET.RequestCpus ?: 1) * 64000)"
    assert rank(shell) == f"ifThenElse(({share} < 1.0) =?= True, {share} - 1.0, 0.0)"


def test_the_rank_of_an_entry_counts_if_it_is_a_number(shell):
    own = 'TARGET.ProjectName == "icecube"'
    assert rank(shell, GLIDEIN_RANK=own) == f"ifThenElse(isReal(real({own})), real({own}), 0.0)"


def environment(config):
    """Return the environment that HTCondor makes of STARTER_JOB_ENVIRONMENT (manual of condor_submit)."""
    (text,) = re.findall(r'^STARTER_JOB_ENVIRONMENT = "(.*)"$', config, re.MULTILINE)
    assert "$" not in text.replace("$(DOLLAR)", "")
    text = text.replace("$(DOLLAR)", "$").replace('""', '"')
    words = re.findall(r"'((?:[^']|'')*)'", text)
    return dict(word.replace("''", "'").split("=", 1) for word in words)


def run(scratch, *command, **variables):
    return subprocess.run(
        [str(scratch / "job_wrapper"), *command], env=variables, capture_output=True, text=True, check=False
    )


def test_a_job_ignores_the_notice_and_obeys_other_signals(tmp_path, shell):
    config = made(tmp_path, shell, GLIDEIN_NOTICE_TO_ALL="USR1 USR2")
    assert f"USER_JOB_WRAPPER = {tmp_path}/job_wrapper\n" in config
    done = run(
        tmp_path,
        "/bin/sh",
        "-c",
        'kill -s USR1 $$; kill -s USR2 $$; kill -s QUIT $$; kill -s XCPU $$; echo "alive $1"; kill -s TERM $$',
        "x",
        "a  b",
    )
    assert (done.stdout, done.returncode) == ("alive a  b\n", -15)


def test_a_job_that_cannot_be_executed_is_reported_to_htcondor(tmp_path, shell):
    made(tmp_path, shell, GLIDEIN_NOTICE_TO_ALL="USR1")
    done = run(tmp_path, "/nonexistent", _CONDOR_WRAPPER_ERROR_FILE=str(tmp_path / "error"))
    assert done.returncode == 1
    assert (tmp_path / "error").read_text() == "/nonexistent cannot be executed\n"


def test_there_is_no_wrapper_unless_it_is_needed(tmp_path, shell):
    assert "USER_JOB_WRAPPER" not in made(tmp_path, shell)
    assert not list(tmp_path.iterdir())


def test_the_sites_set_up_comes_before_the_job_and_cannot_change_its_arguments(tmp_path, shell):
    setup = tmp_path / "set up.sh"
    setup.write_text("SOFTWARE=/opt/x; export SOFTWARE; set -- something else; unset HIDDEN\n")
    made(tmp_path, shell, GLIDEIN_JOB_SETUP=str(setup))
    done = run(tmp_path, "/bin/sh", "-c", 'echo "$SOFTWARE ${HIDDEN-none} $1"', "x", "a  b", HIDDEN="1")
    assert (done.stdout, done.stderr, done.returncode) == ("/opt/x none a  b\n", "", 0)


def test_a_missing_set_up_is_reported_to_htcondor(tmp_path, shell):
    made(tmp_path, shell, GLIDEIN_JOB_SETUP="/nowhere/setup.sh")
    assert run(tmp_path, "/bin/true", _CONDOR_WRAPPER_ERROR_FILE=str(tmp_path / "error")).returncode == 1
    assert (tmp_path / "error").read_text() == "GLIDEIN_JOB_SETUP=/nowhere/setup.sh cannot be read\n"


def test_the_operators_wrapper_starts_the_job_after_the_sites_set_up(tmp_path, shell):
    setup = tmp_path / "set up.sh"
    setup.write_text("SOFTWARE=/opt/x; export SOFTWARE\n")
    own = tmp_path / "job_wrapper_of_site"
    own.write_text('#!/bin/sh\necho "wrapped $SOFTWARE"\nexec "$@"\n')
    own.chmod(0o700)
    config = made(tmp_path, shell, GLIDEIN_JOB_SETUP=str(setup))
    assert f"USER_JOB_WRAPPER = {tmp_path}/job_wrapper\n" in config
    done = run(tmp_path, "/bin/sh", "-c", 'echo "$1"; exit 3', "x", "a  b")
    assert (done.stdout, done.stderr, done.returncode) == ("wrapped /opt/x\na  b\n", "", 3)
    done = run(tmp_path, "/nonexistent", _CONDOR_WRAPPER_ERROR_FILE=str(tmp_path / "error"))
    assert (done.stdout, done.returncode) == ("", 1)


def test_the_operators_wrapper_needs_no_other_setting(tmp_path, shell):
    (tmp_path / "job_wrapper_of_site").write_text("#!/bin/sh\n")
    assert "USER_JOB_WRAPPER" in made(tmp_path, shell)


def test_the_environment_of_jobs(tmp_path, shell):
    odd = 'NOTE=it\'s "$HOME" $(X) `id` \\ 100%'
    found = environment(made(tmp_path, shell, GLIDEIN_JOB_ENVIRONMENT=odd + "\nhttp_proxy=http://squid:3128"))
    assert found == {
        "GLIDEIN_Site": "site-1",
        "GLIDEIN_SiteResource": "res",
        "GLIDEIN_Entry": "short",
        "NOTE": odd.split("=", 1)[1],
        "http_proxy": "http://squid:3128",
    }


def test_jobs_of_a_glidein_without_gpus_see_none(tmp_path, shell):
    found = environment(made(tmp_path, shell, GLIDEIN_GPUS="0"))
    hidden = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES")
    assert [found[name] for name in hidden] == ["10000"] * 3
    assert found["NVIDIA_VISIBLE_DEVICES"] == "none"


# --- the operator's files and job wrapper, which the glidein copies from the payload


def test_files_and_job_wrapper_are_in_the_scratch_directory(site, shell):
    files = site.home / "files"
    (files / "tools").mkdir(parents=True)
    (files / "tools" / "hello").write_text("#!/bin/sh\necho hello\n")
    (files / "tools" / "hello").chmod(0o755)
    (files / "data.txt").write_text("data\n")
    (files / "data.txt").chmod(0o640)
    (site.home / "job_wrapper").write_text('#!/bin/sh\nexec "$@"\n')
    glidein = site.start(shell).wait_for("registered")
    scratch = glidein.directory()
    # The payload may be removed while the glidein runs.
    assert (scratch / "files" / "data.txt").read_text() == "data\n"
    assert (scratch / "files" / "data.txt").stat().st_mode & 0o777 == 0o640
    assert (scratch / "files" / "tools" / "hello").stat().st_mode & 0o777 == 0o755
    config = (scratch / "condor_config").read_text()
    assert f"'GLIDEIN_FILES={scratch}/files'" in config
    assert f"USER_JOB_WRAPPER = {scratch}/job_wrapper\n" in config
    assert f"exec '{scratch}/job_wrapper_of_site' \"$@\"\n" in (scratch / "job_wrapper").read_text()
    assert (scratch / "job_wrapper_of_site").stat().st_mode & 0o777 == 0o700
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_room_for_the_files_is_needed_too(site, any_shell):
    (site.home / "files").mkdir()
    (site.home / "files" / "large").write_bytes(b"x" * (3 << 20))
    status, output = site.run(any_shell, GLIDEIN_DISK_MB=10**9)
    assert_ended(site, status, output, 13, "HTCondor itself need 1000000064")
