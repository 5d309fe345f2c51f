# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the node's checks: their results become attributes of the machine ad. The payload's checks work."""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SHELLS, becomes


def run(shell, directory, *arguments, limit=60, **environment):
    """Run a check as the startd does; return {attribute: value}."""
    scratch = directory / "with blanks"
    for name in ("lib", "checks"):
        shutil.copytree(ROOT / "files" / "glidein" / name, scratch / name, dirs_exist_ok=True)
    for check in directory.glob("own_*"):
        shutil.copy(check, scratch / "checks" / check.name)
    done = subprocess.run(
        [*SHELLS[shell], str(scratch / "lib" / "run_check.sh"), *arguments],
        env={"PATH": "/usr/bin:/bin", "GLIDEIN_CHECK_TIMEOUT_S": str(limit), "LD_LIBRARY_PATH": "/none", **environment},
        stdout=-1,
        timeout=120,
        check=False,
        text=True,
    )
    *lines, end = done.stdout.splitlines()
    assert (done.returncode, end) == (0, "-")
    return dict(line.split(" = ", 1) for line in lines)


def own(directory, script):
    path = directory / "own_check"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def discovers(directory, script):
    """Install a condor_gpu_discovery in the scratch directory."""
    discovery = directory / "with blanks" / "condor" / "libexec" / "condor_gpu_discovery"
    discovery.parent.mkdir(parents=True)
    discovery.write_text("#!/bin/sh\n" + script)
    discovery.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("exit 0", "True"),
        ("exit 1", "False"),
        ("exit 75", "Undefined"),
        ("echo GLIDEIN_Resource_own_check = True; exit 1", "False"),
        ("kill -9 $$", "False"),
        ('[ -z "${LD_LIBRARY_PATH-}" ] && [ "$*" = "a b" ]', "True"),
    ],
)
def test_the_exit_status_is_the_result(shell, tmp_path, script, result):
    own(tmp_path, script)
    found = run(shell, tmp_path, "own_check", "a", "b")
    assert found.pop("GLIDEIN_Metric_own_check_seconds").isdigit()
    assert found == {"GLIDEIN_Resource_own_check": result, "PYGLIDEIN_RESOURCE_OWN_CHECK": result}


def test_only_valid_lines_become_attributes(shell, tmp_path):
    own(
        tmp_path,
        "echo GLIDEIN_Metric_speed=3.5; echo 'GLIDEIN_Resource_Fast = True'; echo 'START = True'; echo text >&2",
    )
    found = run(shell, tmp_path, "own_check")
    found.pop("GLIDEIN_Metric_own_check_seconds")
    assert found == {
        "GLIDEIN_Metric_speed": "3.5",
        "GLIDEIN_Resource_Fast": "True",
        "GLIDEIN_Resource_own_check": "True",
        "PYGLIDEIN_RESOURCE_FAST": "True",
        "PYGLIDEIN_RESOURCE_OWN_CHECK": "True",
    }


def test_a_check_that_hangs_is_killed_with_its_children(shell, tmp_path):
    own(tmp_path, f"sleep 300 & echo $! >'{tmp_path}/child'; wait")
    found = run(shell, tmp_path, "own_check", limit=1)
    assert found["GLIDEIN_Resource_own_check"] == "False"
    child = int((tmp_path / "child").read_text())
    if shutil.which("setsid") is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return
    # On a busy machine, a killed process does not end at once.
    assert becomes(lambda: state_of(child) in (None, "Z")), "the child runs on"


