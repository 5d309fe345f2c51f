# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that try to hold the running server up, over real sockets: everybody else is answered all the same."""

import contextlib
import json
import socket
import ssl
import time

import pytest
from glidein_demand.web.sockets import Places

from conftest import group
from running import Running, certificate

HEADER = b"POST /jsonrpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CALL = json.dumps({"jsonrpc": "2.0", "method": "get_state", "params": {}, "id": 1}).encode()
QUICK = {"handshake": 0.8, "header": 0.8, "body": 0.8, "reply": 8, "shutdown": 2}
LATE_S = 20  # far beyond these


@pytest.fixture(scope="module", params=["http", "https"])
def server(request, tmp_path_factory):
    """A running server with short patience, two threads and room for 40 connections."""
    folder = tmp_path_factory.mktemp(request.param)
    tls = certificate(folder) if request.param == "https" else None
    with Running(
        folder, sites=["PSC"], groups=[group(5)], tls=tls, patience=QUICK, threads=2, max_connections=40,
        max_body_bytes=20_000,
    ) as running:  # fmt: skip
        yield running
        assert "Traceback" not in running.stderr


def opened(server):
    """A connection to it, with TLS where it speaks TLS."""
    plain = server.connect(LATE_S)
    return server.context.wrap_socket(plain, server_hostname="localhost") if server.context else plain


def until_closed(connection, seconds=LATE_S):
    """What comes before the other side closes; fails when it does not."""
    connection.settimeout(seconds)
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := connection.recv(65536):
            found += part
    connection.close()
    return found


def answers_soon(server, seconds=5.0):
    """Whether others are answered at once."""
    began = time.monotonic()
    status, answer = server.call("get_state", timeout=LATE_S)
    return status == 200 and answer["result"] and time.monotonic() - began < seconds


def drip(connections, text, seconds, pause=0.1):
    """Send `text` byte by byte on all connections, as far as they live, for so long."""
    end = time.monotonic() + seconds
    for byte in text:
        if time.monotonic() > end:
            break
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(bytes([byte]))
        time.sleep(pause)


def test_headers_that_never_end_hold_nobody_up(server):
    slow = [opened(server) for _number in range(20)]
    drip(slow, HEADER[:4], 1)
    assert answers_soon(server)
    drip(slow, HEADER[4:], 1.5)
    for connection in slow:
        until_closed(connection)
    assert answers_soon(server)


def test_a_second_request_that_never_ends_is_no_way_around_that(server):
    connection = opened(server)
    connection.sendall(HEADER + b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL + HEADER)
    assert b"HTTP/1.1 200" in until_closed(connection)


def test_bodies_that_never_end_take_no_thread(server):
    slow = [opened(server) for _number in range(20)]
    for connection in slow:
        connection.sendall(HEADER + b"Content-Length: 1000\r\n\r\n{")
    assert answers_soon(server)
    drip(slow, b" " * 12, 1.5)
    for connection in slow:
        answer = until_closed(connection)
        assert b"HTTP/1.1 408" in answer
        assert b"did not arrive in time" in answer
    assert answers_soon(server)


