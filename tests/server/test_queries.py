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
from glidein_demand.pool.queries import NICE, Queries, QueryError, run, schedds_query

from conftest import settings
from databases import becomes

CHECK = {"type": "check", "constraint": "WantX == 1"}
LONG_S = 300  # time limit of queries that other events end


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
    """Return the socket of a collector to which programs can connect and which never responds."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(5)
        listening.settimeout(60)
        yield listening


def fork_server():
    """Return the process of multiprocessing's fork server."""
    return forkserver._forkserver._forkserver_pid


def children(pid):
    """Return the processes that `pid` has started, by id."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))


def running_child():
    """Return the process of a query that hangs."""
    assert becomes(lambda: children(fork_server())), "no process was started"
    return children(fork_server())[0]


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


def gone(pid):
    return becomes(lambda: not Path(f"/proc/{pid}").exists())


def test_the_error_of_a_refusing_collector_is_one_line(queries):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(QueryError) as caught:
        queries.run(query(port), timeout=LONG_S)
    assert "\n" not in str(caught.value)
    assert str(caught.value)


def test_a_query_of_a_silent_collector_blocks_no_other_thread(queries, silent):
    """Assert that other threads run although HTCondor's bindings hold the interpreter's lock while they wait."""
    queries.run(CHECK, timeout=LONG_S)
    hanging = InBackground(queries, query(silent.getsockname()[1]), LONG_S)
    connection, _address = silent.accept()  # the bindings wait for the collector now
    for _tick in range(50):
        time.sleep(0.01)
        assert hanging.is_alive()
    os.kill(running_child(), signal.SIGKILL)
    hanging.join()
    connection.close()


def test_the_process_of_a_hung_query_is_killed_and_the_next_query_runs(queries, silent):
    queries.run(CHECK, timeout=LONG_S)
    with pytest.raises(QueryError, match="no answer within 1 s"):
        queries.run(query(silent.getsockname()[1]), timeout=1)
    assert all(map(gone, children(fork_server())))
    assert queries.run(CHECK, timeout=LONG_S) == {}


def test_queries_run_in_parallel_and_at_a_higher_niceness(queries, silent):
    queries.run(CHECK, timeout=LONG_S)
    hanging = InBackground(queries, query(silent.getsockname()[1]), LONG_S)
    assert queries.run(CHECK, timeout=LONG_S) == {}
    assert hanging.is_alive()
    pid = running_child()
    while os.getpriority(os.PRIO_PROCESS, pid) < NICE:
        assert hanging.is_alive()
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    hanging.join()


def test_a_killed_process_is_an_error_and_the_next_query_runs(queries, silent):
    queries.run(CHECK, timeout=LONG_S)
    hanging = InBackground(queries, query(silent.getsockname()[1]), LONG_S)
    os.kill(running_child(), signal.SIGKILL)
    hanging.join(60)
    assert "ended without an answer" in hanging.error
    assert queries.run(CHECK, timeout=LONG_S) == {}


def test_a_killed_fork_server_is_replaced(queries):
    queries.run(CHECK, timeout=LONG_S)
    killed = fork_server()
    os.kill(killed, signal.SIGKILL)

    def answered():
        try:
            return queries.run(CHECK, timeout=LONG_S) == {}
        except QueryError as error:
            assert "cannot start a process" in str(error) or "ended without an answer" in str(error)

    assert becomes(answered)
    assert fork_server() != killed


def test_the_end_kills_running_queries_and_refuses_others(queries, silent):
    queries.run(CHECK, timeout=LONG_S)
    hanging = InBackground(queries, query(silent.getsockname()[1]), LONG_S)
    pid = running_child()
    queries.close()
    hanging.join(60)
    assert hanging.error
    assert gone(pid)
    with pytest.raises(QueryError, match="the server is stopping"):
        queries.run(CHECK, timeout=LONG_S)


def test_an_invalid_constraint_is_reported_by_the_real_process():
    with pytest.raises(QueryError, match="not a ClassAd expression"):
        run({**CHECK, "constraint": "WantX =="}, timeout=LONG_S)
    assert run(CHECK, timeout=LONG_S) == {}


def test_authentication_is_optional_unless_the_operator_configured_it():
    param = {"SEC_CLIENT_ENCRYPTION": "REQUIRED"}
    query_handlers._make_authentication_optional(param)
    assert param == {
        "SEC_CLIENT_AUTHENTICATION": "OPTIONAL",
        "SEC_CLIENT_ENCRYPTION": "REQUIRED",
        "SEC_CLIENT_INTEGRITY": "OPTIONAL",
    }
