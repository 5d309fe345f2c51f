# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the demand server's host as root: times refreshes and condor_q in turns.

The refreshes are those of the server's own code, in a process that runs as the service's user (`refreshes.py`).
stdin: {"rounds": n, "attributes": [name], "refreshes": source of refreshes.py}
stdout: {"refresh": [s], "condor_q": [s], "condor_q_raw": [s], "groups": n, "jobs": n}
"""

import json
import subprocess
import sys
import time

PYTHON = "/opt/glidein-demand/current/bin/python"
CONFIG = "/etc/glidein-demand/config.toml"


def timed(command):
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.monotonic() - began


def main():
    order = json.load(sys.stdin)
    ask = ["condor_q", "-global", "-allusers"]
    found = {"refresh": [], "condor_q": [], "condor_q_raw": []}
    command = ["runuser", "-u", "glidein-demand", "--", PYTHON, "-c", order["refreshes"], CONFIG]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
    # The first round only fills caches.
    for number in range(order["rounds"] + 1):
        server.stdin.write("refresh\n")
        server.stdin.flush()
        said = server.stdout.readline()
        if not said:
            sys.exit(f"the process that refreshes ended with {server.wait()}")
        answer = json.loads(said)
        plain = timed([*ask, "-autoformat", *order["attributes"]])
        raw = timed([*ask, "-autoformat:r", *order["attributes"]])
        if number:
            found["refresh"].append(answer["seconds"])
            found["condor_q"].append(plain)
            found["condor_q_raw"].append(raw)
    server.stdin.close()
    server.wait()
    json.dump({**found, "groups": answer["groups"], "jobs": answer["jobs"]}, sys.stdout)


main()
