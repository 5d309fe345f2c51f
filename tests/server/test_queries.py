# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of queries in real processes, of a collector that refuses connections or never responds."""

import contextlib
import os
import signal
import socket
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest
from glidein_demand.pool.queries import NICE, Queries, QueryError, schedds_query

from conftest import settings
from databases import becomes

CHECK = {"type": "check", "constraint": "WantX == 1"}
LONG_S = 300  # time limit of queries that other events end


def query(port):
    return schedds_query(settings(pool={"collector": f"127.0.0.1:{port}"}))


@pytest.fixture
def queries(monkeypatch, tmp_path):
    """Return queries on a machine without HTCondor, with an empty configuration; one has run."""
    empty = tmp_path / "condor_config"
    empty.write_text("LOCAL_DIR = /nonexistent\n")
    monkeypatch.setenv("CONDOR_CONFIG", str(empty))
    with contextlib.closing(Queries()) as found:
        assert found.run(CHECK, LONG_S) == {}
        yield found


@pytest.fixture
def silent():
    """Return the socket of a collector to which programs can connect and which never responds."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(5)
        listening.settimeout(60)
        yield listening


class Hanging(threading.Thread):
    """A query of a silent collector in a thread; `error` is the message of its QueryError."""

    def __init__(self, queries, silent):
        super().__init__()
        self.queries, self.port = queries, silent.getsockname()[1]
        self.error = None
        self.start()

    def run(self):
        try:
            self.queries.run(query(self.port), LONG_S)
        except QueryError as error:
            self.error = str(error)

    def end(self):
        """Kill the query's process; return the error."""
        os.kill(running_child(), signal.SIGKILL)
        self.join(60)
        return self.error


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


def gone(pid):
    return becomes(lambda: not Path(f"/proc/{pid}").exists())


def test_the_error_of_a_refusing_collector_is_one_line(queries):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(QueryError) as caught:
        queries.run(query(port), LONG_S)
    assert "\n" not in str(caught.value)
    assert str(caught.value)


def test_the_error_of_an_invalid_constraint_is_that_of_the_process(queries):
    with pytest.raises(QueryError, match="not a ClassAd expression"):
        queries.run({**CHECK, "constraint": "WantX =="}, LONG_S)


def test_a_query_of_a_silent_collector_blocks_no_other_thread_or_query_and_is_nice(queries, silent):
    """Assert that other threads run although HTCondor's bindings hold the interpreter's lock while they wait."""
    hanging = Hanging(queries, silent)
    connection, _address = silent.accept()  # the bindings wait for the collector now
    for _tick in range(50):
        time.sleep(0.01)
        assert hanging.is_alive()
    assert os.getpriority(os.PRIO_PROCESS, running_child()) >= NICE
    assert queries.run(CHECK, LONG_S) == {}
    assert hanging.is_alive()
    hanging.end()
    connection.close()


def test_the_process_of_a_hung_query_is_killed_and_the_next_query_runs(queries, silent):
    with pytest.raises(QueryError, match="no answer within 1 s"):
        queries.run(query(silent.getsockname()[1]), timeout=1)
    assert all(map(gone, children(fork_server())))
    assert queries.run(CHECK, LONG_S) == {}


def test_a_killed_process_is_an_error_and_the_next_query_runs(queries, silent):
    assert "ended without an answer" in Hanging(queries, silent).end()
    assert queries.run(CHECK, LONG_S) == {}


def test_a_killed_fork_server_is_replaced(queries):
    killed = fork_server()
    os.kill(killed, signal.SIGKILL)

    def answered():
        try:
            return queries.run(CHECK, LONG_S) == {}
        except QueryError as error:
            assert "cannot start a process" in str(error) or "ended without an answer" in str(error)

    assert becomes(answered)
    assert fork_server() != killed


def test_the_end_kills_running_queries_and_refuses_others(queries, silent):
    hanging = Hanging(queries, silent)
    pid = running_child()
    queries.close()
    hanging.join(60)
    assert hanging.error
    assert gone(pid)
    with pytest.raises(QueryError, match="the server is stopping"):
        queries.run(CHECK, LONG_S)
