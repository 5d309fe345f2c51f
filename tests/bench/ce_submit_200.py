# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""200 pilots from the access point to the Slurm of the lab's CE: Condor-C, the CE's schedd and route, blahp, sbatch.

The pilots are those of gateway_submit_200. `is_htcondor_ce` is false if HTCondor stands in for HTCondor-CE.
The goals are the figures of a talk about HTCondor-CE: 1.4 jobs per second sustained, 5 at peak.
"""

import sys

from lab_ce import CE, INVENTORIES, SCHEDD

import pilot_speed
from results import Goal

GOALS = [Goal("pilots_per_second", ">=", 1.4), Goal("peak_10_s", ">=", 5)]
TARGET = f"""\
grid_resource = condor {SCHEDD} {CE}
+remote_JobUniverse = 5
+maxMemory = 100
+xcount = 1
+maxWallTime = 60
+queue = "cpu"
"""


def measure(lab):
    """Return the numbers of pilot_speed.compare, and whether the CE is HTCondor-CE."""
    lab.ensure()
    lab.local([sys.executable, "tests/lab/lab.py", "up", "ce"], 1200)
    lab.local([sys.executable, "tests/lab_ce.py"], 300)
    version = lab.run("cm-alice", f"condor_status -pool {CE} -schedd -af HTCondorCEVersion").strip()
    inventories = [part for name in INVENTORIES for part in ("-i", f"inventories/{name}")]
    playbook = ["ansible-playbook", *inventories, "glidein.ops.deploy", "-l", "cm"]
    return {**pilot_speed.compare(lab, playbook, TARGET, "ce"), "is_htcondor_ce": version != "undefined"}
