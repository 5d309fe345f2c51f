# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo: an idle job of a pool without machines becomes a glidein on Slurm, and runs; each step is printed.

Everything is real: `make demo` started the lab, and this runs the collection's playbooks over SSH, submits a job as a
scientist would, and queries HTCondor, Slurm and the demand server from outside.
"""

import json
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import requests
from lab_ssh import STATE, CommandError, ssh
from plays import shown

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / ".build" / "logs" / "demo.log"
STARTED = time.monotonic()
WIDTH = 100  # of a terminal

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
    """Print one line with the elapsed time, and indented lines below it; wrap details at the width of a terminal."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)
    for detail in details:
        for line in str(detail).rstrip().splitlines():
            for part in wrapped(line) or [""]:
                print(f"             {part}", flush=True)


def wrapped(line, ending=""):
    """Return the parts of a line that fit behind the elapsed time; `ending`: of all parts but the last."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    # An option stays with its value.
    kept = re.sub(r"( -[a-z]) ", r"\1\0", line)
    parts = textwrap.wrap(
        kept, WIDTH - 13 - len(ending), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    parts = [part.replace("\0", " ") for part in parts]
    return [part + ending for part in parts[:-1]] + parts[-1:]


def say_command(command):
    """Print a command that the demo runs."""
    say(*wrapped(f"$ {command}", " \\"))


def playbook(name, *arguments, inventories=("lab",)):
    """Run a playbook of the collection by its FQCN; print its plays as they start; return its output.

    `inventories`: names in the directory inventories. Raise DemoError with the end of the output if it fails.
    """
    options = [part for inventory in inventories for part in ("-i", f"inventories/{inventory}")]
    argv = ["ansible-playbook", *options, f"glidein.ops.{name}", *arguments]
    say_command(" ".join(argv))
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
        status = running.wait()
    if status:
        raise DemoError(
            f"glidein.ops.{name} ended with {status}; the whole output is in {LOG}:\n" + "\n".join(lines[-30:])
        )
    return "\n".join(lines)


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
    # `leased`: by the glideins of another site.
    count = group["count"] + group["leased"]
    return (
        f"{count} idle job(s) that each want {group['cpus']} cpu(s), {group['memory_mb']} MB memory, "
        f"{group['disk_mb']} MB disk, {group['gpus']} GPU(s); group {group['id']}"
    )


def glideins(batch_id="Slurm job"):
    """Return one line per glidein in the collector: slot, site/entry, batch job."""
    ask = (
        "condor_status -constraint 'is_glidein && PartitionableSlot' -format '%s' Name -format '  site %s' GLIDEIN_Site"
    )
    return ssh("cm", ask + f" -format '/%s' GLIDEIN_Entry -format '  {batch_id} %s\\n' GLIDEIN_BatchId")


def submit_job(more=""):
    """Submit a job as alice, and print it. more: lines of the submit file.

    Return (its cluster, seconds since the epoch before the submission).
    """
    say(f"Machines in the pool: {ssh('cm', 'condor_status -autoformat Name') or 'none'}")
    submitted = time.time()
    answer = ssh("cm-alice", "condor_submit -terse -", stdin=more + SUBMIT_FILE)
    cluster = answer.split(".")[0]
    say(
        f"Job {cluster}.0 submitted by alice, idle:",
        ssh("cm-alice", f"condor_q -nobatch {cluster} | grep '^ *{cluster}' | cut -c 1-87"),
    )
    return cluster, submitted


def run_cycle(server, submitted, *arguments, inventories=("lab",)):
    """Wait until the demand server knows the job; print the demand; run a cycle and print its plan."""
    groups = wait_for("the job in the demand server's answer", lambda: server.group_since(submitted), 60)
    say("Demand seen by the demand server:", *(group_line(group) for group in groups))
    say("One cycle: read demand and queue, plan, submit, report")
    say("The plan, and its reason:", shown(playbook("cycle", *arguments, inventories=inventories)))


def show_end_of_job(cluster, seconds=120):
    """Wait for the job's end; print its output. Raise DemoError unless a glidein ran it successfully."""

    def finished():
        return ssh("cm-alice", f"condor_history -limit 1 {cluster}.0 -autoformat JobStatus ExitCode LastRemoteHost")

    status, code, where = wait_for("the job's end", finished, seconds).split()
    if (status, code) != ("4", "0"):
        raise DemoError(f"job {cluster}.0 ended with status {status}, exit code {code}")
    output = ssh("cm-alice", f"cat demo.{cluster}.out")
    say(f"Job {cluster}.0 finished on {where}; its output came back:", output)
    if "glidein of site" not in output:
        raise DemoError("the job's output is not what it prints")


def demand_server():
    """Return a client of the lab's demand server."""
    try:
        url = (STATE / "demand_url").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise DemoError(f"the lab {STATE.name} does not run; start it: LAB={STATE.name} make lab") from None
    return DemandServer(url)


def show_commands(url, *commands):
    """Print the page's address, and commands to look around: ("ssh" or "ansible", the rest of the command)."""
    lab = "" if STATE.name == "glidein-lab" else f"LAB={STATE.name} "
    beginnings = {
        "ssh": f"ssh -F {STATE.relative_to(ROOT)}/ssh_config",
        "ansible": f"{lab}PATH=$PWD/.venv/bin:$PATH ansible-playbook",
    }
    say(
        f"Done. The status page: {url}/",
        "To look around:",
        *(part for program, rest in commands for part in wrapped(f"  {beginnings[program]} {rest}", " \\")),
        f"`{lab}make lab-down` removes the lab.",
    )


def show_demo():
    """Run the demo `make demo`."""
    server = demand_server()
    say("Deploying: HTCondor pool, demand server, glidein tarball, and the site `slurm`")
    playbook("deploy")

    if glideins():
        say("Glideins of an earlier run are still there: cancelling them")
        ssh("slurm", "scancel -u glidein")
        wait_for("a pool without machines", lambda: not glideins())
    cluster, submitted = submit_job()
    run_cycle(server, submitted)

    queue = ssh("slurm", "squeue -r -u glidein -o '%i %j %P %T %C %m %l'")
    say("In Slurm's queue (squeue):", queue)

    say("Registered in the collector (condor_status):", wait_for("a glidein in the collector", glideins))
    show_end_of_job(cluster)

    show_commands(
        server.url,
        ("ssh", "cm condor_status       # the pool"),
        ("ssh", "cm-alice condor_q      # the scientist's jobs"),
        ("ssh", "slurm squeue           # the cluster"),
        ("ansible", "glidein.ops.status"),
    )


def main(show):
    """Run a demo; exit with its error, if it fails."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.write_text("", encoding="utf-8")
    failures = (DemoError, CommandError, requests.RequestException, subprocess.TimeoutExpired, json.JSONDecodeError)
    try:
        show()
    except (*failures, OSError) as error:
        sys.exit(f"demo: {error}")


if __name__ == "__main__":
    main(show_demo)
