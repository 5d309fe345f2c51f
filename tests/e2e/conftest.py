# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the lab for the end-to-end tests: hosts over SSH, playbooks by their FQCN, the demand server over HTTP.

A scenario deploys before its tests run. Each test begins with a deployed lab, without jobs and without glideins in
Slurm. The central manager may still have sites of an earlier test: the next deployment removes them.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import prepare
import pytest
import requests
import testinfra
from finish_file import FinishFile
from plays import shown

ROOT = Path(__file__).resolve().parents[2]

STATE = ROOT / ".lab" / (os.environ.get("LAB") or "glidein-lab")
INVENTORY = ROOT / "inventories" / "lab"
# Exit status of lab.py if the source archive of a host cannot be read.
UNAVAILABLE = 69
# Sites with other batch systems, whose hosts the tests that need them bring up.
BATCH_INVENTORY = ROOT / "inventories" / "lab-batch"

GLIDEINS = 'MyType = "Query"\nTargetType = "Machine"\nRequirements = is_glidein =?= true\n'
SLEEP_JOB = """\
executable = /bin/sh
arguments = "-c 'hostname; sed -n s/^GLIDEIN_Site.=.//p $_CONDOR_MACHINE_AD; sleep {seconds}'"
output = job.$(Cluster).$(Process).out
error = job.$(Cluster).$(Process).err
log = job.$(Cluster).log
request_cpus = {cpus}
request_memory = {memory_mb}MB
request_disk = {disk_mb}MB
requirements = {requirements}
queue {count}
"""


def wait_for(what, look, seconds=300):
    """Call `look` until its result is true, and return that; fail the test after `seconds`, which only end a hang.

    The interval grows with the elapsed time, because each call costs time on a busy machine.
    """
    began = time.monotonic()
    deadline = began + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not seen within {seconds} s; last seen: {found!r}"
        time.sleep(min(2.0, max(0.5, (time.monotonic() - began) / 10)))


def host(alias, sudo=False):
    """Return a host of the lab as testinfra's object."""
    return testinfra.get_host(f"ssh://{alias}", ssh_config=str(STATE / "ssh_config"), sudo=sudo)


def no_glideins(slurm):
    """Cancel Slurm's queued and running jobs, and wait until they have ended: until then they write logs."""
    slurm.check_output("scancel -u glidein")
    wait_for("the end of all glideins", lambda: slurm.check_output("squeue -h -u glidein") == "")


def bring_up(name):
    """Start a host of the lab that is not among the usual ones; this takes seconds if its image exists.

    Skip the tests that need it, with the reason, if its source archive cannot be read.
    """
    command = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "up", name]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=3600, check=False)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done


class Play:
    """A finished ansible-playbook."""

    def __init__(self, command, done):
        self.command = " ".join(command)
        self.rc = done.returncode
        self.output = done.stdout

    def __repr__(self):
        return f"$ {self.command}\n{self.output}\n[rc={self.rc}]"

    @property
    def recap(self):
        """Return {host: {"ok": n, "changed": n, ...}}."""
        lines = self.output.split("PLAY RECAP", 1)[1].splitlines()[1:]
        rows = (line.split(":", 1) for line in lines if ":" in line)
        return {
            name.strip(): {key: int(value) for key, value in (pair.split("=") for pair in counts.split())}
            for name, counts in rows
        }

    @property
    def summary(self):
        """Return the output of the playbook's last `Show ...` task."""
        return shown(self.output)


def playbook(name, *arguments, inventory=(INVENTORY,), env=None, folder=ROOT):
    """Run a playbook of the collection by its FQCN in a folder.

    Without `env`, it uses the tests' own ansible-core.
    """
    command = ["ansible-playbook", *(part for path in inventory for part in ("-i", str(path))), f"glidein.ops.{name}"]
    command += arguments
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        timeout=3600,  # only ends a hang
        stdin=subprocess.DEVNULL,
        check=False,
        env={**(env or prepare.environment()), "PWD": str(folder)},
    )
    return Play(command, done)


@pytest.fixture(scope="session")
def cm():
    """Return the central manager, as its administrator."""
    return host("cm", sudo=True)


@pytest.fixture(scope="session")
def slurm():
    """Return the login node, as the user who submits glideins."""
    return host("slurm")


@pytest.fixture(scope="session")
def slurm_root():
    """Return the login node, as its administrator, who can break it for a test."""
    return host("slurm-root")


@pytest.fixture(scope="session")
def alice():
    """Return the access point, as the scientist alice."""
    return Scientist(host("cm-alice"))


@pytest.fixture(scope="session")
def server():
    return Server((STATE / "demand_url").read_text(encoding="ascii").strip())


@pytest.fixture(autouse=True)
def clean(cm, slurm, server):
    """Start each test without jobs, glideins and leases, after the demand server has read that.

    Deploy first if an earlier test has removed the deployment.
    """
    if not server.answers():
        deploy = playbook("deploy")
        assert deploy.rc == 0, deploy
    clean_pool(cm, slurm, server)


