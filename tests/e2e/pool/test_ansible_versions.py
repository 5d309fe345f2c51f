# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The oldest and the newest ansible-core run the same playbooks, on login nodes with the Pythons of README's table.

The pairs are the rows of the table that are marked as tested. A Python that the login node lacks is copied to it from
this machine.
"""

import os
import subprocess

import prepare
import pytest
from ansible_cores import NEWEST, OLDEST, virtual_environment
from conftest import STATE, add_sites, playbook, wait_for

# The hosts that a pair deploys to: one pair of each ansible-core includes the central manager.
PAIRS = {(OLDEST, "3.6"): ["cm", "slurm"], (NEWEST, "3.9"): ["cm", "slurm"], (NEWEST, "3.13"): ["slurm"]}
# For a login node's Python: its tests, packages and bytecode are not needed.
LEFT_OUT = [f"--exclude={name}" for name in ("test", "site-packages", "config-*", "__pycache__", "*.a", "idlelib")]


def controller(core):
    """Return the environment of a controller that has an ansible-core, and what README asks for, and nothing else."""
    venv = virtual_environment(core)
    if venv is None:
        pytest.skip(f"{core.requirement} runs on Python {', '.join(core.pythons)}; none of them is on this machine")
    env = prepare.environment()
    return {**env, "PATH": os.pathsep.join([str(venv / "bin"), env["PATH"]]), "VIRTUAL_ENV": str(venv)}


def copied_python(slurm_root, version):
    """Copy this machine's Python to the login node; return its path there. Skip without one that works there."""
    found = prepare.real_pythons().get(version)
    if found is None:
        pytest.skip(f"neither the login node nor this machine (PATH, pyenv) has Python {version}")
    target = f"/opt/pythons/{version}"
    slurm_root.check_output(f"mkdir -p {target}")
    library = found.parent.parent / "lib"
    parts = [
        f"bin/python{version}",
        f"lib/python{version}",
        *(path.relative_to(library.parent).as_posix() for path in library.glob(f"libpython{version}*.so*")),
    ]
    pack = ["tar", "-C", str(library.parent), *LEFT_OUT, "-chf", "-", *parts]
    unpack = ["ssh", "-F", str(STATE / "ssh_config"), "slurm-root", f"tar -xf - -C {target}"]
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as process:
        subprocess.run(unpack, stdin=process.stdout, check=True, timeout=600)
    assert process.returncode == 0
    # Where Python is built with a shared library, the linker finds it.
    slurm_root.check_output(f"echo {target}/lib > /etc/ld.so.conf.d/python{version}.conf && ldconfig")
    done = slurm_root.run(f"{target}/bin/python{version} --version")
    if done.rc != 0:
        pytest.skip(f"{found} does not run on the login node: {done.stderr.strip()}")
    return f"{target}/bin/python{version}"


@pytest.fixture(scope="module")
def deployed():
    """Remove the tokens of other tests' sites with the tests' own ansible-core."""
    assert playbook("deploy", "-l", "cm", "--tags", "tokens,server").rc == 0


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0].requirement} with Python {pair[1]}")
def pair(request, slurm, slurm_root, tmp_path):
    """Return hosts, and a function that runs a playbook with one pair of ansible-core and login node's Python."""
    core, version = request.param
    env = controller(core)
    own = slurm.check_output("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'")
    interpreter = "/usr/bin/python3" if own == version else copied_python(slurm_root, version)
    inventory = add_sites(tmp_path, {"slurm": {"ansible_python_interpreter": interpreter}})
    yield PAIRS[request.param], lambda name, *arguments: playbook(name, *arguments, env=env, inventory=inventory)
    slurm_root.check_output("rm -rf /opt/pythons /etc/ld.so.conf.d/python3.*.conf && ldconfig")


def test_it_deploys_and_runs_a_cycle(alice, server, slurm, deployed, pair):
    # What the tests' own ansible-core has deployed is up to date for every other one, which mends what is missing.
    version = slurm.check_output("readlink .glidein/slurm/current")
    slurm.check_output("rm .glidein/slurm/credential .glidein/slurm/current/lib/node.sh")
    hosts, run = pair
    deploy = run("deploy", "-l", ",".join(hosts))
    assert deploy.rc == 0, deploy
    changed = {"cm": 0, "slurm": 2}
    assert [deploy.recap[host]["changed"] for host in hosts] == [changed[host] for host in hosts], deploy
    slurm.check_output("test -s .glidein/slurm/credential -a -s .glidein/slurm/current/lib/node.sh")
    assert slurm.check_output("readlink .glidein/slurm/current") == version

    alice.submit()
    server.wait_for_jobs(1)
    cycle = run("cycle", "glidein.ops.status")
    assert cycle.rc == 0, cycle
    assert "1 (job " in cycle.output, cycle
    wait_for("a running glidein", lambda: slurm.check_output("squeue -h -u glidein -t R -o %i"))
