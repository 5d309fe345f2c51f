# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the thread of periodic work, and of the metrics that a Graphite server receives."""

import socket
import threading

import pytest
from glidein_demand import service as running_service
from glidein_demand.server import Every

from conftest import TOKEN, site_report
from databases import becomes
from running import Running, free_port


def run(work, calls):
    """Run `work` so often, every millisecond."""
    numbers = []

    def count():
        numbers.append(1)
        if len(numbers) == calls:
            thread.stop()
        work(len(numbers))

    thread = Every("the work", 0.001, count)
    thread.start()
    thread.join(60)
    assert len(numbers) == calls


@pytest.mark.parametrize(("error", "traceback"), [(OSError, False), (RuntimeError, True)])
def test_a_failure_is_logged_once_and_the_work_continues(caplog, error, traceback):
    def fail(number):
        if number not in (3, 4):
            raise error("the  reason")

    run(fail, 6)
    assert [record.getMessage() for record in caplog.records] == [f"the work failed: {error.__name__}: the reason"] * 2
    assert [bool(record.exc_info) for record in caplog.records] == [traceback] * 2


def test_the_first_call_comes_after_the_delay():
    called = threading.Event()
    thread = Every("the work", 60, called.set, delay_s=60)
    thread.start()
    assert not called.wait(0.1)
    thread.stop()
    thread.join(60)
    assert not called.is_set()


class Listener:
    """A server of Graphite's plaintext protocol on a local port. `received` has one text for each connection."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
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
    counts = {"q_1": 1, "q.1": 2}
    entries = [{"entry": entry, "shape": "s", "running": running} for entry, running in counts.items()]
    service.result("report", site_report(entries=entries), TOKEN)
    running_service.graphite(service.server)()
    values = listener.values()
    for entry, running in {"q_1": 1, "q_1_246809": 2}.items():
        assert values[f"pool.a-1.glidein_site_running.entry.{entry}.site.PSC"] == running
    assert values["pool.a-1.glidein_demand_idle_jobs"] == 0
    assert sends_of(service) == [
        'glidein_demand_graphite_sends_total{outcome="error"} 0.0',
        'glidein_demand_graphite_sends_total{outcome="ok"} 1.0',
    ]


def test_a_failure_names_the_setting_and_is_counted(new_service):
    service = new_service(metrics={"graphite_server": "127.0.0.1", "graphite_port": (port := free_port())})
    with pytest.raises(OSError, match=rf"metrics.graphite_server = '127.0.0.1', port {port}: .*refused"):
        running_service.graphite(service.server)()
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
    assert "graphite" not in {thread.name for thread in running_service.threads(service.server)}
    assert sends_of(service) == []
