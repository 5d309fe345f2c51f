# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader's processes, for real: nobody here but a collector that refuses or never answers."""

import errno
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from glidein_demand.pool import asking
from glidein_demand.pool import reader as pool_reader
from glidein_demand.pool.reader import Reader, ReadError, read
from glidein_demand.pool.refresh import schedds_order

from conftest import settings

CHECK = {"what": "check", "constraint": "WantX == 1"}


def order(port):
    return schedds_order(settings(pool={"collector": f"127.0.0.1:{port}"}))


@pytest.fixture
def reader(monkeypatch, tmp_path):
    """A reader on a machine without HTCondor: an empty configuration, nothing to find."""
    empty = tmp_path / "condor_config"
    empty.write_text("LOCAL_DIR = /nonexistent\n")
    monkeypatch.setenv("CONDOR_CONFIG", str(empty))
    with Reader() as found:
        yield found


@pytest.fixture
def silent():
    """The port of a collector that accepts and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(5)
        yield listening.getsockname()[1]


def helper_of(reader):
    return reader._helper.pid


def processes_of(helper):
    """The processes that carry out orders, by id."""
    return list(map(int, Path(f"/proc/{helper}/task/{helper}/children").read_text(encoding="ascii").split()))


def gone(pid, seconds=30):
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_collector_that_refuses_is_an_error_of_one_line(reader):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ReadError) as caught:
        reader.read(order(port), timeout=30)
    assert "\n" not in str(caught.value)
    assert str(caught.value)


def test_a_collector_that_never_answers_is_given_up_and_stops_nobody(reader, silent):
    """HTCondor's bindings hold the interpreter's lock while they wait: another thread must go on all the same."""
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.02):
            ticks.append(time.monotonic())

    reader.read(CHECK, timeout=30)
    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        with pytest.raises(ReadError, match="no answer within 2 s"):
            reader.read(order(silent), timeout=2)
    finally:
        done.set()
        ticker.join()
    assert len(ticks) > 20  # while the query hung; a blocked interpreter would have let two or three through


def test_a_process_that_hangs_is_ended_and_the_next_order_carried_out(reader, silent):
    reader.read(CHECK, timeout=30)
    with pytest.raises(ReadError):
        reader.read(order(silent), timeout=1)
    helper = helper_of(reader)
    assert all(gone(pid) for pid in processes_of(helper))
    assert reader.read(CHECK, timeout=30) == {}
    assert helper_of(reader) == helper


def test_orders_are_carried_out_beside_each_other(reader, silent):
    reader.read(CHECK, timeout=30)
    hanging = threading.Thread(target=lambda: pytest.raises(ReadError, reader.read, order(silent), timeout=8))
    hanging.start()
    try:
        assert reader.read(CHECK, timeout=30) == {}
        assert hanging.is_alive()
    finally:
        hanging.join()


def test_a_helper_that_was_killed_is_started_again(reader):
    reader.read(CHECK, timeout=30)
    killed = helper_of(reader)
    os.kill(killed, signal.SIGKILL)
    reader._helper.wait(10)
    assert reader.read(CHECK, timeout=30) == {}
    assert helper_of(reader) != killed


def test_a_helper_that_hangs_is_replaced(reader, monkeypatch):
    monkeypatch.setattr(pool_reader, "HUNG_S", 0.5)
    reader.read(CHECK, timeout=30)
    hanging = helper_of(reader)
    os.kill(hanging, signal.SIGSTOP)
    with pytest.raises(ReadError, match="no answer within 0.4 s"):
        reader.read(CHECK, timeout=0.4)
    assert helper_of(reader) == hanging  # it may be slow
    with pytest.raises(ReadError, match="no answer within 1 s"):
        reader.read(CHECK, timeout=1)
    assert reader.read(CHECK, timeout=30) == {}
    assert helper_of(reader) != hanging


def test_a_helper_that_can_start_no_process_says_so_and_goes_on(monkeypatch, capfd):
    def fork():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)}
    control, theirs = socket.socketpair()
    ours, given = socket.socketpair()
    with control, ours, given:
        for _order in range(2):
            socket.send_fds(control, [b"."], [given.fileno()])
        control.shutdown(socket.SHUT_WR)
        try:
            assert pool_reader.serve(theirs.detach(), dict) == 0
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    said = "reader: cannot start a process: [Errno 11] Resource temporarily unavailable"
    assert capfd.readouterr().err.splitlines() == [said, said]


def test_after_the_end_no_order_is_taken(reader):
    reader.read(CHECK, timeout=30)
    reader.close()
    with pytest.raises(ReadError, match="the server ends"):
        reader.read(CHECK, timeout=30)


def test_the_helper_ends_with_the_reader():
    with Reader() as reader:
        reader.read(CHECK, timeout=30)
        helper = helper_of(reader)
    assert gone(helper)


def test_a_wrong_constraint_is_told_by_the_real_process():
    with pytest.raises(ReadError, match="not a ClassAd expression"):
        read({**CHECK, "constraint": "WantX =="}, timeout=30)
    assert read(CHECK, timeout=30) == {}


def test_readers_authenticate_where_it_is_asked_and_an_operators_own_setting_stays():
    param = {"SEC_CLIENT_ENCRYPTION": "REQUIRED"}
    asking._authenticate_where_asked(param)
    assert param == {
        "SEC_CLIENT_AUTHENTICATION": "OPTIONAL",
        "SEC_CLIENT_ENCRYPTION": "REQUIRED",
        "SEC_CLIENT_INTEGRITY": "OPTIONAL",
    }
