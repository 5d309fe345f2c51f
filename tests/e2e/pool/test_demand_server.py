# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the deployed demand server: its tokens, its pause, and its state after it was killed."""

import json
import shlex
import time

import pytest
from conftest import STATE, Server, playbook, wait_for

COMMAND = "runuser -u glidein-demand -- /opt/glidein-demand/current/bin/glidein-demand"


@pytest.fixture(scope="module")
def token():
    """Return the token of the site `slurm`."""
    return (STATE / "demand_tokens" / "slurm").read_text(encoding="ascii").strip()


@pytest.fixture
def pause(cm):
    """Return a function that pauses the server; always resume it afterwards."""
    yield lambda reason: cm.check_output(f"{COMMAND} pause --reason '{reason}'")
    cm.check_output(f"{COMMAND} resume")


def report(site, **more):
    return {"site": site, "as_of": int(time.time()), "error": None, "entries": [], "orphans": 0, **more}


def in_queue(slurm):
    return len(slurm.check_output("squeue -h -r -u glidein").splitlines())


def test_a_site_writes_with_its_own_token_and_for_itself_only(server, token):
    assert server.call("report", report("slurm"), token)["result"] == {"accepted": True}
    assert server.call("report", report("elsewhere"), token)["error"]["code"] == -32001
    assert server.call("report", report("slurm"))["error"]["code"] == -32001
    assert server.call("report", report("slurm"), "x" * 43)["error"]["code"] == -32001


def test_a_token_made_by_the_command_works_until_it_is_revoked(cm, server):
    secret = cm.check_output(f"{COMMAND} token create by-hand 2>/dev/null")
    assert server.call("report", report("by-hand"), secret).get("result") == {"accepted": True}
    cm.check_output(f"{COMMAND} token revoke by-hand")
    assert server.call("report", report("by-hand"), secret).get("error")


def test_no_secret_lies_in_the_database_or_the_log(cm, token):
    assert cm.run_expect([1], f"grep -r -a -F '{token}' /var/lib/glidein-demand /etc/glidein-demand").stdout == ""
    assert token not in cm.check_output("journalctl --no-pager -u glidein-demand")
    assert cm.check_output("find /var/lib/glidein-demand -type f -perm /077") == ""


def test_while_the_server_is_paused_nothing_is_submitted_and_queued_glideins_are_withdrawn(
    cm, alice, server, slurm, slurm_root, pause
):
    slurm_root.check_output("scontrol update PartitionName=cpu State=DOWN")
    try:
        alice.submit(2)
        server.wait_for_jobs(2)
        assert playbook("cycle").rc == 0
        assert in_queue(slurm) == 2
        pause("disk is <full>")
        cycle = playbook("cycle")
        assert cycle.rc == 0, cycle
        assert "the demand server is paused" in " ".join(cycle.summary.split())
        assert in_queue(slurm) == 0
    finally:
        slurm_root.check_output("scontrol update PartitionName=cpu State=UP")
    page = server.get("/").text
    assert "paused" in page.lower()
    assert "disk is &lt;full&gt;" in page
    cm.check_output(f"{COMMAND} resume")
    wait_for("the end of the pause", lambda: not server.call("get_demand")["result"]["paused"])


def test_leases_and_reports_outlive_a_kill(cm, alice, server, token):
    alice.submit(5)
    server.wait_for_jobs(5)
    group = server.call("get_demand")["result"]["groups"][0]["id"]
    claim = {"site": "slurm", "entries": {"cpu": {group: 3}}, "ttl_s": 3600}
    assert server.call("lease", claim, token)["result"]["granted"] == {"cpu": {group: 3}}
    assert server.call("report", report("slurm", error="seen before the kill"), token)["result"]
    cm.check_output("systemctl kill --signal=KILL --kill-whom=all glidein-demand")
    # systemd starts it again.
    wait_for("a new reading", lambda: server.answers() and server.groups_since(0) != [None])
    demand = server.call("get_demand")["result"]
    assert [(row["count"], row["leased"]) for row in demand["groups"]] == [(2, 3)]
    assert [row["count"] for row in server.call("get_demand", token=token)["result"]["groups"]] == [5]
    assert "seen before the kill" in server.get("/").text
    released = {"site": "slurm", "entries": {"cpu": {}}, "ttl_s": 60}
    assert server.call("lease", released, token)["result"]["granted"] == {"cpu": {}}
    assert server.call("report", report("slurm"), token)["result"]


