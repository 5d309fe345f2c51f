# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counting by commands of the operator's own (count_commands), for sites whose batch system lists jobs in no known way.

Each command prints one whole number. PyGlidein's running_cmd and idle_cmd are such commands; ours are run for each
entry and shape, so that {job_name} in an argument makes the difference.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.base import QUEUED, RUNNING, Job

# Without the line break, the number may be cut.
_NUMBER = re.compile(r"^\s*([0-9]{1,7})\s*\n\Z")


def counted_jobs(runner, commands, user, targets, now_s):
    """Return as many Job as the commands count; they have no id of the batch system's, so none can be cancelled.

    commands: {"queued": [str], "running": [str]}; targets: [(job name, queue or None)]; now_s: epoch seconds, which
    stands for the time of submission that nobody knows. Raises CommandError, OutputError.
    """
    jobs = []
    for name, queue in targets:
        for state in (QUEUED, RUNNING):
            argv = fill_in(commands[state], {"job_name": name, "queue": queue or "", "user": user})
            printed = runner.run(argv)
            match = _NUMBER.match(printed)
            if not match:
                raise OutputError(
                    f"count_commands.{state} printed {printed[:80]!r}; it has to print a whole number and a line break."
                )
            jobs += [
                Job(f"{name}.{state}.{number}", "", name, state, False, "", int(now_s))
                for number in range(int(match.group(1)))
            ]
    return jobs


def fill_in(argv, values):
    """Return an argument list with each {key} of `values` replaced; other braces stay as they are."""
    pattern = re.compile("|".join(re.escape("{" + key + "}") for key in sorted(values)))
    return [pattern.sub(lambda match: values[match.group(0)[1:-1]], word) for word in argv]
