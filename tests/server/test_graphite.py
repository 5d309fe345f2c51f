# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the metrics of sites and PyGlidein clients that a Graphite server receives."""

import socket
import threading

import msgspec
import pytest
from glidein_demand import background, config, graphite_exporter
from glidein_demand.periodic import Every
from glidein_demand.store.database import Database
from glidein_demand.store.reports import Reports
from glidein_demand.web import parameters

from conftest import NOW, TOKEN, settings, site_report
from databases import becomes
from running import Running, free_port


class Listener:
    """A server of Graphite's plaintext protocol on a local port. `received` has one text for each connection."""

    def __init__(self, port=0):
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.received = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self.received or self.received[-1] != "end":
            connection, _address = self._socket.accept()
            with connection, connection.makefile() as stream:
                self.received.append(stream.read())

    def close(self):
        """Handle the connections that were made before this one, then stop."""
        with socket.create_connection(("127.0.0.1", self.port), 60) as last:
            last.sendall(b"end")
        self._thread.join(60)
        self._socket.close()
        self.received.pop()

    def lines(self):
        self.close()
        return "".join(self.received).splitlines()


@pytest.fixture
def listener():
    return Listener()


def exporter(new_service, port, **changes):
    service = new_service(metrics={"graphite_server": f"127.0.0.1:{port}", **changes})
    return service, service.server.graphite


def monitor(service, token=None, uuid="glide@login1.org", **metrics):
    params = {"uuid": uuid, "timestamp": NOW, "metrics": metrics or {"glideins_running": {"Cluster": 7}}}
    return service.result("monitoring", params, token)


def test_reports_of_sites_have_the_names_of_pyglidein(new_service, listener):
    service, graphite = exporter(new_service, listener.port)
    entry = {**site_report()["entries"][0], "launched": 4}
    report = site_report(entries=[entry, {**entry, "shape": "small", "launched": 1}])
    service.result("report", report, TOKEN)
    assert graphite.send() == 3
    assert listener.lines() == [
        f"pyglidein.PSC.RM.glideins.launched 5 {NOW}",
        f"pyglidein.PSC.RM.glideins.running 4 {NOW}",
        f"pyglidein.PSC.RM.glideins.idle 2 {NOW}",
    ]


def test_a_report_is_sent_once(new_service, listener):
    service, graphite = exporter(new_service, listener.port)
    service.result("report", site_report(), TOKEN)
    assert (graphite.send(), graphite.send()) == (3, 0)
    service.now += 300
    service.result("report", site_report(as_of=NOW + 300), TOKEN)
    assert graphite.send() == 3
    assert [line.split()[2] for line in listener.lines()] == [str(NOW)] * 3 + [str(NOW + 300)] * 3


def test_an_unknown_count_has_no_point(new_service, listener):
    service, graphite = exporter(new_service, listener.port)
    service.result("report", site_report(entries=[{"entry": "q", "shape": "s", "running": 2}]), TOKEN)
    graphite.send()
    names = [line.split()[0] for line in listener.lines()]
    assert names == ["pyglidein.PSC.q.glideins.launched", "pyglidein.PSC.q.glideins.running"]


def test_names_that_graphite_would_divide_are_changed_and_the_prefix_is_a_setting(new_service, listener):
    service, graphite = exporter(new_service, listener.port, graphite_prefix="pool.pyglidein-2")
    service.server.tokens.install({"lab.example-1": TOKEN})
    service.result("report", site_report(site="lab.example-1", entries=[{"entry": "q.1-a", "shape": "s"}]), TOKEN)
    graphite.send()
    assert listener.lines() == [f"pool.pyglidein-2.labexample1.q_1-a.glideins.launched 0 {NOW}"]


def test_clients_with_a_token_are_sent_and_others_only_if_the_operator_allows_it(new_service, listener):
    service, graphite = exporter(new_service, listener.port)
    monitor(service, TOKEN, "mine", glideins_idle={"a b": 1}, avg_idle_time={"a b": 30})
    monitor(service)
    graphite.send()
    assert sorted(listener.lines()) == [
        f"pyglidein.mine.a_b.glideins.avg_idle_time 30 {NOW}",
        f"pyglidein.mine.a_b.glideins.idle 1 {NOW}",
    ]
    allowing = Listener()
    service, graphite = exporter(new_service, allowing.port, graphite_anonymous_clients=True)
    monitor(service)
    graphite.send()
    assert f"pyglidein.glidelogin1org.Cluster.glideins.running 7 {NOW}" in allowing.lines()


