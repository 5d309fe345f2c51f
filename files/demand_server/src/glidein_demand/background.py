# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The periodic work of a server."""

from __future__ import annotations

from typing import Callable

from .graphite_exporter import INTERVAL_S as GRAPHITE_S
from .history_recorder import INTERVAL_S as HISTORY_S
from .history_recorder import HistoryRecorder
from .periodic import Every
from .refresh import Refresher
from .server import Server
from .store import watch


def threads(server: Server, on_lost: Callable[[], None] = lambda: None) -> list[Every]:
    """Return the threads of the server's periodic work; none of them runs yet.

    on_lost: is called if the database is lost, and a new start is needed.
    """
    settings = server.settings
    refresher, recorder = Refresher(server), HistoryRecorder(server)

    def check_database() -> None:
        if server.watch.check():
            on_lost()

    found = [
        Every("refresh", settings.refresh_seconds, refresher.refresh_once),
        Every("history", HISTORY_S, recorder.work, delay_s=HISTORY_S),
        Every("database", watch.INTERVAL_S, check_database, delay_s=watch.INTERVAL_S),
    ]
    if settings.job_history_seconds:
        found.append(Every("waits", settings.job_history_seconds, refresher.read_waits))
    if server.graphite.is_enabled:
        found.append(Every("graphite", GRAPHITE_S, server.graphite.send_and_log))
    return found
