# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server, waitress. The role installs a reverse proxy for TLS, which limits slow and frequent callers."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any, Callable, NoReturn

import waitress

from ..config import ConfigError, Settings
from ..values import MAX_BODY_BYTES

MAX_HEADER_BYTES = 64 * 1024
SHUTDOWN_S = 5.0
"""The longest time from a signal to the end of the process, even if requests are being processed."""


class HttpServer:
    """A WSGI application on the listening sockets of `settings`.

    The constructor opens the sockets. It raises ConfigError if that fails.
    """

    def __init__(self, application: Callable[..., Any], settings: Settings) -> None:
        own = settings.server
        try:
            self._server = waitress.create_server(
                application,
                listen=f"{_host(own.bind)}:{own.port}",
                ipv6=_has_ipv6(),
                threads=own.threads,
                connection_limit=own.max_connections,
                asyncore_use_poll=True,  # select() takes no file descriptor beyond 1023
                # Close a connection after so many seconds without data; check at this interval.
                channel_timeout=60,
                cleanup_interval=15,
                max_request_body_size=MAX_BODY_BYTES,
                max_request_header_size=MAX_HEADER_BYTES,
                ident=None,
                clear_untrusted_proxy_headers=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"server.bind = {own.bind!r}, server.port = {own.port}: cannot listen: {reason}; must be an "
                "address of this host and a free port"
            ) from error

    def run(self) -> None:
        """Serve requests until SIGTERM or SIGINT. Must run in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._server.run()

    def _on_signal(self, _signal: int, _frame: object) -> NoReturn:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # A thread may hang. Acknowledged data is already in the database.
        timer = threading.Timer(SHUTDOWN_S - 0.5, os._exit, [0])
        timer.daemon = True
        timer.start()
        raise SystemExit(0)  # waitress returns from run()


def _host(bind: str) -> str:
    return f"[{bind}]" if ":" in bind and not bind.startswith("[") else bind


def _has_ipv6() -> bool:
    """Return True if the kernel supports IPv6."""
    try:
        socket.socket(socket.AF_INET6).close()
    except OSError:
        return False
    return True
