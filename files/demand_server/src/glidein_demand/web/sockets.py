# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A listening socket that bounds how many connections are open, from the moment they are accepted.

The HTTP server below knows a connection only after its TLS handshake; whoever never finishes one would not be counted.
"""

from __future__ import annotations

import collections
import ipaddress
import socket
import threading


class Places:
    """Counts open connections, in all and per address; at most `total`, and of one remote address half of these.

    Addresses of this host have no bound of their own: a proxy's connections come from there.
    """

    def __init__(self, total: int) -> None:
        self._lock = threading.Lock()
        self._free = total
        self._most_per_address = max(1, total // 2)
        self._of: collections.Counter[str] = collections.Counter()

    def take(self, address: str) -> bool:
        """Whether there is room for one more connection from `address`; if so, it is counted."""
        with self._lock:
            if self._free <= 0 or (self._of[address] >= self._most_per_address and not _is_this_host(address)):
                # A Counter keeps what it was asked for: only addresses with connections may stay in it.
                self._of += collections.Counter()
                return False
            self._free -= 1
            self._of[address] += 1
            return True

    def give_back(self, address: str) -> None:
        with self._lock:
            self._free += 1
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]


class _Connection(socket.socket):
    """An accepted connection, which gives its place back when it is closed."""

    places: Places | None = None
    address = ""

    def close(self) -> None:
        places, self.places = self.places, None
        if places is not None:
            places.give_back(self.address)
        super().close()


class Listener(socket.socket):
    """A listening TCP socket that closes connections at once when there is no place for them."""

    places: Places

    def accept(self) -> tuple[socket.socket, object]:
        """As socket.accept; BlockingIOError when no connection is left that has a place."""
        while True:
            descriptor, address = self._accept()  # type: ignore[attr-defined]
            connection = _Connection(self.family, self.type, self.proto, fileno=descriptor)
            host = _address(address[0])
            if self.places.take(host):
                connection.places, connection.address = self.places, host
                return connection, address
            connection.close()


def listen(host: str, port: int, max_connections: int, backlog: int = 512) -> list[Listener]:
    """Sockets that listen on `host` ("*": all of IPv4 and IPv6) and `port`. Raises OSError."""
    found = socket.getaddrinfo(None if host == "*" else host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    places = Places(max_connections)
    listeners: list[Listener] = []
    try:
        for family, kind, protocol, _name, address in found:
            try:
                listener = Listener(family, kind, protocol)
            except OSError:
                if host == "*" and family == socket.AF_INET6:  # a kernel without IPv6
                    continue
                raise
            listeners.append(listener)
            listener.places = places
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(backlog)
            listener.setblocking(False)
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _address(text: str) -> str:
    """An IPv6 network of 64 bits is one client: its owner has all of its addresses."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address) if not address.is_loopback else "::1"


def _is_this_host(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