@pytest.mark.parametrize("how", ["announced", "chunked"])
def test_a_body_over_the_limit_is_refused_before_it_is_all_there(server, how):
    connection = opened(server)
    if how == "announced":
        connection.sendall(HEADER + b"Content-Length: 10000000000\r\n\r\n" + b"x" * 5000)
    else:
        connection.sendall(HEADER + b"Transfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        connection.sendall(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
    connection.settimeout(LATE_S)
    answer = connection.recv(65536)
    while b"}" not in answer:
        answer += connection.recv(65536)
    assert b"HTTP/1.1 413" in answer
    assert b"20000 bytes" in answer
    # What else comes is not kept, and the connection ends.
    drip([connection], b"x" * 12, 1.5)
    until_closed(connection)


def test_idle_connections_make_room_again(server):
    idle = []
    for _number in range(60):
        with contextlib.suppress(OSError):
            idle.append(opened(server))
    for connection in idle:
        until_closed(connection)
    assert answers_soon(server)


def test_connections_beyond_the_limit_are_closed_at_once(tmp_path):
    with Running(tmp_path, groups=[group(5)], patience={"header": 6 * LATE_S}, max_connections=40) as server:
        taken = [server.connect() for _number in range(40)]
        assert until_closed(server.connect()) == b""  # long before the patience with the others ends
        for connection in taken:
            connection.close()
        deadline = time.monotonic() + LATE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if answers_soon(server):
                    return
            time.sleep(0.05)
        raise AssertionError("no room after the others had gone")


@pytest.fixture(scope="module", params=["http", "https"])
def large(request, tmp_path_factory):
    """A running server whose get_demand is some megabytes."""
    folder = tmp_path_factory.mktemp(f"large-{request.param}")
    tls = certificate(folder) if request.param == "https" else None
    groups = [group(1, memory_mb=number) for number in range(1, 20_001)]
    with Running(folder, groups=groups, tls=tls, patience=QUICK) as running:
        yield running


def narrow(server):
    """A connection whose client takes little at a time; it has asked for the demand three times."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.settimeout(LATE_S)
    connection.connect(("127.0.0.1", server.port))
    if server.context:
        connection = server.context.wrap_socket(connection, server_hostname="localhost")
    call = CALL.replace(b"get_state", b"get_demand")
    connection.sendall(3 * (HEADER + b"Content-Length: %d\r\n\r\n" % len(call) + call))
    return connection


def test_replies_that_nobody_reads_do_not_stay(large):
    connection = narrow(large)
    time.sleep(4 * QUICK["header"])
    found = until_closed(connection)
    assert found.count(b"HTTP/1.1 200") < 3
    assert not found.endswith(b"}")
    assert large.get("/healthz")[0] == 200


def test_a_client_that_reads_slowly_gets_all_of_a_large_reply(large):
    connection = narrow(large)
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


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 100, b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n", HEADER + b"Content-Length: -5\r\n\r\n",
        HEADER + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        HEADER + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEADER + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", HEADER + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        HEADER + b"Content-Length: 2\r\n\r\n{}GARBAGE\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"GET /%ff%00%0d%0a HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\x00\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: [\r\n\r\n", b"CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_never_an_error_of_the_server(server, garbage):
    connection = opened(server)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        connection.sendall(garbage)
    answer = until_closed(connection)
    assert b"HTTP/1.1 5" not in answer
    assert answers_soon(server)


def test_a_body_in_chunks_is_read_as_one(server):
    connection = opened(server)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (CALL[:9], CALL[9:]))
    connection.sendall(HEADER + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert b"HTTP/1.1 200" in until_closed(connection)


def test_pipelined_requests_are_answered_in_their_order(server):
    connection = opened(server)
    calls = [CALL.replace(b'"id": 1', b'"id": %d' % number) for number in range(20)]
    connection.sendall(b"".join(HEADER + b"Content-Length: %d\r\n\r\n" % len(call) + call for call in calls))
    answer = until_closed(connection)
    found = [answer.index(b'"id":%d}' % number) for number in range(20)]
    assert found == sorted(found)


@pytest.mark.parametrize("server", ["https"], indirect=True)
def test_a_handshake_that_is_never_finished_ends(server):
    silent = [server.connect() for _number in range(10)]
    for connection in silent[5:]:
        connection.sendall(b"\x16\x03\x01")
    assert answers_soon(server)
    for connection in silent:
        until_closed(connection)


@pytest.mark.parametrize("server", ["https"], indirect=True)
def test_plain_http_on_a_tls_port_is_refused(server):
    connection = server.connect()
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"200" not in until_closed(connection)


def test_it_ends_at_once_with_all_kinds_of_connections_open(tmp_path):
    tls = certificate(tmp_path)
    with Running(tmp_path, tls=tls, patience={"shutdown": 1}) as running:
        opened_ones = [opened(running) for _number in range(4)]
        opened_ones[0].sendall(HEADER)
        opened_ones[1].sendall(HEADER + b"Content-Length: 1000\r\n\r\n{")
        opened_ones[2].sendall(HEADER + b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL)
        silent = running.connect()
        assert opened_ones[2].recv(65536)
        assert running.end(30) == 0
        silent.close()
        for connection in opened_ones:
            connection.close()
    assert "Traceback" not in running.stderr


# --- the count of connections ---


def test_one_address_gets_half_of_the_places_and_this_host_all_of_them():
    places = Places(10)
    assert [places.take("192.0.2.1") for _number in range(6)] == [True] * 5 + [False]
    assert [places.take("127.0.0.1") for _number in range(6)] == [True] * 5 + [False]
    places.give_back("192.0.2.1")
    assert places.take("192.0.2.2")
    assert not places.take("192.0.2.3")
