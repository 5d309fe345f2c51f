# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often somebody may ask: per token, or per address of callers without one."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from typing import Callable

from .auth import Caller

WINDOW_S = 60.0


class RateLimit:
    """At most `per_minute` calls of each caller in the minute that begins with its first call; safe from many threads.

    What counts is in memory, and forgotten when that minute is over. (The library `limits` starts a thread for that, up
    to a hundred times a second, and whoever asked waits until it runs.)
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._lock = threading.Lock()
        # {who: (end of its minute, calls in it)}. All last equally long: the first one ends first.
        self._windows: dict[str, tuple[float, int]] = {}

    def hit(self, who: str, calls: int = 1) -> int:
        """Count so many calls of `who`: 0 when they are allowed, else the seconds after which to try again."""
        with self._lock:
            now = self._clock()
            while self._windows:
                first = next(iter(self._windows))
                if self._windows[first][0] > now:
                    break
                del self._windows[first]
            until, counted = self._windows.get(who, (now + WINDOW_S, 0))
            self._windows[who] = (until, counted + calls)
        return 0 if counted + calls <= self._per_minute else max(1, math.ceil(until - now))


def who(caller: Caller, address: str) -> str:
    """Whose calls are counted together: those of one token, or of one address (IPv6: of one network of 64 bits)."""
    if caller.is_known:
        return f"token/{caller.name}"
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"address/{address[:64]}"
    if parsed.version == 6:
        return f"address/{ipaddress.ip_network((parsed, 64), strict=False).network_address}"
    return f"address/{parsed}"
