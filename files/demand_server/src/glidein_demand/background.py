# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The periodic work of a server."""

from __future__ import annotations

from typing import Callable

from prometheus_client.bridge.graphite import GraphiteBridge

from . import upkeep
from .periodic import Every
from .refresh import Refresher
from .server import Server
from .web import metrics

GRAPHITE_S = 60.0
GRAPHITE_TIMEOUT_S = 10.0


def threads(server: Server) -> list[Every]:
    """Return the threads of the server's periodic work; none of them runs yet."""
    settings = server.settings
    refresher = Refresher(server)
    found = [
        Every("refresh", settings.pool.refresh_seconds, refresher.refresh_once),
        Every("upkeep", upkeep.INTERVAL_S, upkeep.Upkeep(server).work, delay_s=upkeep.INTERVAL_S),
    ]
    if settings.pool.job_history_seconds:
        found.append(Every("waits", settings.pool.job_history_seconds, refresher.read_waits))
    if settings.metrics.graphite_server:
        found.append(Every("graphite", GRAPHITE_S, graphite(server)))
    return found


def graphite(server: Server) -> Callable[[], None]:
    """Return a function that sends the metrics to Graphite. It raises OSError if Graphite cannot be reached."""
    host, port = server.settings.metrics.graphite_server, server.settings.metrics.graphite_port
    bridge = GraphiteBridge((host, port), metrics.registry(server), GRAPHITE_TIMEOUT_S)

    def send() -> None:
        try:
            bridge.push(server.settings.metrics.graphite_prefix)
        except OSError as error:
            server.graphite_sends["error"] += 1
            raise OSError(f"metrics.graphite_server = {host!r}, port {port}: {error}") from error
        server.graphite_sends["ok"] += 1

    return send
