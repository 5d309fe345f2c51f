# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job attributes that callers request: groups are divided by them, besides those of the configuration.

A controller requests, with get_demand, the attributes that its sites' accept_requirements refer to. From the next
reading on, the groups of all callers are divided by them.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Callable

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")

MOST_OF_A_CALLER = 20
MOST = 50
"""The most names in all; the first ones in alphabetical order are used."""

KEPT_S = 24 * 3600
"""How long a name is used that its caller does not request again."""

# Attributes that differ in every job, or that may hold secrets.
_REFUSED = re.compile(
    r"""^(?: Args | Arguments | AutoClusterId | ClusterId | Cmd | CoreSize | CumulativeSlotTime | DAGNodeName
       | Entered.* | Env | Environment | Err | GlobalJobId | Id | In | Iwd | Job(?:Count|Ids|StartDate|SubmitFile.*)
       | Last.* | Num.* | Out | ProcId | QDate | ServerTime | SubmitEventNotes | TransferInput | TransferOutput.*
       | UserLog ) $ | claimid | credential | key | passw | secret | sinful | token""",
    re.VERBOSE | re.IGNORECASE,
)


class Wanted:
    """The requested names. Safe from many threads; a restart of the server forgets them until the next call."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[str, dict[str, Any]] = {}

    def ask(self, caller: str, names: list[str]) -> None:
        """Replace the names that a caller requests. web/parameter_checks.py has checked them."""
        with self._lock:
            self._asked[caller] = {"names": names, "time": self._clock()}

    def names(self) -> list[str]:
        """Return the names by which the next reading divides groups, each in one spelling."""
        now = self._clock()
        with self._lock:
            self._asked = {caller: row for caller, row in self._asked.items() if now - row["time"] < KEPT_S}
            found = {name.lower(): name for row in self._asked.values() for name in row["names"]}
        return [found[name] for name in sorted(found) if not _REFUSED.search(name)][:MOST]
