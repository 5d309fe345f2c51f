# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of clients that try to block the server behind nginx: other clients still get answers."""

import contextlib
import json
import resource
import socket
import ssl
import time
from pathlib import Path

import pytest

from conftest import group
from databases import becomes
from running import BehindProxy, Running

pytestmark = pytest.mark.services
HEADER = b"POST /jsonrpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CALL = json.dumps({"jsonrpc": "2.0", "method": "get_state", "params": {}, "id": 1}).encode()
REQUEST = HEADER + b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL
BODY_BEGUN = HEADER + b"Content-Length: 1000\r\n\r\n{"
INCOMPLETE = [b"", HEADER, BODY_BEGUN, REQUEST + HEADER]
HANG_S = 120
LARGE = [group(1, memory_mb=number) for number in range(1, 20_001)]  # get_demand returns several megabytes


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return a running server with two threads, behind a proxy that keeps slow connections, and has room for 40."""
    with BehindProxy(tmp_path_factory.mktemp("proxy"), sites=["PSC"], groups=LARGE, threads=2) as running:
        yield running
        assert "Traceback" not in running.server.stderr


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """Return a running server behind a proxy that closes slow connections after a second."""
    with BehindProxy(tmp_path_factory.mktemp("strict"), groups=LARGE, threads=2, limit_s=1) as running:
        yield running
        assert "Traceback" not in running.server.stderr


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return a running server without a proxy."""
    with Running(tmp_path_factory.mktemp("bare"), groups=[group(5)], threads=2) as running:
        yield running
        assert "Traceback" not in running.stderr


@pytest.fixture(params=["bare", "server"])
def each(request):
    """Return the server without and with the proxy."""
    return request.getfixturevalue(request.param)


def opened(server):
    """Return a connection to the server, with TLS if it uses TLS."""
    plain = server.connect(HANG_S)
    return server.context.wrap_socket(plain, server_hostname="localhost") if server.context else plain


def until_closed(connection):
    """Return the data until the server closes the connection; fail if it does not close it."""
    connection.settimeout(HANG_S)
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := connection.recv(65536):
            found += part
    connection.close()
    return found


def answers(server):
    """Return whether another caller gets a response."""
    status, answer = server.call("get_state", timeout=HANG_S)
    return status == 200 and bool(answer["result"])


def answers_again(server):
    """Return whether a caller gets a response; a proxy with short time limits may close a connection of a slow test."""
    found = []

    def call():
        with contextlib.suppress(OSError):
            found.append(answers(server))
        return found

    return becomes(call) and found[0]


def close(connections):
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("sent", INCOMPLETE)
def test_incomplete_requests_hold_up_no_other_caller(each, sent):
    slow = [opened(each) for _number in range(15)]
    for connection in slow:
        connection.sendall(sent)
    assert answers(each)
    close(slow)


@pytest.mark.parametrize("sent", INCOMPLETE)
def test_incomplete_requests_are_limited_in_time(strict, sent):
    slow = []
    for _number in range(60 if sent == b"" else 5):
        with contextlib.suppress(OSError):
            slow.append(opened(strict))
            slow[-1].sendall(sent)
    for connection in slow:
        until_closed(connection)
    assert answers_again(strict)


def test_headers_that_never_end_are_limited_in_time_also_if_bytes_arrive(strict):
    slow = [opened(strict) for _number in range(5)]
    for byte in HEADER * 100:
        try:
            for connection in slow:
                connection.send(bytes([byte]))
        except OSError:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the proxy closed no connection")
    for connection in slow:
        until_closed(connection)
    assert answers_again(strict)


def test_a_body_over_the_limit_is_refused_before_it_is_complete(server):
    connection = opened(server)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        connection.sendall(HEADER + b"Content-Length: 10000000000\r\n\r\n" + b"x" * 5000)
    connection.settimeout(HANG_S)
    assert b"HTTP/1.1 413" in connection.recv(65536)
    connection.close()


