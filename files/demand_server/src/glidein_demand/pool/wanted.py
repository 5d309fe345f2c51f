# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job attributes that callers want groups to be divided by, besides those of the configuration.

A controller knows what its sites' accept_requirements refer to, and asks for it with get_demand. Groups are divided by
it from the next reading on, for all callers.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Callable

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")

MOST_OF_A_CALLER = 20
MOST = 50
"""Names in all; the first ones in the order of the alphabet."""

KEPT_S = 24 * 3600
"""How long a name counts that its caller does not ask for again."""

# Every job has another value, or values that are not the caller's business.
_REFUSED = re.compile(
    r"""^(?: Args | Arguments | AutoClusterId | ClusterId | Cmd | CoreSize | CumulativeSlotTime | DAGNodeName
       | Entered.* | Env | Environment | Err | GlobalJobId | Id | In | Iwd | Job(?:Count|Ids|StartDate|SubmitFile.*)
       | Last.* | Num.* | Out | ProcId | QDate | ServerTime | SubmitEventNotes | TransferInput | TransferOutput.*
       | UserLog ) $ | claimid | credential | key | passw | secret | sinful | token""",
    re.VERBOSE | re.IGNORECASE,
)


class Wanted:
    """The names that callers asked for. Safe from many threads; forgotten at a restart, until the next call."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[str, dict[str, Any]] = {}

    def ask(self, caller: str, names: list[str]) -> None:
        """Note what a caller wants, in place of what it wanted before. The names are checked (web/checks.py)."""
        with self._lock:
            self._asked[caller] = {"names": names, "time": self._clock()}

    def names(self) -> list[str]:
        """Return the names that the next reading is to divide groups by, each in one spelling."""
        now = self._clock()
        with self._lock:
            self._asked = {caller: row for caller, row in self._asked.items() if now - row["time"] < KEPT_S}
            found = {name.lower(): name for row in self._asked.values() for name in row["names"]}
        return [found[name] for name in sorted(found) if not _REFUSED.search(name)][:MOST]
