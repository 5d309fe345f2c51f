# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cycle over 50 sites of two entries each, with the settings of inventories/example/ansible.cfg.

A site is a user of the lab's login node: each has its own SSH session and its own token for the demand server, and
queries the real Slurm. Controller, login node and pool share this machine's processors, so the seconds are those of all
parts together. Two runs of `ping` on the same hosts, the minimum for two module runs, show the part of Ansible and of
the machine.

cold: no SSH connection is open, and every site gets glideins. warm: the connections are open and the glideins are
present, so that the cycle changes nothing.
"""

import itertools
import json
import re
import resource
import shlex
import statistics
import subprocess
import time
from pathlib import Path

import bench_lab
import queue_of_jobs
from results import Goal
from simulation import checkout

GOALS = [
    Goal("warm_seconds", "<=", 30),
    # SSH commands per site and cycle, each of which is a module run.
    Goal("remote_runs_cold", "<=", 2),
    Goal("remote_runs_warm", "<=", 2),
]
SIZES = (5, 15, 50)
WARM_RUNS = 3
CONFIG = bench_lab.ROOT / "inventories" / "example" / "ansible.cfg"
GLIDEINS = 2  # for each entry
JOBS = f"""\
universe = vanilla
executable = /usr/bin/python3
transfer_executable = false
request_cpus = 1
request_memory = 500MB
request_disk = 100MB
queue {4 * max(SIZES) * GLIDEINS}
"""
ENTRY = {
    "queue": "cpu",
    "walltime": "1h",
    "shapes": {"core": {"cpus": 1, "memory_mb": 1000, "disk_mb": 1000}},
    "limits": {"queued": GLIDEINS, "total": GLIDEINS, "per_cycle": GLIDEINS},
    "directives": ["--begin=now+2hours"],  # no glidein starts during the bench
}
READ_DEMAND = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:11001/demand').read().decode())"
PINGS = """\
- hosts: glidein_sites
  gather_facts: false
  tasks:
    - ansible.builtin.ping:
    - ansible.builtin.ping:
"""


def measure(lab):
    """Return the numbers of GOALS, seconds by number of sites, the time of two pings, and the parts of a warm cycle."""
    lab.ensure()
    controller = Controller(lab)
    controller.prepare()
    found, profile = {}, []
    cold_runs, warm_runs = controller.remote_runs(min(SIZES))
    for sites in SIZES:
        controller.reset()
        cold = controller.cycle(sites, expected=2 * GLIDEINS * sites)
        warm = [controller.cycle(sites, expected=0) for _run in range(WARM_RUNS)]
        lab.say(f"{sites} sites: cold {cold.seconds:.1f} s, warm {', '.join(f'{run.seconds:.1f}' for run in warm)} s")
        found[f"cold_seconds_{sites}"] = round(cold.seconds, 1)
        found[f"warm_seconds_{sites}"] = round(statistics.median(run.seconds for run in warm), 1)
        profile = sorted(warm, key=lambda run: run.seconds)[len(warm) // 2]
    largest = max(SIZES)
    pings = controller.pings(largest)
    found["pings_seconds"] = round(pings.seconds, 1)
    parts = {**where(controller, profile, largest, warm_runs), "pings_cpu_s": pings.controller_s + pings.login_node_s}
    controller.reset()
    for name, seconds in profile.tasks.items():
        lab.say(f"  {seconds:5.1f} s  {name}")
    return {
        "warm_seconds": found.pop(f"warm_seconds_{largest}"),
        "cold_seconds": found.pop(f"cold_seconds_{largest}"),
        "remote_runs_cold": cold_runs,
        "remote_runs_warm": warm_runs,
        **found,
        **{key: round(value, 1) for key, value in parts.items()},
    }


def where(controller, run, sites, calls):
    """Return a cycle's processor seconds: {"controller_cpu_s", "ssh_cpu_s", "remote_python_cpu_s", "batch_cpu_s"}.

    calls: module runs per site, each of which counts the queue once. The times of SSH (both ends) and of the batch
    commands (with slurmctld) are measured with the same number of them alone; the remote Python's time is the rest of
    the login node's.
    """
    ssh = controller.sessions(sites, "true")
    batch = controller.sessions(sites, count_command())
    ssh_s = calls * (ssh.controller_s + ssh.login_node_s)
    batch_s = calls * (batch.login_node_s - ssh.login_node_s)
    return {
        "controller_cpu_s": run.controller_s - calls * ssh.controller_s,
        "ssh_cpu_s": ssh_s,
        "remote_python_cpu_s": run.login_node_s - calls * ssh.login_node_s - batch_s,
        "batch_cpu_s": batch_s,
    }


def count_command():
    """Return the shell command that counts a user's glideins, with the arguments of queue_info and glideins."""
    checkout.importable()
    from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
    from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site

    entries = normalise_site("lab", "site", {"one": ENTRY})["entries"]
    return shlex.join(make_scheduler("slurm", entries=entries, environ={}).list_argv("me")).replace(
        " me ", ' "$(id -un)" '
    )


