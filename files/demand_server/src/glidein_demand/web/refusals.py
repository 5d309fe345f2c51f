# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs the refused calls of PyGlidein's clients, which have no token and retry in each of their cycles."""

from __future__ import annotations

import logging
import threading

MOST = 100
"""Clients whose refusal is logged. Callers choose the names, so the log must not grow with them."""

log = logging.getLogger(__name__)


class Refusals:
    """Logs the refusal of each client once. Safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str]] = set()

    def refused(self, method: str, client: object, setting: str) -> None:
        """Log that a call of `client`, a name from outside, is refused because of `setting`, once for each client."""
        name = ascii(client)[:80]
        with self._lock:
            if (method, name) in self._logged or len(self._logged) >= MOST:
                return
            self._logged.add((method, name))
        log.warning("%s of the client %s without a token is refused: %s", method, name, setting)
