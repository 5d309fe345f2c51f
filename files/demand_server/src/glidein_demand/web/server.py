# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the application on uvicorn, with a time limit for everything that a client can draw out.

uvicorn has no limit for a header that never ends, a reply that nobody reads, or a TLS handshake: these are here. Bodies
are bounded in wsgi.py, the number of connections in sockets.py. HTTP/1.1 only, parsed by h11: no HTTP/2, no WebSocket.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Any, Callable

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..config import ConfigError, Settings
from . import sockets, tls, wsgi


@dataclass(frozen=True)
class Patience:
    """How long clients may take, and the server itself, in seconds."""

    handshake: float = 10.0
    header: float = 15.0
    """A connection without a complete request header: new, or after its last reply was read."""
    body: float = 30.0
    reply: float = 120.0
    """Reading a reply; who does not read at all gets `header`."""
    shutdown: int = 5
    """Requests under way, at the end."""
    certificate: float = 10.0
    """How often the certificate's files are looked at."""


log = logging.getLogger(__name__)


class _Connection(H11Protocol):
    """One connection, ended when its client keeps it waiting."""

    patience: Patience
    _header: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _acked = 0
    _began = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_header()

    def handle_events(self) -> None:
        try:
            super().handle_events()
        except h11.LocalProtocolError:  # it would refuse what came after the end, or beside an answer
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._header_may_be_complete()

    def on_response_complete(self) -> None:
        self._await_header()
        self._await_reading()
        super().on_response_complete()
        self._header_may_be_complete()  # of a request that was sent along with the last one

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._header, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _await_header(self) -> None:
        if self._header is not None:
            self._header.cancel()
        self._header = self.loop.call_later(self.patience.header, self._no_header)

    def _header_may_be_complete(self) -> None:
        if self._header is not None and self.cycle is not None and not self.cycle.response_complete:
            self._header.cancel()
            self._header = None

    def _no_header(self) -> None:
        if self._unread()[0]:  # it is busy with the last reply still
            self._await_header()
        else:
            self.transport.abort()  # not close(), which waits for the other side to end TLS

    def _await_reading(self) -> None:
        """See that what is written is read."""
        self._began = self.loop.time()
        if self._reading is None:
            self._look_again()

    def _look_again(self) -> None:
        self._acked = self._unread()[1]
        self._reading = self.loop.call_later(self.patience.header, self._look_at_reading)

    def _look_at_reading(self) -> None:
        self._reading = None
        waiting, acked = self._unread()
        if not waiting:
            return
        if acked == self._acked or self.loop.time() - self._began > self.patience.reply:
            self.transport.abort()  # not close(), which waits for the client to read the rest
        else:
            self._look_again()

    def _unread(self) -> tuple[bool, int]:
        """(whether something is on its way to the client, bytes that have reached it), as the kernel knows it.

        The transport's own buffer does not tell: with TLS it is empty while the one below it is full.
        """
        try:
            info = self.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 148)
            unacked = struct.unpack_from("=I", info, 24)[0]
            acked, not_sent = struct.unpack_from("=Q", info, 120)[0], struct.unpack_from("=I", info, 144)[0]
        except (OSError, struct.error):
            return False, 0
        return bool(unacked or not_sent), acked


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose servers do not wait long for TLS handshakes."""

    handshake_seconds: float

    async def create_server(self, *arguments: Any, **options: Any) -> Any:
        if options.get("ssl"):
            options["ssl_handshake_timeout"] = self.handshake_seconds
        return await super().create_server(*arguments, **options)


class Server:
    """The listening sockets, open from the start, and what answers on them; `instant` as in wsgi.Bridge.

    Raises ConfigError.
    """

    def __init__(
        self,
        application: wsgi.Wsgi,
        settings: Settings,
        patience: Patience = Patience(),
        instant: Callable[[dict[str, Any], bytes], bool] = lambda _environ, _body: False,
    ) -> None:
        self.status = 0
        self._patience = patience
        self._certificate = tls.Certificate.of(settings)
        try:
            self._sockets = sockets.listen(settings.bind.strip("[]"), settings.port, settings.max_connections)
        except OSError as error:
            raise ConfigError(
                f"server.bind = {settings.bind!r}, server.port = {settings.port}: cannot listen: "
                f"{error.strerror or error}; must be an address of this host and a free port"
            ) from error
        self._bridge = wsgi.Bridge(application, settings.threads, settings.max_body_bytes, patience.body, instant)

    def run(self) -> None:
        """Answer until SIGTERM or SIGINT, then end what is under way. Needs the main thread."""
        patience = self._patience
        config = uvicorn.Config(
            self._bridge,  # type: ignore[arg-type]
            http=type("_PatientConnection", (_Connection,), {"patience": patience}),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Clients behind a proxy on this host are told apart by its X-Forwarded-For; nobody else's counts.
            proxy_headers=True,
            forwarded_allow_ips="127.0.0.1,::1",
            # The connection's own limit is the one that ends it.
            timeout_keep_alive=3600,
            timeout_graceful_shutdown=patience.shutdown,
        )
        config.load()
        if self._certificate is not None:
            config.ssl = self._certificate.context
        server = uvicorn.Server(config)
        # uvicorn handles the signal, then raises it again for whoever handled it before: to end is then done already.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _already_ending)
        loop = _Loop()
        loop.handshake_seconds = patience.handshake
        asyncio.set_event_loop(loop)
        if self._certificate is not None:
            self._certificate.watch(patience.certificate, loop.call_soon_threadsafe)
        try:
            loop.run_until_complete(server.serve(sockets=list(self._sockets)))
        finally:
            self.close()
            _end_within(patience.shutdown, self.status)

    def end(self, status: int) -> None:
        """End as after SIGTERM, with this exit status of the process."""
        self.status = status
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        """Close the sockets; for a server that never ran."""
        for listener in self._sockets:
            listener.close()
        self._bridge.close()


def _already_ending(_signal: int, _frame: object) -> None:
    pass


def _end_within(seconds: float, status: int) -> None:
    """See that the process ends even if a thread hangs: all that was acknowledged is in the database already."""
    timer = threading.Timer(seconds, os._exit, [status])
    timer.daemon = True
    timer.start()
