# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counting by the operator's own commands (count_commands), for batch systems whose list of jobs is not supported.

Each command prints one whole number, as PyGlidein's running_cmd and idle_cmd. The commands run for each entry and
shape; {job_name} in an argument is replaced.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, Job
from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError

# Without the line break, the number may be truncated. Other lines are of wrappers.
_NUMBER = re.compile(r"^[ \t]*([0-9]{1,7})[ \t]*\n", re.MULTILINE)


def jobs_of_count_commands(runner, commands, user, names, now_s):
    """Return as many Job as the commands count. They have no id of the batch system, so that none can be cancelled.

    commands: {"queued": [str], "running": [str]}; names: [(job name, queue or None)]; now_s: epoch seconds, used as the
    time of submission, which is unknown. Raises CommandError, OutputError.
    """
    jobs = []
    for name, queue in names:
        for state in (QUEUED, RUNNING):
            argv = fill_in(commands[state], {"job_name": name, "queue": queue or "", "user": user})
            printed = runner.run(argv)
            found = _NUMBER.findall(printed)
            if len(found) != 1:
                raise OutputError(
                    f"count_commands.{state} printed {excerpt(printed)!r}; expected a line with a whole number."
                )
            jobs += [
                Job(f"{name}.{state}.{number}", "", name, state, False, "", int(now_s))
                for number in range(int(found[0]))
            ]
    return jobs


def fill_in(argv, values):
    """Return an argument list with each {key} of `values` replaced; other braces stay as they are."""
    pattern = re.compile("|".join(re.escape("{" + key + "}") for key in sorted(values)))
    return [pattern.sub(lambda match: values[match.group(0)[1:-1]], word) for word in argv]
