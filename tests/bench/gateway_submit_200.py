# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""200 pilots from the access point to the lab's Slurm: Condor-C, the gateway's schedd, blahp, sbatch.

The pilots are submitted twice: with HTCondor's own settings of an access point, and with those of the role
central_manager. Each pilot is a script of one line, which is transferred. The batch jobs have a start time an hour
ahead, so that none runs meanwhile. In the same run, 500 calls of sbatch show how fast Slurm itself is.
"""

from lab_gateway import GATEWAY, INSTALL_CRON, INVENTORIES

import pilot_speed
from results import Goal

GOALS = [Goal("pilots_per_second", ">=", 5)]
TARGET = f"""\
grid_resource = condor {GATEWAY} cm:9618
+remote_JobUniverse = 9
+remote_GridResource = "batch slurm"
+remote_BatchQueue = "cpu"
+remote_BatchRuntime = 3600
+remote_NodeNumber = 1
"""


def measure(lab):
    """Return the numbers of pilot_speed.compare."""
    lab.ensure()
    lab.run("slurm-root", INSTALL_CRON)
    inventories = [part for name in INVENTORIES for part in ("-i", f"inventories/{name}")]
    playbook = ["ansible-playbook", *inventories, "glidein.ops.gateway", "-l", "cm,slurm"]
    return pilot_speed.compare(lab, playbook, TARGET)
