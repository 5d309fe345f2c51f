# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures around a gateway, and its upkeep: no pilot is lost, and nothing needs a person but the playbooks."""

import json
import time

import pytest
from conftest import INVENTORY, playbook, wait_for
from gateway_lab import HOME, PILOT, VARIABLES, gateway_playbook, installed_gateway

GATEWAY = f"{HOME}/slurm"
QUEUE = f"CONDOR_CONFIG={GATEWAY}/condor_config {GATEWAY}/release/bin/condor_q -allusers"
LISTED = "condor_status -schedd -constraint 'is_glidein =?= true' -af Name"
# blahp waits for sbatch for so long. It kills it 10 s later.
IMPATIENT = {"glidein_gateway_blah_config": {"blah_child_poll_timeout": 5}}
SLOW = """\
#!/bin/sh
/usr/bin/sbatch.real "$@"
sleep 60
"""


@pytest.fixture(scope="module", autouse=True)
def installed(cm, slurm, slurm_root):
    with installed_gateway(cm, slurm, slurm_root):
        wait_for("the gateway's ad", lambda: cm.check_output(LISTED) == "gateway-slurm@", 30)
        yield


def submit(alice, *commands):
    """Submit a pilot that sleeps; return its cluster id. commands: further ones of the description."""
    text = PILOT.replace("/usr/bin/env", "/bin/sleep").replace("output =", "arguments = 300\noutput =")
    text = text.replace("queue\n", "\n".join([*commands, "queue\n"]))
    alice.host.check_output("cat > pilot.sub <<'END'\n" + text + "END")
    return alice.host.check_output("condor_submit -terse pilot.sub").split(".")[0]


def in_slurm(slurm):
    """Return {job id: state}."""
    return dict(line.split() for line in slurm.check_output("squeue -h -u glidein -o '%A %T'").splitlines())


def state_of(alice, cluster):
    """Return JobStatus and GridJobStatus at the access point."""
    return alice.host.check_output(f"condor_q {cluster} -af JobStatus GridJobStatus").split()


def status(slurm):
    return json.loads(slurm.check_output(f"{GATEWAY}/gateway status"))


def test_pilots_outlive_the_schedd_of_their_access_point_and_an_upgrade(alice, cm, slurm):
    """Stop the access point's schedd and gridmanager, and install another release, while pilots wait and run.

    The gateway does not contact the access point by itself, so the length of the outage does not matter.
    """
    running = submit(alice)
    waiting = submit(alice, '+remote_BatchExtraSubmitArgs = "#SBATCH --hold"')
    before = wait_for(
        "both pilots", lambda: sorted(in_slurm(slurm).values()) == ["PENDING", "RUNNING"] and in_slurm(slurm)
    )
    release = slurm.check_output(f"readlink {GATEWAY}/release")
    cm.check_output("condor_off -fast -schedd")
    wait_for("the end of the schedd", lambda: not cm.check_output("pgrep 'condor_schedd|condor_gridman' || true"))
    config = cm.check_output("cat /etc/blah.config")
    try:
        # The tarball has this file.
        cm.check_output("echo '# Another release.' >> /etc/blah.config")
        gateway_playbook("-e", json.dumps(IMPATIENT))
        assert slurm.check_output(f"readlink {GATEWAY}/release") != release
        assert in_slurm(slurm) == before
        cm.check_output("condor_on -schedd")
        wait_for("the schedd", lambda: cm.run("condor_q -all").rc == 0)
        wait_for("the running pilot", lambda: state_of(alice, running) == ["2", "RUNNING"], 120)
        wait_for("the waiting pilot", lambda: state_of(alice, waiting) == ["1", "IDLE"], 120)
        assert in_slurm(slurm) == before
    finally:
        cm.check_output(f"cat > /etc/blah.config <<'END'\n{config}\nEND\ncondor_on -schedd")


