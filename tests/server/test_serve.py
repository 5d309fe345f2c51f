# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the real command: errors of an invalid configuration, serving, and the end after a signal."""

import json
import socket
import subprocess

import pytest

from databases import becomes
from running import COMMAND, Running, fetch


@pytest.mark.parametrize(
    ("toml", "status", "words"),
    [
        # systemd starts the server again if that can help.
        ("server.bind = '192.0.2.1'", 1, ["server.bind = '192.0.2.1'", "cannot listen", "address of this host"]),
        ("server.bind = 'no such host'", 2, ["server.bind = 'no such host'", "address of this host"]),
        ("server.bind = '127.0.0.1'\nserver.port = {taken}", 1, ["server.port = {taken}", "in use"]),
        ("state.database = 'postgresql+nodriver://x@127.0.0.1:1/late'", 2, ["state.database"]),
    ],
)
def test_the_error_of_a_start_that_fails_is_one_line(tmp_path, toml, status, words):
    path = tmp_path / "config.toml"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = str(listening.getsockname()[1])
        database = "" if "state." in toml else f"state.database = 'sqlite:///{tmp_path}/state.db'\n"
        path.write_text(database + toml.replace("{taken}", taken))
        done = subprocess.run(
            [*COMMAND, "serve", "--config", str(path)], capture_output=True, text=True, timeout=120, check=False
        )
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("glidein-demand: ")
    assert [word for word in words if word.replace("{taken}", taken) not in line] == []


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
    assert json.loads(server.get("/history?range=year")[1])["range"] == "year"


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


def test_no_secret_and_nothing_that_was_sent_is_in_its_log(server):
    secret = server.tokens["PSC"]
    server.call("report", {"site": secret, "as_of": "private"}, "PSC")
    server.call("private-method", {"private": 1}, "PSC")
    server.get(f"/private?{secret}")
    assert server.end() == 0
    assert [word for word in (secret, "private", "Traceback") if word in server.stderr] == []
