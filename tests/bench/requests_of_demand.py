# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The deployed demand server with a measurement's settings, and get_demand requests to it.

The load generator runs on the server's host, so that only the loopback interface is between them.
"""

PORT = 11001
BODY = '{"jsonrpc":"2.0","method":"%s","params":{},"id":1}'


class Service:
    """A context in which the service runs with other settings ({section: {name: value}}), or is stopped (None)."""

    def __init__(self, lab, settings, endless=False):
        self.lab = lab
        self.order = {"action": "pause"}
        if settings is not None:
            self.order = {"action": "start", "settings": settings, "endless": endless}
        self.token = None

    def __enter__(self):
        try:
            self.token = self.lab.remote("service", self.order).get("token")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception):
        self.lab.remote("service", {"action": "stop"})

    def load(self, method="get_demand", **order):
        """Load the server with calls of a method; see remote/load.py for `order` and the result."""
        order.update(address=["127.0.0.1", PORT], request=request(method, self.token))
        return self.lab.remote("load", order)


def request(method="get_demand", token=None, port=PORT):
    """Return the HTTP request of a method without parameters."""
    body = BODY % method
    lines = [
        "POST /jsonrpc HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    return "\r\n".join(lines) + "\r\n\r\n" + body
