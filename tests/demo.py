# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo: an idle job of a pool without machines becomes a glidein on Slurm, and runs; each step is printed.

Everything is real: `make demo` started the lab, and this runs the collection's playbooks over SSH, submits a job as a
scientist would, and queries HTCondor, Slurm and the demand server from outside.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import requests
from plays import shown

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".lab" / (os.environ.get("LAB") or "glidein-lab")
LOG = ROOT / ".build" / "logs" / "demo.log"
STARTED = time.monotonic()

# Back quotes, because condor_submit would take $(...) for one of its own macros.
SUBMIT_FILE = """\
executable = /bin/sh
arguments = "-c 'echo Hello from `hostname`, in a glidein of site `sed -n s/^GLIDEIN_Site.=.//p $_CONDOR_MACHINE_AD`'"
output = demo.$(Cluster).out
error = demo.$(Cluster).err
log = demo.$(Cluster).log
request_cpus = 1
request_memory = 256MB
request_disk = 100MB
queue
"""


class DemoError(Exception):
    """A failed step; the message names the step and has the output."""


def say(text, *details):
    """Print one line with the elapsed time, and indented lines below it."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)
    for detail in details:
        for line in str(detail).rstrip().splitlines():
            print(f"             {line}", flush=True)


def ssh(alias, command, stdin=None):
    """Return the output of a command on a host of the lab; raise DemoError with its status and stderr if it fails."""
    argv = ["ssh", "-F", str(STATE / "ssh_config"), "-o", "BatchMode=yes", alias, command]
    done = subprocess.run(argv, input=stdin or "", capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise DemoError(f"`{command}` on {alias} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def playbook(name, *arguments, show=()):
    """Run a playbook of the collection by its FQCN; print its plays as they start; return the lines of its output.

    `show`: regular expressions of further lines to print. Raise DemoError with the end of the output if it fails.
    """
    argv = ["ansible-playbook", "-i", str(ROOT / "inventories" / "lab"), f"glidein.ops.{name}", *arguments]
    say("$ ansible-playbook -i inventories/lab " + " ".join(argv[3:]))
    lines = []
    with LOG.open("a", encoding="utf-8") as log:
        running = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        for line in running.stdout:
            log.write(line)
            lines.append(line.rstrip("\n"))
            play = re.match(r"PLAY \[(.+)\]", line)
            if play:
                say(f"  {play.group(1)}")
            elif any(re.search(pattern, line) for pattern in show):
                say("  " + line.strip())
        status = running.wait()
    if status:
        raise DemoError(
            f"glidein.ops.{name} ended with {status}; the whole output is in {LOG}:\n" + "\n".join(lines[-30:])
        )
    return lines


def wait_for(what, look, seconds=120):
    """Call `look` twice a second until its result is true; return that. Raise DemoError after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.5)
    raise DemoError(f"{what}: not seen within {seconds} s")


class DemandServer:
    """A client of the demand server."""

    def __init__(self, url):
        self.url = url

    def call(self, method):
        reply = requests.post(f"{self.url}/jsonrpc", json={"jsonrpc": "2.0", "method": method, "id": 1}, timeout=10)
        reply.raise_for_status()
        return reply.json()["result"]

    def group_since(self, since):
        """Return the demand groups of a reading made after `since` (epoch seconds), or None."""
        demand = self.call("get_demand")
        return demand["groups"] if demand["as_of"] and demand["as_of"] > since and demand["groups"] else None


def group_line(group):
    return (
        f"{group['count']} idle job(s) that each want {group['cpus']} cpu(s), {group['memory_mb']} MB memory, "
        f"{group['disk_mb']} MB disk, {group['gpus']} GPU(s); group {group['id']}"
    )


def glideins():
    """Return one line per glidein in the collector: slot, site/entry, batch job."""
    ask = (
        "condor_status -constraint 'is_glidein && PartitionableSlot' -format '%s' Name -format '  site %s' GLIDEIN_Site"
    )
    return ssh("cm", ask + " -format '/%s' GLIDEIN_Entry -format '  Slurm job %s\\n' GLIDEIN_BatchId")


def main():
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.write_text("", encoding="utf-8")
    url = (STATE / "demand_url").read_text(encoding="ascii").strip()
    server = DemandServer(url)

    say("Deploying: HTCondor pool, demand server, glidein tarball, and the site `slurm`")
    playbook("deploy")

    if glideins():
        say("Glideins of an earlier run are still there: cancelling them")
        ssh("slurm", "scancel -u glidein")
        wait_for("a pool without machines", lambda: not glideins())
    say(f"Machines in the pool: {ssh('cm', 'condor_status -autoformat Name') or 'none'}")
    submitted = time.time()
    answer = ssh("cm-alice", "condor_submit -terse -", stdin=SUBMIT_FILE)
    cluster = answer.split(".")[0]
    say(
        f"Job {cluster}.0 submitted by alice, idle:",
        ssh("cm-alice", f"condor_q -nobatch {cluster} | grep '^ *{cluster}' | cut -c 1-100"),
    )

    groups = wait_for("the job in the demand server's answer", lambda: server.group_since(submitted), 60)
    say("Demand seen by the demand server:", *(group_line(group) for group in groups))

    say("One cycle: read demand and queue, plan, submit, report")
    lines = playbook("cycle")
    say("The plan, and its reason:", shown("\n".join(lines)))

    queue = ssh("slurm", "squeue -r -u glidein -o '%i %j %P %T %C %m %l'")
    say("In Slurm's queue (squeue):", queue)

    say("Registered in the collector (condor_status):", wait_for("a glidein in the collector", glideins))

    def finished():
        return ssh("cm-alice", f"condor_history -limit 1 {cluster}.0 -autoformat JobStatus ExitCode LastRemoteHost")

    status, code, where = wait_for("the job's end", finished).split()
    if (status, code) != ("4", "0"):
        raise DemoError(f"job {cluster}.0 ended with status {status}, exit code {code}")
    output = ssh("cm-alice", f"cat demo.{cluster}.out")
    say(f"Job {cluster}.0 finished on {where}; its output came back:", output)
    if "glidein of site" not in output:
        raise DemoError("the job's output is not what it prints")

    folder = STATE.relative_to(ROOT)
    lab = "" if STATE.name == "glidein-lab" else f"LAB={STATE.name} "
    say(
        f"Done. The status page: {url}/",
        "To look around:",
        f"  ssh -F {folder}/ssh_config cm condor_status          # the pool (cm-alice: the scientist)",
        f"  ssh -F {folder}/ssh_config slurm squeue              # the cluster",
        f"  {lab}PATH=$PWD/.venv/bin:$PATH ansible-playbook glidein.ops.status",
        f"`{lab}make lab-down` removes the lab.",
    )


if __name__ == "__main__":
    try:
        main()
    except (DemoError, requests.RequestException, subprocess.TimeoutExpired, json.JSONDecodeError, OSError) as error:
        sys.exit(f"demo: {error}")
