# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo of the gateway: an idle job becomes a glidein on Slurm without an SSH session of the cycle to Slurm's host.

It uses the lab of `make demo`, and the steps of demo.py.
"""

import re

import demo
from demo import say, wait_for
from lab_gateway import GATEWAY, INSTALL_CRON, INVENTORIES
from lab_ssh import ssh
from plays import shown

WAIT_S = 300
# A demand group other than that of `make demo`, whose site may still have a lease.
REQUIREMENTS = 'requirements = TARGET.GLIDEIN_Site == "{site}"\n'
PILOTS = "GlideinJobName isnt undefined"


def glideins():
    """Return one line per glidein in the collector."""
    return demo.glideins("job of the access point")


def show_listed(alias, command, pattern):
    """Run a command until its output has the pattern; print both, without totals, cut to the width of a terminal."""

    def look():
        output = ssh(alias, command)
        return output if re.search(pattern, output) else None

    output = wait_for(f"{pattern!r} in the output of `{command}` on {alias}", look, WAIT_S)
    lines = [line[:87] for line in output.splitlines() if line and "Total" not in line]
    say(*demo.wrapped(f"$ {command}", " \\"), *lines)


def remove_earlier_glideins(alias="slurm"):
    """Remove the glideins of an earlier demo, so that only this demo's can run the job. alias: of the Slurm host."""

    def found():
        return glideins() + ssh("cm-alice", f"condor_q -constraint '{PILOTS}' -af ClusterId")

    if not found():
        return
    say("Glideins of an earlier run are still there: cancelling them")
    ssh("cm-alice", f"condor_rm -constraint '{PILOTS}' >/dev/null 2>&1 || true")
    ssh(alias, "scancel -u glidein")
    wait_for("a pool without glideins", lambda: not found(), WAIT_S)


def show_pilot(cluster, remote, queue, alias="slurm"):
    """Print the pilot of a job on its way to Slurm and into the pool, and the end of the job.

    remote: the text before the remote queue, and the text before Slurm's; queue: the command that prints the remote
    queue, and the pattern to wait for; alias: of the Slurm host.
    """
    say("The pilot, a job of the grid universe, on the access point:")
    show_listed("cm-alice", f"condor_q -nobatch -constraint '{PILOTS}'", "alice .* [IR] ")
    say(remote[0])
    show_listed("cm-alice", *queue)
    say(remote[1])
    show_listed(alias, "squeue -u glidein -o '%i %j %P %T %C %m %l'", " cpu ")
    say("Registered in the collector (condor_status):", wait_for("a glidein in the collector", glideins, WAIT_S))
    demo.show_end_of_job(cluster, WAIT_S)
    # The remote schedd queries Slurm, and the access point queries the remote schedd.
    running = f"condor_q -constraint '{PILOTS} && JobStatus == 2' -af ClusterId"
    wait_for("the pilot's new state on the access point", lambda: ssh("cm-alice", running), WAIT_S)


def show_gateway():
    """Run the demo `make demo-gateway`."""
    server = demo.demand_server()
    say("Deploying: HTCondor pool, demand server, and site `cluster` on the access point")
    demo.playbook("deploy", "-l", "cm,cluster", inventories=INVENTORIES)
    ssh("slurm-root", INSTALL_CRON, seconds=300)
    say("Installing the gateway on Slurm's login node, as the user glidein; cron keeps it alive")
    demo.playbook("gateway", "-l", "cm,slurm", inventories=INVENTORIES)
    say("The gateway, a schedd, is in the pool:")
    show_listed("cm-alice", "condor_status -schedd -constraint 'is_glidein =?= true'", GATEWAY)

    remove_earlier_glideins()
    cluster, submitted = demo.submit_job(REQUIREMENTS.format(site="cluster"))
    demo.run_cycle(server, submitted, "-l", "cluster", inventories=INVENTORIES)

    remote = ("HTCondor carries it to the gateway (Condor-C):", "The gateway submits it to Slurm (blahp):")
    show_pilot(cluster, remote, (f"condor_q -nobatch -name {GATEWAY} -allusers", "glidein .* [IR] "))
    status = demo.playbook("status", "-l", "cluster,slurm", inventories=INVENTORIES)
    say("The status of site and gateway:", shown(status))
    options = " ".join(f"-i inventories/{name}" for name in INVENTORIES)
    demo.show_commands(
        server.url,
        ("ssh", "cm-alice condor_q -name gateway-slurm@ -allusers"),
        ("ssh", "slurm .glidein-gateway/slurm/gateway status"),
        ("ansible", f"{options} glidein.ops.gateway -l slurm -e gateway_state=absent"),
    )


if __name__ == "__main__":
    demo.main(show_gateway)
