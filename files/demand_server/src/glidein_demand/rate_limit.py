# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limit on the rate of calls: per token, or per address of callers without a token."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from typing import Callable

WINDOW_S = 60.0


class RateLimit:
    """A limit of `per_minute` calls of each caller in the minute that begins with its first call.

    Safe for concurrent use by several threads. The counts are in memory and expire with that minute. (The library
    `limits` starts a thread for the expiry, up to a hundred times a second, and callers wait until it runs.)
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._lock = threading.Lock()
        # {key: (end of its minute, calls in it)}. All windows have the same length, so the first one ends first.
        self._windows: dict[str, tuple[float, int]] = {}
        self.refused = 0
        """The number of refusals since the start."""

    def hit(self, key: str, calls: int = 1) -> int:
        """Count calls of `key`; return 0 if they are allowed, else the seconds until a retry."""
        with self._lock:
            now = self._clock()
            while self._windows:
                first = next(iter(self._windows))
                if self._windows[first][0] > now:
                    break
                del self._windows[first]
            until, counted = self._windows.get(key, (now + WINDOW_S, 0))
            self._windows[key] = (until, counted + calls)
            if counted + calls <= self._per_minute:
                return 0
            self.refused += 1
            return max(1, math.ceil(until - now))


def rate_limit_key(token: str, address: str) -> str:
    """Return the key under which calls are counted: the token's name, or the address (IPv6: the /64 network)."""
    if token:
        return f"token/{token}"
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"address/{address[:64]}"
    if parsed.version == 6:
        return f"address/{ipaddress.ip_network((parsed, 64), strict=False).network_address}"
    return f"address/{parsed}"
