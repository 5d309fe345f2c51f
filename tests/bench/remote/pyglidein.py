# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the demand server's host as root: starts PyGlidein's server, or stops and removes it.

stdin: {"action": "start", "archive": .tar.gz of its sources and libraries in base64, "token": a reader's, "port": n} or
{"action": "stop"}. Instead of condor_q's output, its state is made of the demand server's groups: one row for each.
"""

import base64
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request

UNIT = "pyglidein-bench.service"
HOME = pathlib.Path("/opt/pyglidein-bench")
DEMAND = "http://127.0.0.1:11001/jsonrpc"
READY_S = 60

# Python 3.12 removed SafeConfigParser, and distutils, which setuptools brings back.
PROGRAM = """\
import configparser, json, setuptools, sys, types
configparser.SafeConfigParser = configparser.ConfigParser
from pyglidein.server import server
with open(sys.argv[1]) as file:
    state = json.load(file)
options = types.SimpleNamespace(port=int(sys.argv[2]))
server({"options": options, "state": state, "monitoring": {}, "metrics_sender_client": None}).start()
"""


def call(url, method, headers):
    """Return the result of a method."""
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": {}, "id": 1}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
        return json.load(reply)["result"]


def row(group):
    """Return a group of get_demand as PyGlidein counts jobs."""
    return {
        "cpus": group["cpus"],
        "memory": group["memory_mb"],
        "disk": group["disk_mb"],
        "gpus": group["gpus"],
        "os": None,
        "count": group["count"],
    }


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stdout[-2000:]}")


def start(order):
    """Install and start the server, and wait until it returns the state."""
    stop()
    HOME.mkdir(mode=0o755)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(order["archive"]))) as archive:
        archive.extractall(HOME, filter="data")
    state = HOME / "state.json"
    demand = call(DEMAND, "get_demand", {"Authorization": f"Bearer {order['token']}"})
    expected = [row(group) for group in demand["groups"]]
    state.write_text(json.dumps(expected))
    program = [sys.executable, "-c", PROGRAM, state, str(order["port"])]
    run("systemd-run", "--collect", f"--unit={UNIT}", "--uid=nobody", f"--setenv=PYTHONPATH={HOME}", *program)
    deadline = time.monotonic() + READY_S
    while True:
        try:
            if call(f"http://127.0.0.1:{order['port']}/jsonrpc", "get_state", {}) == expected:
                return
            sys.exit("PyGlidein's server returned another state than it was given")
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"PyGlidein's server does not answer: {error}; see `journalctl --unit {UNIT}`")
            time.sleep(0.2)


def stop():
    subprocess.run(["systemctl", "stop", UNIT], capture_output=True, check=False)
    shutil.rmtree(HOME, ignore_errors=True)


def main():
    order = json.load(sys.stdin)
    if order["action"] == "start":
        start(order)
    else:
        stop()
    json.dump({}, sys.stdout)


main()
