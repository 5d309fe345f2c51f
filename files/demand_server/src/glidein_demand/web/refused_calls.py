# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of refused calls of PyGlidein clients, which have no token and retry in each cycle."""

from __future__ import annotations

import logging
import threading

MAX_CLIENTS = 100
"""The most clients that are logged. Callers choose the names, so they must not fill the log."""

log = logging.getLogger(__name__)


class RefusedCallLog:
    """A logger of refused calls, once for each method and client. Safe for concurrent use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str]] = set()

    def log_once(self, method: str, client: object, setting: str) -> None:
        """Log once that a call of `client`, an unchecked name, is refused because of `setting`."""
        name = ascii(client)[:80]
        with self._lock:
            if (method, name) in self._logged or len(self._logged) >= MAX_CLIENTS:
                return
            self._logged.add((method, name))
        log.warning("%s of the client %s without a token is refused: %s", method, name, setting)
