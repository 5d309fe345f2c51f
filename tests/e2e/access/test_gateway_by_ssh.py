# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway without a schedd: the access point submits to Slurm by SSH, with `batch slurm gateway-slurm`.

The site `gateway` of inventories/lab-batch, the access point as alice, submits glideins with the option `ssh`.
"""

import json

import pytest
from batch_site import BatchSite, grid_glideins
from conftest import playbook, wait_for

SITE = BatchSite("gateway", "gateway", entry="cpu")
SNIPPET = "/etc/condor/config.d/50-glidein-ops.config"
LIMIT_S = 400  # on a busy machine
DIRECTORY = "/home/glidein/.glidein-gateway/slurm"
CLIENT = ".ssh/glidein-gateway-slurm"
LOGIN_NODE = {
    "glidein_gateway": True,
    "glidein_gateway_ssh": True,
    "glidein_gateway_submit_user": "alice",
    # The defaults of an access point wait for minutes.
    "central_manager_extra_config": "GRIDMANAGER_JOB_PROBE_INTERVAL = 5\nGRIDMANAGER_CONTACT_SCHEDD_DELAY = 1\n"
    "GRIDMANAGER_RESOURCE_PROBE_INTERVAL = 5",
}
ACCESS_POINT = {
    "glidein_scheduler_options": {
        "batch_system": "slurm",
        "ssh": "gateway-slurm",
        "ssh_directory": "~/.glidein-gateway/slurm",
    }
}


def gateway_playbook(cm, *arguments):
    # From the address of the access point only.
    address = cm.check_output("getent ahostsv4 cm | awk '{ print $1; exit }'")
    variables = {**LOGIN_NODE, "glidein_gateway_ssh_from": address}
    done = playbook("gateway", "-e", json.dumps(variables), *arguments)
    assert done.rc == 0, done
    return done


@pytest.fixture(scope="module", autouse=True)
def installed(cm, alice, slurm, slurm_root):
    """Install HTCondor without a daemon on the login node; afterwards remove it and restore the pool."""
    before = cm.check_output(f"cat {SNIPPET}")
    gateway_playbook(cm)
    SITE.deploy()
    yield
    gateway_playbook(cm, "-e", "gateway_state=absent", "-e", "gateway_cancel_jobs=true")
    left = "ls -d ~/.glidein-gateway ~/.ssh/glidein-* 2>/dev/null; grep -rs glidein-gateway ~/.ssh; true"
    assert (slurm.check_output(left), alice.host.check_output(left)) == ("", "")
    assert slurm_root.check_output("pgrep -u glidein 'blahpd|condor_ft' || true") == ""
    cm.check_output(f"cat > {SNIPPET} <<'END'\n{before}\nEND")
    cm.check_output("condor_reconfig")


def connected(slurm_root):
    """Return the ids of the SSH server's processes that serve the access point, if both programs run."""
    found = slurm_root.check_output("ps -o ppid= -C blahpd,condor_ft-gahp | sort -u").split()
    return found if len(found) == 2 else None


def test_a_second_run_changes_nothing(cm):
    done = gateway_playbook(cm)
    assert {host: row["changed"] for host, row in done.recap.items()} == {"cm": 0, "slurm": 0}


def test_the_key_starts_two_programs_and_nothing_else(alice, slurm):
    assert f'command="{DIRECTORY}/gateway ssh"' in slurm.check_output("cat ~/.ssh/authorized_keys")
    refused = alice.host.run("ssh -o BatchMode=yes gateway-slurm id")
    assert refused.rc == 1
    assert "starts only HTCondor's blahpd and condor_ft-gahp" in refused.stderr
    forwarded = alice.host.check_output("ssh -o BatchMode=yes -W cm:9618 gateway-slurm </dev/null 2>&1; true")
    assert "administratively prohibited" in forwarded
    assert alice.host.check_output(f"stat -c %a ~/{CLIENT}") == "600"


def test_a_glidein_is_counted_after_its_connection_is_killed_and_is_removed(alice, server, slurm, slurm_root):
    cluster = alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    cycle = SITE.play("cycle", "-e", json.dumps(ACCESS_POINT))
    (job_id,) = grid_glideins(alice.host)
    assert f"1 (job {job_id.split('.')[0]})" in cycle.summary
    queued = "squeue -h -O JobID,Partition:8,NumCPUs:6,MinMemory:10,TimeLimit:12,Comment:12"
    row = wait_for("a job of Slurm", lambda: slurm.check_output(queued).split(), LIMIT_S)
    # The glidein's 1024 MB, and 68 for itself.
    assert row[1:] == ["cpu", "1", "1092M", "1:00:00", "pilot"]
    assert alice.outputs(cluster, 1) == ['slurm\n"gateway"']
    wait_for(
        "a glidein that runs, as the access point knows", lambda: grid_glideins(alice.host) == {job_id: 2}, LIMIT_S
    )
    environment = slurm.check_output("tr '\\0' '\\n' </proc/$(pgrep -o -u glidein -f /glidein.sh)/environ")
    names = {line.partition("=")[0] for line in environment.splitlines()}
    assert not names & {"CONDOR_CONFIG", "SSH_CONNECTION", "SSH_ORIGINAL_COMMAND", "GLIDEIN_GATEWAY", "BLAHPD_LOCATION"}

    before = connected(slurm_root)
    slurm_root.check_output(f"kill -9 {' '.join(before)}")
    wait_for("new connections", lambda: not set(connected(slurm_root) or before) & set(before), LIMIT_S)
    assert slurm.check_output("squeue -h -u glidein -t running -o %A") == row[0]
    assert SITE.counted(SITE.play("status", "-e", json.dumps(ACCESS_POINT)))[:3] == [0, 1, 0]

    alice.host.check_output(f"condor_rm {job_id}")
    wait_for("a Slurm queue without the glidein", lambda: not slurm.check_output("squeue -h -u glidein"), LIMIT_S)
    sandboxes = f"find {DIRECTORY}/sandbox -mindepth 1"
    wait_for("no files of the glidein", lambda: not slurm.check_output(sandboxes), LIMIT_S)


def test_glideins_wait_while_the_login_node_cannot_be_reached(alice, server, slurm):
    alice.host.check_output(f"sed -i 's/Port 22$/Port 1/' ~/{CLIENT}.config")
    try:
        alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
        server.wait_for_jobs(1)
        SITE.play("cycle", "-e", json.dumps(ACCESS_POINT))
        unavailable = "condor_q -constraint 'GridResourceUnavailableTime isnt undefined' -af ClusterId"
        wait_for("a glidein that cannot be sent", lambda: alice.host.check_output(unavailable), LIMIT_S)
        assert list(grid_glideins(alice.host).values()) == [1]
        shown = playbook("status", "-l", "slurm", "-e", json.dumps(LOGIN_NODE)).output
        assert "slurm: installed, HTCondor 23.9.6, no schedd; jobs: 0; the access point cannot connect: ssh: " in shown
    finally:
        alice.host.check_output(f"sed -i 's/Port 1$/Port 22/' ~/{CLIENT}.config")
    wait_for("the glidein in Slurm", lambda: slurm.check_output("squeue -h -u glidein"), LIMIT_S)