def test_a_chunked_body_over_the_limit_is_refused_before_it_is_complete(bare):
    connection = opened(bare)
    with contextlib.suppress(ConnectionError):
        connection.sendall(HEADER + b"Transfer-Encoding: chunked\r\n\r\n")
        for _number in range(3):
            connection.sendall(b"80000\r\n" + b"x" * 0x80000 + b"\r\n")
    connection.settimeout(HANG_S)
    assert b"HTTP/1.1 413" in connection.recv(65536)
    connection.close()


def test_one_address_gets_half_of_the_connections(server):
    """Check the limit with connections that send whole headers."""
    slow = [opened(server) for _number in range(25)]
    for connection in slow:
        connection.sendall(BODY_BEGUN)
    responses = []

    def refused():
        for connection in slow:
            connection.settimeout(0)
            with contextlib.suppress(ssl.SSLWantReadError):
                responses.append(connection.recv(65536))
        return sum(b"HTTP/1.1 429" in response for response in responses) >= 5

    assert becomes(refused)
    assert len([response for response in responses if response]) == 5
    close(slow)
    assert becomes(lambda: answers(server))


def narrow(server):
    """Return a connection with a small receive buffer on which the client has requested the demand three times."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.settimeout(HANG_S)
    connection.connect(("127.0.0.1", server.port))
    connection = server.context.wrap_socket(connection, server_hostname="localhost")
    call = CALL.replace(b"get_state", b"get_demand")
    connection.sendall(3 * (HEADER + b"Content-Length: %d\r\n\r\n" % len(call) + call))
    return connection


def is_closed_by_server(connection):
    """Return whether the other end of a connection is no longer open in any process (Linux: its inode is 0)."""
    ends = [f":{port:04X}" for _address, port in (connection.getpeername(), connection.getsockname())]
    for row in map(str.split, Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]):
        if row[1].endswith(ends[0]) and row[2].endswith(ends[1]):
            return row[9] == "0"
    return True


def test_a_reply_that_is_not_read_is_aborted(strict):
    found = []

    def sent():
        """Send a request and do not read; it counts if a response began: a slow client may miss the time to send."""
        with contextlib.suppress(OSError):
            connection = narrow(strict)
            assert becomes(lambda: is_closed_by_server(connection))
            found.append(until_closed(connection))
        return found and found[-1].startswith(b"HTTP/1.1 200")

    assert becomes(sent)
    assert found[-1].count(b"HTTP/1.1 200") < 3
    assert not found[-1].endswith(b"}")
    assert strict.get("/healthz")[0] == 200


def test_a_client_that_reads_slowly_gets_all_of_a_large_reply(server):
    connection = narrow(server)
    end = b'"id":1}'
    length, ends, tail = 0, 0, b""
    while ends < 3:
        part = connection.recv(262_144)
        assert part, length
        length += len(part)
        ends += (tail + part).count(end)
        tail = (tail + part)[1 - len(end) :]
        time.sleep(0.001)
    assert length > 8_000_000
    connection.close()


def test_the_server_ends_with_all_kinds_of_connections_open(tmp_path):
    with Running(tmp_path, groups=[group(5)]) as running:
        opened_ones = [opened(running) for _number in range(4)]
        opened_ones[0].sendall(HEADER)
        opened_ones[1].sendall(BODY_BEGUN)
        opened_ones[2].sendall(REQUEST)
        assert opened_ones[2].recv(65536)
        assert running.end() == 0
        for connection in opened_ones:
            connection.close()
    assert "Traceback" not in running.stderr


def test_more_than_1024_connections_can_be_open(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"needs 4096 open files, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    try:
        with Running(tmp_path, groups=[group(5)], max_connections=2000) as running:
            taken = [running.connect() for _number in range(1100)]
            assert answers(running)
            for connection in taken:
                connection.close()
        assert "Traceback" not in running.stderr
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
