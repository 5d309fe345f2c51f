# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that hang. Their time limit is short and begins when they hang, so that a slow start does not matter."""

import time
from pathlib import Path

from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner

LIMIT_S = 0.1


def hanging(folder):
    """Return the commands of a shell script that hangs; it names its process group in `folder`.

    A stand-in that is written in Python creates the same file.
    """
    return f'read -r pid name state parent group rest </proc/$$/stat; : >"{folder}/hanging.$group"; exec sleep 600'


def shorten_limits(monkeypatch, folder):
    """Give commands of the module `command` LIMIT_S from when they hang; `folder`: see `hanging`.

    Messages state the configured limit. A command that does not hang keeps that; its output must fit a pipe (64 KiB).
    """
    read = Runner._read

    def read_patiently(runner, process):
        # The runner gives each command a session, and so a process group, of its own.
        marker = Path(str(folder), f"hanging.{process.pid}")
        while process.poll() is None and not marker.exists():
            time.sleep(0.01)
        configured_s = runner.timeout_s
        runner.timeout_s = LIMIT_S if marker.exists() else configured_s
        try:
            return read(runner, process)
        finally:
            runner.timeout_s = configured_s

    monkeypatch.setattr(Runner, "_read", read_patiently)