class Run:
    """The cost of a command: wall seconds, processor seconds of its processes and the login node, seconds by task."""

    def __init__(self, seconds, controller_s, login_node_s, lines=()):
        self.seconds = seconds
        self.controller_s = controller_s
        self.login_node_s = login_node_s
        self.output = "".join(line for _at, line in lines)
        self.tasks = task_seconds(lines, seconds)


def task_seconds(lines, end):
    """Return {task: seconds} of ansible-playbook's lines [(seconds since the start, line)], longest first."""
    marks = [(0.0, "before the first task")]
    marks += [(at, line.split("[", 1)[1].split("]")[0]) for at, line in lines if line.startswith("TASK [")]
    marks += [(at, "recap and end") for at, line in lines if line.startswith("PLAY RECAP")] + [(end, "")]
    spent = {}
    for (began, name), (ended, _next) in itertools.pairwise(marks):
        spent[name] = spent.get(name, 0) + ended - began
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


class Controller:
    """A controller that runs playbooks over the sites of the bench and measures their cost."""

    def __init__(self, lab):
        self.lab = lab
        self.folder = lab.state / "cycle"
        self.inventory = self.folder / "sites.json"
        self.ssh = ["ssh", "-F", str(lab.state / "ssh_config"), "-o", "BatchMode=yes"]
        self.sockets = self.folder / "cp"
        self.environment = {
            **lab.environment, "ANSIBLE_CONFIG": str(CONFIG), "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.sockets),
            "ANSIBLE_INVENTORY": "", "ANSIBLE_NOCOLOR": "1",
        }  # fmt: skip

    def prepare(self):
        """Prepare the inventory, users with their sites' directories, tokens on the server, and idle jobs."""
        lab = self.lab
        self.folder.mkdir(exist_ok=True, mode=0o700)
        self.inventory.write_text(json.dumps(inventory(str(lab.state))), encoding="utf-8")
        lab.say("deploying one site, and the tokens of all")
        lab.local(["ansible-playbook", "-i", "inventories/lab", "-i", str(self.inventory), "glidein.ops.deploy",
                   "--limit", "cm,slurm"], 900)  # fmt: skip
        names = [user(number) for number in range(1, max(SIZES) + 1)]
        lab.remote("pilots", {"users": names, "like": "glidein", "site": "slurm"}, alias="slurm-root", sudo=False)
        queue_of_jobs.empty(lab)
        lab.remote("submit", {"submissions": {"bench0": [JOBS]}})
        self.wait_for_demand()

    def wait_for_demand(self):
        """Wait until the server's demand is that of the jobs."""
        wanted = int(JOBS.split()[-1])
        deadline = time.monotonic() + 60
        while True:
            demand = json.loads(self.lab.run("cm", f'python3 -c "{READ_DEMAND}"'))
            seen = sum(group["count"] + group["leased"] for group in demand["groups"])
            if seen == wanted:
                return
            if time.monotonic() > deadline:
                raise bench_lab.BenchError(f"the demand server sees {seen} idle jobs instead of {wanted}")
            time.sleep(1)

    def reset(self):
        """Close the SSH connections and empty the queue."""
        if self.sockets.is_dir():
            for socket in self.sockets.iterdir():
                subprocess.run([*self.ssh, "-O", "exit", "-o", f"ControlPath={socket}", "slurm"],
                               capture_output=True, timeout=30, check=False)  # fmt: skip
        self.lab.run("slurm-root", "scancel --state=PENDING; i=0; while squeue -h | grep -q .; "
                     "do sleep 1; i=$((i+1)); [ $i -lt 60 ] || exit 1; done")  # fmt: skip

    def remote_runs(self, sites):
        """Return the SSH commands per site of a cold cycle and of a warm one, counted in Ansible's verbose output."""
        self.reset()
        both = [self.cycle(sites, expected, "-vvv") for expected in (2 * GLIDEINS * sites, 0)]
        return tuple(run.output.count("> SSH: EXEC ssh ") / sites for run in both)

    def cycle(self, sites, expected, *more):
        """Run the cycle over the first sites; raise BenchError on problems or another number of glideins."""
        run = self.playbook("glidein.ops.cycle", sites, *more)
        submitted = sum(map(int, re.findall(r"^ +site\S+ .* (\d+) \(job ", run.output, re.MULTILINE)))
        if submitted != expected or "PROBLEMS" in run.output:
            raise bench_lab.BenchError(f"the cycle submitted {submitted} glideins instead of {expected}:\n{run.output}")
        return run

    def pings(self, sites):
        """Run two pings on each of the first `sites` sites."""
        path = self.folder / "pings.yml"
        path.write_text(PINGS, encoding="utf-8")
        return self.playbook(str(path), sites)

    def sessions(self, sites, command):
        """Run a shell command as each of the sites' users, four at a time, over open connections."""
        loop = ("printf '%s\\n' \"$@\" | xargs -P 4 -I{} ssh -F \"$CONFIG\" -o BatchMode=yes -o ControlMaster=auto "
                '-o ControlPersist=60 -o ControlPath="$SOCKETS/b-%r" -l {} slurm "$COMMAND"')  # fmt: skip
        argv = ["sh", "-c", loop, "sh", *(user(number) for number in range(1, sites + 1))]
        more = {"CONFIG": str(self.lab.state / "ssh_config"), "SOCKETS": str(self.sockets), "COMMAND": command}
        self.run(argv, more)  # opens the connections
        return self.run(argv, more)

    def playbook(self, name, sites, *more):
        hosts = ",".join(host(number) for number in range(1, sites + 1))
        return self.run(["ansible-playbook", "-i", str(self.inventory), name, "--limit", hosts, *more])

    def run(self, argv, more=None):
        """Run a command; return a Run. Raise BenchError with the end of its output if it fails."""
        login_node_s, own = self.login_node_s(), resource.getrusage(resource.RUSAGE_CHILDREN)
        began, lines = time.monotonic(), []
        environment = {**self.environment, **(more or {})}
        with subprocess.Popen(argv, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as process:  # fmt: skip
            for line in process.stdout:
                lines.append((time.monotonic() - began, line))
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode:
            tail = "".join(line for _at, line in lines[-30:])
            raise bench_lab.BenchError(f"`{' '.join(argv[:4])} ...` ended with {process.returncode}:\n{tail}")
        controller_s = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
        return Run(seconds, controller_s, self.login_node_s() - login_node_s, lines)

    def login_node_s(self):
        """Return the processor seconds that the login node, a container, has used (cgroup version 1 or 2)."""
        text = self.lab.run("slurm-root", "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || "
                            "sed -n 's/^usage_usec \\(.*\\)/\\1000/p' /sys/fs/cgroup/cpu.stat")  # fmt: skip
        return int(text) / 1e9


def host(number):
    return f"site{number:02}"


def user(number):
    return f"pilot{number:02}"


def inventory(state):
    """Return the inventory of all sites.

    It sets `lab_state`, which the lab's inventory derives from inventory_dir.
    """
    variables = {
        "lab_state": state,
        "ansible_host": "slurm",
        "ansible_ssh_common_args": f"-F {state}/ssh_config",
        "glidein_deployment": "lab",
        "glidein_scheduler": "slurm",
        "glidein_collector": "cm:9618",
        "glidein_demand_url": Path(state, "demand_url").read_text(encoding="ascii").strip(),
        "glidein_entries": {"one": ENTRY, "two": ENTRY},
        # The queue is emptied between two cycles.
        "glidein_guard": {"hold_readings": 0},
    }
    hosts = {
        host(number): {"ansible_user": user(number), "glidein_demand_token": f"bench-of-cycles-{host(number)}"}
        for number in range(1, max(SIZES) + 1)
    }
    return {
        "all": {
            "children": {
                "glidein_sites": {"hosts": hosts},
                "bench_sites": {"hosts": dict.fromkeys(hosts), "vars": variables},
            }
        }
    }
