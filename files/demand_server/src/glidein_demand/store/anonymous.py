# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last monitoring data of PyGlidein clients that have no token. The page shows them; nothing else uses them.

They are in memory only: a caller without a token writes nothing to the database, and clients report every few minutes.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

MOST_CLIENTS = 200
"""The most clients; a further client replaces the one with the oldest report."""
FORGET_SECONDS = 86400
"""A client is not shown after this time without a report."""
MOST_LOGGED = 100
"""The most clients whose refusal is logged. Callers choose the names, so they must not fill the log."""

log = logging.getLogger(__name__)


class AnonymousClients:
    """Monitoring data by uuid, at most MOST_CLIENTS, and the log of refused calls. Safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._logged: set[tuple[str, str]] = set()

    def add(self, uuid: str, metrics: Mapping[str, Any], received: int) -> None:
        """Store a client's report in place of its last one."""
        with self._lock:
            self._clients[uuid] = {"received": received, "metrics": metrics, "site": None}
            self._clients.move_to_end(uuid)
            while len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)

    def monitoring(self, now: float) -> dict[str, dict[str, Any]]:
        """Return {uuid: {"received": epoch, "metrics": {...}, "site": None}} of the clients with a recent report."""
        with self._lock:
            return {uuid: one for uuid, one in self._clients.items() if now - one["received"] <= FORGET_SECONDS}

    def log_refused(self, method: str, client: object, setting: str) -> None:
        """Log, once for each method and client, that a call of `client`, an unchecked name, is refused.

        setting: the reason. These clients repeat the call in each cycle.
        """
        name = ascii(client)[:80]
        with self._lock:
            if (method, name) in self._logged or len(self._logged) >= MOST_LOGGED:
                return
            self._logged.add((method, name))
        log.warning("%s of the client %s without a token is refused: %s", method, name, setting)
