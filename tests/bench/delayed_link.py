# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ProxyCommand of ssh that delays all bytes by the same time in each direction: a long link without netem.

ssh -o ProxyCommand="python3 delayed_link.py %h %p 0.05" HOST      # 100 ms for a round trip
"""

import collections
import os
import select
import socket
import sys
import time

BLOCK = 1 << 16


class Direction:
    """The delayed bytes from one file descriptor to another."""

    def __init__(self, source, target, delay_s):
        self.source, self.target, self.delay_s = source, target, delay_s
        self.waiting = collections.deque()  # (due time, bytes)
        self.ended = False

    def read(self):
        """Read the available bytes."""
        data = os.read(self.source, BLOCK)
        self.ended = not data
        self.waiting.append((time.monotonic() + self.delay_s, data))

    def write_due(self):
        """Write the bytes that are due; return False at the end."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            data = self.waiting.popleft()[1]
            if not data:
                return False
            while data:
                data = data[os.write(self.target, data) :]
        return True


def main():
    """Copy between standard input and output and a connection until one side ends."""
    host, port, delay_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    time.sleep(2 * delay_s)  # TCP's own handshake
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = [Direction(0, connection.fileno(), delay_s), Direction(connection.fileno(), 1, delay_s)]
        while True:
            due = [way.waiting[0][0] for way in ways if way.waiting]
            timeout = max(0.0, min(due) - time.monotonic()) if due else None
            readable = select.select([way.source for way in ways if not way.ended], [], [], timeout)[0]
            for way in ways:
                if way.source in readable:
                    way.read()
                if not way.write_due():
                    return


if __name__ == "__main__":
    main()
