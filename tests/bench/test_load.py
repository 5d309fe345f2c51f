# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the load generator, with a server whose replies the test sets."""

import http.server
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from remote.load import quantile

PROGRAM = Path(__file__).parent / "remote" / "load.py"
REQUEST = "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"


class Server(http.server.ThreadingHTTPServer):
    """A server that answers POSTs with `status` and `size` bytes; number `stalls_at` takes `stall_s` seconds.

    closes: close each connection after one reply.
    """

    daemon_threads = True
    request_queue_size = 128  # with the usual 5, a connection of a burst waits a second for its second try

    def __init__(self, status=200, size=10, stalls_at=None, stall_s=0.0, closes=False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.size, self.stalls_at, self.stall_s = status, size, stalls_at, stall_s
        self.closes = closes
        self.answered = 0
        self.connections = 0
        self.lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.answered += 1
            number = self.server.answered
        if number == self.server.stalls_at:
            time.sleep(self.server.stall_s)
        self.send_response(self.server.status)
        if self.server.closes:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(self.server.size))
        self.end_headers()
        self.wfile.write(b"x" * self.server.size)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def serve():
    """Return serve(**options), which starts a Server."""
    running = []

    def start(**options):
        server = Server(**options)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def run(server, **order):
    order = {"address": server.server_address, "request": REQUEST, "warmup": 0, "patience": 60, **order}
    return subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def load(server, **order):
    done = run(server, **order)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fixed_rate_is_kept_with_so_many_connections(serve):
    server = serve()

    found = load(server, rate=100, seconds=2, connections=5)

    assert found["replies"] == pytest.approx(200, abs=20)
    assert server.answered == found["replies"]
    assert server.connections == 5


def test_requests_that_wait_behind_a_slow_reply_count_from_when_they_were_due(serve):
    # One connection, a request every 20 ms, one reply after half a second: 25 requests were due meanwhile.
    found = load(serve(stalls_at=20, stall_s=0.5), rate=50, seconds=2, connections=1)

    late = [latency for latency in found["latencies_ms"] if latency > 100]
    assert found["replies"] == pytest.approx(100, abs=10)
    assert len(late) >= 18
    assert max(late) >= 450


def test_a_slow_reply_does_not_count_as_delay_of_the_generator(serve):
    found = load(serve(stalls_at=5, stall_s=5), rate=50, seconds=2, connections=1)

    assert found["late_p99_ms"] < max(found["latencies_ms"]) / 2


def test_requests_that_are_never_answered_count_with_the_time_that_they_waited(serve):
    found = load(serve(stalls_at=10, stall_s=60), rate=20, seconds=1, connections=1, patience=1)

    assert found["unanswered"] == pytest.approx(11, abs=2)
    assert max(found["latencies_ms"]) > 1000


def test_without_a_rate_the_next_request_follows_the_reply(serve):
    server = serve()

    found = load(server, seconds=1, connections=2)

    assert found["rps"] == found["replies"]
    assert 0 <= server.answered - found["replies"] <= 2  # pending requests at the end are not counted


def test_large_replies_are_read_whole(serve):
    found = load(serve(size=3_000_000), seconds=1, connections=4)

    assert found["megabytes"] >= 2.9 * found["replies"]


def test_a_reply_of_another_status_ends_the_run(serve):
    done = run(serve(status=429), seconds=1, connections=2)

    assert done.returncode == 1
    assert done.stderr.startswith("load: status 429 instead of 200: ")


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (0.999, 100), (0.01, 1), (1, 100)])
def test_a_quantile_is_the_value_that_so_many_do_not_exceed(share, value):
    assert quantile(list(range(1, 101)), share) == value


def test_a_quantile_of_one_value_is_that_value():
    assert quantile([7], 0.99) == 7


def test_a_connection_that_the_server_closes_is_opened_again(serve):
    server = serve(closes=True)

    found = load(server, seconds=2, connections=2)

    assert found["replies"] > 2
    assert server.connections >= server.answered >= found["replies"]
