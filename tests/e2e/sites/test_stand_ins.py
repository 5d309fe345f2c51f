# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the whole cycle with stand-ins for PBS Professional, Torque and LSF; test_pbs.py has two real ones.

Stand-ins for their commands, as strict as the recorded real ones, are on the lab's login node and run the batch scripts
that they get.
"""

import re

import pytest
from conftest import ROOT, add_sites, playbook, wait_for

COMMANDS = {
    "pbspro": ("qsub", "qstat", "qdel"),
    "torque": ("qsub", "qstat", "qdel"),
    "lsf": ("bsub", "bjobs", "bkill", "lsid", "bparams"),
}
# Each site has jobs of its own group, because one site's lease keeps the other sites from ordering for that group.
MEMORY_MB = {"pbspro": 300, "torque": 500, "lsf": 700}
HOME = "/home/glidein/stand-ins"


def command(system, name):
    """Return the argument list that runs a stand-in, with three slots for jobs."""
    return ["/usr/bin/env", "FAKE_BATCH_RUN=1", "FAKE_BATCH_SLOTS=3", f"{HOME}/{system}/bin/{name}"]


def variables(system):
    """Return the inventory's variables of a site with this batch system."""
    return {
        "ansible_host": "slurm",
        "glidein_site": system,
        "glidein_scheduler": system,
        "glidein_scheduler_options": {"commands": {name: command(system, name) for name in COMMANDS[system]}},
        "glidein_entries": {
            "main": {
                "queue": None,
                "walltime": "1h",
                "idle_timeout": "15s",
                "shapes": {"core": {"cpus": 1, "memory_mb": 1024, "disk_mb": 500}},
            }
        },
    }


@pytest.fixture(scope="module")
def inventory(slurm, tmp_path_factory):
    """Return the lab's inventory with three more sites, deployed; remove them afterwards."""
    slurm.check_output(f"mkdir -p {HOME}")
    for system in COMMANDS:
        source = ROOT / "tests" / "unit" / "support" / f"fake_{system}.py"
        program = f"{HOME}/{source.name}"
        slurm.check_output(f"cat > {program} <<'END-OF-PROGRAM'\n{source.read_text()}END-OF-PROGRAM")
        slurm.check_output(f"python3 {program} install {HOME}/{system}")
    inventories = add_sites(tmp_path_factory.mktemp("inventory"), {name: variables(name) for name in COMMANDS})
    done = playbook("deploy", "-l", "cm," + ",".join(COMMANDS), inventory=inventories)
    assert done.rc == 0, done
    yield inventories
    # (The brackets keep the pattern from matching the shell that runs it.)
    slurm.check_output("pkill -f '[s]tand-ins'; pkill -f '[.]glidein/'; true")
    slurm.check_output(f"rm -rf {HOME}")
    for system in COMMANDS:
        slurm.check_output(f"rm -rf ~/.glidein/{system}")


@pytest.mark.parametrize("system", sorted(COMMANDS))
def test_idle_jobs_become_glideins_and_run(system, inventory, alice, server, slurm):
    cluster = alice.submit(count=3, memory_mb=MEMORY_MB[system])
    server.wait_for_jobs(3)

    first = playbook("cycle", "-l", system, inventory=inventory)
    assert first.rc == 0, first
    assert first.recap[system]["changed"] == 1, first
    again = playbook("cycle", "-l", system, inventory=inventory)
    assert again.recap[system]["changed"] == 0, again

    assert all(f'"{system}"' in printed for printed in alice.outputs(cluster, 3))
    wait_for(f"an empty queue of {system}", lambda: counted(system, inventory) == [0, 0], 90)
    logs = slurm.check_output(f"tail -qn 1 ~/.glidein/{system}/log/*.out* | grep -c 'glidein: ended because no job'")
    assert int(logs) >= 1
    # The stand-ins of PBS and Torque give each job a TMPDIR below tmp, as pbs_mom does below /var/tmp.
    assert not slurm.check_output(f"ls -d /tmp/glidein.* {HOME}/*/tmp/* 2>/dev/null; true")


@pytest.mark.parametrize("system", sorted(COMMANDS))
def test_a_probe_finds_its_log(system, inventory):
    done = playbook("probe", "-l", system, inventory=inventory)
    assert done.rc == 0, done
    assert "glidein: registered with" in done.output


@pytest.mark.parametrize("system", sorted(COMMANDS))
def test_queued_glideins_are_withdrawn_when_the_jobs_are_removed(system, inventory, alice, server, cm):
    alice.submit(count=5, seconds=60, memory_mb=MEMORY_MB[system])
    server.wait_for_jobs(5)
    assert playbook("cycle", "-l", system, inventory=inventory).rc == 0
    wait_for("three of five that run", lambda: counted(system, inventory) == [2, 3])
    cm.check_output("condor_rm -all")
    server.wait_for_jobs(0)

    def withdrawn():
        done = playbook("cycle", "-l", system, inventory=inventory)
        assert done.rc == 0, done
        return counted(system, inventory)[0] == 0

    wait_for("two that are cancelled", withdrawn, 90)


def counted(system, inventory):
    """Return [queued, running] glideins of a site, as the playbook `status` shows them."""
    done = playbook("status", "-l", system, inventory=inventory)
    row = re.search(rf"^{system} +main +core +(\d+) +(\d+)", done.summary, re.MULTILINE)
    assert row, done
    return [int(number) for number in row.groups()]
