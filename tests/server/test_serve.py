# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the real command: errors of an invalid configuration, serving, and the end after a signal."""

import contextlib
import json
import os
import socket
import subprocess
import sys

import pytest

from conftest import site_report
from databases import becomes
from running import COMMAND, Running, fetch


def end_of(folder, toml, command="serve"):
    """Start with an invalid configuration; return the only line of output."""
    path = folder / "config.toml"
    path.write_text(f"state.database = 'sqlite:///{folder}/state.db'\n{toml}\n")
    done = subprocess.run(
        [*COMMAND, command, "--config", str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("server.port = 0", ["server.port = 0", "Expected `int` >= 1"]),
        ("server.bnd = 'x'", ["server.bnd", "did you mean server.bind?"]),
        ("server.port = ", ["not a TOML file"]),
        ("pool.constraint = 'WantX =='", ["pool.constraint = 'WantX =='", "not a ClassAd expression"]),
        ("server.bind = '192.0.2.1'", ["server.bind = '192.0.2.1'", "cannot listen", "address of this host"]),
        ("server.bind = 'no such host'", ["server.bind = 'no such host'", "address of this host"]),
    ],
)
def test_the_error_of_an_invalid_configuration_is_one_line(tmp_path, toml, words):
    line = end_of(tmp_path, toml)
    assert line.startswith("glidein-demand: ")
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize(
    ("url", "status"), [("sqlite:////nonexistent/state.db", 1), ("postgresql+nodriver://x@127.0.0.1:1/late", 2)]
)
def test_a_database_that_cannot_be_used_ends_the_start_and_systemd_tries_again_if_that_can_help(tmp_path, url, status):
    path = tmp_path / "config.toml"
    path.write_text(f"state.database = '{url}'\n")
    done = subprocess.run(
        [*COMMAND, "serve", "--config", str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == 1
    assert "state.database" in done.stderr


def test_a_port_in_use_ends_the_start(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = end_of(tmp_path, f"server.bind = '127.0.0.1'\nserver.port = {port}")
    assert f"server.port = {port}" in line
    assert "in use" in line


def test_check_accepts_a_good_configuration_silently(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(f"state.database = 'sqlite:///{tmp_path}/state.db'\npool.constraint = 'WantX == 1'\n")
    done = subprocess.run(
        [*COMMAND, "check", "--config", str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "state.db").exists()


@pytest.fixture
def server(tmp_path):
    """Return a running server whose HTCondor does not respond."""
    with Running(tmp_path, sites=["PSC"]) as running:
        yield running


def test_the_server_runs_without_htcondor_and_reports_the_problem(server):
    def error():
        status, answer = server.call("get_demand", site="PSC")
        assert status == 200
        return answer["result"]["schedds"].get("error")

    assert becomes(error)
    assert server.get("/healthz")[0] == 503
    # The collector is asked for the machines after it was asked for the schedds.
    assert becomes(lambda: "does not answer" in server.get("/")[1])
    assert "No schedd is known: " in server.get("/")[1]


def test_a_body_over_the_limit_is_refused_by_the_running_server(server):
    for size in (1_100_000, 3_000_000):
        body = json.dumps({"jsonrpc": "2.0", "method": "x" * size, "id": 1}).encode()
        assert fetch(f"{server.url}/jsonrpc", body)[0] == 413


@pytest.fixture
def collector():
    """Return the listening socket of a collector that does not respond."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


def with_collector(server, collector):
    """Change the configuration of a server, which does not run yet, to this collector; return the server."""
    text = server.config.read_text()
    server.config.write_text(text.replace("127.0.0.1:1", f"127.0.0.1:{collector.getsockname()[1]}"))
    return server


def test_refreshes_and_requests_leave_no_complaint_in_the_log(tmp_path, collector):
    """Check the log after several refreshes, whose queries fail."""
    with with_collector(Running(tmp_path, sites=["PSC"]), collector) as server:
        for _query in range(10):
            collector.accept()[0].close()
            assert server.call("get_demand", site="PSC")[0] == 200
        assert [word for word in ("refresh failed", "Traceback") if word in server.stderr] == []


@pytest.mark.parametrize("bind", ["*", "::1"])
def test_the_server_listens_on_ipv4_and_ipv6(tmp_path, bind):
    with Running(tmp_path, bind=bind) as server:
        for host in ("127.0.0.1", "[::1]") if bind == "*" else ("[::1]",):
            assert "glidein_demand_info" in fetch(f"http://{host}:{server.port}/metrics")[1]


def test_a_signal_ends_the_server_while_queries_hang(tmp_path, collector):
    with with_collector(Running(tmp_path), collector) as server:
        connection, _address = collector.accept()
        assert server.get("/metrics")[0] == 200
        assert server.end() == 0
        connection.close()
    assert "Traceback" not in server.stderr


def test_the_server_ends_cleanly_on_a_signal(server):
    assert server.end() == 0
    assert "Traceback" not in server.stderr


def test_acknowledged_writes_survive_a_kill(server):
    assert server.call("report", site_report(), "PSC")[0] == 200
    server.kill()
    server.start()
    entry = server.call("get_supply")[1]["result"]["entries"][0]
    assert (entry["site"], entry["history"]["plans"][0]["present"]) == ("PSC", 3)


def test_a_pause_and_a_revocation_by_command_are_seen_by_the_running_server(server):
    def run(*arguments):
        subprocess.run([*COMMAND, *arguments, "--config", str(server.config)], check=True, capture_output=True)

    run("pause")
    assert becomes(lambda: server.call("get_demand")[1]["result"]["paused"])
    run("resume")
    assert becomes(lambda: not server.call("get_demand")[1]["result"]["paused"])
    assert server.call("get_state", site="PSC")[0] == 200
    run("token", "revoke", "PSC")
    assert becomes(lambda: server.call("get_state", site="PSC")[0] == 400)


def test_no_secret_and_nothing_that_was_sent_is_in_its_log(server):
    secret = server.tokens["PSC"]
    server.call("report", {"site": secret, "as_of": "private"}, "PSC")
    server.call("private-method", {"private": 1}, "PSC")
    server.get(f"/private?{secret}")
    assert server.end() == 0
    assert secret not in server.stderr
    assert "private" not in server.stderr


def test_the_metrics_page_and_history_of_a_running_server_are_there(server):
    assert "glidein_demand_info" in server.get("/metrics")[1]
    assert json.loads(server.get("/history?range=year")[1])["range"] == "year"


def test_another_wsgi_runner_can_serve_it(tmp_path):
    running = Running(tmp_path)
    command = [sys.executable, "-m", "waitress", f"--listen=127.0.0.1:{running.port}", "--call"]
    environment = {**os.environ, "GLIDEIN_DEMAND_CONFIG": str(running.config), "CONDOR_CONFIG": "/nonexistent"}
    process = subprocess.Popen([*command, "glidein_demand.service:wsgi"], env=environment)

    def error():
        with contextlib.suppress(OSError):
            return running.call("get_demand")[1]["result"]["schedds"].get("error")

    try:
        assert becomes(error)  # the refresh runs, too
    finally:
        process.kill()
        process.wait(60)
