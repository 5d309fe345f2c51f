# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small HTTP load generator: many keep-alive connections, one thread, select(), Python's standard library only.

It has two modes. If `rate` is None, each connection sends its next request as soon as the last reply is complete, which
measures the highest rate. If `rate` is a number, the generator is an open loop: each connection has its own timetable,
and the latency of a request counts from its due time, not from the time at which it could be sent. A reply that takes a
second therefore also delays the requests behind it ("coordinated omission" corrected, as wrk2 does it).

stdin: one JSON object, see `Load`; or {"canned_bytes": n, ...} to measure the generator itself, with a process that
sends a prepared reply of that size. stdout: a JSON object, see `Load.result`.
"""

import collections
import contextlib
import json
import os
import select
import signal
import socket
import sys
import time

NICE = -10
"""Niceness, where that is allowed."""


class LoadError(Exception):
    """An unexpected reply of the server, with which nothing can be measured; the message has the cause."""


class Connection:
    """One client's connection; `due` is the time of its next request (monotonic seconds).

    The connection stays open, unless the server announces that it closes it. The next request then opens another.
    """

    def __init__(self, address, due):
        self.address = address
        self.open()
        self.due = due
        self.free = due  # when the last reply was complete
        self.asked = None  # when the pending request was due; None without one
        self.missing = None  # missing bytes of the reply's body, or None if its header is incomplete
        self.head = b""
        self.status = 0
        self.is_last = False  # whether the server closes the connection after this reply

    def open(self):
        """Connect to the server."""
        self.socket = socket.create_connection(self.address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request):
        """Send a request, over another connection if the server closes this one."""
        if self.is_last:
            self.socket.close()
            self.open()
        self.head, self.missing, self.is_last = b"", None, False
        self.socket.sendall(request)

    def fileno(self):
        return self.socket.fileno()

    def receive(self, buffer):
        """Read available bytes into `buffer`; return (True if the reply is complete, bytes read)."""
        count = self.socket.recv_into(buffer)
        if count == 0:
            raise LoadError(f"the server closed the connection after {self.head[:300]!r}")
        if self.missing is None:
            self.head += bytes(buffer[:count])
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return False, count
            self.status, length, self.is_last = parse_head(self.head[:end])
            self.missing = length - (len(self.head) - end - 4)
        else:
            self.missing -= count
        if self.missing < 0:
            raise LoadError(f"more came than the reply's Content-Length says: {self.head[:300]!r}")
        return self.missing == 0, count


def parse_head(head):
    """Return (status, length of the body, True if the connection will close) of a reply's header."""
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1])
    pairs = (line.partition(":") for line in lines[1:])
    fields = {name.strip().lower(): value.strip() for name, _colon, value in pairs}
    is_last = fields.get("connection", "").lower() == "close"
    if "content-length" not in fields:
        raise LoadError(f"a reply without Content-Length is not understood: {head[:300]!r}")
    return status, int(fields["content-length"]), is_last


