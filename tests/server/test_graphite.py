# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the metrics that a Graphite server receives."""

import socket
import threading

import pytest
from glidein_demand import background, config

from conftest import TOKEN, settings, site_report
from databases import becomes
from running import Running, free_port


class Listener:
    """A server of Graphite's plaintext protocol on a local port. `received` has one text for each connection."""

    def __init__(self, port=0):
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.received = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            connection, _address = self._socket.accept()
            with connection, connection.makefile() as stream:
                self.received.append(stream.read())

    def values(self):
        """Return {name: value} of the first connection."""
        assert becomes(lambda: self.received)
        return {name: float(value) for name, value, _time in map(str.split, self.received[0].splitlines())}


def sends_of(service):
    return [line for line in service.get("/metrics").text.splitlines() if line.startswith("glidein_demand_graphite")]


def test_graphite_gets_the_metrics(new_service):
    listener = Listener()
    service = new_service(
        metrics={"graphite_server": "127.0.0.1", "graphite_port": listener.port, "graphite_prefix": "pool.a-1"}
    )
    service.result("report", site_report(entries=[{"entry": "q.1", "shape": "s", "running": 2}]), TOKEN)
    background.graphite(service.server)()
    values = listener.values()
    assert values["pool.a-1.glidein_site_running.entry.q_1.site.PSC"] == 2
    assert values["pool.a-1.glidein_demand_idle_jobs"] == 0
    assert sends_of(service) == [
        'glidein_demand_graphite_sends_total{outcome="error"} 0.0',
        'glidein_demand_graphite_sends_total{outcome="ok"} 1.0',
    ]


def test_a_failure_names_the_setting_and_is_counted(new_service):
    service = new_service(metrics={"graphite_server": "127.0.0.1", "graphite_port": (port := free_port())})
    with pytest.raises(OSError, match=rf"metrics.graphite_server = '127.0.0.1', port {port}: .*refused"):
        background.graphite(service.server)()
    assert 'glidein_demand_graphite_sends_total{outcome="error"} 1.0' in sends_of(service)


def test_a_running_server_sends_its_metrics(tmp_path):
    server = Running(tmp_path)
    listener = Listener()
    with server.config.open("a") as stream:
        stream.write(f'metrics.graphite_server = "127.0.0.1"\nmetrics.graphite_port = {listener.port}\n')
    with server:
        assert "glidein.glidein_demand_healthy" in listener.values()
        assert server.end() == 0


def test_without_a_graphite_server_nothing_is_sent_and_there_is_no_metric(service):
    assert "graphite" not in {thread.name for thread in background.threads(service.server)}
    assert sends_of(service) == []


@pytest.mark.parametrize("host", ["graphite", "graphite.example.org", "127.0.0.1", "2001:db8::1", "::1"])
def test_the_server_is_a_host(host):
    assert settings(metrics={"graphite_server": host}).metrics.graphite_server == host


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"graphite_server": "graphite:2003"}, "name or address of a host"),
        ({"graphite_server": "http://graphite"}, "name or address of a host"),
        ({"graphite_server": 2003}, "name or address of a host"),
        ({"graphite_port": 0}, ">= 1"),
        ({"graphite_prefix": ""}, "separated by dots"),
        ({"graphite_prefix": "a..b"}, "separated by dots"),
        ({"graphite_prefix": "a b"}, "separated by dots"),
        ({"graphite_prefix": "a\n"}, "separated by dots"),
    ],
)
def test_invalid_settings_are_refused(changes, words):
    with pytest.raises(config.ConfigError, match=words):
        settings(metrics=changes)
