# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base classes for capabilities that only some batch systems have. They stand before Scheduler among the bases."""

import abc
import collections

# How blahp makes requests of a batch system. name: NAME of `batch NAME`; requests: the parts of an entry that blahp
# requests from the job's attributes; options: those that blahp_options requests.
BlahpRequests = collections.namedtuple("BlahpRequests", ["name", "requests", "options"])

# The result of Credentials.access without credentials.
NO_CREDENTIALS = {"due": False, "valid": True, "problems": []}


class Blahp:
    """A batch system to which a gateway can submit through HTCondor's blahp."""

    blahp = None  # BlahpRequests

    def blahp_options(self, entry, shape, job_name):
        """Return the options, without directive_prefix, of a batch script that a gateway's blahp writes.

        They request the parts in `options` of `blahp`. blahp itself requests those in `requests`.
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
