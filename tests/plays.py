# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of ansible-playbook's output, in the format of ansible.cfg's callback_result_format = yaml."""

import re

import yaml


def shown(output, name="Show "):
    """Return the text of the last task that shows one and whose name begins with `name`, or None without such a task.

    The text is `msg` of its results, each a text or a list of lines.
    """
    text = None
    for task in re.split(r"^(?=TASK |PLAY )", output, flags=re.MULTILINE):
        # The lines of a result are indented or empty.
        results = re.findall(r"^ok: .*=> *\n((?:(?: .*)?\n)+)", task, re.MULTILINE)
        if task.startswith(f"TASK [{name}") and results:
            found = [yaml.safe_load(result)["msg"] for result in results]
            text = "\n".join(each if isinstance(each, str) else "\n".join(each) for each in found)
    return text