class Load:
    """One run of the load generator.

    address: [host, port]; request: its bytes as text; rate: requests per second of all connections together, or None.
    Seconds: `warmup` before the measured `seconds`, `patience` after them for outstanding replies.
    """

    def __init__(self, address, request, seconds, connections=16, rate=None, warmup=1.0, patience=10.0):
        self.request = request.encode("latin-1")
        self.interval = None if rate is None else connections / rate
        now = time.monotonic()
        self.begin = now + warmup
        self.end = self.begin + seconds
        self.last = self.end + patience
        # The connections start at different times, as independent clients do.
        step = (self.interval or 0) / connections
        self.connections = [Connection(tuple(address), now + number * step) for number in range(connections)]
        self.latencies = []
        self.late = []  # delay of the generator itself, in sends that no earlier reply delayed
        self.bytes = 0
        self.unanswered = 0
        self.buffer = memoryview(bytearray(1 << 20))

    def run(self):
        """Send and receive until the time is over and all requests due in it have a reply or have timed out."""
        started = None
        while (now := time.monotonic()) < self.last:
            if started is None and now >= self.begin:
                started = time.process_time()
            for connection in self.connections:
                if connection.asked is None and connection.due <= now and connection.due < self.end:
                    self.send(connection, now)
            waiting = [connection for connection in self.connections if connection.asked is not None]
            due = min((c.due for c in self.connections if c.asked is None and c.due < self.end), default=None)
            if not waiting and due is None:
                break
            # select() takes microseconds, epoll only milliseconds.
            timeout = max(0.0, (self.last if due is None else due) - time.monotonic())
            for connection in select.select(waiting, (), (), timeout)[0]:
                self.receive(connection)
        self.cpu = time.process_time() - (started or 0)
        for connection in self.connections:
            if connection.asked is not None:
                self.give_up(connection)
            connection.socket.close()

    def send(self, connection, now):
        """Send the connection's next request, and set the due time of the one after it."""
        connection.asked = connection.due
        if self.interval is not None:
            connection.due += self.interval
            if connection.asked >= self.begin:
                self.late.append(now - max(connection.asked, connection.free))
        connection.send(self.request)

    def receive(self, connection):
        """Read the available bytes; if the reply is complete, record its latency."""
        complete, count = connection.receive(self.buffer)
        now = time.monotonic()
        if self.begin <= now < self.end:
            self.bytes += count
        if not complete:
            return
        if connection.status != 200:
            raise LoadError(f"status {connection.status} instead of 200: {connection.head[:600]!r}")
        # The highest rate counts replies within the time. With a fixed rate, all requests due within the time count.
        if connection.asked >= self.begin and (self.interval is not None or now < self.end):
            self.latencies.append(now - connection.asked)
        connection.asked, connection.free = None, now
        if self.interval is None:
            connection.due = now

    def give_up(self, connection):
        """Count requests without a reply with their waiting time: omitting them would improve the result."""
        if self.interval is None:
            return
        due = connection.asked
        while due < self.end:
            self.latencies.append(time.monotonic() - due)
            self.unanswered += 1
            due += self.interval

    def result(self):
        """Return the result with sorted latencies; `late_p99_ms` is the generator's own."""
        seconds = self.end - self.begin
        return {
            "replies": len(self.latencies),
            "seconds": round(seconds, 3),
            "rps": round(len(self.latencies) / seconds, 1),
            "latencies_ms": [round(1000 * latency, 3) for latency in sorted(self.latencies)],
            "unanswered": self.unanswered,
            "late_p99_ms": round(1000 * quantile(sorted(self.late), 0.99), 3) if self.late else None,
            "megabytes": round(self.bytes / 1e6, 1),
            "cpu_share": round(self.cpu / seconds, 3),
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
        }


def quantile(ordered, share):
    """Return the lowest value that at least `share` of the sorted values do not exceed."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def canned_server(size):
    """Serve a prepared reply of `size` bytes from a process of its own; return its address and its process id."""
    reply = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    child = os.fork()
    if child:
        return listener.getsockname(), child
    pending = collections.defaultdict(lambda: memoryview(b""))
    peers = []
    while True:
        writers = [peer for peer in peers if pending[peer]]
        readable, writable, _broken = select.select([listener, *peers], writers, ())
        for peer in readable:
            if peer is listener:
                fresh = listener.accept()[0]
                fresh.setblocking(False)
                peers.append(fresh)
            elif peer.recv(65536):
                pending[peer] = memoryview(reply)
            else:
                peers.remove(peer)
                peer.close()
        for peer in {*writable, *(peer for peer in readable if peer in peers)}:
            if pending[peer]:
                try:
                    pending[peer] = pending[peer][peer.send(pending[peer]) :]
                except BlockingIOError:
                    continue


def main():
    order = json.load(sys.stdin)
    child = None
    if "canned_bytes" in order:
        order["address"], child = canned_server(order.pop("canned_bytes"))
    # Real clients are on other machines and do not use the server's processors.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    try:
        load = Load(**order)
        load.run()
    except (LoadError, OSError) as error:
        sys.exit(f"load: {error}")
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
    json.dump(load.result(), sys.stdout)


if __name__ == "__main__":
    main()
