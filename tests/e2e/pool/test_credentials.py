# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that both kinds of credential run jobs, are stored as documented, and permit only what a glidein needs."""

import base64
import json

import pytest
from conftest import STATE, no_glideins, playbook, wait_for
from holder import GLIDEINS_MAY, NOT_FOR_GLIDEINS, Holder
from site_deployment import deploy_sites

ENTRIES = {
    "cpu": {
        "queue": "cpu",
        "walltime": "1h",
        "idle_timeout": "30m",
        "priority": 10,
        "shapes": {"one": {"cpus": 1, "memory_mb": 1024, "disk_mb": 1000}},
    }
}
MACHINE = {
    "MyType": '"Machine"',
    "Name": '"slot1@thief"',
    "Machine": '"thief"',
    "MyAddress": '"<127.0.0.1:1>"',
    "StartdIpAddr": '"<127.0.0.1:1>"',
    "State": '"Unclaimed"',
    "Activity": '"Idle"',
    "is_glidein": "true",
    "GLIDEIN_Site": '"somewhere"',
    "GLIDEIN_Entry": '"cpu"',
    "GLIDEIN_Shape": '"one"',
}


@pytest.fixture
def holder(cm, alice):
    """Return a function that creates a Holder for a method of authentication."""
    yield lambda method: Holder(cm, alice, method)
    Holder(cm, alice).drop()


def cannot_pose_as_a_schedd(alice, thief):
    taken = thief.advertise("UPDATE_SCHEDD_AD", **dict(MACHINE, MyType='"Scheduler"', Name='"evil"'))
    return not taken and alice.host.check_output("condor_status -schedd -af Name") == "cm"


def test_files_of_the_site_are_private(slurm):
    base = "/home/glidein/.glidein"
    for path in (base, f"{base}/slurm", f"{base}/slurm/log"):
        assert slurm.file(path).mode == 0o700
    assert slurm.file(f"{base}/slurm/credential").mode == 0o600
    # (Slurm creates the logs of batch jobs; their directory is private.)
    assert slurm.check_output(f"find {base} -type f -perm /077 -not -path '*/log/*'") == ""


def claims(token):
    """Return the claims of an IDTOKEN without checking its signature."""
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def test_a_token_is_one_sites_and_expires(slurm):
    says = claims(slurm.check_output("cat ~/.glidein/slurm/credential"))
    assert says["sub"].startswith("glidein-slurm@")
    assert says["exp"] > says["iat"]
    assert sorted(says["scope"].split()) == ["condor:/ADVERTISE_MASTER", "condor:/ADVERTISE_STARTD"]


def test_a_sites_token_opens_nothing_else(alice, holder, cm, server):
    thief = holder("IDTOKENS")
    thief.steal("/var/lib/glidein-ops/tokens/slurm", "site")
    assert thief.allowed("collector") == GLIDEINS_MAY
    assert not thief.allowed("schedd") & NOT_FOR_GLIDEINS
    assert cannot_pose_as_a_schedd(alice, thief)
    # Existing lists of the pool are expanded, not taken as names.
    for level in ("ALLOW_ADVERTISE_STARTD", "DENY_ADVERTISE_MASTER", "DENY_ADVERTISE_STARTD"):
        assert "$(" not in cm.check_output(f"condor_config_val -collector {level}")

    # The token can advertise a machine under any name, and remove machines. The collector adds the token's identity.
    assert thief.advertise("UPDATE_STARTD_AD", **MACHINE)
    whose = "condor_status -constraint 'Machine == \"thief\"' -af AuthenticatedIdentity GLIDEIN_Site"
    assert cm.check_output(whose) == "glidein-slurm@cm somewhere"

    def sites():
        return {entry["site"] for entry in server.supply()["entries"] if entry["registered"]}

    wait_for("the machine among those of the token's site", lambda: sites() == {"slurm"})
    assert thief.advertise("INVALIDATE_STARTD_ADS", MyType='"Query"', TargetType='"Machine"', Requirements="true")
    assert cm.check_output(whose) == ""

    # The token can request another token, with the same permissions and expiry time.
    fetched = thief.run("condor_token_fetch").stdout.strip()
    own = cm.check_output("cat /var/lib/glidein-ops/tokens/slurm")
    assert {claims(fetched)[key] == claims(own)[key] for key in ("sub", "scope", "exp")} == {True}

    # It permits nothing on jobs and daemons.
    cluster = alice.submit()
    schedd = alice.host.check_output("condor_status -schedd -af MyAddress")
    for command in (
        f"condor_submit -addr '{schedd}' job.sub",
        f"condor_rm -addr '{schedd}' {cluster}",
        f"condor_hold -addr '{schedd}' {cluster}",
        f"condor_transfer_data -addr '{schedd}' {cluster}",
        f"condor_ssh_to_job {cluster}.0",
        "condor_off -schedd",
        "condor_reconfig",
        "condor_config_val -collector -rset FOO=1",
        "condor_userprio -setfactor alice@cm 5",
        "condor_store_cred query-oauth -s any",
    ):
        tried = thief.run(f"timeout 300 {command}")
        assert tried.rc not in (0, 124, 126, 127), (command, tried.stdout)
    for kind in ("SUBMITTOR", "NEGOTIATOR", "COLLECTOR", "ACCOUNTING", "GRID"):
        assert not thief.advertise(f"UPDATE_{kind}_AD", **MACHINE), kind
    assert cm.check_output("condor_q -all -af ClusterId JobStatus") == f"{cluster} 1"


