# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runner of playbooks with a real ansible-playbook."""

import os
import subprocess
import sys


def run_playbook(*arguments, folder, collections, **settings):
    """Return (exit status, output) of ansible-playbook with these arguments, run in a folder.

    collections: the path of the collections; settings: further environment variables. Results are shown as JSON.
    """
    env = dict(
        os.environ,
        PWD=str(folder),
        ANSIBLE_COLLECTIONS_PATH=str(collections),
        ANSIBLE_HOME=str(folder.parent / "ansible"),
        ANSIBLE_LOCALHOST_WARNING="false",
        ANSIBLE_CALLBACK_RESULT_FORMAT="json",
        LC_ALL="C.UTF-8",
        **settings,
    )
    env.pop("ANSIBLE_CONFIG", None)
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", *arguments],
        env=env,
        cwd=str(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8")