def test_a_client_cannot_replace_the_values_of_a_site(new_service, listener):
    service, graphite = exporter(new_service, listener.port, graphite_anonymous_clients=True)
    service.result("report", site_report(), TOKEN)
    monitor(service, uuid="P.S.C", glideins_running={"RM": 999, "other\nforged 1 1": 5})
    graphite.send()
    lines = listener.lines()
    assert [line for line in lines if "RM.glideins.running" in line] == [f"pyglidein.PSC.RM.glideins.running 2 {NOW}"]
    assert f"pyglidein.PSC.other_forged_1_1.glideins.running 5 {NOW}" in lines
    assert all(len(line.split(" ")) == 3 for line in lines)


def test_a_failure_is_logged_once_and_counted_and_the_points_are_sent_later(new_service, caplog):
    caplog.set_level("INFO")
    port = free_port()
    service, graphite = exporter(new_service, port)
    service.result("report", site_report(), TOKEN)
    for _attempt in range(3):
        graphite.send_and_log()
    metrics = service.get("/metrics").text
    assert 'glidein_demand_graphite_sends_total{outcome="error"} 3.0' in metrics
    assert 'glidein_demand_graphite_sends_total{outcome="ok"} 0.0' in metrics
    listener = Listener(port)
    graphite.send_and_log()
    assert len(listener.lines()) == 3
    assert 'outcome="ok"} 1.0' in "\n".join(
        line for line in service.get("/metrics").text.splitlines() if "graphite_sends_total" in line
    )
    messages = [record.getMessage() for record in caplog.records if "graphite_server" in record.getMessage()]
    assert len(messages) == 2
    assert messages[0].startswith(f"metrics.graphite_server: 127.0.0.1 port {port} cannot be reached: ")
    assert messages[1] == "metrics.graphite_server: can be reached again"


def test_a_server_that_does_not_read_delays_nothing_else(new_service, monkeypatch):
    monkeypatch.setattr(graphite_exporter, "TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        service, graphite = exporter(new_service, deaf.getsockname()[1])
        entries = [{"entry": f"e{number}{'x' * 50}", "shape": "s", "queued": 1} for number in range(1000)]
        reports = {f"S{n}": {"received": NOW, "entries": entries} for n in range(100)}
        many = {
            name: {**row, "entries": [{**one, "launched": 0, "running": 0} for one in row["entries"]]}
            for name, row in reports.items()
        }
        monkeypatch.setattr(graphite, "_reports", lambda: many)
        service.server.start([Every("graphite", 0.01, graphite.send_and_log)])
        assert service.get("/metrics").status_code == 200
        assert becomes(lambda: graphite.failed)
        assert service.get("/metrics").status_code == 200


def test_a_running_server_sends_the_reports_of_its_database(tmp_path):
    server = Running(tmp_path, sites=["PSC"])
    listener = Listener()
    with server.config.open("a") as stream:
        stream.write(f'metrics.graphite_server = "127.0.0.1:{listener.port}"\n')
    store = Database(server.database)
    Reports(store).add(msgspec.to_builtins(parameters.checked(site_report(), parameters.Report)), NOW)
    store.close()
    with server:
        assert becomes(lambda: 'graphite_sends_total{outcome="ok"} 1.0' in server.get("/metrics")[1])
        assert server.end() == 0
    assert f"pyglidein.PSC.RM.glideins.running 2 {NOW}" in listener.lines()


def test_without_a_graphite_server_nothing_is_sent_and_there_is_no_metric(service):
    assert not service.server.graphite.is_enabled
    assert "graphite" not in {thread.name for thread in background.threads(service.server)}
    assert "graphite" not in service.get("/metrics").text


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("graphite", ("graphite", 2003)),
        ("graphite.example.org:2103", ("graphite.example.org", 2103)),
        ("127.0.0.1", ("127.0.0.1", 2003)),
        ("[2001:db8::1]:2003", ("2001:db8::1", 2003)),
        ("[::1]", ("::1", 2003)),
    ],
)
def test_an_address_has_a_port_or_the_default_one(address, found):
    assert config.host_and_port(address, config.GRAPHITE_PORT) == found
    assert settings(metrics={"graphite_server": address}).graphite_server == address


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"graphite_server": "graphite:0"}, "host or host:port"),
        ({"graphite_server": "graphite:70000"}, "host or host:port"),
        ({"graphite_server": "http://graphite"}, "host or host:port"),
        ({"graphite_server": "2001:db8::1"}, "host or host:port"),
        ({"graphite_server": 2003}, "host or host:port"),
        ({"graphite_prefix": ""}, "separated by dots"),
        ({"graphite_prefix": "a..b"}, "separated by dots"),
        ({"graphite_prefix": "a b"}, "separated by dots"),
        ({"graphite_prefix": "a\n"}, "separated by dots"),
        ({"graphite_anonymous_clients": "no"}, "true or false"),
    ],
)
def test_invalid_settings_are_refused(changes, words):
    with pytest.raises(config.ConfigError, match=words):
        settings(metrics=changes)
