# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What some batch systems have beyond base.Scheduler. A class inherits from these first, and from Scheduler last."""

import abc
import collections

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError

# How blahp makes requests of a batch system. name: NAME of `batch NAME`; requests: the parts of an entry that blahp
# requests from the job's attributes; options: those of blahp_options.
BlahpRequests = collections.namedtuple("BlahpRequests", ["name", "requests", "options"])

# The result of Credentials.access without credentials.
NO_CREDENTIALS = {"due": False, "valid": True, "problems": []}


class Arrays:
    """A batch system with array jobs: one submission of several glideins."""

    # The smallest number of tasks of an array job.
    smallest_array = 1
    # Pattern of the submitting command's error for an array with too many tasks, or a user with too many jobs.
    too_many_pattern = None

    def largest_array(self):
        """Return the largest number of tasks of one array job, None if it is unknown. Raises CommandTimeoutError."""
        return

    def array_sizes(self, count, limit):
        """Return the number of tasks of each submission (None: a plain job) of exactly `count` glideins.

        limit: the largest number of tasks (1: no arrays, None: largest_array). Raises CommandTimeoutError.
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


class Blahp:
    """A batch system to which a gateway can submit through HTCondor's blahp."""

    blahp = None  # BlahpRequests

    def blahp_options(self, entry, shape, job_name):
        """Return the options, without directive_prefix, of a batch script that a gateway's blahp writes.

        They are those of the parts in `options` of `blahp`. blahp itself writes those of the parts in `requests`.
        """
        return list(entry["directives"])


class Credentials(abc.ABC):
    """A batch system whose commands need credentials."""

    @abc.abstractmethod
    def access(self, walltime_s):
        """Return the state of the credentials with which the commands reach the batch system.

        walltime_s: the longest walltime of the entries. Returns {"due": whether `renew` has something to renew,
        "valid": whether the credentials are valid now, or `renew` may make them valid, "problems": [text]}.
        """

    @abc.abstractmethod
    def renew(self):
        """Renew the credentials that are due. Return a warning, or None. Raises GlideinError if they are invalid."""


class LateOutput(abc.ABC):
    """A batch system that returns the output of a glidein only at its end."""

    @abc.abstractmethod
    def registered(self, site, submission):
        """Return the number of a submission's glideins that the pool has. site: name. Raises CommandError."""
