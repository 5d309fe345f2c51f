# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A first and a second `deploy` of the lab, then of ten sites over links with a round trip of 100 ms.

In the first one, containers are new, no wheel is in a cache, and HTCondor's package is downloaded. The ten sites are
users of the lab's login node. All hosts, including the central manager, are reached through delayed_link.py, which
gives a round trip of 100 ms. All parts share this machine's processors.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_lab
from cycle_50_sites import task_seconds
from results import Goal

GOALS = [
    # A third of 184 s, the time on two cores before files were sent together.
    Goal("first_seconds", "<=", 61),
    Goal("sites_first_seconds", "<=", 120),
    Goal("sites_second_seconds", "<=", 30),
]
SITES = 10
ONE_WAY_S = 0.05
LINK = Path(__file__).with_name("delayed_link.py")
SLOWEST = 8


def measure(lab):
    """Return the numbers of GOALS; seconds, module runs and SSH commands of each deployment."""
    lab.say(f"lab {lab.name}: making it anew")
    lab.local([sys.executable, "tests/lab/lab.py", "down"], 300)
    lab.local([sys.executable, "tests/lab/lab.py", "up"], 1200)
    lab.local([sys.executable, "tests/prepare.py", "collection"], 600)
    lab.ready = False
    found = {}
    for name in ("first", "second"):
        found.update(deploy(lab, name, ["-i", "inventories/lab"], changes=name == "first"))
    users = [f"link{number:02}" for number in range(1, SITES + 1)]
    lab.run("slurm-root", f"for user in {' '.join(users)}; do useradd -m -s /bin/bash $user || exit; done")
    inventory = lab.state / "links.json"
    inventory.write_text(json.dumps(sites(str(lab.state), users)), encoding="utf-8")
    arguments = ["-i", "inventories/lab", "-i", str(inventory), "--limit", f"cm,{','.join(users)}"]
    for name in ("sites_first", "sites_second"):
        found.update(deploy(lab, name, arguments, changes=name == "sites_first"))
    return found


def deploy(lab, name, arguments, changes):
    """Deploy, and return {name_seconds, name_module_runs, name_ssh_commands}.

    Raise BenchError if it fails or makes an unexpected change.
    """
    argv = ["ansible-playbook", "-vvv", *arguments, "glidein.ops.deploy"]
    environment = {**lab.environment, "PIP_NO_CACHE_DIR": "1", "ANSIBLE_NOCOLOR": "1"}
    began, lines = time.monotonic(), []
    # No connection is open yet. The path of a socket must be short; a checkout's may be long.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as sockets:
        environment["ANSIBLE_SSH_CONTROL_PATH_DIR"] = sockets
        with subprocess.Popen(argv, cwd=bench_lab.ROOT, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # fmt: skip
            for line in process.stdout:
                lines.append((time.monotonic() - began, line))
    seconds = time.monotonic() - began
    output = "".join(line for _at, line in lines)
    changed = bool(re.search(r"changed=[1-9]", output.rsplit("PLAY RECAP", maxsplit=1)[-1]))
    if process.returncode or changed != changes:
        raise bench_lab.BenchError(f"deploy ended with {process.returncode}, changed: {changed}:\n{output[-4000:]}")
    modules, commands = output.count("Using module file "), output.count("> SSH: EXEC ")
    lab.say(f"{name}: {seconds:.1f} s, {modules} module runs, {commands} SSH commands")
    for task, spent in list(task_seconds(lines, seconds).items())[:SLOWEST]:
        lab.say(f"  {spent:5.1f} s  {task}")
    return {f"{name}_seconds": round(seconds, 1), f"{name}_module_runs": modules, f"{name}_ssh_commands": commands}


def sites(state, users):
    """Return the inventory of sites behind long links; the central manager's link is equally long."""
    link = f"-F {state}/ssh_config -o ProxyCommand='{sys.executable} {LINK} %h %p {ONE_WAY_S}'"
    variables = {
        "lab_state": state,
        "ansible_host": "slurm",
        "ansible_ssh_common_args": link,
        "glidein_deployment": "lab",
        "glidein_collector": "cm:9618",
        "glidein_demand_url": Path(state, "demand_url").read_text(encoding="ascii").strip(),
    }
    hosts = {
        user: {"ansible_user": user, "glidein_demand_token": f"bench-of-deployments-{user}", **variables}
        for user in users
    }
    manager = {"cm": {"ansible_ssh_common_args": link}}
    return {"all": {"hosts": manager, "children": {"glidein_sites": {"hosts": hosts}}}}
