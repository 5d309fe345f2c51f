# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the access point as root: one more job every second, so that no refresh finds what the last one found.

stdin: {"user", "file": a submit file, "seconds": x}; stdout: {"jobs": n}
"""

import json
import pwd
import subprocess
import sys
import time


def main():
    order = json.load(sys.stdin)
    home = pwd.getpwnam(order["user"]).pw_dir
    jobs, due, end = 0, time.monotonic(), time.monotonic() + order["seconds"]
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        command = ["runuser", "-u", order["user"], "--", "condor_submit", "-terse", "-"]
        subprocess.run(command, input=order["file"], cwd=home, check=True, stdout=subprocess.DEVNULL, text=True)
        jobs += 1
        due += 1.0
    json.dump({"jobs": jobs}, sys.stdout)


main()
