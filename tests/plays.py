# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of ansible-playbook's output, in the format of ansible.cfg's callback_result_format = yaml."""

import re

import yaml


def shown(output, name="Show "):
    """Return the text of the last task whose name begins with `name`, or None without such a task.

    The task prints the text before its result, or as `lines` or `msg` of its result.
    """
    _before, found, task = output.rpartition(f"TASK [{name}")
    if not found:
        return None
    body = re.split(r"^(?:TASK|PLAY) ", task.partition("\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    text, result = (re.split(r"^(?:ok|changed): ", body, maxsplit=1, flags=re.MULTILINE) + [""])[:2]
    if text.strip():
        return text.rstrip()
    found = yaml.safe_load(result.partition("=>")[2])
    return "\n".join(found["lines"]) if "lines" in found else found["msg"]
