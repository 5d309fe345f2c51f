# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab of the benches: its name, its start, deployments to it, and programs that run on its hosts."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REMOTE = HERE / "remote"
SERVER_PYTHON = "/opt/glidein-demand/current/bin/python"  # in the virtual environment that the role creates
sys.path.insert(0, str(HERE.parent))
import prepare  # noqa: E402  (tests/ is no package)


class BenchError(Exception):
    """An error that prevents a measurement; the message has the cause, the place and the output."""


def lab_name(given):
    """Return the name of the benches' lab: their queue of 100,000 jobs must not be in the lab of tests and demo.

    `given` is LAB; a name that ends with "bench" is used unchanged.
    """
    return given if given.endswith("bench") else f"{given}-bench"


class Lab:
    """A lab that starts and is deployed to when a bench first needs it, once per run."""

    def __init__(self, name, say):
        self.name = name
        self.say = say
        self.state = ROOT / ".lab" / name
        self.environment = dict(prepare.environment(), LAB=name)
        self.ready = False

    def ensure(self):
        """Start the lab and deploy pool and demand server, as a user would."""
        if self.ready:
            return
        self.say(f"lab {self.name}: bringing it up")
        self.local([sys.executable, "tests/lab/lab.py", "up"], 1200)
        self.local([sys.executable, "tests/prepare.py", "collection"], 600)
        self.say(f"lab {self.name}: deploying pool and demand server")
        self.local(["ansible-playbook", "-i", "inventories/lab", "glidein.ops.deploy", "--limit", "cm"], 900)
        self.ready = True

    def local(self, command, timeout):
        """Return the output of a command in the checkout; raise BenchError with the end of its output if it fails."""
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-30:])
            raise BenchError(f"`{' '.join(map(str, command))}` ended with {done.returncode}:\n{tail}")
        return done.stdout

    def run(self, alias, command, stdin="", timeout=600, name=None):
        """Return the output of a shell command on a host; raise BenchError with name, status and stderr if it fails."""
        name = name or command
        argv = ["ssh", "-F", str(self.state / "ssh_config"), "-o", "BatchMode=yes", alias, command]
        try:
            done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"`{name}` on {alias} did not end within {timeout} s") from error
        if done.returncode:
            raise BenchError(f"`{name}` on {alias} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def remote(self, program, order, timeout=600, alias="cm", python="python3", sudo=True):
        """Run remote/`program`.py on a host, as root or as the alias's user, with `order` as JSON on stdin.

        Return its output, parsed.
        """
        source = (REMOTE / f"{program}.py").read_text(encoding="utf-8")
        command = f"{'sudo -n ' if sudo else ''}{python} -c {shlex.quote(source)}"
        return json.loads(self.run(alias, command, json.dumps(order), timeout, f"remote/{program}.py"))


def cores():
    """Return the number of processors of this machine.

    Every result includes it, because all parts of a bench share them.
    """
    return os.cpu_count()
