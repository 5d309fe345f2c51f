# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of ansible-playbook's output, in the format of ansible.cfg's callback_result_format = yaml."""

import yaml


def shown(output, name="Show "):
    """Return the message of the last task whose name begins with `name`, or None without such a task."""
    _before, found, task = output.rpartition(f"TASK [{name}")
    if not found:
        return None
    body = task.split("\nTASK [")[0].split("\nPLAY RECAP")[0]
    return yaml.safe_load(body.partition("=>")[2])["msg"]