def test_the_pool_password_runs_jobs_too_opens_nothing_else_and_can_be_rotated(
    alice, server, slurm, cm, more_sites, holder, finish_file
):
    inventory = more_sites(
        {
            "withpassword": {
                "ansible_host": "slurm",
                "glidein_credential": "pool_password",
                "glidein_entries": ENTRIES,
            }
        }
    )
    deploy = deploy_sites(inventory, "withpassword", tags="pool,tarball,tokens,sites")
    kept_at = "/etc/condor/glidein/pool_password"
    assert cm.check_output(f"base64 -w0 {kept_at}") not in deploy.output
    assert cm.file(kept_at).mode == 0o600
    signing_key = cm.check_output("condor_config_val SEC_TOKEN_POOL_SIGNING_KEY_FILE")
    assert cm.run(f"cmp -s {kept_at} {signing_key}").rc == 1
    assert not slurm.file("/home/glidein/.glidein/withpassword/credential").exists

    cluster = alice.submit(seconds=finish_file.seconds)
    server.wait_for_jobs(1)
    cycle = playbook("cycle", inventory=inventory)
    whose = (
        "condor_status -constraint 'PartitionableSlot && GLIDEIN_Site == \"withpassword\"' -af AuthenticatedIdentity"
    )
    identity = wait_for("the glidein", lambda: cm.check_output(whose))
    assert identity in ("condor@password", "condor_pool@cm"), cycle
    rotated_under_a_running_job(alice, cm, slurm, cluster, inventory, kept_at)
    finish_file.create()
    assert alice.outputs(cluster) == ['slurm\n"withpassword"']
    assert cm.check_output(f"condor_history {cluster} -limit 1 -af NumJobStarts") == "1"

    # A user who unpacks the tarball has the pool password. With HTCondor's defaults, that user would be an
    # administrator.
    thief = holder("PASSWORD")
    thief.steal(kept_at, "pool_password")
    try:
        assert thief.allowed("collector") == GLIDEINS_MAY
        assert not thief.allowed("schedd") & NOT_FOR_GLIDEINS
        assert cannot_pose_as_a_schedd(alice, thief)
    finally:
        no_glideins(slurm)
        slurm.check_output("rm -rf ~/.glidein/withpassword")
        # Restore the lab's own inventory; the sites' tokens stay valid.
        assert playbook("deploy", "-l", "cm", "--tags", "pool,tarball,tokens").rc == 0


