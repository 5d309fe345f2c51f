# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo of a CE: an idle job becomes a glidein on a Slurm that only an HTCondor-CE on port 9619 can reach.

It uses the lab of `make demo` and its host `ce`, and the steps of demo.py and demo_gateway.py.
"""

import demo
import demo_gateway
import lab_ce
from demo import say
from lab_ce import CE, INVENTORIES, SCHEDD
from plays import shown

SITE = "ce-cluster"


def show_ce():
    """Run the demo `make demo-ce`."""
    server = demo.demand_server()
    if lab_ce.is_htcondor_ce():
        say("The host ce runs HTCondor-CE, in front of a Slurm of its own")
    else:
        say("The host ce runs HTCondor with the port, ads and routes of a CE, because the lab has no HTCondor-CE")
    say("The CE's administrator gives the access point a token (IDTOKEN), which allows to submit jobs")
    lab_ce.use_idtoken()
    say("Deploying: HTCondor pool, demand server, and site `ce-cluster` on the access point")
    demo.playbook("deploy", "-l", f"cm,{SITE}", inventories=INVENTORIES)
    say("The CE, in its own collector on port 9619:")
    attributes = "Name grid_resource HTCondorCEVersion"
    demo_gateway.show_listed("cm-alice", f"condor_status -pool {CE} -schedd -af:h {attributes}", SCHEDD)

    demo_gateway.remove_earlier_glideins("ce")
    cluster, submitted = demo.submit_job(demo_gateway.REQUIREMENTS.format(site=SITE))
    demo.run_cycle(server, submitted, "-l", SITE, inventories=INVENTORIES)

    remote = (
        "HTCondor carries it to the CE (Condor-C), whose route makes a second job for Slurm:",
        "The CE submits it to Slurm (blahp):",
    )
    queue = f"condor_q -nobatch -pool {CE} -name {SCHEDD} -allusers"
    both_jobs = "glidein .*\n.*glidein .* [IR] "
    demo_gateway.show_pilot(cluster, remote, (queue, both_jobs), "ce")
    status = demo.playbook("status", "-l", SITE, inventories=INVENTORIES)
    say("The status of the site:", shown(status))
    demo.show_commands(
        server.url,
        ("ssh", "ce-root condor_ce_q" if lab_ce.is_htcondor_ce() else f"cm-alice {queue}"),
        ("ssh", "ce squeue"),
        ("ansible", " ".join(f"-i inventories/{name}" for name in INVENTORIES) + f" glidein.ops.cycle -l {SITE}"),
    )


if __name__ == "__main__":
    demo.main(show_ce)