def test_an_idle_gateway_ends_and_expired_tokens_are_renewed(alice, cm, slurm, tmp_path):
    wait_for("an empty queue", lambda: slurm.check_output(f"{QUEUE} -af ClusterId") == "", 60)
    # As the schedd runs it each minute. `idle` has the time since which the queue is empty.
    attributes = f"{GATEWAY}/gateway attributes"
    slurm.check_output(f"{attributes} 3600; touch -d '1 hour ago' {GATEWAY}/idle; {attributes} 3600")
    wait_for("the end of the gateway", lambda: status(slurm)["state"] == "stopped", 60)
    assert status(slurm)["reason"].startswith("idle since 20")
    slurm.check_output(f"{GATEWAY}/gateway keep")
    assert cm.check_output(LISTED) == ""

    expired = cm.check_output("condor_token_create -identity gateway-slurm@cm -lifetime 1 -authz ADVERTISE_SCHEDD")
    slurm.check_output(f"cat > {GATEWAY}/tokens.d/pool <<'END'\n{expired}\nEND")
    mint = f"CONDOR_CONFIG={GATEWAY}/condor_config {GATEWAY}/release/bin/condor_token_create -key POOL"
    short = slurm.check_output(f"{mint} -identity glidein@gateway-slurm -lifetime 1 -authz WRITE")
    slurm.check_output(f"cat > {GATEWAY}/submit-token <<'END'\n{short}\nEND")
    alice.host.check_output(f"cat > .condor/tokens.d/gateway-slurm <<'END'\n{short}\nEND")
    # As the playbook `gateway` does.
    slurm.check_output(f"sleep 1; {GATEWAY}/gateway install cron")
    assert max(status(slurm)["tokens"].values()) < time.time()
    assert cm.check_output(LISTED) == ""
    pilot = submit(alice)
    # The access point cannot use the gateway: Ansible logs in.
    renew = playbook("renew", "-e", json.dumps(VARIABLES))
    assert renew.rc == 0, renew
    wait_for("the gateway's ad", lambda: cm.check_output(LISTED) == "gateway-slurm@", 120)
    wait_for("the pilot", lambda: state_of(alice, pilot) == ["2", "RUNNING"], 120)
    assert min(status(slurm)["tokens"].values()) > time.time() + 29 * 86400

    # No login is possible, and the pool's token is renewed once more: a job of the gateway stores it.
    cm.check_output("rm /var/lib/glidein-ops/gateway/tokens/slurm")
    no_login = tmp_path / "no_login.json"
    no_login.write_text(json.dumps({"glidein_sites": {"hosts": {"slurm": {"ansible_port": 1}}}}))
    renew = playbook("renew", "-e", json.dumps(VARIABLES), inventory=(INVENTORY, no_login))
    assert renew.recap["slurm"]["changed"] == 1, renew
    token = slurm.check_output(f"cat {GATEWAY}/tokens.d/pool")
    assert token == cm.check_output("cat /var/lib/glidein-ops/gateway/tokens/slurm")
    assert token not in renew.output


def test_a_batch_job_that_a_slow_sbatch_left_behind_is_cancelled(alice, slurm, slurm_root):
    """Slurm accepts the job, but blahp ends sbatch before it has printed the id."""
    slurm_root.check_output("mv /usr/bin/sbatch /usr/bin/sbatch.real")
    try:
        slurm_root.check_output("cat > /usr/bin/sbatch <<'END'\n" + SLOW + "END\nchmod 755 /usr/bin/sbatch")
        pilot = submit(alice)
        wait_for("a held pilot", lambda: state_of(alice, pilot)[:1] == ["5"], 180)
        reason = alice.host.check_output(f"condor_q {pilot} -af HoldReason")
        assert "5 seconds timeout expired" in reason
        assert len(in_slurm(slurm)) == 1
        # As the schedd runs it each minute.
        slurm.check_output(f"{GATEWAY}/gateway attributes 0")
        wait_for("the cancellation", lambda: not in_slurm(slurm), 60)
    finally:
        slurm_root.check_output("mv /usr/bin/sbatch.real /usr/bin/sbatch")
    assert "cancelled the untracked job" in slurm.check_output(f"cat {GATEWAY}/gateway.log")
