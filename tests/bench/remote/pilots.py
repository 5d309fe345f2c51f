# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the login node as root: creates a user for each of many sites, deployed as an existing site is.

stdin: {"users": ["pilot01", ...], "like": the existing site's user, "site": that site's name}: pilot01 becomes the user
of site01. The credential is the existing site's, because no glidein of the new sites starts. stdout: {"users": n}
"""

import json
import pwd
import shutil
import subprocess
import sys
from pathlib import Path


def copy_site(user, source):
    """Copy a site's directory to a user; create the user if necessary."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", user], check=True)
        account = pwd.getpwnam(user)
    home = Path(account.pw_dir, ".glidein")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    shutil.copytree(source, home / user.replace("pilot", "site"), symlinks=True)
    subprocess.run(["chown", "-R", f"{user}:", str(home)], check=True)


def main():
    order = json.load(sys.stdin)
    source = Path(pwd.getpwnam(order["like"]).pw_dir, ".glidein", order["site"])
    for user in order["users"]:
        copy_site(user, source)
    json.dump({"users": len(order["users"])}, sys.stdout)


main()
