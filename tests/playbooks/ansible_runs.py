# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a real ansible-playbook or ansible."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A run that hangs is ended.
LIMIT_S = 600


def run_ansible(program, *arguments, folder, collections=ROOT.parents[2], **settings):
    """Return (exit status, output) of `ansible.cli.<program>` with these arguments, run in a folder.

    collections: the path of the collections; settings: further environment variables. Results are shown as JSON, if
    settings do not change that.
    PWD is not that of the process, as in a program that starts Ansible elsewhere.
    """
    env = dict(
        os.environ,
        PWD="/nonexistent",  # noqa: S106
        ANSIBLE_COLLECTIONS_PATH=str(collections),
        ANSIBLE_HOME=str(folder.parent / "ansible"),
        ANSIBLE_HOST_PATTERN_MISMATCH="ignore",
        ANSIBLE_LOCALHOST_WARNING="false",
        ANSIBLE_CALLBACK_RESULT_FORMAT="json",
        ANSIBLE_NOCOLOR="1",
        LC_ALL="C.UTF-8",
    )
    env.update(settings)
    env.pop("ANSIBLE_CONFIG", None)
    done = subprocess.run(
        [sys.executable, "-m", f"ansible.cli.{program}", *map(str, arguments)],
        env=env,
        cwd=str(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8")


def run_playbook(*arguments, **options):
    """Return (exit status, output) of ansible-playbook; see run_ansible."""
    return run_ansible("playbook", *arguments, **options)
