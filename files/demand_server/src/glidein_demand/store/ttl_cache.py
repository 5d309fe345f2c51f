# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A value of the database that is cached for half a second, so that a request needs no query.

cachetools.TTLCache does not fit: it counts the age from the end of a load. A change that another process commits during
a load would then be unknown for longer than the maximum age. It also has no way to load before a value expires.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from typing import Any, Callable, Generic, TypeVar

MAX_AGE_S = 0.5

T = TypeVar("T")


class CachedValue(Generic[T]):
    """The result of `load`, at most `max_age_s` seconds old by the monotonic clock. Safe from many threads.

    One thread loads at a time, and the others wait for its result: no caller gets an older value. An error of `load`
    is raised, and the next call tries again.
    """

    def __init__(self, load: Callable[[], T], max_age_s: float = MAX_AGE_S) -> None:
        self._load = load
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._cached: tuple[float, T] | None = None
        self._used = False

    def get(self) -> T:
        """Return the value; load it if it is too old."""
        self._used = True
        cached = self._cached
        if cached is not None and time.monotonic() < cached[0]:
            return cached[1]
        with self._lock:
            cached = self._cached
            if cached is not None and time.monotonic() < cached[0]:
                return cached[1]
            return self._loaded()

    def reload(self) -> T:
        """Load the value now, for example after a change, and return it."""
        with self._lock:
            return self._loaded()

    def reload_ahead(self) -> None:
        """Load the value if half of its time is over and get() was called since the last load."""
        cached = self._cached
        if self._used and cached is not None and cached[0] - time.monotonic() < self._max_age_s / 2:
            self.reload()

    def _loaded(self) -> T:
        """Load the value; the caller holds the lock."""
        # From before the load: a change that is committed during it counts from then.
        until = time.monotonic() + self._max_age_s
        self._used = False
        value = self._load()
        self._cached = (until, value)
        return value


def reload_ahead(values: Iterable[CachedValue[Any]]) -> None:
    """Load used values before they expire, so that no request waits for a load."""
    for value in values:
        with contextlib.suppress(Exception):  # the next get() raises the error to its caller
            value.reload_ahead()
