# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often somebody may ask: per token, or per address of callers without one."""

from __future__ import annotations

import ipaddress
import math
import threading
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from .auth import Caller


class RateLimit:
    """At most `per_minute` calls of each caller in the minute that begins with its first call; safe from many threads.

    What counts is in memory, and forgotten when that minute is over.
    """

    def __init__(self, per_minute: int) -> None:
        self._item = RateLimitItemPerMinute(per_minute)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._lock = threading.Lock()  # the storage's own locks come and go with their keys

    def hit(self, who: str, calls: int = 1) -> int:
        """Count so many calls of `who`: 0 when they are allowed, else the seconds after which to try again."""
        with self._lock:
            if self._limiter.hit(self._item, who, cost=calls):
                return 0
            until = self._limiter.get_window_stats(self._item, who).reset_time
        return max(1, math.ceil(until - time.time()))


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
