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


@pytest.fixture(scope="module")
def token_dir(cm):
    """On the central manager, a folder for `alice` with the token that the site has, and nothing else of HTCondor's."""
    cm.check_output(
        "install -d -o alice -m 700 /home/alice/stolen && "
        "install -o alice -m 600 /var/lib/glidein-ops/tokens/slurm /home/alice/stolen/site"
    )
    yield "/home/alice/stolen"
    cm.check_output("rm -rf /home/alice/stolen")


def as_glidein(alice, folder, command):
    """Run an HTCondor tool as whoever holds the site's token."""
    settings = (
        f"_CONDOR_SEC_TOKEN_DIRECTORY={folder} _CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=IDTOKENS "
        f"_CONDOR_SEC_PASSWORD_FILE={folder}/pool_password"
    )
    return alice.host.run(f"env {settings} {command} 2>&1")


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


@pytest.mark.parametrize(
    "command",
    [
        "condor_off -fast -negotiator",
        "condor_reconfig -daemon collector",
        "condor_config_val -collector -rset X=1",
        "condor_submit -name cm /dev/null",
    ],
)
def test_a_sites_token_opens_nothing_else(alice, token_dir, command):
    done = as_glidein(alice, token_dir, command)
    assert done.rc != 0, done
    assert alice.host.run("condor_status -negotiator -af Name").stdout.strip() != ""


def test_a_sites_token_cannot_advertise_a_schedd(alice, token_dir):
    alice.host.check_output(
        'printf \'MyType="Scheduler"\\nName="evil"\\nScheddIpAddr="<127.0.0.1:1>"\\n'
        'MyAddress="<127.0.0.1:1>"\\nMachine="evil"\\n\' > evil.ad'
    )
    as_glidein(alice, token_dir, "condor_advertise -tcp UPDATE_SCHEDD_AD evil.ad")
    assert alice.host.check_output("condor_status -schedd -af Name") == "cm"


def test_the_pool_password_runs_jobs_too_and_nothing_else(alice, server, slurm, cm, more_sites):
    inventory = more_sites(
        {"withpassword": {"ansible_host": "slurm", "glidein_credential": "pool_password", "glidein_entries": ENTRIES}}
    )
    deploy = playbook("deploy", inventory=inventory)
    assert deploy.rc == 0, deploy
    secret = cm.check_output("base64 -w0 /etc/condor/glidein/pool_password")
    assert secret not in deploy.output
    assert cm.file("/etc/condor/glidein/pool_password").mode == 0o600
    assert (
        cm.check_output(
            "cmp -s /etc/condor/glidein/pool_password $(condor_config_val SEC_TOKEN_POOL_SIGNING_KEY_FILE)"
            " && echo same; true"
        )
        == ""
    )
    assert not slurm.file("/home/glidein/.glidein/withpassword/credential").exists

    cluster = alice.submit(seconds=5)
    server.wait_for_jobs(1)
    cycle = playbook("cycle", inventory=inventory)
    identity = wait_for(
        "the glidein",
        lambda: cm.check_output(
            "condor_status -constraint 'PartitionableSlot && GLIDEIN_Site == \"withpassword\"'"
            " -af AuthenticatedIdentity"
        ),
    )
    assert identity.startswith("condor_pool@"), cycle
    assert alice.outputs(cluster) == ['slurm\n"withpassword"']

    # Whoever unpacks the tarball has the pool password. HTCondor's defaults would make him an administrator.
    cm.check_output(
        "install -d -o alice -m 700 /home/alice/stolen && "
        "install -o alice -m 600 /etc/condor/glidein/pool_password /home/alice/stolen/pool_password"
    )
    try:
        for command in ("condor_off -fast -negotiator", "condor_reconfig -daemon collector"):
            done = alice.host.run(
                "env _CONDOR_SEC_PASSWORD_FILE=/home/alice/stolen/pool_password "
                f"_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=PASSWORD {command} 2>&1"
            )
            assert done.rc != 0, done
        assert cm.check_output("condor_status -negotiator -af Name") != ""
    finally:
        cm.check_output("rm -rf /home/alice/stolen")
        slurm.check_output("scancel -u glidein; rm -rf ~/.glidein/withpassword")
        # Back to what the lab's own inventory says.
        assert playbook("deploy", "-l", "cm").rc == 0
