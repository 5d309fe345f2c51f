# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway on the login node `slurm`, kept alive by cron, for the tests that need one; catalogues of collectors."""

import contextlib
import json
import subprocess

import prepare
import yaml
from conftest import ROOT, STATE, playbook

SNIPPET = "/etc/condor/config.d/50-glidein-ops.config"
HOME = "/home/glidein/.glidein-gateway"
ROUTES = """\
JOB_ROUTER_ROUTE_NAMES = cpu gpu
JOB_ROUTER_ROUTE_cpu @=route
  REQUIREMENTS (RequestGPUs ?: 0) == 0 && (queue ?: "cpu") is "cpu" && (xcount ?: 1) <= 8 && \\
    min({xcount ?: 1, maxMemory ?: 1, maxWallTime ?: 1}) >= 1
  TargetUniverse = 9
  GridResource = "batch slurm"
  FailureRateThreshold = 1000000
  EVALSET RequestMemory int(maxMemory ?: max({RequestMemory ?: 0, 300}))
  EVALSET BatchRuntime int(60 * (maxWallTime ?: 30))
  SET BatchQueue "cpu"
  SET BatchExtraSubmitArgs "#SBATCH --comment=routed"
@route
JOB_ROUTER_ROUTE_gpu @=route
  REQUIREMENTS RequestGPUs >= 1 && RequestGPUs <= 2 && (queue ?: "gpu") is "gpu"
  TargetUniverse = 9
  GridResource = "batch slurm"
  FailureRateThreshold = 1000000
  EVALSET RequestMemory int(maxMemory ?: max({RequestMemory ?: 0, 2000}))
  EVALSET BatchRuntime int(60 * (maxWallTime ?: 60))
  SET BatchQueue "gpu"
@route
JOB_ROUTER_PRE_ROUTE_TRANSFORM_NAMES = walltime
JOB_ROUTER_TRANSFORM_walltime @=transform
  REQUIREMENTS VO is "icecube"
  DEFAULT maxWallTime 20
@transform
JOB_ROUTER_POST_ROUTE_TRANSFORM_NAMES = cores overhead
JOB_ROUTER_TRANSFORM_cores @=transform
  EVALSET RequestCpus int(xcount ?: max({RequestCpus ?: 1, 1}))
  EVALSET NodeNumber RequestCpus
  EVALSET SMPGranularity RequestCpus
@transform
JOB_ROUTER_TRANSFORM_overhead @=transform
  REQUIREMENTS VO is "icecube"
  EVALSET RequestMemory RequestMemory + 50
@transform
OSG_ResourceCatalog = { \\
  [ Name = "cpu"; CPUs = 8; Memory = 300; MaxWallTime = 30; \\
    Transform = [ set_xcount = RequestCPUs; set_maxMemory = RequestMemory; set_queue = "cpu" ] ], \\
  [ Name = "gpu"; CPUs = 1; Memory = 2000; MaxWallTime = 60; GPUs = 2; \\
    Transform = [ set_xcount = RequestCPUs; set_maxMemory = RequestMemory; set_queue = "gpu" ] ] }
"""
VARIABLES = {
    "glidein_gateway": True,
    "glidein_gateway_submit_user": "alice",
    "glidein_gateway_supervisor": "cron",
    "glidein_gateway_extra_config": "GRIDMANAGER_JOB_PROBE_INTERVAL = 5",
    "glidein_gateway_routes": ROUTES,
    # The defaults of an access point wait for minutes.
    "central_manager_extra_config": "GRIDMANAGER_JOB_PROBE_INTERVAL = 5\nGRIDMANAGER_CONTACT_SCHEDD_DELAY = 1\n"
    "C_GAHP_CONTACT_SCHEDD_DELAY = 1\nCGAHP_SCHEDD_INTERACTION_TIME = 1\nGRIDMANAGER_RESOURCE_PROBE_INTERVAL = 10",
}
PILOT = """\
universe = grid
grid_resource = condor gateway-slurm@ cm:9618
+remote_JobUniverse = 9
+remote_GridResource = "batch slurm"
executable = /usr/bin/env
transfer_executable = false
output = gateway.out
log = gateway.log
should_transfer_files = yes
when_to_transfer_output = on_exit
request_memory = 200
+remote_BatchQueue = "cpu"
+remote_BatchRuntime = 600
+remote_NodeNumber = 1
queue
"""


def gateway_playbook(*arguments):
    """Run the playbook for the lab; assert that it succeeds."""
    done = playbook("gateway", "-e", json.dumps(VARIABLES), *arguments)
    assert done.rc == 0, done
    return done


@contextlib.contextmanager
def installed_gateway(cm, slurm, slurm_root):
    """Install cron and a gateway on the login node; afterwards remove the gateway and restore the pool."""
    before = cm.check_output(f"cat {SNIPPET}")
    slurm_root.check_output("command -v crontab || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq cron")
    slurm_root.check_output("systemctl start cron")
    slurm.check_output("rm -rf ~/.condor")
    gateway_playbook()
    yield
    done = gateway_playbook("-e", "gateway_state=absent", "-e", "gateway_cancel_jobs=true")
    assert done.recap["slurm"]["failed"] == 0, done
    assert slurm.check_output(f"ls -d {HOME} ~/.condor 2>/dev/null || true") == ""
    assert "gateway" not in slurm_root.check_output("crontab -l -u glidein 2>/dev/null || true")
    assert slurm_root.check_output("pgrep -u glidein condor || true") == ""
    # The tests of the CE leave its token there.
    assert cm.check_output("ls -A ~alice/.condor/tokens.d") == ""
    assert cm.check_output("ls /var/lib/glidein-ops/gateway/tokens") == ""
    cm.check_output(f"cat > {SNIPPET} <<'END'\n{before}\nEND")
    cm.check_output("condor_reconfig")


def catalogue(directory, *names, **options):
    """Return ({host: its variables}, {group: its hosts}, standard error) of the plugin ce_collector.

    names: files of the lab's state with the addresses of collectors, `pool_collector` or `ce_collector`; options: of
    the plugin.
    """
    collectors = [(STATE / name).read_text(encoding="ascii") for name in names]
    path = directory / "lab.ce_collector.yml"
    options = dict(options, plugin="glidein.ops.ce_collector", collectors=collectors)
    path.write_text(json.dumps(options), encoding="utf-8")
    done = subprocess.run(
        ["ansible-inventory", "-i", str(path), "--list", "--yaml"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,  # on a busy machine, too
        check=True,
        env=dict(prepare.environment(), ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true", COLUMNS="1000"),
    )
    groups = yaml.safe_load(done.stdout).get("all", {}).get("children", {})
    found = {}
    for group in groups.values():
        for host, variables in group["hosts"].items():
            found.setdefault(host, {}).update(variables)
    return found, {name: sorted(group["hosts"]) for name, group in groups.items()}, done.stderr