def clean_pool(cm, slurm, server):
    """Remove all jobs, glideins and leases, and wait until the demand server has read that."""
    cm.check_output("condor_rm -all >/dev/null 2>&1; true")
    forced = time.monotonic() + 20

    def no_job():
        # If a test has killed the glidein of a job, the shadow waits for it until the job's lease ends, in 40 min.
        if time.monotonic() > forced:
            cm.check_output("condor_rm -forcex -all >/dev/null 2>&1; true")
        return not cm.check_output("condor_q -all -af ClusterId")

    wait_for("an empty job queue", no_job)
    slurm.check_output("scancel -u glidein")
    wait_for("an empty Slurm queue", lambda: not slurm.check_output("squeue -h -u glidein"))
    stale = time.monotonic() + 60

    def no_glidein():
        # On a busy machine, a startd's last update of a slot may arrive after the slot's end; the ad then stays 15 min.
        if time.monotonic() > stale:
            cm.check_output(f"condor_advertise INVALIDATE_STARTD_ADS - <<'END'\n{GLIDEINS}END")
        return not cm.check_output("condor_status -constraint is_glidein -af Name")

    wait_for("a pool without glideins", no_glidein)
    now = time.time()
    wait_for("a reading without jobs", lambda: not server.groups_since(now) and not server.registered())
    server.release_leases()


class Scientist:
    """A scientist who submits jobs and reads their results."""

    def __init__(self, machine):
        self.host = machine

    def submit(self, count=1, seconds=0, cpus=1, memory_mb=100, disk_mb=10, requirements="True", options=""):
        """Queue jobs; return the cluster id. options: of condor_submit."""
        text = SLEEP_JOB.format(
            count=count, seconds=seconds, cpus=cpus, memory_mb=memory_mb, disk_mb=disk_mb, requirements=requirements
        )
        self.host.check_output("cat > job.sub <<'END'\n" + text + "END")
        return self.host.check_output(f"condor_submit -terse {options} job.sub").split(".")[0]

    def outputs(self, cluster, count=1):
        """Wait until all jobs of a cluster have succeeded; return the output of each."""
        ended = f"condor_history {cluster} -limit {count} -af JobStatus ExitCode"
        wait_for(f"the end of cluster {cluster}", lambda: self.host.check_output(ended).splitlines() == ["4 0"] * count)
        return [self.host.check_output(f"cat job.{cluster}.{process}.out") for process in range(count)]


class Server:
    """A client of the demand server."""

    def __init__(self, url):
        self.url = url

    def call(self, method, params=None, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = {"jsonrpc": "2.0", "method": method, "params": params or {}, "id": 1}
        return requests.post(f"{self.url}/jsonrpc", json=request, headers=headers, timeout=60).json()

    def get(self, path, **more):
        return requests.get(self.url + path, timeout=60, **more)

    def answers(self):
        """Return True if the server responds, even with an error."""
        try:
            return bool(self.get("/healthz").status_code)
        except requests.exceptions.RequestException:
            return False

    def groups_since(self, since):
        """Return the demand groups of a reading made after `since` (epoch seconds), or None before there is one."""
        demand = self.call("get_demand")["result"]
        return demand["groups"] if demand["as_of"] and demand["as_of"] > since else [None]

    def supply(self):
        return self.call("get_supply")["result"]

    def release_leases(self):
        """Release the leases of earlier tests' sites, which would include equal jobs of the next tests."""
        known = {(entry["site"], entry["entry"]) for entry in self.supply()["entries"]}
        for path in (STATE / "demand_tokens").iterdir():
            entries = {entry: {} for site, entry in known if site == path.name}
            if entries:
                params = {"site": path.name, "entries": entries, "ttl_s": 60}
                self.call("lease", params, token=path.read_text(encoding="ascii").strip())

    def registered(self):
        """Return the number of registered glideins; the supply also has entries with none."""
        return sum(entry["registered"] for entry in self.supply()["entries"])

    def wait_for_jobs(self, count):
        """Wait until a reading shows so many idle jobs."""
        wait_for(
            f"{count} idle jobs in the demand",
            lambda: (
                # What a site has claimed is still idle.
                sum(group["count"] + group["leased"] for group in self.call("get_demand")["result"]["groups"]) == count
            ),
        )


def add_sites(folder, sites):
    """Write an inventory with sites, {host name: variables}, to add to the lab's; return the inventories to use."""
    # `inventory_dir`, from which the lab's inventory finds .lab, is another one for these hosts.
    hosts = {name: {"lab_state": str(STATE), **variables} for name, variables in sites.items()}
    path = folder / "more.json"
    path.write_text(json.dumps({"all": {"children": {"glidein_sites": {"hosts": hosts}}}}), encoding="utf-8")
    return (INVENTORY, path)


@pytest.fixture
def finish_file(slurm):
    """Return the file for which jobs wait."""
    with FinishFile(slurm) as file:
        yield file


@pytest.fixture
def more_sites(tmp_path):
    """Return a function like add_sites, with a folder of its own."""
    return lambda sites: add_sites(tmp_path, sites)