def state_of(pid):
    """Return the state of a process as a letter, None if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_cvmfs_reads_a_file(shell, tmp_path):
    (tmp_path / "file").write_text("content")
    good = hashlib.sha256(b"content").hexdigest()
    assert run(shell, tmp_path, "cvmfs", f"{tmp_path}/file", good)["PYGLIDEIN_RESOURCE_CVMFS"] == "True"
    assert run(shell, tmp_path, "cvmfs", f"{tmp_path}/file")["GLIDEIN_Resource_cvmfs"] == "True"
    assert run(shell, tmp_path, "cvmfs", f"{tmp_path}/file", "0" * 64)["GLIDEIN_Resource_cvmfs"] == "False"
    assert run(shell, tmp_path, "cvmfs", f"{tmp_path}/none")["GLIDEIN_Resource_cvmfs"] == "False"


def test_gpu_counts_gpus_and_runs_a_program(shell, tmp_path):
    discovers(
        tmp_path,
        "case $* in '') found='GPU-1, GPU-2' ;; '-device 1,2') found='GPU-1' ;; *) found=$* ;; esac\n"
        'echo "DetectedGPUs=\\"$found\\""\n',
    )
    found = run(shell, tmp_path, "gpu", GLIDEIN_GPUS="2")
    assert (found["GLIDEIN_Resource_gpu"], found["GLIDEIN_Metric_gpu_devices"]) == ("True", "2")
    assert run(shell, tmp_path, "gpu", GLIDEIN_GPUS="3")["GLIDEIN_Resource_gpu"] == "False"
    assert run(shell, tmp_path, "gpu", "test", "1", "=", "2", GLIDEIN_GPUS="2")["GLIDEIN_Resource_gpu"] == "False"
    assert run(shell, tmp_path, "gpu", "test", "2", "=", "2", GLIDEIN_GPUS="2")["GLIDEIN_Resource_gpu"] == "True"
    # One of the assigned GPUs is missing; another job's GPU does not replace it.
    given = {"GLIDEIN_GPUS": "2", "GLIDEIN_GPU_LIST": "1,2"}
    found = run(shell, tmp_path, "gpu", **given)
    assert (found["GLIDEIN_Resource_gpu"], found["GLIDEIN_Metric_gpu_devices"]) == ("False", "1")


@pytest.mark.parametrize(
    ("given", "variable", "seen"),
    [
        ("1,2", None, "1 unset"),
        ("GPU-3ac1", None, "GPU-3ac1 unset"),
        ("CUDA3,CUDA4", None, "3 unset"),
        ("", None, "unset unset"),
        ("2,3", "ROCR_VISIBLE_DEVICES", "unset 2"),
    ],
)
def test_gpu_runs_the_program_on_the_first_assigned_gpu(shell, tmp_path, given, variable, seen):
    discovers(tmp_path, "echo 'DetectedGPUs=\"GPU-1\"'\n")
    own(tmp_path, f'echo "${{CUDA_VISIBLE_DEVICES-unset}} ${{ROCR_VISIBLE_DEVICES-unset}}" >"{tmp_path}/seen"')
    settings = {"GLIDEIN_GPU_LIST": given, **({"GLIDEIN_GPU_VARIABLE": variable} if variable else {})}
    found = run(shell, tmp_path, "gpu", str(tmp_path / "own_check"), **settings)
    assert found["GLIDEIN_Resource_gpu"] == "True"
    assert (tmp_path / "seen").read_text() == seen + "\n"


def test_endpoint_connects(shell, tmp_path):
    if shutil.which("bash") is None and shutil.which("nc") is None:
        pytest.skip("neither bash nor nc is installed: the check cannot tell then")
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = "127.0.0.1:{}".format(server.getsockname()[1])
        assert run(shell, tmp_path, "endpoint", where)["GLIDEIN_Resource_endpoint"] == "True"
    assert run(shell, tmp_path, "endpoint", where)["GLIDEIN_Resource_endpoint"] == "False"


@pytest.mark.parametrize(("word", "result"), [("220", "True"), ("hello", "False")])
def test_endpoint_reads_the_greeting(shell, tmp_path, word, result):
    if shutil.which("bash") is None and shutil.which("nc") is None:
        pytest.skip("neither bash nor nc is installed: the check cannot tell then")
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = "127.0.0.1:{}".format(server.getsockname()[1])
        # The greeting is sent before the check reads it.
        greeter = subprocess.Popen(
            ["python3", "-c", "import socket; s = socket.socket(fileno=0); s.accept()[0].sendall(b'220 ready\\n')"],
            stdin=server.fileno(),
        )
        found = run(shell, tmp_path, "endpoint", where, word)
        assert greeter.wait(60) == 0
    assert found["GLIDEIN_Resource_endpoint"] == result
