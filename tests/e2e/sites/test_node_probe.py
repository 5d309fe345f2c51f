# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of node_probe on real batch systems: one batch job per entry reports its compute nodes. Nothing is deployed."""

import contextlib
import json
import os
import signal
import subprocess

import prepare
import pytest
import yaml
from conftest import ROOT, STATE, bring_up, host, wait_for

CORE = {"cpus": 1, "memory_mb": 1024, "disk_mb": 2000}
SGE = {"account": "physics", "resources": {"memory": "m_slot", "disk": "scratch", "parallel_environment": "smp"}}


@pytest.fixture(autouse=True)
def clean():
    """Override the clean-up: the probe uses neither the pool nor the demand server."""


@pytest.fixture
def slurm_partition():
    """Return a function that sets the state of the partition `cpu`; open it afterwards."""
    root = host("slurm-root")

    def set_state(state):
        root.check_output(f"scontrol update PartitionName=cpu State={state}")

    yield set_state
    set_state("UP")
    host("slurm").check_output("scancel -u glidein")


def command(folder, site, scheduler, entries, patience_s):
    """Return the command of a play that probes a site; it writes the result to folder/nodes.json."""
    tasks = [
        {
            "glidein.ops.node_probe": {
                "scheduler": scheduler,
                "entries": entries,
                "addresses": ["cm:22"],
                "wait": patience_s,
            },
            "register": "probed",
        },
        {
            "ansible.builtin.copy": {"content": "{{ probed.nodes | to_json }}", "dest": str(folder / "nodes.json")},
            "delegate_to": "localhost",
            "connection": "local",
        },
    ]
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    hosts = {"all": {"hosts": {site: {"ansible_ssh_common_args": f"-F {STATE / 'ssh_config'}"}}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
    return ["ansible-playbook", "-i", str(folder / "hosts.yml"), str(folder / "play.yml")]


def probe(folder, site, scheduler, entries, patience_s=900):
    """Run the probe; return {entry: node}."""
    done = subprocess.run(
        command(folder, site, scheduler, entries, patience_s),
        capture_output=True, text=True, cwd=ROOT, timeout=1200, check=False, env=prepare.environment(),
    )  # fmt: skip
    assert done.returncode == 0, done
    assert left_on(site) == ""
    return json.loads((folder / "nodes.json").read_text())


def kill_tree(pid):
    """Kill a process and its children: ansible-playbook's workers have sessions of their own."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    os.kill(pid, signal.SIGKILL)
    for child in found.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            kill_tree(int(child))


def left_on(site):
    return host(site).check_output("ls -d ~/.glidein/node_probe.* 2>/dev/null; true")


def assert_reported(node):
    assert (node["state"], node["error"], node["gaps"]) == ("reported", None, []), node
    assert (node["outbound"], node["connections"]) == (True, [{"address": "cm:22", "error": ""}])
    assert node["attributes"]["OpSysAndVer"] == "Debian13"
    assert node["os"].startswith("Debian GNU/Linux 13")
    assert {"/var/tmp"} <= {item["path"] for item in node["scratch"]}  # noqa: S108
    assert node["memory_mb"] > 0
    assert node["cpus"] > 0


def test_slurm_reports_and_entries_fail_independently(tmp_path, slurm_partition):
    entries = {
        "cpu": {"queue": "cpu", "walltime": "1h", "shapes": {"large": dict(CORE, cpus=4), "core": CORE}},
        "nosuch": {"queue": "nosuch", "walltime": "1h", "shapes": {"core": CORE}},
        "wrong": {"queue": "cpu", "walltime": "soon", "shapes": {"core": CORE}},
    }
    nodes = probe(tmp_path, "slurm", "slurm", entries)
    assert_reported(nodes["cpu"])
    assert "Invalid partition name specified" in nodes["nosuch"]["error"]
    assert nodes["wrong"]["error"].startswith("glidein_entries.wrong.walltime: 'soon' is invalid")


def test_a_run_that_was_killed_is_replaced_by_the_next_one(tmp_path, slurm_partition):
    slurm = host("slurm")
    # Other tests may have left glideins.
    slurm.check_output("scancel -u glidein")
    wait_for("an empty queue", lambda: slurm.check_output("squeue -h -u glidein") == "")
    slurm_partition("DOWN")
    entries = {"cpu": {"queue": "cpu", "walltime": "1h", "shapes": {"core": CORE}}}
    with (tmp_path / "output").open("w") as output:
        play = subprocess.Popen(
            command(tmp_path, "slurm", "slurm", entries, 900),
            stdout=output, stderr=output, cwd=ROOT, env=prepare.environment(),
        )  # fmt: skip
        first = wait_for("a job", lambda: slurm.check_output("squeue -h -u glidein -o %i"))
        kill_tree(play.pid)
        play.wait()
    assert slurm.check_output("squeue -h -u glidein -o %i") == first
    assert left_on("slurm") != ""
    slurm_partition("UP")
    node = probe(tmp_path, "slurm", "slurm", entries)["cpu"]
    assert_reported(node)
    assert node["job_id"] != first
    wait_for("an empty queue", lambda: slurm.check_output("squeue -h -u glidein") == "")


def test_grid_engine_reports(tmp_path):
    bring_up("sge")
    entries = {"cpu": dict(SGE, queue="cpu.q", walltime="1h", shapes={"core": CORE})}
    entries["nosuch"] = dict(entries["cpu"], queue="nosuch.q")
    nodes = probe(tmp_path, "sge", "sge", entries)
    assert_reported(nodes["cpu"])
    assert any(item["variable"] == "TMPDIR" for item in nodes["cpu"]["scratch"])
    assert 'unknown queue "nosuch.q"' in nodes["nosuch"]["error"]


def test_htcondor_reports(tmp_path):
    bring_up("htc")
    entries = {"all": {"walltime": "1h", "shapes": {"core": dict(CORE, memory_mb=100, disk_mb=100)}}}
    assert_reported(probe(tmp_path, "htc", "htcondor", entries)["all"])


@pytest.mark.parametrize(("site", "scheduler", "queue"), [("pbs", "pbspro", "workq"), ("torque", "torque", "batch")])
def test_pbs_reports(tmp_path, site, scheduler, queue):
    bring_up(site)
    # A queue with a minimum refuses 10 minutes; the job then requests the walltime of the entry.
    root = host(f"{site}-root")
    root.check_output(f"qmgr -c 'set queue {queue} resources_min.walltime = 00:30:00'")
    entries = {"main": {"queue": queue, "walltime": "1h", "shapes": {"core": CORE}}}
    try:
        node = probe(tmp_path, site, scheduler, entries)["main"]
    finally:
        root.check_output(f"qmgr -c 'unset queue {queue} resources_min.walltime'")
    assert_reported(node)
    # PBS copies a job's output at its end. The probe waits for that, so that no output is undelivered.
    assert root.check_output("ls /var/spool/*/undelivered 2>/dev/null; true") == ""
