# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both kinds of credential run jobs, lie where they should, and are good for nothing but a glidein."""

import re

import pytest
from conftest import playbook, wait_for

ENTRIES = {
    "cpu": {
        "queue": "cpu",
        "walltime": "1h",
        "idle_timeout": "60s",
        "priority": 10,
        "shapes": {"one": {"cpus": 1, "memory_mb": 1024, "disk_mb": 1000}},
    }
}
STOLEN = "/home/alice/stolen"
GLIDEINS_MAY = {"ADVERTISE_MASTER", "ADVERTISE_STARTD"}
# Reading is open to everybody in HTCondor's recommended configuration.
NOT_FOR_GLIDEINS = {"ADMINISTRATOR", "ADVERTISE_SCHEDD", "CONFIG", "DAEMON", "NEGOTIATOR", "WRITE"}


@pytest.fixture
def steal(cm):
    """A function that hands alice a file of the central manager's, as if she had taken it from a login node."""
    cm.check_output(f"install -d -o alice -m 700 {STOLEN}")
    yield lambda path, name: cm.check_output(f"install -o alice -m 600 {path} {STOLEN}/{name}")
    cm.check_output(f"rm -rf {STOLEN}")


def as_holder(alice, method, command):
    """Run a tool of HTCondor as somebody who has nothing but what is in STOLEN."""
    settings = (
        f"_CONDOR_SEC_TOKEN_DIRECTORY={STOLEN} _CONDOR_SEC_PASSWORD_FILE={STOLEN}/pool_password "
        f"_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS={method} PATH=$PATH:/usr/sbin"
    )
    return alice.host.run(f"env {settings} {command} 2>&1")


def allowed(alice, method, daemon):
    """The levels of authorization that the holder has with a daemon."""
    levels = sorted(GLIDEINS_MAY | NOT_FOR_GLIDEINS)
    said = as_holder(alice, method, f"condor_ping -type {daemon} {' '.join(levels)}").stdout
    verdicts = dict(re.findall(r"^(\w+) (command using \(\S+ \S+ and \w+\) succeeded|failed!)", said, re.MULTILINE))
    assert sorted(verdicts) == levels, said
    return {level for level, verdict in verdicts.items() if verdict != "failed!"}


def cannot_pose_as_a_schedd(alice, method):
    ad = ["MyType=Scheduler", "Name=evil", "Machine=evil", "ScheddIpAddr=<127.0.0.1:1>", "MyAddress=<127.0.0.1:1>"]
    lines = "".join('{}="{}"\\n'.format(*line.split("=")) for line in ad)
    alice.host.check_output(f"printf '{lines}' > evil.ad")
    as_holder(alice, method, "condor_advertise -tcp UPDATE_SCHEDD_AD evil.ad")
    return alice.host.check_output("condor_status -schedd -af Name") == "cm"


def test_files_of_the_site_are_private(slurm):
    base = "/home/glidein/.glidein"
    for path in (base, f"{base}/slurm", f"{base}/slurm/log"):
        assert slurm.file(path).mode == 0o700
    assert slurm.file(f"{base}/slurm/credential").mode == 0o600
    # (Slurm itself makes the logs of batch jobs; their folder is private.)
    assert slurm.check_output(f"find {base} -type f -perm /077 -not -path '*/log/*'") == ""


def test_a_token_is_one_sites_and_expires(slurm):
    claims = slurm.check_output("cut -d. -f2 ~/.glidein/slurm/credential | tr _- /+ | base64 -d 2>/dev/null; true")
    assert re.search(r'"sub": ?"glidein-slurm@', claims)
    assert '"exp"' in claims
    assert sorted(re.search(r'"scope": ?"([^"]*)"', claims).group(1).replace("\\/", "/").split()) == [
        "condor:/ADVERTISE_MASTER",
        "condor:/ADVERTISE_STARTD",
    ]


def test_a_sites_token_opens_nothing_else(alice, steal):
    steal("/var/lib/glidein-ops/tokens/slurm", "site")
    assert allowed(alice, "IDTOKENS", "collector") == GLIDEINS_MAY
    assert not allowed(alice, "IDTOKENS", "schedd") & NOT_FOR_GLIDEINS
    assert cannot_pose_as_a_schedd(alice, "IDTOKENS")


def test_the_pool_password_runs_jobs_too_and_opens_nothing_else(alice, server, slurm, cm, more_sites, steal):
    inventory = more_sites(
        {
            "withpassword": {
                "ansible_host": "slurm",
                "glidein_credential": "pool_password",
                "glidein_entries": ENTRIES,
            }
        }
    )
    deploy = playbook("deploy", inventory=inventory)
    assert deploy.rc == 0, deploy
    kept_at = "/etc/condor/glidein/pool_password"
    assert cm.check_output(f"base64 -w0 {kept_at}") not in deploy.output
    assert cm.file(kept_at).mode == 0o600
    signing_key = cm.check_output("condor_config_val SEC_TOKEN_POOL_SIGNING_KEY_FILE")
    assert cm.run(f"cmp -s {kept_at} {signing_key}").rc == 1
    assert not slurm.file("/home/glidein/.glidein/withpassword/credential").exists

    cluster = alice.submit(seconds=5)
    server.wait_for_jobs(1)
    cycle = playbook("cycle", inventory=inventory)
    whose = (
        "condor_status -constraint 'PartitionableSlot && GLIDEIN_Site == \"withpassword\"' -af AuthenticatedIdentity"
    )
    identity = wait_for("the glidein", lambda: cm.check_output(whose))
    assert identity in ("condor@password", "condor_pool@cm"), cycle
    assert alice.outputs(cluster) == ['slurm\n"withpassword"']

    # Whoever unpacks the tarball has the pool password. HTCondor's defaults would make him an administrator.
    steal(kept_at, "pool_password")
    try:
        assert allowed(alice, "PASSWORD", "collector") == GLIDEINS_MAY
        assert not allowed(alice, "PASSWORD", "schedd") & NOT_FOR_GLIDEINS
        assert cannot_pose_as_a_schedd(alice, "PASSWORD")
    finally:
        slurm.check_output("scancel -u glidein; rm -rf ~/.glidein/withpassword")
        # Back to what the lab's own inventory says; the tokens that the sites have stay good.
        assert playbook("deploy", "-l", "cm").rc == 0
