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
from site_deployment import deploy_sites

COMMANDS = {
    "pbspro": ("qsub", "qstat", "qdel"),
    "torque": ("qsub", "qstat", "qdel"),
    "lsf": ("bsub", "bjobs", "bkill", "lsid", "bparams"),
}
HOME = "/home/glidein/stand-ins"


def command(system, name):
    """Return the argument list that runs a stand-in, with two slots for jobs."""
    return ["/usr/bin/env", "FAKE_BATCH_RUN=1", "FAKE_BATCH_SLOTS=2", f"{HOME}/{system}/bin/{name}"]


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
                "idle_timeout": "20m",
                "idle_after_job": "10s",
                "shapes": {"core": {"cpus": 1, "memory_mb": 1024, "disk_mb": 500}},
            }
        },
    }


@pytest.fixture(scope="module")
def inventory(slurm, tmp_path_factory):
    """Return the lab's inventory with three more sites, deployed; remove them afterwards."""
    slurm.check_output(f"rm -rf {HOME} {' '.join(f'~/.glidein/{system}' for system in COMMANDS)} && mkdir {HOME}")
    for name in ("fake_queue.py", "fake_pbs.py", "fake_lsf.py"):
        text = (ROOT / "tests" / "unit" / "support" / name).read_text()
        slurm.check_output(f"cat > {HOME}/{name} <<'END-OF-PROGRAM'\n{text}END-OF-PROGRAM")
    for system in COMMANDS:
        program = "fake_lsf.py" if system == "lsf" else "fake_pbs.py"
        slurm.check_output(f"python3 {HOME}/{program} install {HOME}/{system} {system}")
    inventories = add_sites(tmp_path_factory.mktemp("inventory"), {name: variables(name) for name in COMMANDS})
    deploy_sites(inventories, *COMMANDS)
    yield inventories
    # (The brackets keep the pattern from matching the shell that runs it.)
    slurm.check_output("pkill -f '[s]tand-ins'; pkill -f '[.]glidein/'; true")
    slurm.check_output(f"rm -rf {HOME}")
    for system in COMMANDS:
        slurm.check_output(f"rm -rf ~/.glidein/{system}")


def run(name, inventory):
    """Run a playbook for all three sites; assert that it succeeds."""
    done = playbook(name, "-l", ",".join(COMMANDS), inventory=inventory)
    assert done.rc == 0, done
    return done


def counted(inventory):
    """Return {site: [queued, running]} of the glideins, as the playbook `status` shows them."""
    done = run("status", inventory)
    rows = re.findall(r"^(\w+) +main +core +(\d+) +(\d+)", done.summary, re.MULTILINE)
    return {site: [int(queued), int(running)] for site, queued, running in rows}


def test_idle_jobs_become_glideins_and_run_and_queued_ones_are_withdrawn(
    inventory, alice, server, slurm, cm, finish_file
):
    clusters = {
        system: alice.submit(count=4, seconds=finish_file.seconds, requirements=f'TARGET.GLIDEIN_Site == "{system}"')
        for system in COMMANDS
    }
    server.wait_for_jobs(12)
    first = run("cycle", inventory)
    assert {system: first.recap[system]["changed"] for system in COMMANDS} == dict.fromkeys(COMMANDS, 1), first
    running = "condor_q -all -constraint 'JobStatus == 2' -af ClusterId"
    two_each = sorted([*clusters.values()] * 2)
    wait_for("two running jobs of each site", lambda: sorted(cm.check_output(running).split()) == two_each)
    assert counted(inventory) == dict.fromkeys(COMMANDS, [2, 2])

    cm.check_output("condor_rm -all -constraint 'JobStatus == 1'")
    server.wait_for_jobs(0)
    run("cycle", inventory)
    assert counted(inventory) == dict.fromkeys(COMMANDS, [0, 2])

    finish_file.create()
    ended = "condor_history {} -constraint 'JobStatus == 4 && ExitCode == 0' -limit 2 -af ProcId"
    for system, cluster in clusters.items():
        command = ended.format(cluster)
        processes = wait_for("two ended jobs", lambda command=command: _if(2, alice.host.check_output(command).split()))
        for process in processes:
            assert f'"{system}"' in alice.host.check_output(f"cat job.{cluster}.{process}.out")
    # The stand-ins of PBS and Torque give each job a TMPDIR below tmp, as pbs_mom does below /var/tmp.
    left = f"ls -d /tmp/glidein.* {HOME}/*/tmp/* 2>/dev/null; pgrep -u glidein condor; true"
    wait_for("nothing left of the glideins", lambda: not slurm.check_output(left))
    for system in COMMANDS:
        logs = f"tail -qn 1 ~/.glidein/{system}/log/*.out* | grep -c 'glidein: ended because no job'"
        assert slurm.check_output(logs) == "2"


def _if(count, words):
    return words if len(words) == count else None


def test_a_probe_finds_its_log(inventory):
    done = run("probe", inventory)
    assert done.output.count("glidein: registered with") == len(COMMANDS), done
