# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Array jobs: one submission of several glideins."""

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError


class Arrays:
    """The array jobs of a Scheduler."""

    # The smallest number of tasks of an array job; float("inf") for a batch system without array jobs.
    smallest_array = 1
    # Pattern of the submitting command's error for an array with too many tasks, or a user with too many jobs. Each
    # batch system has one.
    too_many_pattern = None

    def largest_array(self):
        """Return the largest number of tasks of one array job, None if it is unknown. Raises CommandTimeoutError."""
        return

    def array_sizes(self, count, limit):
        """Return the number of tasks of each submission (None: a plain job) of exactly `count` glideins.

        limit: the operator's largest number of tasks (1: no arrays), or None. largest_array limits it, too. Raises
        CommandTimeoutError.
        """
        ceiling = self.largest_array() if count > 1 else None
        largest = min((most for most in (limit, ceiling) if most), default=None)
        step = largest or max(count, 1)
        sizes = [min(step, count - begun) for begun in range(0, count, step)]
        split = [[None] * size if largest == 1 or size < self.smallest_array else [size] for size in sizes]
        return [tasks for some in split for tasks in some]

    def refused_for_number(self, error):
        """Return whether a submission (GlideinError) was refused because of its number of glideins."""
        return isinstance(error, CommandError) and bool(self.too_many_pattern.search(error.stdout + error.stderr))
