# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of queries in real processes, of a collector that refuses connections or never responds."""

import os
import signal
import socket
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest
from glidein_demand.pool import query_handlers
from glidein_demand.pool.queries import NICE, Queries, QueryError, run
from glidein_demand.pool.refresh import schedds_query

from conftest import settings

CHECK = {"type": "check", "constraint": "WantX == 1"}


def query(port):
    return schedds_query(settings(pool={"collector": f"127.0.0.1:{port}"}))


@pytest.fixture
def queries(monkeypatch, tmp_path):
    """Return queries on a machine without HTCondor, with an empty configuration."""
    empty = tmp_path / "condor_config"
    empty.write_text("LOCAL_DIR = /nonexistent\n")
    monkeypatch.setenv("CONDOR_CONFIG", str(empty))
    with Queries() as found:
        yield found


@pytest.fixture
def silent():
    """Return the port of a collector that accepts connections and never responds."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(5)
        yield listening.getsockname()[1]


def fork_server():
    """Return the process of multiprocessing's fork server."""
    return forkserver._forkserver._forkserver_pid


def children(pid):
    """Return the processes that `pid` has started, by id."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))


def running_child():
    """Return the process of a query that hangs."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = children(fork_server())
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError("no process was started")


class InBackground(threading.Thread):
    """A query in a thread; `error` is the exception that it raises."""

    def __init__(self, queries, query, timeout):
        super().__init__()
        self.given = (queries, query, timeout)
        self.error = None
        self.start()

    def run(self):
        queries, query, timeout = self.given
        try:
            queries.run(query, timeout)
        except QueryError as error:
            self.error = str(error)


def gone(pid, seconds=30):
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_the_error_of_a_refusing_collector_is_one_line(queries):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(QueryError) as caught:
        queries.run(query(port), timeout=30)
    assert "\n" not in str(caught.value)
    assert str(caught.value)


def test_a_query_of_a_silent_collector_times_out_and_blocks_no_other_thread(queries, silent):
    """Assert that other threads run although HTCondor's bindings hold the interpreter's lock while they wait."""
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.02):
            ticks.append(time.monotonic())

    queries.run(CHECK, timeout=30)
    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        with pytest.raises(QueryError, match="no answer within 2 s"):
            queries.run(query(silent), timeout=2)
    finally:
        done.set()
        ticker.join()
    assert len(ticks) > 20  # while the query hung; a blocked interpreter would have allowed two or three


def test_the_process_of_a_hung_query_is_killed_and_the_next_query_runs(queries, silent):
    queries.run(CHECK, timeout=30)
    with pytest.raises(QueryError):
        queries.run(query(silent), timeout=1)
    assert all(map(gone, children(fork_server())))
    assert queries.run(CHECK, timeout=30) == {}


def test_queries_run_in_parallel_and_at_a_higher_niceness(queries, silent):
    queries.run(CHECK, timeout=30)
    hanging = InBackground(queries, query(silent), 8)
    assert queries.run(CHECK, timeout=30) == {}
    assert hanging.is_alive()
    pid = running_child()
    while os.getpriority(os.PRIO_PROCESS, pid) < NICE:
        assert hanging.is_alive()
        time.sleep(0.01)
    hanging.join()


def test_a_killed_process_is_an_error_and_the_next_query_runs(queries, silent):
    queries.run(CHECK, timeout=30)
    hanging = InBackground(queries, query(silent), 30)
    os.kill(running_child(), signal.SIGKILL)
    hanging.join(10)
    assert "ended without an answer" in hanging.error
    assert queries.run(CHECK, timeout=30) == {}


def test_a_killed_fork_server_is_replaced(queries):
    queries.run(CHECK, timeout=30)
    killed = fork_server()
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + 30
    found = None
    while found is None and time.monotonic() < deadline:
        try:
            found = queries.run(CHECK, timeout=30)
        except QueryError as error:
            assert "cannot start a process" in str(error) or "ended without an answer" in str(error)
    assert found == {}
    assert fork_server() != killed


def test_the_end_kills_running_queries_and_refuses_others(queries, silent):
    queries.run(CHECK, timeout=30)
    hanging = InBackground(queries, query(silent), 60)
    pid = running_child()
    queries.close()
    hanging.join(10)
    assert hanging.error
    assert gone(pid)
    with pytest.raises(QueryError, match="the server is stopping"):
        queries.run(CHECK, timeout=30)


def test_an_invalid_constraint_is_reported_by_the_real_process():
    with pytest.raises(QueryError, match="not a ClassAd expression"):
        run({**CHECK, "constraint": "WantX =="}, timeout=30)
    assert run(CHECK, timeout=30) == {}


def test_authentication_is_optional_unless_the_operator_configured_it():
    param = {"SEC_CLIENT_ENCRYPTION": "REQUIRED"}
    query_handlers._make_authentication_optional(param)
    assert param == {
        "SEC_CLIENT_AUTHENTICATION": "OPTIONAL",
        "SEC_CLIENT_ENCRYPTION": "REQUIRED",
        "SEC_CLIENT_INTEGRITY": "OPTIONAL",
    }
