# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of an unchanged PyGlidein client configuration as an inventory: its site runs under this collection."""

import json

from conftest import INVENTORY, STATE, playbook

CONFIGURATION = """\
[Mode]
debug = False
[Glidein]
address = http://cm:11001/jsonrpc
site = slurm
[Cluster]
scheduler = SLURM
walltime_hrs = 1
max_total_jobs = 5
max_idle_jobs = 3
limit_per_submit = 2
partitions = pair
[pair]
whole_node = True
whole_node_cpus = 2
whole_node_memory = 2048
whole_node_disk = 2000
partition = cpu
submit_command = sbatch --comment=pyglidein
running_cmd = squeue -u $USER -t RUNNING -h | wc -l
idle_cmd = squeue -u $USER -t PENDING -h | wc -l
[SubmitFile]
local_dir = /tmp/glidein-$SLURM_JOB_ID
[CustomEnv]
CLUSTER = cm
http_proxy = http://squid.example.org:3128
"""


def test_a_pyglidein_configuration_orders_the_same_glideins_as_pyglidein(alice, server, slurm, tmp_path):
    (tmp_path / "site.config").write_text(CONFIGURATION, encoding="utf-8")
    sources = tmp_path / "pyglidein.yml"
    sources.write_text("plugin: glidein.ops.pyglidein\nconfig: site.config\nhost: slurm\n", encoding="utf-8")
    token = (STATE / "demand_tokens" / "slurm").read_text(encoding="ascii").split()[0]
    secret = tmp_path / "token.json"
    secret.write_text(json.dumps({"vault_glidein_demand_token": token}), encoding="utf-8")
    cluster = alice.submit(count=6, cpus=1, memory_mb=900)
    server.wait_for_jobs(6)
    cycle = playbook("cycle", "-e", f"@{secret}", inventory=(INVENTORY, sources))
    assert cycle.rc == 0, cycle
    assert "PROBLEMS" not in cycle.summary, cycle
    # Six jobs fit into three glideins; limit_per_submit allows two. The request is exactly whole_node_*.
    rows = slurm.check_output("squeue -h -r -u glidein -o '%C %m %P %l %k'").splitlines()
    assert rows == ["2 2G cpu 1:00:00 pyglidein"] * 2, cycle
    assert len(alice.outputs(cluster, 6)) == 6
