# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job attributes that callers request: groups are divided by them, in addition to those of the configuration.

A controller requests, with get_demand, the attributes that its sites' accept_requirements refer to. From the next
refresh on, the groups of all callers are divided by them.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Callable

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")

MAX_NAMES_OF_CALLER = 20
MAX_NAMES = 50
"""The most names of all callers; the first in alphabetical order are used."""

EXPIRY_S = 24 * 3600
"""Seconds that a name is used if its caller does not request it again."""

# Attributes that differ in every job, or that may hold secrets.
_REFUSED = re.compile(
    r"""^(?: Args | Arguments | AutoClusterId | ClusterId | Cmd | CoreSize | CumulativeSlotTime | DAGNodeName
       | Entered.* | Env | Environment | Err | GlobalJobId | Id | In | Iwd | Job(?:Count|Ids|StartDate|SubmitFile.*)
       | Last.* | Num.* | Out | ProcId | QDate | ServerTime | SubmitEventNotes | TransferInput | TransferOutput.*
       | UserLog ) $ | claimid | credential | key | passw | secret | sinful | token""",
    re.VERBOSE | re.IGNORECASE,
)


class RequestedAttributes:
    """The requested names. Safe from many threads. A restart of the server loses them until the next call."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._requests: dict[str, dict[str, Any]] = {}

    def request(self, caller: str, names: list[str]) -> None:
        """Replace the names that a caller requests. web/parameters.py has checked them."""
        with self._lock:
            self._requests[caller] = {"names": names, "time": self._clock()}

    def names(self) -> list[str]:
        """Return the attributes that divide groups in the next refresh, each in one spelling."""
        now = self._clock()
        with self._lock:
            self._requests = {caller: row for caller, row in self._requests.items() if now - row["time"] < EXPIRY_S}
            found = {name.lower(): name for row in self._requests.values() for name in row["names"]}
        return [found[name] for name in sorted(found) if not _REFUSED.search(name)][:MAX_NAMES]