def test_the_metrics_have_the_demand_and_the_sites(alice, server):
    alice.submit(4)
    server.wait_for_jobs(4)
    metrics = server.get("/metrics").text
    assert "glidein_demand_idle_jobs 4.0" in metrics
    assert "process_open_fds" in metrics  # the service sees its own processes in /proc
    health = server.get("/healthz")
    assert (health.status_code, health.json()["status"]) == (200, "ok")


def test_the_check_of_a_constraint_works_in_a_directory_that_the_user_may_not_enter(cm):
    toml = "pool.constraint = 'WantX =?= true'"
    assert cm.check_output(f'cd /root && echo "{toml}" | {COMMAND} check --config -') == ""


def test_a_misspelt_setting_stops_the_deployment_and_changes_nothing(cm):
    before = cm.file("/etc/glidein-demand/config.toml").content_string
    settings = {"demand_server_settings": {"pool": {"constrain": "true"}}}
    for mode in (["--check"], []):
        deploy = playbook("deploy", "-l", "cm", "--tags", "server", *mode, "-e", json.dumps(settings))
        assert deploy.rc != 0
        assert "pool.constrain: unknown setting; did you mean pool.constraint?" in " ".join(deploy.output.split())
    assert cm.file("/etc/glidein-demand/config.toml").content_string == before


def certificate(cm):
    """Make a certificate for 127.0.0.1 on the central manager; return its serial number."""
    cm.check_output("mkdir -p /etc/demand-tls")
    cm.check_output(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=cm "
        "-addext subjectAltName=IP:127.0.0.1 -keyout /etc/demand-tls/key.pem -out /etc/demand-tls/cert.pem"
    )
    return cm.check_output("openssl x509 -noout -serial -in /etc/demand-tls/cert.pem")


def presented(cm):
    """Return the serial number of the certificate at the demand server's address."""
    command = "openssl s_client -connect 127.0.0.1:11001 </dev/null 2>/dev/null | openssl x509 -noout -serial"
    return cm.check_output(f"sh -c {shlex.quote(command)}")


def test_https_by_the_proxy_reading_with_a_token_and_the_configured_connections_and_back(cm, server, token, tmp_path):
    first = certificate(cm)
    known = tmp_path / "cert.pem"
    known.write_text(cm.file("/etc/demand-tls/cert.pem").content_string)
    settings = {
        "demand_server_tls_certificate": "/etc/demand-tls/cert.pem",
        "demand_server_tls_key": "/etc/demand-tls/key.pem",
        "demand_server_tls_remote_src": True,
        "demand_server_settings": {
            "server": {"reading": "token", "max_connections": 600},
            "pool": {"refresh_seconds": 5, "vo": "lab"},
        },
    }
    # It follows from max_connections.
    files = "systemctl show --property LimitNOFILE glidein-demand"
    assert cm.check_output(files) == "LimitNOFILE=1012"
    only_the_server = ("-l", "cm", "--tags", "server")
    try:
        for changed in (True, False):
            deploy = playbook("deploy", *only_the_server, "-e", json.dumps(settings))
            assert deploy.rc == 0, deploy
            assert (deploy.recap["cm"]["changed"] > 0) is changed, deploy
        assert cm.check_output(files) == "LimitNOFILE=1112"
        secure = Server(server.url.replace("http:", "https:"))
        assert secure.get("/healthz", verify=known).status_code == 200
        assert secure.get("/demand", verify=known, headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert secure.get("/", verify=known).status_code == 401
        assert secure.get("/", verify=known, auth=("anybody", token)).status_code == 200
        assert presented(cm) == first
        # Only the proxy connects to the demand server, and the package's default site is disabled.
        listening = cm.check_output("ss -Hltn")
        assert "127.0.0.1:11002" in listening and ":80 " not in listening
        assert cm.check_output("ps -o user= -C nginx").split().count("root") == 1
        second = certificate(cm)
        cm.check_output("systemctl start glidein-demand-proxy-reload")
        wait_for("the renewed certificate", lambda: presented(cm) == second)
        cm.check_output("systemctl is-active glidein-demand-proxy-reload.timer")
    finally:
        assert playbook("deploy", *only_the_server).rc == 0
    assert server.get("/healthz").status_code in (200, 503)
    assert server.get("/").status_code == 200
    assert cm.check_output(files) == "LimitNOFILE=1012"
    assert cm.run("ls /etc/systemd/system/glidein-demand-proxy* /etc/glidein-demand/nginx.conf").rc != 0
    assert "11002" not in cm.check_output("ss -Hltn")