def rotated_under_a_running_job(alice, cm, slurm, cluster, inventory, kept_at):
    """Rotate the pool password while a glidein runs a job. The glidein retires, and the site is not drained."""
    wait_for("the running job", lambda: alice.host.check_output(f"condor_q {cluster} -af JobStatus") == "2")
    read = f"base64 -w0 {kept_at}"
    before = cm.check_output(read)
    rotate = playbook("rotate", "-e", "rotate=pool_password", inventory=inventory)
    assert rotate.rc == 0, rotate
    after = cm.check_output(read)
    assert after != before and after not in rotate.output
    assert "withpassword: 1 glidein was retired." in rotate.output
    folder = "/home/glidein/.glidein/withpassword"
    assert not slurm.file(f"{folder}/drain.json").exists
    tarball = f"{folder}/current/tarballs/$(awk '{{print $7}}' {folder}/current/tarballs.list)"
    assert slurm.check_output(f"tar -xzOf {tarball} --wildcards '*etc/pool_password' | base64 -w0") == after


def test_an_existing_pool_password_is_copied_and_a_given_one_stored_as_htcondor_stores_it(cm):
    own, kept = "/etc/condor/own_password", "/etc/condor/glidein/pool_password"
    allowed = ("-l", "cm", "--tags", "pool", "-e", "glidein_credential=pool_password")
    cm.check_output(f"condor_store_cred add -c -f {own} -p the-pool-has-had-it-for-years")
    try:
        assert playbook("deploy", *allowed, "-e", f"central_manager_pool_password_from={own}").rc == 0
        cm.check_output(f"cmp {own} {kept}")
        for password, is_the_same in (("another", False), ("the-pool-has-had-it-for-years", True)):
            assert playbook("deploy", *allowed, "-e", f"central_manager_pool_password={password}").rc == 0
            assert (cm.run(f"cmp {own} {kept}").rc == 0) == is_the_same
        signing_key = cm.check_output("condor_config_val SEC_TOKEN_POOL_SIGNING_KEY_FILE")
        refused = playbook("deploy", *allowed, "-e", f"central_manager_pool_password_from={signing_key}")
        assert refused.rc != 0
        assert "the same content as the key that signs tokens" in " ".join(refused.output.split())
    finally:
        cm.check_output(f"rm -rf {own} /etc/condor/glidein")
        assert playbook("deploy", "-l", "cm", "--tags", "pool").rc == 0


def test_a_token_and_a_tarball_are_enough_without_root_on_the_pool(alice, server, slurm, cm, tmp_path):
    (tmp_path / "token").write_text(cm.check_output("cat /var/lib/glidein-ops/tokens/slurm"), encoding="ascii")
    packed = cm.check_output("base64 -w0 /var/lib/glidein-ops/native.tar.gz")
    (tmp_path / "condor.tar.gz").write_bytes(base64.b64decode(packed))
    site = {
        "ansible_host": "slurm",
        "ansible_ssh_common_args": f"-F {STATE}/ssh_config",
        "glidein_site": "slurm",
        "glidein_deployment": "lab",
        "glidein_home": "~/.glidein-supplied",
        "glidein_collector": "cm:9618",
        "glidein_demand_url": server.url,
        "glidein_demand_token": (STATE / "demand_tokens/slurm").read_text(encoding="ascii").strip(),
        "glidein_guard": {"cancel_delay": 0, "hold_readings": 0},
        "glidein_scheduler": "slurm",
        "glidein_entries": ENTRIES,
        "glidein_credential_file": str(tmp_path / "token"),
        "glidein_tarball_file": str(tmp_path / "condor.tar.gz"),
        "glidein_cache_dir": str(tmp_path / "cache"),
    }
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"all": {"children": {"glidein_sites": {"hosts": {"login": site}}}}}))
    try:
        deploy = playbook("deploy", inventory=(inventory,))
        assert deploy.rc == 0, deploy
        assert "privilege escalation" not in deploy.output
        assert (tmp_path / "token").read_text(encoding="ascii").strip() not in deploy.output
        assert slurm.file("/home/glidein/.glidein-supplied/slurm/credential").mode == 0o600
        again = playbook("deploy", inventory=(inventory,))
        assert (again.rc, again.recap["login"]["changed"]) == (0, 0), again

        cluster = alice.submit(seconds=5)
        server.wait_for_jobs(1)
        cycle = playbook("cycle", inventory=(inventory,))
        assert "SUBMITTED" in cycle.summary, cycle
        assert alice.outputs(cluster) == ['slurm\n"slurm"'], cycle
    finally:
        no_glideins(slurm)
        slurm.check_output("rm -rf ~/.glidein-supplied")
