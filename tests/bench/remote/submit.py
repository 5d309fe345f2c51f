# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the access point as root: submits jobs as their users, two users at a time.

stdin: {"submissions": {user: [submit file]}}; stdout: {"clusters": n, "seconds": x}
"""

import json
import pwd
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def submit(user, files):
    """Submit as `user`, created if necessary; return the number of new clusters."""
    try:
        home = pwd.getpwnam(user).pw_dir
    except KeyError:
        subprocess.run(["useradd", "--create-home", user], check=True)
        home = pwd.getpwnam(user).pw_dir
    for text in files:
        done = subprocess.run(
            ["runuser", "-u", user, "--", "condor_submit", "-terse", "-"],
            input=text, cwd=home, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"condor_submit as {user} ended with {done.returncode}: {done.stderr.strip()}\n{text}")
    return len(files)


def main():
    asked = json.load(sys.stdin)["submissions"]
    began = time.monotonic()
    with ThreadPoolExecutor(max_workers=2) as pool:
        clusters = sum(pool.map(submit, asked, asked.values()))
    json.dump({"clusters": clusters, "seconds": round(time.monotonic() - began, 1)}, sys.stdout)


main()
