# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTCondor's own analysis of a job, `condor_q -better-analyze`: the command and its output. Pure functions."""

import re

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

# Limits on what is returned.
MOST_CONDITIONS = 12
MOST_CHARS = 300

_ID = re.compile(r"^\d{1,10}\.\d{1,10}\Z")
_SCHEDD = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,255}\Z")

# A line of the table, such as "[12]          2  TARGET.HasFileTransfer".
_CONDITION = re.compile(r"^\[\d+\]\s+(\d+)\s+(.+)$")
_MACHINES = re.compile(r"Run analysis summary.*\bOf (\d+) machines")
# A line of the summary, such as "      1 are rejected by your job's requirements".
_COUNT = re.compile(r"^\s+(\d+) ((?:are|reject|match) .+)$")
_LAST_FAILURE = re.compile(r"^Reason for last match failure: (.+)$")


def address_command(schedd):
    """Return the argument list that prints the address of a schedd. Raises InputError.

    condor_q -name takes only names that are, or end in, the name of a host in DNS.
    """
    if not _SCHEDD.match(schedd):
        raise InputError(invalid("schedd", schedd, "the name of a schedd as `condor_status -schedd` shows it"))
    return ["condor_status", "-schedd", "-constraint", f'Name == "{schedd}"', "-autoformat", "MyAddress"]


def analysis_command(job, address=None):
    """Return the argument list that prints the analysis. Raises InputError.

    address: of the schedd; None for this host's schedd.
    """
    if not _ID.match(job):
        raise InputError(invalid("job", job, "an id such as 123.0"))
    return ["condor_q"] + (["-addr", address] if address else []) + ["-better-analyze", job]


def parse_analysis(text):
    """Return the parts of the output that say why a job does not match.

    conditions: [{"slots": number that match, "condition": text}]; machines: number or None; counts: [{"machines":
    number, "verdict": text}] without zeros; last_failure: text or None. HTCondor prints none of these for an unknown
    job. Other lines are left out.
    """
    conditions, counts, machines, failure = [], [], None, None
    for line in text.splitlines():
        condition, count = _CONDITION.match(line), _COUNT.match(line)
        summary, last = _MACHINES.search(line), _LAST_FAILURE.match(line)
        if condition and len(conditions) < MOST_CONDITIONS:
            conditions.append({"slots": int(condition.group(1)), "condition": condition.group(2).strip()[:MOST_CHARS]})
        elif summary:
            machines = int(summary.group(1))
        elif count and machines is not None and int(count.group(1)):
            counts.append({"machines": int(count.group(1)), "verdict": count.group(2).strip()[:MOST_CHARS]})
        elif last:
            failure = last.group(1).strip()[:MOST_CHARS]
    return {"conditions": conditions, "machines": machines, "counts": counts, "last_failure": failure}
