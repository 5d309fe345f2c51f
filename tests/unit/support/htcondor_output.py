# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of HTCondor's commands in any size."""

import json


def ad(**changes):
    """Return one job's ad as condor_q prints it; a change to None removes the attribute."""
    values = {"ClusterId": 5, "ProcId": 1, "GlideinJobName": "g5bf7a-7eb8c79c", "JobStatus": 1, "QDate": 1795244255}
    values.update(changes)
    return {key: value for key, value in values.items() if value is not None}


def printed(*ads):
    """Return ads as `condor_q -json` prints them; for no ads it prints nothing."""
    return "[\n" + "\n,\n".join(json.dumps(one, indent=2, sort_keys=True) for one in ads) + "\n]\n" if ads else ""


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return the output of condor_q for a queue with so many jobs; its constraint excludes other users' jobs."""
    return printed(*[ad(ProcId=number, GlideinJobName=name, JobStatus=1 + number % 2) for number in range(ours)])
